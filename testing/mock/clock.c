/* clock.c: a clock that is moved by hand: who sleeps by it, and whether all rest; see internal.h. advance.c
 * moves it on.
 *
 * The mock knows each thread that could do something by itself: keepers, which rest in the clock's poll, and
 * calls, which sleep in its wait or in a delayed answer. A call that was woken is active until it sleeps
 * again or core says that it is done. All rest when no call is active, and each keeper is in poll with
 * nothing to read. Then whatever is due first gets its turn, alone, and all come to rest again: so the order
 * of events is that of their times, and the same in every run. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* ------------------------------------------------------------------ patience ---- */

struct timespec lk_mock_patience(const locker_mock *mock)
{
    return lk_time_spec(lk_time_of(CLOCK_MONOTONIC) + mock->options.patience_ms * LK_MS);
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

static bool keeper_rests_locked(const locker_mock *m, const lk_mock_host *h) LK_REQUIRES(m->clock.mutex)
{
    (void)m;
    return h->keeper == LK_MOCK_KEEPER_GONE ||
           (h->keeper == LK_MOCK_KEEPER_RESTS && !h->kicked && !readable(h->rest_fd));
}

static bool all_rest_locked(const locker_mock *m) LK_REQUIRES(m->clock.mutex)
{
    if (m->clock.active > 0)
        return false;
    for (const lk_mock_host *h = m->hosts; h != NULL; h = h->next)
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
        (void)snprintf(text + strlen(text), size - strlen(text), " %zu calls are running;", m->clock.active);
    for (const lk_mock_host *h = m->hosts; h != NULL; h = h->next)
        if (!keeper_rests_locked(m, h))
            (void)snprintf(text + strlen(text), size - strlen(text), " a callback of '%s' may be blocking;",
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

void lk_mock_wake_locked(locker_mock *m, lk_mock_sleeper *s)
{
    if (s->woken)
        return;
    s->woken = true;
    if (!s->moves)
        m->clock.active++;
    pthread_cond_signal(&s->wake);
    lk_mock_notify_locked(m);
}

size_t lk_mock_sleepers_locked(const locker_mock *m, const char *key)
{
    size_t n = 0;
    LK_EACH(const lk_mock_sleeper, s, link, &m->clock.sleepers)
        n += !s->woken && s->claim != NULL && (key == NULL || strcmp(key, s->claim->key) == 0);
    return n;
}

void lk_mock_keeper(locker_mock *m, lk_mock_host *host, bool runs)
{
    lk_mutex_lock(&m->clock.mutex);
    host->keeper = runs ? LK_MOCK_KEEPER_RUNS : LK_MOCK_KEEPER_GONE;
    host->keeper_known = false;
    lk_mock_notify_locked(m);
    lk_mutex_unlock(&m->clock.mutex);
}

void lk_mock_await_keeper(locker_mock *m, lk_mock_host *host)
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
    for (const lk_mock_host *h = m->hosts; h != NULL; h = h->next)
        inside = inside || (h->keeper_known && pthread_equal(h->keeper_thread, pthread_self()));
    lk_mutex_unlock(&m->clock.mutex);
    return inside;
}

/* ------------------------------------------------------------------ making ---- */

int lk_mock_clock_init(lk_mock_clock *clock)
{
    const int rc = locker_cond_init(&clock->changed);
    if (rc != 0)
        return rc;
    lk_mutex_init(&clock->mutex);
    lk_list_init(&clock->sleepers);
    clock->owner = pthread_self();
    atomic_init(&clock->now, 1000000 * LK_MS);
    return 0;
}

void lk_mock_clock_destroy(lk_mock_clock *clock)
{
    pthread_cond_destroy(&clock->changed);
    lk_mutex_destroy(&clock->mutex);
}
