/* advance.c: moving the clock on: whatever is due first gets its turn, and all come to rest, again and again;
 * see clock.c. */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"
#include "lk_wakeup.h"

/* What a locker itself has due first: a keeper, or a sleeping call other than `self`. */
typedef struct {
    int64_t at;
    lk_mock_host *keeper;
    lk_mock_sleeper *call;
} due;

static due first_due_locked(const locker_mock *m, const lk_mock_sleeper *self) LK_REQUIRES(m->clock.mutex)
{
    due first = {.at = LOCKER_NEVER};
    for (lk_mock_host *h = m->hosts; h != NULL; h = h->next)
        if (h->keeper == LK_MOCK_KEEPER_RESTS && h->rest_until < first.at)
            first = (due){.at = h->rest_until, .keeper = h};
    LK_EACH(lk_mock_sleeper, s, link, &m->clock.sleepers)
        if (s != self && !s->woken && s->until < first.at)
            first = (due){.at = s->until, .call = s};
    return first;
}

static void give_turn_locked(locker_mock *m, const due *to) LK_REQUIRES(m->clock.mutex)
{
    if (to->call != NULL) {
        lk_mock_wake_locked(m, to->call);
        return;
    }
    to->keeper->kicked = true;
    lk_wakeup_ring(to->keeper->kick_fd);
}

static void set_now_locked(locker_mock *m, int64_t to) LK_REQUIRES(m->clock.mutex)
{
    if (to > lk_mock_now(m))
        atomic_store(&m->clock.now, to);
}

/* A call on the test's own thread waits for what can't come. Its own answer has no word for that, and hanging
 * would hide it. */
__attribute__((noreturn)) static void give_up_locked(const locker_mock *m, const lk_mock_sleeper *self)
    LK_REQUIRES(m->clock.mutex)
{
    (void)fprintf(
        stderr,
        "locker mock: the test's own thread waits%s%s in vain, %s; unlock on another thread, give the call "
        "a wait_ms, or make the call on another thread\n",
        self->claim != NULL ? " for " : "", self->claim != NULL ? self->claim->key : "",
        m->clock.trouble[0] != '\0' ? m->clock.trouble : "since no event is due that can end the wait");
    abort();
}

/* Take the one place of those who move the clock. False: patience has ended. */
static bool begin_moving_unlocking(locker_mock *m, const lk_mock_sleeper *self) LK_REQUIRES(m->clock.mutex)
{
    const struct timespec until = lk_mock_patience(m);
    while (m->clock.moving && (self == NULL || !self->woken)) {
        if (lk_mock_is_over(&until)) {
            (void)snprintf(m->clock.trouble, sizeof m->clock.trouble,
                           "another thread has been moving the clock for %lld ms",
                           (long long)m->options.patience_ms);
            return false;
        }
        pthread_cond_timedwait(&m->clock.changed, &m->clock.mutex.plain, &until);
    }
    return true;
}

/* One step towards `until`. All rest. False: there is nothing to do up to then. */
static bool step_unlocking(locker_mock *m, int64_t until, const lk_mock_sleeper *self)
    LK_REQUIRES(m->clock.mutex) LK_EXCLUDES(m->mutex)
{
    lk_mutex_unlock(&m->clock.mutex);
    const int64_t service = lk_mock_next_due(m);
    lk_mutex_lock(&m->clock.mutex);
    const due first = first_due_locked(m, self);
    if (first.at > until && service > until)
        return false;
    if (first.at == LOCKER_NEVER && service == LOCKER_NEVER)
        return false;
    if (first.at <= service) {
        set_now_locked(m, first.at);
        give_turn_locked(m, &first);
    } else {
        set_now_locked(m, service);
        lk_mutex_unlock(&m->clock.mutex);
        lk_mock_run_due(m);
        lk_mutex_lock(&m->clock.mutex);
    }
    return true;
}

/* Move on to `until`, or with self NULL by `by`; for a call of the test's own thread: until it is woken. */
locker_status lk_mock_move_unlocking(locker_mock *m, int64_t by, int64_t until, lk_mock_sleeper *self)
{
    const struct timespec patience = lk_mock_patience(m);
    locker_status status = LOCKER_OK;
    if (!begin_moving_unlocking(m, self)) {
        if (self != NULL)
            give_up_locked(m, self);
        return LOCKER_TIMEOUT;
    }
    if (self != NULL && self->woken)
        return LOCKER_OK;
    m->clock.moving = true;
    if (self == NULL)
        until = by > LOCKER_NEVER - lk_mock_now(m) ? LOCKER_NEVER - 1 : lk_mock_now(m) + by;
    for (;;) {
        if (!lk_mock_await_rest_unlocking(m)) {
            status = LOCKER_TIMEOUT;
            break;
        }
        if (self != NULL && self->woken)
            break;
        if (self != NULL && until == LOCKER_NEVER && lk_mock_is_over(&patience))
            give_up_locked(m, self);
        if (step_unlocking(m, until, self))
            continue;
        if (until != LOCKER_NEVER) {
            set_now_locked(m, until);
            break;
        }
        pthread_cond_timedwait(&m->clock.changed, &m->clock.mutex.plain, &patience);
    }
    m->clock.moving = false;
    lk_mock_notify_locked(m);
    if (status != LOCKER_OK && self != NULL)
        give_up_locked(m, self);
    return status;
}

locker_status locker_mock_advance(locker_mock *mock, int64_t ms)
{
    if (mock == NULL || ms < 0 || ms > LOCKER_NEVER / 4 / LK_MS || lk_mock_in_callback(mock))
        return LOCKER_INVALID;
    lk_mutex_lock(&mock->clock.mutex);
    const locker_status status = lk_mock_move_unlocking(mock, ms * LK_MS, 0, NULL);
    lk_mutex_unlock(&mock->clock.mutex);
    return status;
}

int64_t locker_mock_now_ms(const locker_mock *mock)
{
    return lk_mock_now(mock) / LK_MS;
}

locker_status locker_mock_await_waiters(locker_mock *mock, const char *key, size_t count)
{
    if (mock == NULL || lk_mock_in_callback(mock))
        return LOCKER_INVALID;
    const struct timespec until = lk_mock_patience(mock);
    lk_mutex_lock(&mock->clock.mutex);
    bool there;
    while (!(there = lk_mock_sleepers_locked(mock, key) == count) && !lk_mock_is_over(&until))
        pthread_cond_timedwait(&mock->clock.changed, &mock->clock.mutex.plain, &until);
    lk_mutex_unlock(&mock->clock.mutex);
    return there ? LOCKER_OK : LOCKER_TIMEOUT;
}

size_t locker_mock_waiters(const locker_mock *mock, const char *key)
{
    locker_mock *m = lk_mock_asked(mock);
    lk_mutex_lock(&m->clock.mutex);
    const size_t n = lk_mock_sleepers_locked(m, key);
    lk_mutex_unlock(&m->clock.mutex);
    return n;
}
