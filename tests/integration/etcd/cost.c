/* cost.c: what is written: each write to the cluster, or transaction with writes, has a revision of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void each_grant_try_and_release_is_one_write(void **state)
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
static void a_deletion_notifies_only_the_next_waiter(void **state)
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
static void waiters_send_no_query_after_a_renewal(void **state)
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

/* Entries of the server's log. */
static int64_t entries(const lk_server *etcd)
{
    char said[2000];
    assert_true(lk_etcdctl_try(etcd, said, sizeof said, "endpoint status -w fields"));
    const char *const index = strstr(said, "\"RaftIndex\" : ");
    assert_non_null(index);
    return strtoll(index + strlen("\"RaftIndex\" : "), NULL, 10);
}

/* Have a lock handed over to a waiter FEW times. */
static void hand_over(const lk_env *env, locker *l)
{
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s");
    for (int i = 0; i < FEW; i++) {
        locker_handle *held = lk_take(holder, "lock");
        lk_locking waiter;
        lk_locking_start(&waiter, l, "lock", NULL);
        lk_etcdctl_require_count(env->etcd, "shop/lock/", 2);
        lk_require_waiting(l, 1);
        lk_give(held);
        lk_give(lk_locking_grant(&waiter));
    }
    lk_close_locker(holder);
}

/* A server that is alone reads what is so now, whatever its version. */
static void a_hand_over_reads(void **state)
{
    lk_env *env = *state;
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    const lk_passed asked = lk_proxy_passed(env->proxy, LK_EP_MEMBER);
    locker *l = lk_open_proxied(env, "/shop?ttl=60s");
    lk_proxy_await_passed(asked, 2);
    lk_give(lk_take(l, "other"));
    hand_over(env, l);
    assert_true(lk_proxy_requests(env->proxy, LK_EP_LOOK) >= FEW);
    assert_int_equal(lk_proxy_requests(env->proxy, LK_EP_ORDER), 0);
    lk_close_locker(l);
}

/* One of which that isn't known is asked in a way that it orders as a write: beside each taking and giving of a lock there is one entry. */
static void a_hand_over_is_ordered(void **state)
{
    lk_env *env = *state;
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    lk_proxy_answer(env->proxy, LK_EP_MEMBER, lk_proxy_etcd_unavailable);
    locker *l = lk_open_proxied(env, "/shop?ttl=60s");
    lk_give(lk_take(l, "other"));
    const int64_t written = revision(env->etcd), before = entries(env->etcd);
    hand_over(env, l);
    assert_true(lk_proxy_requests(env->proxy, LK_EP_ORDER) >= FEW);
    const int64_t after = entries(env->etcd);
    assert_true(after - before >= revision(env->etcd) - 1 - written + FEW);
    lk_close_locker(l);
}

/* The answer of a member that isn't the one behind the proxy, of a version whose reads are believed. */
static size_t tell_of_another(const lk_message *request, char *out, size_t size)
{
    static const char told[] = "\0\0\x01\x01\x04....\x88"
                               "\0\0\x11\0\0....\0\0\0\0\x0C\x0A\x02\x10\x01\x12\x06"
                               "3.6.20"
                               "\0\0\x0F\x01\x05....\0\x0Bgrpc-status\x01"
                               "0";
    static const size_t frames[] = {0, 10, 36};
    if (size < sizeof told)
        return 0;
    memcpy(out, told, sizeof told - 1);
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        memcpy(out + frames[i] + 5, request->bytes + 5, 4); /* the stream */
    return sizeof told - 1;
}

/* What hands each request to another member has told the version of one that does not answer the looks: those are not believed, and then
 * nobody reads first any more. */
static void a_hand_over_by_several_members_is_ordered(void **state)
{
    lk_env *env = *state;
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    lk_proxy_answer(env->proxy, LK_EP_MEMBER, tell_of_another);
    locker *l = lk_open_proxied(env, "/shop?ttl=60s");
    assert_ok(locker_ping(l, NULL, NULL), (locker_error){0}); /* the version is known then */
    lk_give(lk_take(l, "other"));
    hand_over(env, l);
    const unsigned ordered = lk_proxy_requests(env->proxy, LK_EP_ORDER);
    assert_true(ordered >= FEW);
    assert_true(lk_proxy_requests(env->proxy, LK_EP_LOOK) < 2 * ordered);
    lk_close_locker(l);
}

