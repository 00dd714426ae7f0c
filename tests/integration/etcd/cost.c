/* cost.c: what is written: each write to the cluster, or transaction with writes, has a revision of its own. */
#include <stdio.h>
#include <stdlib.h>

#include "etcd_tests.h"

enum { MANY = 300, BATCH = 125, HALF = BATCH / 2 };

/* That of a write of ours. */
static int64_t revision(const lk_server *etcd)
{
    lk_etcdctl_do(etcd, "put mark x");
    return lk_etcdctl_nth(etcd, "mark", 0).modified;
}

static locker_lock_options one_of_two(void)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    options.permits = 2;
    return options;
}

static void one_write_each(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_handle *none = NULL;
    locker_error err;
    const int64_t before = revision(env->etcd);
    locker_handle *held = lk_take(l, "lock");
    assert_status(LOCKER_BUSY, locker_try_lock(l, "lock", NULL, &none, &err), err);
    const int64_t taken = revision(env->etcd);
    lk_give(held);
    const int64_t given = revision(env->etcd);
    assert_int_equal(taken - before, 2);
    assert_int_equal(given - taken, 2);
    lk_close_locker(l);
}

/* Who is told BUSY by the server has written nothing either. */
static void a_try_that_is_busy_writes_nothing(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_handle *held = lk_take(holder, "lock");
    const int64_t before = revision(env->etcd);
    lk_expect_busy(l, "lock");
    assert_int_equal(revision(env->etcd) - before, 1);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

static void a_permit_is_two_writes_or_one(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    const locker_lock_options waits = one_of_two();
    locker_handle *first, *second;
    locker_error err;
    const int64_t before = revision(env->etcd);
    assert_ok(locker_lock(l, "permits", &waits, &first, &err), err);
    const int64_t taken = revision(env->etcd);
    assert_ok(locker_try_lock(l, "permits", &waits, &second, &err), err);
    const int64_t tried = revision(env->etcd);
    lk_give(first);
    assert_int_equal(taken - before, 3);
    assert_int_equal(tried - taken, 2);
    assert_int_equal(revision(env->etcd) - tried, 2);
    lk_give(second);
    lk_close_locker(l);
}

/* Who stands further behind has nothing to do then. */
static void a_deletion_is_told_to_the_next_one(void **state)
{
    lk_env *env = *state;
    enum { WAITERS = 3 };
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *each[WAITERS];
    locker_handle *held = lk_take(holder, "lock");
    lk_locking waiters[WAITERS];
    for (size_t i = 0; i < WAITERS; i++) {
        each[i] = lk_open_at(env->etcd, "/shop?ttl=60s");
        lk_locking_start(&waiters[i], each[i], "lock", NULL);
        lk_etcdctl_require_count(env->etcd, "shop/lock/", i + 2);
        lk_require_waiting(each[i], 1);
    }
    const uint64_t before = lk_stats(each[WAITERS - 1]).attempts;
    lk_give(held);
    for (size_t i = 0; i < WAITERS; i++) {
        held = lk_locking_grant(&waiters[i]);
        if (i < WAITERS - 1)
            assert_int_equal(lk_stats(each[WAITERS - 1]).attempts, before);
        lk_give(held);
    }
    for (size_t i = 0; i < WAITERS; i++)
        lk_close_locker(each[i]);
    lk_close_locker(holder);
}

enum { FEW = 4 };

/* The waiters of one locker, one behind the other. */
static void wait_in_line(const lk_env *env, locker *l, const char *key, lk_locking waiters[FEW])
{
    char queue[64];
    snprintf(queue, sizeof queue, "shop/%s/", key);
    const size_t before = lk_etcdctl_count(env->etcd, queue);
    for (size_t i = 0; i < FEW; i++) {
        lk_locking_start(&waiters[i], l, key, NULL);
        lk_etcdctl_require_count(env->etcd, queue, before + i + 1);
        lk_require_waiting(l, i + 1);
    }
}

/* The transaction that puts them to another lease says whether those ahead are still there. */
static void waiters_do_not_look_after_a_renewal(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *l = lk_open_proxied(env, "/shop?ttl=2s");
    locker_handle *held = lk_take(holder, "lock"), *renewed = lk_take(l, "own");
    lk_locking waiters[FEW];
    wait_in_line(env, l, "lock", waiters);
    lk_require_renewal(l);
    const unsigned looks = lk_proxy_requests(env->proxy, LK_EP_LOOK);
    const uint64_t attempts = lk_stats(l).attempts;
    lk_require_renewal(l);
    lk_require_renewal(l);
    assert_int_equal(lk_proxy_requests(env->proxy, LK_EP_LOOK), looks);
    assert_int_equal(lk_stats(l).attempts, attempts);
    lk_give(held);
    for (size_t i = 0; i < FEW; i++)
        lk_give(lk_locking_grant(&waiters[i]));
    lk_give(renewed);
    lk_close_locker(l);
    lk_close_locker(holder);
}

static size_t writes_of_all(const lk_server *etcd)
{
    static lk_etcdctl_key keys[MANY];
    size_t writes = 0;
    assert_int_equal(lk_etcdctl_keys(etcd, "shop/", keys, MANY), MANY);
    for (size_t i = 0; i < MANY; i++) {
        bool first = true;
        for (size_t j = 0; j < i && first; j++)
            first = keys[j].modified != keys[i].modified;
        writes += first;
    }
    return writes;
}

static bool are_put_together(void *context)
{
    return writes_of_all(context) == (MANY + BATCH - 1) / BATCH;
}

static bool are_put_by_halves(void *context)
{
    return writes_of_all(context) == (MANY + HALF - 1) / HALF;
}

static void renew_many(const lk_env *env, bool (*renewed)(void *context), const char *what)
{
    locker *l = lk_open_at(env->etcd, "/shop?ttl=6s");
    locker_handle *held[MANY];
    for (int i = 0; i < MANY; i++) {
        char key[16];
        snprintf(key, sizeof key, "many-%d", i);
        held[i] = lk_take(l, key);
    }
    lk_require(renewed, env->etcd, what);
    for (int i = 0; i < MANY; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

static void many_locks_are_renewed_in_few_writes(void **state)
{
    renew_many(*state, are_put_together, "300 keys should be put to another lease in three writes");
}

static int half(void **state)
{
    static const char *const options[] = {LK_TEST_ETCD_FAST, "--max-txn-ops=64", NULL};
    return lk_env_with(state, options);
}

/* Several transactions are refused at once: the next ones are half as large, and not still smaller. */
static void many_locks_at_a_server_that_takes_half_as_much_at_once(void **state)
{
    renew_many(*state, are_put_by_halves, "300 keys should be put to another lease in five writes");
}

static const struct CMUnitTest tests[] = {
    server_test(one_write_each),
    server_test(a_try_that_is_busy_writes_nothing),
    server_test(a_permit_is_two_writes_or_one),
    server_test(a_deletion_is_told_to_the_next_one),
    proxied_test(waiters_do_not_look_after_a_renewal),
    server_test(many_locks_are_renewed_in_few_writes),
    cmocka_unit_test_setup_teardown(many_locks_at_a_server_that_takes_half_as_much_at_once, half, lk_env_end),
};

const lk_group lk_cost = {"cost", tests, sizeof tests / sizeof tests[0], NULL, NULL};
