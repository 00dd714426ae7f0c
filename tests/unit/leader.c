/* leader.c: who reads the driver's descriptor: the caller that waits, and the keeper when nobody does. The
 * driver here is a bell: a key becomes free when the test says so, and waiters hear of it when it rings. */
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <locker/driver.h>

#include "gate.h"
#include "holding.h"
#include "locking.h"

enum { WAITERS = 4 };

struct bell {
    const locker_services *svc;
    int fd;                        /* eventfd: the driver's descriptor */
    lk_gate heard;                 /* a pass for each dispatch that found it ringing */
    pthread_mutex_t mutex;         /* guards the rest */
    const char *free;              /* the key that may be had, or NULL */
    locker_claim *claims[WAITERS]; /* enrolled, or granted */
    pthread_t heard_by;            /* the thread of the last such dispatch */
};

/* Which bell the next open belongs to. */
static struct bell *opening;

static locker_status bell_open(const locker_driver_config *config, const locker_services *svc, void **self,
                               locker_error *err)
{
    (void)config, (void)err;
    opening->svc = svc;
    *self = opening;
    return LOCKER_OK;
}

static void bell_close(void *self)
{
    (void)self;
}

static void set_claim_locked(struct bell *bell, const locker_claim *from, locker_claim *to)
{
    size_t i = 0;
    while (i < WAITERS && bell->claims[i] != from)
        i++;
    if (i < WAITERS)
        bell->claims[i] = to;
}

static bool is_free_locked(const struct bell *bell, const locker_claim *claim)
{
    return bell->free != NULL && strcmp(bell->free, claim->key) == 0;
}

static locker_status bell_acquire(void *self, locker_claim *claim, locker_error *err)
{
    struct bell *bell = self;
    locker_status status = LOCKER_BUSY;
    (void)err;
    pthread_mutex_lock(&bell->mutex);
    set_claim_locked(bell, claim, NULL);
    set_claim_locked(bell, NULL, claim);
    if (is_free_locked(bell, claim)) {
        status = LOCKER_OK;
        claim->valid_until = LOCKER_NEVER;
    }
    pthread_mutex_unlock(&bell->mutex);
    return status;
}

static void bell_withdraw(void *self, locker_claim *claim)
{
    struct bell *bell = self;
    pthread_mutex_lock(&bell->mutex);
    set_claim_locked(bell, claim, NULL);
    pthread_mutex_unlock(&bell->mutex);
}

static locker_status bell_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    (void)until, (void)err;
    bell_withdraw(self, grant);
    return LOCKER_OK;
}

static locker_status bell_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                               locker_error *err)
{
    (void)self, (void)key, (void)key_len, (void)until, (void)info, (void)err;
    return LOCKER_OK;
}

static locker_status bell_ping(void *self, int64_t until, locker_error *err)
{
    (void)self, (void)until, (void)err;
    return LOCKER_OK;
}

static int bell_descriptor(void *self)
{
    return ((struct bell *)self)->fd;
}

static int64_t bell_dispatch(void *self)
{
    struct bell *bell = self;
    uint64_t rung;
    if (read(bell->fd, &rung, sizeof rung) < 0)
        return LOCKER_NEVER;
    pthread_mutex_lock(&bell->mutex);
    bell->heard_by = pthread_self();
    for (size_t i = 0; i < WAITERS; i++)
        if (bell->claims[i] != NULL && is_free_locked(bell, bell->claims[i]))
            bell->svc->wake(bell->svc, bell->claims[i]);
    pthread_mutex_unlock(&bell->mutex);
    lk_gate_open(&bell->heard, 1);
    return LOCKER_NEVER;
}

static const char *const schemes[] = {"bell", NULL};
static const locker_parameter params[] = {{NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL}};
static const locker_semantics semantics = {.size = sizeof(locker_semantics), .driver = "bell"};
static const locker_driver driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "bell",
    .schemes = schemes,
    .caps = LOCKER_CAP_QUEUE,
    .params = params,
    .semantics = &semantics,
    .open = bell_open,
    .close = bell_close,
    .acquire = bell_acquire,
    .withdraw = bell_withdraw,
    .release = bell_release,
    .descriptor = bell_descriptor,
    .dispatch = bell_dispatch,
    .show = bell_show,
    .ping = bell_ping,
};

/* ------------------------------------------------------------------ for the tests ---- */

