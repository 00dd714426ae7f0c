/* run_supervise.c: the loop while the command runs. It acts on the lock's loss by the local deadline D,
 * not by a message: TERM (or --on-lost) at D - kill-after, KILL just before D. D moves on with each
 * renewal, so as long as renewals come through none of it happens.
 * States: safe -> losing -> (safe again when a renewal comes through after all | the command has ended). A
 * lock that is known to be lost, by a message of the service or by D's passing, never becomes safe again.
 *
 * When the lock is being lost, and when the command was told to end by a signal, everything that it started is ended too
 * (run_tree.c): the process group gets the signal at once, another process when it has become an orphan, and what is left
 * gets KILL. While its parent lives a process is that parent's business: timeout(1) and an inner locker run pass the signal
 * on themselves.
 *
 * A signal that another process sent is held back for a moment, with the command stopped: a supervisor that signals each
 * process of a service (systemd's KillMode=control-group) sends it to the command itself as well, and a stopped process
 * gets one of two equal signals. */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "run_parts.h"

enum { NEVER = -1, REFUSED_WALKS = 4 };
enum { WALK_MS = 50, KILL_WALK_MS = 5, SLOW_WALK_MS = 1000, HOLD_BACK_MS = 50 };

enum { SIGNALS, TIMER, LOST, EXEC, FD_COUNT };

typedef struct {
    lk_run *run;
    lk_run_child *child;
    int lost_fd;                      /* belongs to the handle; -1 once it has told */
    bool losing;                      /* the loss is being acted on */
    int64_t deadline_ms;              /* the latest D known, of CLOCK_BOOTTIME; NEVER: there is no lease */
    int64_t losing_at_ms, kill_at_ms; /* valid while losing */
    int64_t asked_at_ms; /* when the command was told to end, or was ended, by a signal; NEVER: it was not */
    int64_t ended_at_ms; /* when the command ended; NEVER: it has not */
    int64_t walk_at_ms;  /* when the next walk through the processes is due; an end of one wakes us before */
    int only_refused;    /* how many times in a row KILL found none but processes that we may not signal */
    bool killed;         /* everything got KILL once */
    sigset_t held_back;  /* signals for the command, which is stopped until held_until_ms */
    int64_t held_until_ms; /* NEVER: nothing is held back */
} loop;

/* The clock of the library's deadlines: it goes on while the machine is suspended. */
static int64_t now_ms(void)
{
    return lk_cli_now_ms(CLOCK_BOOTTIME);
}

static int64_t at_least(int64_t value, int64_t floor)
{
    return value > floor ? value : floor;
}

/* Set a timer; NEVER disarms it. */
static void set_timer(int fd, int flags, int64_t ms)
{
    const struct itimerspec when = {.it_value = lk_run_timespec(ms == NEVER ? 0 : at_least(ms, 1))};
    timerfd_settime(fd, flags, &when, NULL);
}

/* ------------------------------------------------------------------ the guard ----
 * It kills the command just before the lease ends, from a thread of its own. The loop can be late: a walk through many processes
 * takes its time on a busy machine, and a message blocks when nothing reads the terminal or the pipe. So the thread runs before the
 * command does. By itself it goes by the deadline; the loop only passes another time to it. */

/* When KILL is due, of CLOCK_BOOTTIME; NEVER. A renewal that the loop has not seen yet moves it on. `deadline`: the latest that
 * this thread knows of; NEVER: none. */
static int64_t due_at(lk_run *r, int64_t *deadline)
{
    const int64_t now = now_ms(), remaining = locker_handle_remaining_ms(r->held),
                  kill_at = atomic_load_explicit(&r->guard.kill_at_ms, memory_order_relaxed);
    if (remaining > 0)
        *deadline = now + remaining;
    if (kill_at == NEVER && *deadline != NEVER)
        return *deadline - r->margin_ms;
    if (kill_at != NEVER && kill_at <= now && remaining > r->margin_ms)
        return now + remaining - r->margin_ms;
    return kill_at;
}

static void *keep_guard(void *context)
{
    lk_run *const r = context;
    lk_run_guard *const g = &r->guard;
    struct pollfd fds[] = {{.fd = g->thread.wake_fd, .events = POLLIN},
                           {.fd = g->timer_fd, .events = POLLIN}};
    int64_t deadline = r->deadline_ms;
    while (!atomic_load_explicit(&g->thread.over, memory_order_relaxed)) {
        const lk_run_child *const child = atomic_load_explicit(&g->child, memory_order_acquire);
        const int64_t at = child ? due_at(r, &deadline) : NEVER;
        eventfd_t ignored;
        if (at != NEVER && at <= now_ms()) {
            g->fired = true; /* before anybody can see the command's end */
            lk_run_child_signal(child, SIGKILL);
            return NULL;
        }
        set_timer(g->timer_fd, TFD_TIMER_ABSTIME, at);
        if (poll(fds, 2, -1) > 0 && fds[0].revents)
            eventfd_read(g->thread.wake_fd, &ignored);
    }
    return NULL;
}

