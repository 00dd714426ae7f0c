/*
 * clock.c: a clock that is moved by hand: who sleeps by it, and whether all rest; see internal.h. advance.c
 * moves it on.
 *
 * The mock knows each thread that could do something by itself: keepers, which rest in the clock's poll, and
 * calls, which sleep in its wait or in a delayed answer. A call that was woken is active until it sleeps
 * again or core says that it is done. All rest when no call is active, and each keeper is in poll with
 * nothing to read. Then whatever is due first gets its turn, alone, and all come to rest again: so the order
 * of events is that of their times, and the same in every run.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/* The clock for which this thread is counted as active. A thread is inside one call at a time. */
static _Thread_local const locker_mock *active_for;

/* ------------------------------------------------------------------ patience ---- */

struct timespec lk_mock_patience(const locker_mock *mock)
{
    const int64_t ms = mock->options.patience_ms;
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(ms / 1000);
    t.tv_nsec += (long)(ms % 1000 * LK_MS);
    if (t.tv_nsec >= 1000 * LK_MS) {
        t.tv_nsec -= 1000 * LK_MS;
        t.tv_sec++;
    }
    return t;
}

bool lk_mock_is_over(const struct timespec *t)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

/* ------------------------------------------------------------------ resting ---- */

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static bool keeper_rests_locked(const locker_mock *m, const mock_host *h) LK_REQUIRES(m->clock.mutex)
{
    (void)m;
    return h->keeper == MOCK_KEEPER_GONE ||
           (h->keeper == MOCK_KEEPER_RESTS && !h->kicked && !readable(h->rest_fd));
}

static bool all_rest_locked(const locker_mock *m) LK_REQUIRES(m->clock.mutex)
{
    if (m->clock.active > 0)
        return false;
    for (const mock_host *h = m->hosts; h != NULL; h = h->next)
        if (!keeper_rests_locked(m, h))
            return false;
    return true;
}

/* Who keeps the others from resting, for people. */
static void name_the_restless_locked(locker_mock *m) LK_REQUIRES(m->clock.mutex)
{
    char *text = m->clock.trouble;
    const size_t size = sizeof m->clock.trouble;
    (void)snprintf(text, size,
                   "threads did not come to rest within %lld ms:", (long long)m->options.patience_ms);
    if (m->clock.active > 0)
        (void)snprintf(text + strlen(text), size - strlen(text), " %zu calls run on;", m->clock.active);
    for (const mock_host *h = m->hosts; h != NULL; h = h->next)
        if (!keeper_rests_locked(m, h))
            (void)snprintf(text + strlen(text), size - strlen(text), " a callback of '%s' blocks, perhaps;",
                           h->owner);
    text[strlen(text) - 1] = '\0';
}

/* False: patience has ended. */
bool lk_mock_await_rest_unlocking(locker_mock *m)
{
    const struct timespec until = lk_mock_patience(m);
    while (!all_rest_locked(m)) {
        if (lk_mock_is_over(&until)) {
            name_the_restless_locked(m);
            return false;
        }
        pthread_cond_timedwait(&m->clock.changed, &m->clock.mutex.plain, &until);
    }
    return true;
}

void lk_mock_notify_locked(locker_mock *m)
{
    pthread_cond_broadcast(&m->clock.changed);
}

/* ------------------------------------------------------------------ sleeping ---- */

void lk_mock_wake_locked(locker_mock *m, mock_sleeper *s)
{
    if (s->woken)
        return;
    s->woken = true;
    if (!s->moves)
        m->clock.active++;
    pthread_cond_signal(&s->wake);
    lk_mock_notify_locked(m);
}

static void inactive_locked(locker_mock *m) LK_REQUIRES(m->clock.mutex)
{
    if (active_for != m)
        return;
    active_for = NULL;
    m->clock.active--;
    lk_mock_notify_locked(m);
}

static void enter_locked(locker_mock *m, mock_sleeper *s) LK_REQUIRES(m->clock.mutex)
{
    mock_clock *c = &m->clock;
    pthread_cond_init(&s->wake, NULL);
    s->prev = c->last;
    if (c->last != NULL)
        c->last->next = s;
    else
        c->first = s;
    c->last = s;
    lk_mock_notify_locked(m);
}

static void leave_locked(locker_mock *m, mock_sleeper *s) LK_REQUIRES(m->clock.mutex)
{
    mock_clock *c = &m->clock;
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        c->first = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    else
        c->last = s->prev;
    pthread_cond_destroy(&s->wake);
}

/* The sleeper is filled in but for the lists; core's mutex, if it is given, is released once the sleeper can
 * be found, so that no wake-up is lost. */
static void sleep_unlocking(locker_mock *m, mock_sleeper *s, pthread_mutex_t *mutex)
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
    leave_locked(m, s);
    if (!s->moves)
        active_for = m;
}

bool lk_mock_sleep(locker_mock *m, locker_claim *claim, int64_t until)
{
    bool interrupted = false;
    lk_mutex_lock(&m->clock.mutex);
    while (lk_mock_now(m) < until && !interrupted) {
        mock_sleeper s = {.claim = claim, .until = until};
        interrupted = claim != NULL && lk_mock_place(claim)->interrupted;
        if (!interrupted)
            sleep_unlocking(m, &s, NULL);
    }
    if (claim != NULL)
        lk_mock_place(claim)->interrupted = false;
    lk_mutex_unlock(&m->clock.mutex);
    return interrupted;
}

