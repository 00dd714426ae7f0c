/* sleep.c: sleeping by the clock, as core does by its table and an operation does until a delayed answer is
 * there. A call on the test's own thread moves the clock meanwhile (advance.c); others wait for it to be
 * moved. */
#include <poll.h>

#include "flight.h"
#include "lk_wakeup.h"

/* The clock for which this thread is counted as active. A thread is inside one call at a time. */
static _Thread_local const locker_mock *active_for;

static void inactive_locked(locker_mock *m) LK_REQUIRES(m->clock.mutex)
{
    if (active_for != m)
        return;
    active_for = NULL;
    m->clock.active--;
    lk_mock_notify_locked(m);
}

static void enter_locked(locker_mock *m, lk_mock_sleeper *s) LK_REQUIRES(m->clock.mutex)
{
    pthread_cond_init(&s->wake, NULL);
    lk_list_append(&m->clock.sleepers, &s->link);
    lk_mock_notify_locked(m);
}

/* The sleeper is filled in but for the lists; core's mutex, if it is given, is released once the sleeper can
 * be found, so that no wake-up is lost. */
static void sleep_unlocking(locker_mock *m, lk_mock_sleeper *s, pthread_mutex_t *mutex)
    LK_REQUIRES(m->clock.mutex) LK_EXCLUDES(m->mutex)
{
    s->moves = !m->options.still_clock && pthread_equal(pthread_self(), m->clock.owner);
    inactive_locked(m);
    enter_locked(m, s);
    if (mutex != NULL)
        pthread_mutex_unlock(mutex);
    if (s->moves)
        (void)lk_mock_move_unlocking(m, 0, s->until, s);
    else
        while (!s->woken)
            lk_mutex_wait(&m->clock.mutex, &s->wake);
    lk_list_remove(&s->link);
    pthread_cond_destroy(&s->wake);
    if (!s->moves)
        active_for = m;
}

/* Until `until`, for a delayed answer; answers whether it was interrupted. claim NULL: it is about no
 * lock. */
static bool sleep_until(locker_mock *m, locker_claim *claim, int64_t until)
    LK_EXCLUDES(m->mutex, m->clock.mutex)
{
    bool interrupted = false;
    lk_mutex_lock(&m->clock.mutex);
    while (lk_mock_now(m) < until && !interrupted) {
        lk_mock_sleeper s = {.claim = claim, .until = until};
        interrupted = claim != NULL && lk_mock_place_of(claim)->interrupted;
        if (!interrupted)
            sleep_unlocking(m, &s, NULL);
    }
    if (claim != NULL)
        lk_mock_place_of(claim)->interrupted = false;
    lk_mutex_unlock(&m->clock.mutex);
    return interrupted;
}

void lk_mock_interrupt(locker_mock *m, locker_claim *claim)
{
    lk_mutex_lock(&m->clock.mutex);
    lk_mock_place_of(claim)->interrupted = true;
    LK_EACH(lk_mock_sleeper, s, link, &m->clock.sleepers)
        if (s->claim == claim && s->cond == NULL)
            lk_mock_wake_locked(m, s);
    lk_mutex_unlock(&m->clock.mutex);
}

locker_status lk_mock_travel(locker_mock *m, lk_mock_flight *f, locker_status status,
                             locker_status unanswered, bool *interrupted)
{
    const int64_t at = f->silent ? f->until : f->asked + f->fault.delay_ms * LK_MS;
    f->late = f->silent || (f->fault.delay_ms > 0 && at >= f->until);
    if (f->silent || f->fault.delay_ms > 0)
        *interrupted = sleep_until(m, f->claim, f->late ? f->until : at);
    return f->late ? unanswered : status;
}

static int64_t clock_now(void *context)
{
    return lk_mock_now(((const lk_mock_host *)context)->mock);
}

static void clock_waits(void *context, const locker_claim *claim)
{
    ((lk_mock_host *)context)->waits_for = claim;
}

static void clock_wait(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    lk_mock_host *h = context;
    locker_mock *m = h->mock;
    lk_mock_sleeper s = {.cond = cond, .claim = h->waits_for, .until = until};
    h->waits_for = NULL;
    lk_mutex_lock(&m->clock.mutex);
    const bool slept = lk_mock_now(m) < until;
    if (slept)
        sleep_unlocking(m, &s, mutex);
    lk_mutex_unlock(&m->clock.mutex);
    if (slept)
        pthread_mutex_lock(mutex);
}

static void clock_signal(void *context, pthread_cond_t *cond)
{
    locker_mock *m = ((const lk_mock_host *)context)->mock;
    lk_mutex_lock(&m->clock.mutex);
    LK_EACH(lk_mock_sleeper, s, link, &m->clock.sleepers)
        if (s->cond == cond)
            lk_mock_wake_locked(m, s);
    lk_mutex_unlock(&m->clock.mutex);
}

static void clock_done(void *context)
{
    locker_mock *m = ((const lk_mock_host *)context)->mock;
    if (active_for != m)
        return;
    lk_mutex_lock(&m->clock.mutex);
    inactive_locked(m);
    lk_mutex_unlock(&m->clock.mutex);
}

/* The keeper rests here until there is something to read or the clock's mover kicks it. */
static void clock_poll(void *context, int fd, int64_t until)
{
    lk_mock_host *h = context;
    locker_mock *m = h->mock;
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = h->kick_fd, .events = POLLIN}};
    lk_mutex_lock(&m->clock.mutex);
    h->keeper_thread = pthread_self();
    h->keeper_known = true;
    if (lk_mock_now(m) < until) {
        h->keeper = LK_MOCK_KEEPER_RESTS;
        h->rest_fd = fd;
        h->rest_until = until;
        lk_mock_notify_locked(m);
        lk_mutex_unlock(&m->clock.mutex);
        (void)poll(p, 2, -1);
        lk_mutex_lock(&m->clock.mutex);
        h->keeper = LK_MOCK_KEEPER_RUNS;
        if (h->kicked)
            lk_wakeup_clear(h->kick_fd);
        h->kicked = false;
    }
    lk_mutex_unlock(&m->clock.mutex);
}

locker_clock lk_mock_clock_table(lk_mock_host *host)
{
    static const struct locker_clock_hooks hooks = {clock_waits, clock_signal, clock_done};
    return (locker_clock){sizeof(locker_clock), clock_now, clock_wait, clock_poll, host, &hooks};
}