/* Start the thread, before the command: without it the command may not end in time. Start nothing if the lock's loss is to be
 * ignored. Return 0 or an errno. */
static int begin_guard(lk_run *r)
{
    lk_run_guard *const g = &r->guard;
    atomic_store_explicit(&g->kill_at_ms, NEVER, memory_order_relaxed);
    if (r->options.lost_signal == 0) /* nothing is done about a loss */
        return 0;
    g->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    return g->timer_fd >= 0 ? lk_run_thread_start(&g->thread, keep_guard, r) : errno;
}

/* The command runs: from now on kill it, with its process group, just before the lock's deadline. */
static void guard_child(lk_run *r, const lk_run_child *child)
{
    atomic_store_explicit(&r->guard.child, child, memory_order_release);
    lk_run_thread_wake(&r->guard.thread);
}

/* Kill at this moment instead (of CLOCK_BOOTTIME), unless the lock was renewed since; NEVER: just before the deadline again. */
static void set_guard(lk_run *r, int64_t kill_at_ms)
{
    atomic_store_explicit(&r->guard.kill_at_ms, kill_at_ms, memory_order_relaxed);
    lk_run_thread_wake(&r->guard.thread);
}

/* Kill nothing from now on. Also after begin_guard() failed. */
static void end_guard(lk_run *r)
{
    lk_run_guard *const g = &r->guard;
    lk_run_thread_end(&g->thread);
    if (g->timer_fd >= 0)
        close(g->timer_fd);
    g->timer_fd = -1;
}

/* ------------------------------------------------------------------ the loop ---- */

/* Send what was held back, and let the command run. */
static void let_through(loop *p)
{
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&p->held_back, number) == 1)
            lk_run_child_signal(p->child, number);
    sigemptyset(&p->held_back);
    p->held_until_ms = NEVER;
    lk_run_child_signal(p->child, SIGCONT);
}

static int64_t between(int64_t low, int64_t value, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a == NEVER || (b != NEVER && b < a) ? b : a;
}

/* The clock, when the lock is known to be lost, may show that D has passed (we were stopped, or the machine
 * was suspended): then another may hold the lock already, and there is no time to give. */
static void begin_losing(loop *p, int64_t now, int64_t remaining)
{
    const lk_run *r = p->run;
    const char *key = r->options.key;
    const int number = r->options.lost_signal;
    const bool late = p->deadline_ms != NEVER && now >= p->deadline_ms;
    p->losing = true;
    p->losing_at_ms = now;
    p->kill_at_ms = r->guard.fired  ? now
                    : remaining > 0 ? now + at_least(remaining - r->margin_ms, 0)
                    : late          ? now
                                    : now + r->kill_after_ms;
    if (number != 0) { /* before anybody is told of it, who may be slow to read */
        p->run->stopped = true;
        set_guard(p->run, p->kill_at_ms);
        if (p->kill_at_ms <= now) /* and before it can act on CONT */
            lk_run_child_signal(p->child, SIGKILL);
        lk_run_child_signal(p->child, number);
        let_through(p); /* a stopped process can't act on a signal */
    }
    lk_run_event(r, "lost", "{s:I}", "remaining_ms", (json_int_t)remaining);
    char name[32], then[64] = "the command continues, as --on-lost says";
    if (number != 0)
        snprintf(then, sizeof then, "sending %s to the command",
                 lk_run_signal_name(number, name, sizeof name));
    if (!r->options.common.quiet && remaining == 0)
        lk_cli_message("lost the lock '%s'; %s", key, then);
    else if (!r->options.common.quiet)
        lk_cli_message("cannot renew the lock '%s', which ends in %lldms; %s", key, (long long)remaining,
                       then);
}

static void note_deadline(loop *p, int64_t deadline)
{
    char words[32];
    if (p->run->options.common.verbose > 1 && p->deadline_ms != NEVER && deadline > p->deadline_ms + 10)
        lk_cli_message("renewed '%s', which now lasts for %s more", p->run->options.key,
                       lk_cli_time_words(deadline - now_ms(), words, sizeof words));
    p->deadline_ms = deadline;
}