/* ... and so is one of an old version that has others. */
static void a_hand_over_at_one_of_three_is_ordered(void **state)
{
    lk_server *members = lk_test_etcd_ensemble(NULL, NULL);
    lk_env env = {.etcd = &members[0], .proxy = lk_proxy_begin(&lk_proxy_etcd, members[0].port)};
    const lk_passed asked = lk_proxy_passed(env.proxy, LK_EP_MEMBER);
    char told[200] = "";
    int minor = 0, patch = 0;
    (void)state;
    locker *l = lk_open_proxied(&env, "/shop?ttl=60s");
    lk_proxy_await_passed(asked, 1);
    lk_give(lk_take(l, "other"));
    hand_over(&env, l);
    assert_true(lk_server_ask(&members[0], "/version", told, sizeof told));
    const char *const version = strstr(told, "\"etcdserver\":\"3.");
    assert_non_null(version);
    assert_int_equal(sscanf(version, "\"etcdserver\":\"3.%d.%d", &minor, &patch), 2);
    const bool is_old = (minor == 4 && patch < 42) || (minor == 5 && patch < 28) || (minor == 6 && patch < 9);
    assert_in_range(lk_proxy_requests(env.proxy, LK_EP_ORDER), is_old ? FEW : 0, is_old ? 10 * FEW : 0);
    lk_close_locker(l);
    lk_proxy_free(env.proxy);
    lk_test_ensemble_free(members);
}

/* How many entries of the log it takes to show a lock FEW times. */
static int64_t entries_to_show(const lk_env *env, locker *l)
{
    locker_error err;
    const int64_t before = entries(env->etcd);
    for (int i = 0; i < FEW; i++) {
        locker_info info = LOCKER_INFO_INIT;
        assert_ok(locker_show(l, "shown", &info, &err), err);
        assert_true(info.held);
        locker_info_clear(&info);
    }
    return entries(env->etcd) - before;
}

/* What is shown, and what a break goes by, is of now: a server that is alone reads it, and one of which that isn't known orders it. */
static void a_query_of_a_lock_is_ordered(void **state)
{
    lk_env *env = *state;
    lk_forge *const answers[] = {NULL, lk_proxy_etcd_unavailable, tell_of_another};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
        const lk_passed asked = lk_proxy_passed(env->proxy, LK_EP_MEMBER);
        if (answers[i] != NULL)
            lk_proxy_answer(env->proxy, LK_EP_MEMBER, answers[i]);
        locker *l = lk_open_proxied(env, "/shop?ttl=60s");
        if (answers[i] == NULL)
            lk_proxy_await_passed(asked, 2);
        assert_ok(locker_ping(l, NULL, NULL), (locker_error){0}); /* a forged version is known then */
        locker_handle *held = lk_take(l, "shown");
        const int64_t count = entries_to_show(env, l);
        assert_int_equal(count, answers[i] == NULL ? 0 : FEW);
        assert_ok(locker_break(l, "shown", NULL, NULL, NULL), (locker_error){0});
        lk_give_lost(held);
        lk_close_locker(l);
        lk_proxy_free(env->proxy);
        env->proxy = NULL;
    }
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
    server_test(each_grant_try_and_release_is_one_write),
    server_test(a_try_that_is_busy_writes_nothing),
    server_test(a_permit_is_two_writes_or_one),
    server_test(a_deletion_notifies_only_the_next_waiter),
    proxied_test(waiters_send_no_query_after_a_renewal),
    server_test(a_hand_over_reads),
    server_test(a_hand_over_is_ordered),
    server_test(a_hand_over_by_several_members_is_ordered),
    cmocka_unit_test(a_hand_over_at_one_of_three_is_ordered),
    server_test(a_query_of_a_lock_is_ordered),
    server_test(many_locks_are_renewed_in_few_writes),
    cmocka_unit_test_setup_teardown(many_locks_at_a_server_that_takes_half_as_much_at_once, half, lk_env_end),
};

const lk_group lk_cost = {"cost", tests, sizeof tests / sizeof tests[0], NULL, NULL};
