/* run_supervise.c: the loop while the command runs. It acts on the lock's loss by the local deadline D,
 * not by a message: TERM (or --on-lost) at D - kill-after, KILL just before D. D moves on with each
 * renewal, so as long as renewals come through none of it happens.
 * States: safe -> losing -> (safe again when a renewal comes through after all | the command has ended). A
 * lock that is known to be lost, by a message of the service or by D's passing, never becomes safe again. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "run_parts.h"

enum { NEVER = -1, OTHERS_EVERY_MS = 50 };

enum { SIGNALS, TIMER, LOST, EXEC, FD_COUNT };

typedef struct {
    lk_run *run;
    lk_run_child *child;
    int signal_fd, timer_fd;
    int lost_fd;         /* belongs to the handle; -1 once it has told */
    bool losing;         /* the loss is being acted on */
    bool killed;         /* KILL was sent */
    int64_t deadline_ms; /* the latest D known, of CLOCK_BOOTTIME; NEVER: there is no lease */
    int64_t kill_at_ms;  /* valid while losing */
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

/* The clock, when the lock is known to be lost, may show that D has passed (we were stopped, or the machine
 * was suspended): then another may hold the lock already, and there is no time to give. */
static void begin_losing(loop *p, int64_t now, int64_t remaining)
{
    const lk_run *r = p->run;
    const char *key = r->options.key;
    const int number = r->options.lost_signal;
    const bool late = p->deadline_ms != NEVER && now >= p->deadline_ms;
    p->losing = true;
    p->kill_at_ms = remaining > 0 ? now + at_least(remaining - r->margin_ms, 0)
                    : late        ? now
                                  : now + r->kill_after_ms;
    lk_run_event(r, "lost", "{s:I}", "remaining_ms", (json_int_t)remaining);
    char name[32];
    lk_run_signal_name(number, name, sizeof name);
    if (!r->options.common.quiet && remaining == 0)
        lk_cli_message("lost the lock '%s'; %s%s%s", key, number ? "sending " : "the command runs on",
                       number ? name : "", number ? " to the command" : ", as --on-lost says");
    else if (!r->options.common.quiet)
        lk_cli_message("the lock '%s' can't be renewed and ends in %lldms; %s%s%s", key, (long long)remaining,
                       number ? "sending " : "the command runs on", number ? name : "",
                       number ? " to the command" : ", as --on-lost says");
    if (number == 0)
        return;
    p->run->stopped = true;
    lk_run_child_signal(p->child, number);
    lk_run_child_signal(p->child, SIGCONT); /* a stopped process can't act on a signal */
}

static void note_deadline(loop *p, int64_t deadline)
{
    char words[32];
    if (p->run->options.common.verbose > 1 && p->deadline_ms != NEVER && deadline > p->deadline_ms + 10)
        lk_cli_message("renewed '%s' meanwhile: ours for %s more", p->run->options.key,
                       lk_cli_time_words(deadline - now_ms(), words, sizeof words));
    p->deadline_ms = deadline;
}

/* Do what is due, and say in how many ms there is more to do (NEVER: nothing by time). */
static int64_t keep_deadline(loop *p)
{
    const lk_run *r = p->run;
    const int64_t now = now_ms(), remaining = locker_handle_remaining_ms(r->held);
    const int64_t term_at = at_least(r->kill_after_ms, r->margin_ms);
    if (remaining == 0)
        p->run->lost = true;
    else if (remaining > 0)
        note_deadline(p, now + remaining);
    if (!p->run->lost && (remaining < 0 || remaining > term_at)) {
        if (p->losing && !r->options.common.quiet)
            lk_cli_message("the lock '%s' was renewed after all", r->options.key);
        p->losing = false;
        return remaining < 0 ? NEVER : remaining - term_at;
    }
    if (!p->losing)
        begin_losing(p, now, remaining);
    if (r->options.lost_signal == 0 || p->killed)
        return p->run->lost ? NEVER : at_least(remaining, 1);
    if (now < p->kill_at_ms)
        return p->kill_at_ms - now;
    lk_run_child_signal(p->child, SIGKILL);
    p->killed = true;
    return NEVER;
}

