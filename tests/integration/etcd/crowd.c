/* crowd.c: a thousand threads of one locker wait for one key: what they ask the server, and that all are served. */
#include <stdatomic.h>
#include <stdio.h>

#include "etcd_tests.h"

enum { WAITERS = 1000, LOOKS_EACH = 3 };

static atomic_int inside, overlaps;
static atomic_uint served;

static void *take_a_turn(void *l)
{
    locker_handle *held;
    locker_error err;
    if (locker_lock(l, "hot", NULL, &held, &err) != LOCKER_OK)
        return NULL;
    if (atomic_fetch_add(&inside, 1) > 0)
        atomic_fetch_add(&overlaps, 1);
    atomic_fetch_sub(&inside, 1);
    atomic_fetch_add(&served, locker_unlock(held, &err) == LOCKER_OK);
    locker_handle_free(held);
    return NULL;
}

/* Each looks when its watch is there, and when the one ahead has gone: no renewal has all of them look. When it did, the server answered
 * too late, all asked anew without end, and nobody was granted the lock. */
static void a_thousand_waiters(void **state)
{
    lk_env *env = *state;
    static pthread_t threads[WAITERS];
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=10s"), *l = lk_open_proxied(env, "/shop?ttl=10s");
    locker_handle *held = lk_take(holder, "hot"), *own = lk_take(l, "own");
    atomic_store(&served, 0);
    for (size_t i = 0; i < WAITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_a_turn, l), 0);
    lk_etcdctl_require_count(env->etcd, "shop/hot/", WAITERS + 1);
    lk_require_renewal(l);
    lk_require_renewal(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    for (size_t i = 0; i < WAITERS; i++)
        lk_join_worker(threads[i], &served, "a thousand wait for one key");
    assert_int_equal(atomic_load(&overlaps), 0);
    assert_int_equal(atomic_load(&served), WAITERS);
    assert_in_range(lk_proxy_requests(env->proxy, LK_EP_LOOK), WAITERS, LOOKS_EACH * WAITERS);
    lk_give(own);
    lk_close_locker(l);
    lk_close_locker(holder);
}

static const struct CMUnitTest tests[] = {
    proxied_test(a_thousand_waiters),
};

const lk_group lk_crowd = {"crowd", tests, sizeof tests / sizeof tests[0], NULL, NULL};
