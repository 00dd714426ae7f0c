/* run_guard.c: kills the command just before the lease ends, from a thread of its own. The loop can be late: a walk through many
 * processes takes its time on a busy machine, and a message blocks when nobody reads the terminal or the pipe. So the thread is
 * there before the command is, and by itself it goes by the deadline; the loop only tells it of another time. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "run_parts.h"

enum { NEVER = -1 };

/* When KILL is due, of CLOCK_BOOTTIME; NEVER. A renewal that the loop has not seen yet moves it on. `deadline`: the latest that
 * this thread knows of; NEVER: none. */
static int64_t due_at(lk_run *r, int64_t *deadline)
{
    const int64_t now = lk_cli_now_ms(CLOCK_BOOTTIME), remaining = locker_handle_remaining_ms(r->held),
                  kill_at = atomic_load_explicit(&r->guard.kill_at_ms, memory_order_relaxed);
    if (remaining > 0)
        *deadline = now + remaining;
    if (kill_at == NEVER && *deadline != NEVER)
        return *deadline - r->margin_ms;
    if (kill_at != NEVER && kill_at <= now && remaining > r->margin_ms)
        return now + remaining - r->margin_ms;
    return kill_at;
}

static void set_timer(const lk_run_guard *g, int64_t at)
{
    struct itimerspec when;
    memset(&when, 0, sizeof when);
    if (at != NEVER) {
        when.it_value.tv_sec = (time_t)(at / 1000);
        when.it_value.tv_nsec = (long)(at % 1000) * 1000000;
    }
    timerfd_settime(g->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void *keep_guard(void *context)
{
    lk_run *const r = context;
    lk_run_guard *const g = &r->guard;
    struct pollfd fds[] = {{.fd = g->wake_fd, .events = POLLIN}, {.fd = g->timer_fd, .events = POLLIN}};
    int64_t deadline = r->deadline_ms;
    while (!atomic_load_explicit(&g->over, memory_order_relaxed)) {
        const lk_run_child *const child = atomic_load_explicit(&g->child, memory_order_acquire);
        const int64_t at = child ? due_at(r, &deadline) : NEVER;
        eventfd_t ignored;
        if (at != NEVER && at <= lk_cli_now_ms(CLOCK_BOOTTIME)) {
            g->fired = true; /* before anybody can see the command's end */
            lk_run_child_signal(child, SIGKILL);
            return NULL;
        }
        set_timer(g, at);
        if (poll(fds, 2, -1) > 0 && fds[0].revents)
            eventfd_read(g->wake_fd, &ignored);
    }
    return NULL;
}

int lk_run_guard_begin(lk_run *r)
{
    lk_run_guard *const g = &r->guard;
    sigset_t all, before;
    atomic_store_explicit(&g->kill_at_ms, NEVER, memory_order_relaxed);
    if (r->options.lost_signal == 0) /* nothing is done about a loss */
        return 0;
    if ((g->wake_fd = eventfd(0, EFD_CLOEXEC)) < 0 ||
        (g->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC)) < 0)
        return errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&g->thread, NULL, keep_guard, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    g->started = error == 0;
    return error;
}

static void wake(const lk_run_guard *g)
{
    if (g->started)
        eventfd_write(g->wake_fd, 1);
}

void lk_run_guard_watch(lk_run *r, const lk_run_child *child)
{
    atomic_store_explicit(&r->guard.child, child, memory_order_release);
    wake(&r->guard);
}

void lk_run_guard_set(lk_run *r, int64_t kill_at_ms)
{
    atomic_store_explicit(&r->guard.kill_at_ms, kill_at_ms, memory_order_relaxed);
    wake(&r->guard);
}

void lk_run_guard_end(lk_run *r)
{
    lk_run_guard *const g = &r->guard;
    if (g->started) {
        atomic_store_explicit(&g->over, true, memory_order_relaxed);
        wake(g);
        pthread_join(g->thread, NULL);
    }
    g->started = false;
    if (g->wake_fd >= 0)
        close(g->wake_fd);
    if (g->timer_fd >= 0)
        close(g->timer_fd);
    g->wake_fd = g->timer_fd = -1;
}