/* Do what is due, and say in how many ms there is more to do (NEVER: nothing by time). */
static int64_t keep_deadline(loop *p)
{
    const lk_run *r = p->run;
    const int64_t now = now_ms(), remaining = locker_handle_remaining_ms(r->held);
    const int64_t term_at = at_least(r->kill_after_ms, r->margin_ms);
    if (remaining == 0 || r->guard.fired)
        p->run->lost = true;
    else if (remaining > 0)
        note_deadline(p, now + remaining);
    if (!p->run->lost && (remaining < 0 || remaining > term_at)) {
        if (p->losing) {
            set_guard(p->run, NEVER);
            if (!r->options.common.quiet)
                lk_cli_message("the lock '%s' was renewed after all", r->options.key);
        }
        p->losing = false;
        return remaining < 0 ? NEVER : remaining - term_at;
    }
    if (!p->losing)
        begin_losing(p, now, remaining);
    else if (!p->run->lost) /* by a renewal that came late */
        p->kill_at_ms = at_least(p->kill_at_ms, now + remaining - r->margin_ms);
    return p->run->lost ? NEVER : at_least(remaining, 1);
}

/* True if everything that the command started is to end. */
static bool ending(const loop *p)
{
    return (p->losing && p->run->options.lost_signal != 0) || p->asked_at_ms != NEVER;
}

/* When KILL is due; NEVER: as long as the command lives it decides what to do about its signal. */
static int64_t kill_due(const loop *p)
{
    const int64_t by_loss = p->losing && p->run->options.lost_signal != 0 ? p->kill_at_ms : NEVER;
    const bool ended = p->asked_at_ms != NEVER && p->ended_at_ms != NEVER;
    return sooner(by_loss, ended ? at_least(p->asked_at_ms, p->ended_at_ms) + p->run->kill_after_ms : NEVER);
}

/* Signal what is to end and has not been signalled yet. The nearer KILL is, the less is left to parents that live. Returns in
 * how many ms to look again. */
static int64_t signal_rest(loop *p, int64_t now, int64_t kill_at)
{
    lk_run *const r = p->run;
    const int64_t begun = p->losing ? p->losing_at_ms : p->asked_at_ms;
    const bool orphans_only = kill_at == NEVER || now < begun + (kill_at - begun) / 2;
    r->tree.until_ms = kill_at == NEVER ? 0 : kill_at; /* it may take longer than there is time */
    lk_run_tree_signal(r, p->child, p->losing ? r->options.lost_signal : SIGTERM, orphans_only);
    r->tree.until_ms = 0;
    return between(WALK_MS, (now - begun) / 8, SLOW_WALK_MS);
}

static int64_t kill_rest(loop *p, int64_t now, int64_t kill_at)
{
    lk_run_child_signal(p->child, SIGKILL);
    if (!p->killed)
        lk_run_tree_kill_known(p->run);
    p->only_refused = lk_run_tree_kill(p->run) ? p->only_refused + 1 : 0;
    p->killed = true;
    return between(KILL_WALK_MS, (now - kill_at) / 8, SLOW_WALK_MS);
}

/* End what is to end, and say in how many ms there is more to do. */
static int64_t keep_ending(loop *p)
{
    const int64_t now = now_ms(), kill_at = kill_due(p);
    const bool kill_now = kill_at != NEVER && now + 2 * p->run->tree.walk_ms >= kill_at;
    if (now >= p->walk_at_ms || (kill_now && !p->killed)) {
        const int64_t pause = kill_now ? kill_rest(p, now, kill_at) : signal_rest(p, now, kill_at);
        p->walk_at_ms = now_ms() + pause;
    }
    const int64_t next = kill_now ? p->walk_at_ms : sooner(p->walk_at_ms, kill_at);
    return at_least(next - now_ms(), 1);
}

/* Do all that is due, and say in how many ms there is more to do (NEVER: nothing by time). */
static int64_t keep(loop *p)
{
    int64_t next = keep_deadline(p);
    if (p->held_until_ms != NEVER && now_ms() >= p->held_until_ms)
        let_through(p);
    if (p->held_until_ms != NEVER)
        next = sooner(next, at_least(p->held_until_ms - now_ms(), 1));
    if (ending(p))
        next = sooner(next, keep_ending(p));
    else if (p->child->ended && p->run->options.wait_descendants)
        next = sooner(next, SLOW_WALK_MS);
    return next;
}

/* The deadline comes first: a command whose lock went while it was stopped must not run on. */
static void continue_command(loop *p)
{
    keep_deadline(p);
    lk_run_child_continue(p->child);
}

/* True for a signal that asks a program to end. */
static bool is_ending(int number)
{
    return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
}

static void forward(loop *p, int number, bool by_process)
{
    if (number == SIGTERM && p->asked_at_ms == NEVER)
        p->asked_at_ms = now_ms();
    if (!by_process || !is_ending(number) || p->child->ended || p->child->stopped_by != 0) {
        lk_run_child_signal(p->child, number);
        return;
    }
    sigaddset(&p->held_back, number);
    if (p->held_until_ms != NEVER)
        return;
    p->held_until_ms = now_ms() + HOLD_BACK_MS;
    lk_run_child_signal(p->child, SIGSTOP);
}

