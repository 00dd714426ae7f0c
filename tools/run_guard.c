/* run_guard.c: kills the command at the lease's end, from a thread of its own. The loop can be late: a walk through many
 * processes takes its time on a busy machine, and a message blocks when nobody reads the terminal or the pipe. */
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "run_parts.h"

enum { NEVER = -1 };

/* In how many ms KILL is due; NEVER. A renewal that the loop has not seen yet moves it on. */
static int64_t due_in(lk_run *r)
{
    const int64_t kill_at = atomic_load_explicit(&r->guard.kill_at_ms, memory_order_relaxed);
    if (kill_at == NEVER)
        return NEVER;
    const int64_t left = kill_at - lk_cli_now_ms(CLOCK_BOOTTIME);
    if (left > 0)
        return left;
    const int64_t renewed = locker_handle_remaining_ms(r->held) - r->margin_ms;
    return renewed > 0 ? renewed : 0;
}

static void *keep_guard(void *context)
{
    lk_run *const r = context;
    lk_run_guard *const g = &r->guard;
    struct pollfd wake = {.fd = g->wake_fd, .events = POLLIN};
    while (!atomic_load_explicit(&g->over, memory_order_relaxed)) {
        const int64_t ms = due_in(r);
        eventfd_t ignored;
        if (ms == 0) {
            lk_run_child_signal(g->child, SIGKILL);
            return NULL;
        }
        if (poll(&wake, 1, ms > INT32_MAX ? INT32_MAX : (int)ms) == 1)
            eventfd_read(g->wake_fd, &ignored);
    }
    return NULL;
}

static void start(lk_run *r)
{
    lk_run_guard *const g = &r->guard;
    sigset_t all, before;
    g->wake_fd = eventfd(0, EFD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    g->started = g->wake_fd >= 0 && pthread_create(&g->thread, NULL, keep_guard, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!g->started && g->wake_fd >= 0)
        close(g->wake_fd);
}

void lk_run_guard_set(lk_run *r, const lk_run_child *child, int64_t kill_at_ms)
{
    lk_run_guard *const g = &r->guard;
    g->child = child;
    atomic_store_explicit(&g->kill_at_ms, kill_at_ms, memory_order_relaxed);
    if (g->started)
        eventfd_write(g->wake_fd, 1);
    else if (kill_at_ms != NEVER)
        start(r);
}

void lk_run_guard_end(lk_run *r)
{
    lk_run_guard *const g = &r->guard;
    if (!g->started)
        return;
    atomic_store_explicit(&g->over, true, memory_order_relaxed);
    eventfd_write(g->wake_fd, 1);
    pthread_join(g->thread, NULL);
    close(g->wake_fd);
    g->started = false;
}