void lk_mock_interrupt(locker_mock *m, locker_claim *claim)
{
    lk_mutex_lock(&m->clock.mutex);
    lk_mock_place(claim)->interrupted = true;
    for (mock_sleeper *s = m->clock.first; s != NULL; s = s->next)
        if (s->claim == claim && s->cond == NULL)
            lk_mock_wake_locked(m, s);
    lk_mutex_unlock(&m->clock.mutex);
}

size_t lk_mock_sleepers_locked(const locker_mock *m, const char *key)
{
    size_t n = 0;
    for (const mock_sleeper *s = m->clock.first; s != NULL; s = s->next)
        n += !s->woken && s->claim != NULL && (key == NULL || strcmp(key, s->claim->key) == 0);
    return n;
}

/* ------------------------------------------------------------------ the table that core sees ---- */

static int64_t clock_now(void *context)
{
    return lk_mock_now(((const mock_host *)context)->mock);
}

static void clock_waits(void *context, const locker_claim *claim)
{
    ((mock_host *)context)->waits_for = claim;
}

static void clock_wait(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    mock_host *h = context;
    locker_mock *m = h->mock;
    mock_sleeper s = {.cond = cond, .claim = h->waits_for, .until = until};
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
    locker_mock *m = ((const mock_host *)context)->mock;
    lk_mutex_lock(&m->clock.mutex);
    for (mock_sleeper *s = m->clock.first; s != NULL; s = s->next)
        if (s->cond == cond)
            lk_mock_wake_locked(m, s);
    lk_mutex_unlock(&m->clock.mutex);
}

static void clock_done(void *context)
{
    locker_mock *m = ((const mock_host *)context)->mock;
    if (active_for != m)
        return;
    lk_mutex_lock(&m->clock.mutex);
    inactive_locked(m);
    lk_mutex_unlock(&m->clock.mutex);
}

/* The keeper rests here until there is something to read or the clock's mover kicks it. */
static void clock_poll(void *context, int fd, int64_t until)
{
    mock_host *h = context;
    locker_mock *m = h->mock;
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = h->kick_fd, .events = POLLIN}};
    lk_mutex_lock(&m->clock.mutex);
    h->keeper_thread = pthread_self();
    h->keeper_known = true;
    if (lk_mock_now(m) < until) {
        h->keeper = MOCK_KEEPER_RESTS;
        h->rest_fd = fd;
        h->rest_until = until;
        lk_mock_notify_locked(m);
        lk_mutex_unlock(&m->clock.mutex);
        (void)poll(p, 2, -1);
        lk_mutex_lock(&m->clock.mutex);
        h->keeper = MOCK_KEEPER_RUNS;
        uint64_t count;
        if (h->kicked && read(h->kick_fd, &count, sizeof count) < 0) {
            /* It was written before `kicked` was set, so there is something. */
        }
        h->kicked = false;
    }
    lk_mutex_unlock(&m->clock.mutex);
}

locker_clock lk_mock_clock_table(mock_host *host)
{
    static const struct locker_clock_hooks hooks = {clock_waits, clock_signal, clock_done};
    return (locker_clock){sizeof(locker_clock), clock_now, clock_wait, clock_poll, host, &hooks};
}

void lk_mock_keeper(locker_mock *m, mock_host *host, bool runs)
{
    lk_mutex_lock(&m->clock.mutex);
    host->keeper = runs ? MOCK_KEEPER_RUNS : MOCK_KEEPER_GONE;
    host->keeper_known = false;
    lk_mock_notify_locked(m);
    lk_mutex_unlock(&m->clock.mutex);
}

void lk_mock_await_keeper(locker_mock *m, mock_host *host)
{
    const struct timespec until = lk_mock_patience(m);
    lk_mutex_lock(&m->clock.mutex);
    while (!host->keeper_known && !lk_mock_is_over(&until))
        pthread_cond_timedwait(&m->clock.changed, &m->clock.mutex.plain, &until);
    lk_mutex_unlock(&m->clock.mutex);
}

bool lk_mock_in_callback(locker_mock *m)
{
    bool inside = false;
    lk_mutex_lock(&m->clock.mutex);
    for (const mock_host *h = m->hosts; h != NULL; h = h->next)
        inside = inside || (h->keeper_known && pthread_equal(h->keeper_thread, pthread_self()));
    lk_mutex_unlock(&m->clock.mutex);
    return inside;
}

/* ------------------------------------------------------------------ making ---- */

int lk_mock_clock_init(mock_clock *clock)
{
    const int rc = locker_cond_init(&clock->changed);
    if (rc != 0)
        return rc;
    lk_mutex_init(&clock->mutex);
    clock->owner = pthread_self();
    atomic_init(&clock->now, 1000000 * LK_MS);
    return 0;
}

void lk_mock_clock_destroy(mock_clock *clock)
{
    pthread_cond_destroy(&clock->changed);
    lk_mutex_destroy(&clock->mutex);
}