/* A command that was ended by a signal could not end what it started. */
static void note_end(loop *p)
{
    if (!p->child->ended || p->ended_at_ms != NEVER)
        return;
    p->ended_at_ms = now_ms();
    if (is_ending(p->child->signal) && p->asked_at_ms == NEVER)
        p->asked_at_ms = p->ended_at_ms;
}

static void take_signal(loop *p, const struct signalfd_siginfo *info)
{
    lk_run_child *child = p->child;
    const int number = (int)info->ssi_signo;
    switch (number) {
    case SIGCHLD:
        lk_run_child_reap(child);
        note_end(p);
        if (child->stopped_by && lk_run_child_stop_along(child))
            continue_command(p);
        break;
    case SIGCONT:
        continue_command(p);
        break;
    default:
        /* What the terminal sends to our group has reached the command too when it is in our group. */
        if (child->group || info->ssi_code != SI_KERNEL)
            forward(p, number, info->ssi_code == SI_USER);
    }
}

static void take_signals(loop *p)
{
    struct signalfd_siginfo info;
    while (read(p->run->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        take_signal(p, &info);
}

static bool over(const loop *p)
{
    lk_run *const r = p->run;
    if (!p->child->ended || (!ending(p) && !r->options.wait_descendants))
        return p->child->ended;
    if (!lk_run_tree_lives(r))
        return true;
    /* When the lock is gone, we do not wait for processes that we may not end. */
    return r->lost && p->only_refused >= REFUSED_WALKS;
}

static int wait_for_something(loop *p, int64_t ms)
{
    struct pollfd fds[FD_COUNT] = {[SIGNALS] = {.fd = p->run->signal_fd, .events = POLLIN},
                                   [TIMER] = {.fd = p->run->timer_fd, .events = POLLIN},
                                   [LOST] = {.fd = p->lost_fd, .events = POLLIN},
                                   [EXEC] = {.fd = p->child->exec_pipe, .events = POLLIN}};
    set_timer(p->run->timer_fd, 0, ms);
    if (poll(fds, FD_COUNT, -1) < 0)
        return errno == EINTR ? 0 : errno;
    uint64_t expirations;
    if (fds[TIMER].revents && read(p->run->timer_fd, &expirations, sizeof expirations) < 0 && errno != EAGAIN)
        return errno;
    if (fds[LOST].revents) {
        p->lost_fd = -1;
        p->run->lost = true;
    }
    if (fds[EXEC].revents)
        lk_run_child_read_exec(p->child);
    if (fds[SIGNALS].revents)
        take_signals(p);
    return 0;
}

/* Unwatched it must not run. */
static void give_up(loop *p, int error)
{
    p->run->system_error = error;
    lk_run_child_signal(p->child, SIGKILL);
    lk_run_child_await(p->child);
    lk_run_tree_kill(p->run);
}

int lk_run_watch(lk_run *r)
{
    const int64_t remaining = locker_handle_remaining_ms(r->held);
    r->deadline_ms = remaining < 0 ? NEVER : now_ms() + remaining;
    r->timer_fd = r->signal_fd = r->guard.timer_fd = -1;
    const int error = lk_run_tree_begin(r);
    if (error)
        return error;
    if (locker_handle_fd(r->held) >= 0 &&
        (r->signal_fd = signalfd(-1, &r->signals.watched, SFD_CLOEXEC | SFD_NONBLOCK)) >= 0)
        r->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return r->timer_fd >= 0 ? begin_guard(r) : errno;
}

void lk_run_unwatch(lk_run *r)
{
    end_guard(r);
    if (r->signal_fd >= 0)
        close(r->signal_fd);
    if (r->timer_fd >= 0)
        close(r->timer_fd);
    lk_run_tree_end(r);
}

void lk_run_supervise(lk_run *r, lk_run_child *child)
{
    loop p = {.run = r,
              .child = child,
              .lost_fd = locker_handle_fd(r->held),
              .deadline_ms = r->deadline_ms,
              .asked_at_ms = NEVER,
              .ended_at_ms = NEVER,
              .held_until_ms = NEVER};
    int error = 0;
    sigemptyset(&p.held_back);
    r->tree.command = child->pid;
    lk_cli_hurry(true);
    guard_child(r, child);
    /* A loss is acted on before the command's end. */
    for (int64_t next = keep(&p); !error && !over(&p); next = keep(&p))
        error = wait_for_something(&p, next);
    if (error)
        give_up(&p, error);
    end_guard(r);
    if (child->exec_pipe >= 0)
        lk_run_child_read_exec(child);
}