static void set_timer(const loop *p, int64_t ms)
{
    struct itimerspec when;
    memset(&when, 0, sizeof when);
    if (ms != NEVER) {
        ms = at_least(ms, 1); /* zero would disarm it */
        when.it_value.tv_sec = (time_t)(ms / 1000);
        when.it_value.tv_nsec = (long)(ms % 1000) * 1000000;
    }
    timerfd_settime(p->timer_fd, 0, &when, NULL);
}

/* The deadline comes first: a command whose lock went while it was stopped must not run on. */
static void continue_command(loop *p)
{
    keep_deadline(p);
    lk_run_child_continue(p->child);
}

static void take_signal(loop *p, const struct signalfd_siginfo *info)
{
    lk_run_child *child = p->child;
    const int number = (int)info->ssi_signo;
    switch (number) {
    case SIGCHLD:
        lk_run_child_reap(child);
        if (child->stopped_by && lk_run_child_stop_along(child))
            continue_command(p);
        break;
    case SIGCONT:
        continue_command(p);
        break;
    default:
        /* What the terminal sends to our group has reached the command too when it is in our group. */
        if (child->group || info->ssi_code != SI_KERNEL)
            lk_run_child_signal(child, number);
    }
}

static void take_signals(loop *p)
{
    struct signalfd_siginfo info;
    while (read(p->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        take_signal(p, &info);
}

/* While the lock is being lost what is left of the process group must go as well, not its leader alone. */
static bool over(const loop *p)
{
    const lk_run_child *child = p->child;
    return child->ended &&
           (!p->losing || p->run->options.lost_signal == 0 || !lk_run_child_others_left(child, p->killed));
}

/* Nobody tells us when a member that is no child of ours has gone. */
static int64_t look_again(const loop *p, int64_t ms)
{
    return p->losing && p->child->ended && (ms == NEVER || ms > OTHERS_EVERY_MS) ? OTHERS_EVERY_MS : ms;
}

static int wait_for_something(loop *p, int64_t ms)
{
    struct pollfd fds[FD_COUNT] = {[SIGNALS] = {.fd = p->signal_fd, .events = POLLIN},
                                   [TIMER] = {.fd = p->timer_fd, .events = POLLIN},
                                   [LOST] = {.fd = p->lost_fd, .events = POLLIN},
                                   [EXEC] = {.fd = p->child->exec_pipe, .events = POLLIN}};
    set_timer(p, ms);
    if (poll(fds, FD_COUNT, -1) < 0)
        return errno == EINTR ? 0 : errno;
    uint64_t expirations;
    if (fds[TIMER].revents && read(p->timer_fd, &expirations, sizeof expirations) < 0 && errno != EAGAIN)
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

/* Without descriptors there is no watching over it, and unwatched it must not run. */
static void give_up(loop *p, int error)
{
    lk_run_child *child = p->child;
    p->run->system_error = error;
    lk_run_child_signal(child, SIGKILL);
    lk_run_child_await(child);
}

void lk_run_supervise(lk_run *r, lk_run_child *child)
{
    loop p = {.run = r, .child = child, .deadline_ms = NEVER};
    int error = 0;
    p.lost_fd = locker_handle_fd(r->held);
    if (p.lost_fd < 0)
        error = errno;
    p.signal_fd = signalfd(-1, &r->signals.watched, SFD_CLOEXEC | SFD_NONBLOCK);
    p.timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (p.signal_fd < 0 || p.timer_fd < 0)
        error = errno;
    while (!error && !over(&p))
        error = wait_for_something(&p, look_again(&p, keep_deadline(&p)));
    if (error)
        give_up(&p, error);
    else if (p.losing && r->options.lost_signal != 0)
        lk_run_child_signal(child, SIGKILL); /* for whom a look has missed */
    if (child->exec_pipe >= 0)
        lk_run_child_read_exec(child);
    if (p.signal_fd >= 0)
        close(p.signal_fd);
    if (p.timer_fd >= 0)
        close(p.timer_fd);
}
