/* advance.c: moving the clock on: whatever is due first gets its turn, and all come to rest, again and again;
 * see clock.c. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/* What a locker itself has due first: a keeper, or a sleeping call other than `self`. */
typedef struct due {
    int64_t at;
    mock_host *keeper;
    mock_sleeper *call;
} due;

static due first_due_locked(const locker_mock *m, const mock_sleeper *self)
{
    due first = {.at = LOCKER_NEVER};
    for (mock_host *h = m->hosts; h != NULL; h = h->next)
        if (h->keeper == MOCK_KEEPER_RESTS && h->rest_until < first.at)
            first = (due){.at = h->rest_until, .keeper = h};
    for (mock_sleeper *s = m->clock.first; s != NULL; s = s->next)
        if (s != self && !s->woken && s->until < first.at)
            first = (due){.at = s->until, .call = s};
    return first;
}

static void give_turn_locked(mock_clock *c, const due *to)
{
    const uint64_t one = 1;
    if (to->call != NULL) {
        lk_mock_wake_locked(c, to->call);
        return;
    }
    to->keeper->kicked = true;
    if (write(to->keeper->kick_fd, &one, sizeof one) < 0) {
        /* An eventfd that holds less than its limit takes it. */
    }
}

static void set_now_locked(mock_clock *c, int64_t to)
{
    if (to > atomic_load(&c->now))
        atomic_store(&c->now, to);
}

/* A call on the test's own thread waits for what can't come. Its own answer has no word for that, and hanging
 * would hide it. */
__attribute__((noreturn)) static void give_up(const locker_mock *m, const mock_sleeper *self)
{
    (void)fprintf(
        stderr,
        "locker mock: the test's own thread waits%s%s in vain, %s: have another thread unlock, give "
        "the call a wait_ms, or let it wait on a thread of its own\n",
        self->claim != NULL ? " for " : "", self->claim != NULL ? self->claim->key : "",
        m->clock.trouble[0] != '\0' ? m->clock.trouble : "since nothing that is due can end it");
    abort();
}

/* Take the one place of those who move the clock. False: patience has ended. */
static bool begin_moving_locked(locker_mock *m, const mock_sleeper *self)
{
    struct timespec until = lk_mock_patience(m);
    while (m->clock.moving && (self == NULL || !self->woken)) {
        if (lk_mock_is_over(&until)) {
            (void)snprintf(m->clock.trouble, sizeof m->clock.trouble,
                           "another thread has been moving the clock for %lld ms",
                           (long long)m->options.patience_ms);
            return false;
        }
        pthread_cond_timedwait(&m->clock.changed, &m->clock.mutex, &until);
    }
    return true;
}

/* One step towards `until`. All rest. False: there is nothing to do up to then. */
static bool step_locked(locker_mock *m, int64_t until, const mock_sleeper *self)
{
    mock_clock *c = &m->clock;
    due first;
    pthread_mutex_unlock(&c->mutex);
    const int64_t service = lk_mock_next_due(m);
    pthread_mutex_lock(&c->mutex);
    first = first_due_locked(m, self);
    if (first.at > until && service > until)
        return false;
    if (first.at == LOCKER_NEVER && service == LOCKER_NEVER)
        return false;
    if (first.at <= service) {
        set_now_locked(c, first.at);
        give_turn_locked(c, &first);
    } else {
        set_now_locked(c, service);
        pthread_mutex_unlock(&c->mutex);
        lk_mock_run_due(m);
        pthread_mutex_lock(&c->mutex);
    }
    return true;
}

/* Move on to `until`, or with self NULL by `by`; for a call of the test's own thread: until it is woken. */
locker_status lk_mock_move_locked(locker_mock *m, int64_t by, int64_t until, mock_sleeper *self)
{
    mock_clock *c = &m->clock;
    struct timespec patience = lk_mock_patience(m);
    locker_status status = LOCKER_OK;
    if (!begin_moving_locked(m, self)) {
        if (self != NULL)
            give_up(m, self);
        return LOCKER_TIMEOUT;
    }
    if (self != NULL && self->woken)
        return LOCKER_OK;
    c->moving = true;
    if (self == NULL)
        until = by > LOCKER_NEVER - lk_mock_now(m) ? LOCKER_NEVER - 1 : lk_mock_now(m) + by;
    for (;;) {
        if (!lk_mock_await_rest_locked(m)) {
            status = LOCKER_TIMEOUT;
            break;
        }
        if (self != NULL && self->woken)
            break;
        if (self != NULL && until == LOCKER_NEVER && lk_mock_is_over(&patience))
            give_up(m, self);
        if (step_locked(m, until, self))
            continue;
        if (until != LOCKER_NEVER) {
            set_now_locked(c, until);
            break;
        }
        pthread_cond_timedwait(&c->changed, &c->mutex, &patience);
    }
    c->moving = false;
    lk_mock_notify_locked(c);
    if (status != LOCKER_OK && self != NULL)
        give_up(m, self);
    return status;
}

locker_status locker_mock_advance(locker_mock *mock, int64_t ms)
{
    if (mock == NULL || ms < 0 || ms > LOCKER_NEVER / 4 / LK_MS || lk_mock_in_callback(mock))
        return LOCKER_INVALID;
    pthread_mutex_lock(&mock->clock.mutex);
    const locker_status status = lk_mock_move_locked(mock, ms * LK_MS, 0, NULL);
    pthread_mutex_unlock(&mock->clock.mutex);
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
    struct timespec until = lk_mock_patience(mock);
    pthread_mutex_lock(&mock->clock.mutex);
    bool there;
    while (!(there = lk_mock_sleepers_locked(mock, key) == count) && !lk_mock_is_over(&until))
        pthread_cond_timedwait(&mock->clock.changed, &mock->clock.mutex, &until);
    pthread_mutex_unlock(&mock->clock.mutex);
    return there ? LOCKER_OK : LOCKER_TIMEOUT;
}

size_t locker_mock_waiters(const locker_mock *mock, const char *key)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&mock->clock.mutex;
    pthread_mutex_lock(mutex);
    const size_t n = lk_mock_sleepers_locked(mock, key);
    pthread_mutex_unlock(mutex);
    return n;
}