static locker *begin(struct bell *bell)
{
    locker_driver_options options = LOCKER_DRIVER_OPTIONS_INIT;
    locker *l = NULL;
    locker_error err;
    *bell = (struct bell){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    assert_true(bell->fd >= 0);
    lk_gate_init(&bell->heard);
    pthread_mutex_init(&bell->mutex, NULL);
    opening = bell;
    assert_ok(locker_open_driver(&driver, &options, &l, &err), err);
    return l;
}

static void end(struct bell *bell, locker *l)
{
    lk_close_locker(l);
    for (size_t i = 0; i < WAITERS; i++)
        assert_null(bell->claims[i]);
    lk_gate_destroy(&bell->heard);
    pthread_mutex_destroy(&bell->mutex);
    (void)close(bell->fd);
}

static void set_free(struct bell *bell, const char *key)
{
    pthread_mutex_lock(&bell->mutex);
    bell->free = key;
    pthread_mutex_unlock(&bell->mutex);
}

/* Makes the key free and rings; answers who heard it. */
static pthread_t ring(struct bell *bell, const char *key)
{
    const uint64_t one = 1;
    pthread_t by;
    set_free(bell, key);
    assert_int_equal(write(bell->fd, &one, sizeof one), sizeof one);
    lk_gate_await(&bell->heard, 1, "a dispatch");
    pthread_mutex_lock(&bell->mutex);
    by = bell->heard_by;
    pthread_mutex_unlock(&bell->mutex);
    return by;
}

/* Nothing is free; a call begins, and is the `waiting`th that waits. */
static void start(lk_locking *waiter, struct bell *bell, locker *l, const char *key,
                  const locker_lock_options *options, uint64_t waiting)
{
    set_free(bell, NULL);
    lk_locking_start(waiter, l, key, options);
    lk_require_waiting(l, waiting);
}

static void finish(lk_locking *waiter)
{
    assert_status(LOCKER_OK, lk_locking_join(waiter), waiter->err);
    locker_handle_free(waiter->held);
}

/* ------------------------------------------------------------------ the tests ---- */

static void a_waiter_reads_for_itself(void **state)
{
    struct bell bell;
    locker *l = begin(&bell);
    lk_locking waiter;
    pthread_t thread, keeper = ring(&bell, NULL);
    (void)state;
    for (int i = 0; i < 100; i++) {
        start(&waiter, &bell, l, "a", NULL, 1);
        thread = waiter.thread;
        assert_true(pthread_equal(ring(&bell, "a"), thread));
        finish(&waiter);
        assert_true(pthread_equal(ring(&bell, NULL), keeper)); /* nobody waits */
    }
    end(&bell, l);
}

static void the_leader_wakes_the_other_waiters(void **state)
{
    struct bell bell;
    locker *l = begin(&bell);
    lk_locking first, second;
    (void)state;
    for (int i = 0; i < 100; i++) {
        start(&first, &bell, l, "a", NULL, 1);
        start(&second, &bell, l, "b", NULL, 2);
        assert_true(pthread_equal(ring(&bell, "b"), first.thread));
        finish(&second);
        assert_true(pthread_equal(ring(&bell, "a"), first.thread));
        finish(&first);
    }
    end(&bell, l);
}

static void the_keeper_reads_for_those_it_leaves(void **state)
{
    struct bell bell;
    locker *l = begin(&bell);
    lk_locking first, second;
    pthread_t keeper = ring(&bell, NULL);
    (void)state;
    for (int i = 0; i < 100; i++) {
        start(&first, &bell, l, "a", NULL, 1);
        start(&second, &bell, l, "b", NULL, 2);
        (void)ring(&bell, "a");
        finish(&first);
        assert_true(pthread_equal(ring(&bell, "b"), keeper));
        finish(&second);
    }
    end(&bell, l);
}

static void the_leader_notices_cancels_deadlines_and_closing(void **state)
{
    struct bell bell;
    locker *l = begin(&bell);
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options canceled = LOCKER_LOCK_OPTIONS_INIT, brief = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking waiter, beside;
    (void)state;
    assert_non_null(cancel);
    canceled.cancel = cancel;
    brief.wait_ms = 20;
    start(&waiter, &bell, l, "a", &canceled, 1);
    start(&beside, &bell, l, "b", NULL, 2);
    locker_cancel_fire(cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    (void)ring(&bell, "b");
    finish(&beside);
    set_free(&bell, NULL);
    lk_locking_start(&waiter, l, "a", &brief);
    assert_status(LOCKER_TIMEOUT, lk_locking_join(&waiter), waiter.err);
    start(&waiter, &bell, l, "a", NULL, 1);
    start(&beside, &bell, l, "b", NULL, 2);
    end(&bell, l);
    assert_status(LOCKER_CLOSED, lk_locking_join(&waiter), waiter.err);
    assert_status(LOCKER_CLOSED, lk_locking_join(&beside), beside.err);
    locker_cancel_free(cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_reads_for_itself),
        cmocka_unit_test(the_leader_wakes_the_other_waiters),
        cmocka_unit_test(the_keeper_reads_for_those_it_leaves),
        cmocka_unit_test(the_leader_notices_cancels_deadlines_and_closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
