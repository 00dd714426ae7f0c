/* sharing.c: readers, writers and permits: whom the names of nodes keep out, what a break of one of several leaves, and the
 * exchange of a place for a permit, whatever becomes of its answer. All tests share one server. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "zk_tests.h"

static lk_server *server;

static int start_server(void **state)
{
    (void)state;
    server = lk_test_zookeeper(LK_LOGIN_NONE);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    lk_test_free(server);
    server = NULL;
    return 0;
}

static int begin(void **state)
{
    if (lk_env_empty(state) != 0)
        return -1;
    lk_env *const env = *state;
    env->zk = server;
    env->client = lk_zkc_open(server);
    env->proxy = lk_proxy_begin(&lk_proxy_zookeeper, server->port);
    return 0;
}

static int end(void **state)
{
    lk_env *const env = *state;
    if (env != NULL)
        env->zk = NULL; /* the group's */
    return lk_env_end(state);
}

static locker_lock_options shared(void)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    options.mode = LOCKER_SHARED;
    return options;
}

static locker_lock_options permit(int32_t permits)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    options.permits = permits;
    return options;
}

static locker_handle *take(locker *l, const char *key, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_ok(locker_lock(l, key, options, &held, &err), err);
    return held;
}

static locker_status try_once(locker *l, const char *key, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    const locker_status status = locker_try_lock(l, key, options, &held, NULL);
    locker_handle_free(held);
    return status;
}

/* ------------------------------------------------------------------ names ---- */

/* Any two of ours keep each other out unless both share, whatever their settings are. */
static void ours_exclude_ours_whatever_the_names(void **state)
{
    lk_env *env = *state;
    locker *l[] = {lk_open_at(env->zk, "/shop"), lk_open_at(env->zk, "/shop?names=readwrite")};
    const locker_lock_options modes[] = {lk_wait_options(LK_TEST_PATIENCE_MS), shared()};
    for (unsigned i = 0; i < 16; i++) {
        locker *const first = l[i & 1], *const second = l[i >> 1 & 1];
        const locker_lock_options *const a = &modes[i >> 2 & 1], *const b = &modes[i >> 3 & 1];
        const bool both_share = a->mode == LOCKER_SHARED && b->mode == LOCKER_SHARED;
        if (first == second && !both_share)
            continue; /* core's own book says so */
        locker_handle *held = take(first, "names", a);
        assert_int_equal(try_once(second, "names", b), both_share ? LOCKER_OK : LOCKER_BUSY);
        lk_give(held);
    }
    lk_close_locker(l[0]);
    lk_close_locker(l[1]);
}

static void names_are_mutex_or_readwrite(void **state)
{
    lk_env *env = *state;
    char uri[96];
    locker *l = NULL;
    locker_error err;
    snprintf(uri, sizeof uri, "zookeeper://127.0.0.1:%d/shop?names=kazoo", env->zk->port);
    assert_status(LOCKER_CONFIG, locker_open(uri, NULL, &l, &err), err);
    assert_non_null(strstr(err.text, "names=mutex or names=readwrite"));
}

/* kazoo's readers keep our writers out, and not our readers. */
static void kazoos_readers_share(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop");
    const locker_lock_options reads = shared();
    char made[LK_ZKC_NAME_MAX];
    lk_give(lk_take(l, "rlock"));
    assert_int_equal(
        lk_zkc_create(env->client, "/shop/rlock/0123456789__rlock__", "", LK_ZKC_EPHEMERAL_SEQUENTIAL, made),
        LK_ZKC_OK);
    assert_int_equal(try_once(l, "rlock", NULL), LOCKER_BUSY);
    assert_int_equal(try_once(l, "rlock", &reads), LOCKER_OK);
    assert_int_equal(lk_zkc_delete(env->client, made), LK_ZKC_OK);
    lk_give(lk_take(l, "rlock"));
    lk_close_locker(l);
}

/* A look tells them all, and a break ends them all, or the last one, who is named. */
static void more_than_a_thousand_readers(void **state)
{
    enum { READERS = 1100 };
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?command_timeout=60s");
    locker_info info = LOCKER_INFO_INIT;
    locker_break_options last = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    char made[LK_ZKC_NAME_MAX];
    lk_give(lk_take(l, "many"));
    for (int i = 0; i < READERS; i++)
        assert_int_equal(lk_zkc_create(env->client, "/shop/many/0123456789__rlock__", "",
                                       LK_ZKC_EPHEMERAL_SEQUENTIAL, made),
                         LK_ZKC_OK);
    assert_ok(locker_show(l, "many", &info, &err), err);
    assert_int_equal(info.holders_len, READERS);
    assert_int_equal(info.waiters, 0);
    last.token = info.holders[READERS - 1].token;
    locker_info_clear(&info);
    assert_ok(locker_break(l, "many", &last, &info, &err), err);
    assert_int_equal(info.holders_len, 1);
    assert_int_equal(info.holders[0].token, last.token);
    locker_info_clear(&info);
    assert_ok(locker_break(l, "many", NULL, &info, &err), err);
    assert_int_equal(info.holders_len, READERS - 1);
    locker_info_clear(&info);
    lk_zkc_require_count(env->client, "/shop/many", 0);
    lk_close_locker(l);
}

/* Whom a reader waits for has gone, and another writer stands before that one. */
static void a_reader_lists_again_when_its_writer_has_gone(void **state)
{
    lk_env *env = *state;
    locker *l[] = {lk_open_at(env->zk, "/shop"), lk_open_at(env->zk, "/shop"), lk_open_at(env->zk, "/shop")};
    locker_lock_options reads = shared(), writes = lk_wait_options(-1);
    locker_handle *held = lk_take(l[0], "between");
    lk_locking writer, reader;
    writes.cancel = locker_cancel_new();
    lk_locking_start(&writer, l[1], "between", &writes);
    lk_zkc_require_count(env->client, "/shop/between", 2);
    lk_locking_start(&reader, l[2], "between", &reads);
    lk_zkc_require_count(env->client, "/shop/between", 3);
    lk_require_waiting(l[2], 1);
    const uint64_t attempts = lk_stats(l[2]).attempts;
    locker_cancel_fire(writes.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&writer), writer.err);
    lk_zkc_require_count(env->client, "/shop/between", 2);
    assert_int_equal(try_once(l[1], "between", &reads), LOCKER_BUSY); /* a round trip, behind the deletion */
    assert_int_equal(lk_stats(l[2]).waiting, 1);
    assert_true(lk_stats(l[2]).attempts <= attempts + 1);
    lk_give(held);
    lk_give(lk_locking_grant(&reader));
    locker_cancel_free(writes.cancel);
    for (int i = 0; i < 3; i++)
        lk_close_locker(l[i]);
}

/* ------------------------------------------------------------------ breaks ---- */

/* The greater token was broken first, and its release, which was lost on the way, asks after the other was. */
static void a_mark_does_not_go_back(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->zk, "/shop"), *b = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s");
    const locker_lock_options reads = shared();
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker_info broken = LOCKER_INFO_INIT;
    locker_error err;
    lk_unlocking unlocking;
    locker_handle *first = take(a, "marks", &reads), *second = take(b, "marks", &reads);
    assert_true(locker_handle_token(second) > locker_handle_token(first));
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_ZKP_DELETE, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_unlocking_start(&unlocking, second);
    lk_proxy_await_harm(env->proxy, 1);
    only.token = locker_handle_token(second);
    assert_ok(locker_break(a, "marks", &only, &broken, &err), err);
    assert_int_equal(broken.holders_len, 1);
    assert_int_equal(locker_info_holder(&broken, 0)->token, only.token);
    locker_info_clear(&broken);
    only.token = locker_handle_token(first);
    assert_ok(locker_break(a, "marks", &only, NULL, &err), err);
    lk_proxy_refuse(env->proxy, false);
    assert_status(LOCKER_LOST, lk_unlocking_join(&unlocking), unlocking.err);
    lk_require_state(first, LOCKER_STATE_LOST);
    lk_give_lost(first);
    locker_handle_free(second);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* ------------------------------------------------------------------ permits ---- */

static void require_none_taken(lk_env *env, const char *key)
{
    char path[64];
    snprintf(path, sizeof path, "/shop/%s/leases", key);
    lk_zkc_require_count(env->client, path, 0);
    snprintf(path, sizeof path, "/shop/%s/locks", key);
    lk_zkc_require_count(env->client, path, 0);
}

/* The exchange, or the read behind it, is harmed: there is one permit, and nothing else, and its slot is nobody else's. */
static void survive(lk_env *env, const char *key, lk_harm harm, const char *kind, unsigned harms)
{
    locker *l = lk_open_through(env, harm == LK_PROXY_SWALLOW ? "/shop?ttl=4s&command_timeout=20s"
                                                              : "/shop?ttl=20s&command_timeout=20s"),
           *other = lk_open_at(env->zk, "/shop");
    const locker_lock_options two = permit(2);
    char path[64];
    locker_handle *beside = take(other, key, &two);
    lk_proxy_harm(env->proxy, harm, kind, 1, 0);
    locker_handle *held = take(l, key, &two);
    lk_proxy_await_harm(env->proxy, harms);
    assert_int_equal(locker_handle_slot(held), 1);
    assert_true(locker_handle_token(held) > locker_handle_token(beside));
    snprintf(path, sizeof path, "/shop/%s/leases", key);
    lk_zkc_require_count(env->client, path, 2);
    assert_int_equal(try_once(other, key, &two), LOCKER_BUSY);
    lk_give(held);
    lk_give(beside);
    require_none_taken(env, key);
    lk_close_locker(other);
    lk_close_locker(l);
}

static void the_answer_to_an_exchange_is_lost(void **state)
{
    survive(*state, "exchange-cut", LK_PROXY_CUT, LK_ZKP_MULTI, 1);
    survive(*state, "exchange-withheld", LK_PROXY_WITHHOLD, LK_ZKP_MULTI, 2);
    survive(*state, "exchange-garbage", LK_PROXY_GARBAGE, LK_ZKP_MULTI, 3);
    survive(*state, "exchange-read", LK_PROXY_CUT, LK_ZKP_GET, 4);
    survive(*state, "exchange-create", LK_PROXY_CUT, LK_ZKP_CREATE2, 5);
    survive(*state, "exchange-silent", LK_PROXY_SWALLOW, LK_ZKP_MULTI, 6);
}

/* Whoever gives up while the answer is out leaves neither a place nor a permit: where it was executed, and where it wasn't. */
static void a_canceled_exchange_leaves_nothing(void **state)
{
    lk_env *env = *state;
    static const lk_harm harms[] = {LK_PROXY_CUT, LK_PROXY_WITHHOLD};
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    for (unsigned i = 0; i < 2; i++) {
        locker_lock_options one = permit(1);
        lk_locking waiter;
        one.cancel = locker_cancel_new();
        lk_proxy_harm(env->proxy, harms[i], LK_ZKP_MULTI, 1, 0);
        lk_proxy_refuse(env->proxy, true); /* who connects */
        lk_locking_start(&waiter, l, "given-up", &one);
        lk_proxy_await_harm(env->proxy, i + 1);
        locker_cancel_fire(one.cancel);
        assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
        assert_int_equal(lk_zkc_count(env->client, "/shop/given-up/leases") +
                             lk_zkc_count(env->client, "/shop/given-up/locks"),
                         1);
        lk_proxy_refuse(env->proxy, false);
        require_none_taken(env, "given-up");
        locker_cancel_free(one.cancel);
    }
    lk_close_locker(l);
}

typedef struct {
    lk_env *env;
    const char *path;
} node_at;

static bool is_gone(void *context)
{
    const node_at *const node = context;
    return lk_zkc_get(node->env->client, node->path, NULL, 0, NULL) == LK_ZKC_NONODE;
}

static bool is_there(void *context)
{
    return !is_gone(context);
}

/* A server removes an empty container only if it has had a child. So a claim that ends before it has a permit leaves no parent of
 * permits: neither where it only waited, nor where its exchange was sent and never arrived. */
static void a_claim_without_a_permit_leaves_no_parent(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    locker_lock_options one = permit(1), soon = permit(1);
    node_at waited = {env, "/shop/waited/leases"}, sent = {env, "/shop/sent/leases"};
    locker_handle *held = NULL;
    locker_error err;
    lk_locking waiter;
    static const char *const ahead[] = {"/shop", "/shop/waited", "/shop/waited/locks",
                                        "/shop/waited/locks/x-lock-0000000000"};
    for (unsigned i = 0; i < 4; i++)
        (void)lk_zkc_create(env->client, ahead[i], "", LK_ZKC_PLAIN, NULL);
    soon.wait_ms = 200;
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "waited", &soon, &held, &err), err);
    assert_true(is_gone(&waited));
    one.cancel = locker_cancel_new();
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_ZKP_MULTI, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_locking_start(&waiter, l, "sent", &one);
    lk_proxy_await_harm(env->proxy, 1);
    lk_require(is_there, &sent, "the parent that was sent before the exchange should be made");
    locker_cancel_fire(one.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    lk_proxy_refuse(env->proxy, false);
    lk_require(is_gone, &sent, "the parent of permits should be deleted");
    locker_cancel_free(one.cancel);
    lk_close_locker(l);
}

/* A client of another kind stands in the queue and takes none of the two permits. Who comes behind it can have none: a try says so
 * soon, and leaves nothing. */
static void a_try_behind_a_client_that_takes_no_permit_is_busy(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?command_timeout=20s");
    const locker_lock_options two = permit(2);
    static const char *const ahead[] = {"/shop", "/shop/idle", "/shop/idle/locks",
                                        "/shop/idle/locks/x-lock-0000000000"};
    for (unsigned i = 0; i < 4; i++)
        (void)lk_zkc_create(env->client, ahead[i], "", LK_ZKC_PLAIN, NULL);
    assert_timely_from();
    const int64_t began = lk_test_now_ms();
    assert_int_equal(try_once(l, "idle", &two), LOCKER_BUSY);
    const int64_t took = lk_test_now_ms() - began;
    assert_true(took >= 200);
    assert_timely(took, 2000);
    lk_zkc_require_count(env->client, "/shop/idle/locks", 1);
    assert_int_equal(lk_zkc_delete(env->client, ahead[3]), LK_ZKC_OK);
    assert_int_equal(try_once(l, "idle", &two), LOCKER_OK);
    lk_close_locker(l);
}

/* A server removes containers that have been empty for a while: each is made again. */
static void parents_of_permits_are_made_again(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop");
    const locker_lock_options two = permit(2);
    lk_give(take(l, "parents", &two));
    assert_int_equal(lk_zkc_delete(env->client, "/shop/parents/leases"), LK_ZKC_OK);
    lk_give(take(l, "parents", &two));
    assert_int_equal(lk_zkc_delete(env->client, "/shop/parents/leases"), LK_ZKC_OK);
    assert_int_equal(lk_zkc_delete(env->client, "/shop/parents/locks"), LK_ZKC_OK);
    assert_int_equal(lk_zkc_delete(env->client, "/shop/parents"), LK_ZKC_OK);
    lk_give(take(l, "parents", &two));
    lk_close_locker(l);
}

/* The head of the queue hears of a permit that came back while it had no connection, and of one whose session was ended. */
static void the_head_counts_again(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s"), *other = lk_open_at(env->zk, "/shop");
    const locker_lock_options one = permit(1);
    locker_handle *held = take(other, "head", &one);
    lk_locking waiter;
    lk_locking_start(&waiter, l, "head", &one);
    lk_require_waiting(l, 1);
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_give(held);
    lk_proxy_refuse(env->proxy, false);
    held = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_slot(held), 0);
    lk_locking_start(&waiter, other, "head", &one);
    lk_require_waiting(other, 1);
    lk_zkc_end_session(env->zk, lk_session_of(env->client, "/shop/head/leases", 0));
    lk_give(lk_locking_grant(&waiter));
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give_lost(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* A call that wants to use a key in another way is refused. Earlier holders and waiters are not. */
static void the_younger_use_is_refused(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->zk, "/shop"), *b = lk_open_at(env->zk, "/shop"),
           *c = lk_open_at(env->zk, "/shop");
    const locker_lock_options one = permit(1), two = permit(2), plain = lk_wait_options(LK_TEST_PATIENCE_MS);
    const locker_lock_options *const uses[][3] = {{&one, &plain, &two}, {&plain, &one, &two}};
    for (unsigned i = 0; i < 2; i++) {
        locker_handle *held = take(a, "uses", uses[i][0]), *none = NULL;
        locker_error err;
        lk_locking waiter;
        lk_locking_start(&waiter, b, "uses", uses[i][0]);
        lk_require_waiting(b, 1);
        assert_status(LOCKER_CONFIG, locker_lock(c, "uses", uses[i][1], &none, &err), err);
        assert_status(LOCKER_CONFIG, locker_lock(c, "uses", uses[i][2], &none, &err), err);
        assert_status(LOCKER_CONFIG, locker_try_lock(c, "uses", uses[i][2], &none, &err), err);
        lk_give(held);
        lk_give(lk_locking_grant(&waiter));
    }
    lk_close_locker(c);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* Another client's place at the head of the queue. It says that there are so many permits, and takes none. */
static void stand_for(lk_env *env, const char *key, int32_t permits, char *made)
{
    char path[96];
    snprintf(path, sizeof path, "/shop/%s/locks/_c_12345678-1234-1234-1234-123456789abc-of%d-lock-", key,
             permits);
    assert_int_equal(lk_zkc_create(env->client, path, "", LK_ZKC_EPHEMERAL_SEQUENTIAL, made), LK_ZKC_OK);
}

/* A permit is held. A call that names another number of permits stands in the queue until it has counted, and holds nothing. */
static void a_call_with_the_number_of_permits_of_the_holder_is_not_refused(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->zk, "/shop"), *b = lk_open_at(env->zk, "/shop");
    const locker_lock_options three = permit(3);
    char made[LK_ZKC_NAME_MAX];
    locker_handle *held = take(a, "number", &three);
    stand_for(env, "number", 2, made);
    lk_locking waiter;
    lk_locking_start(&waiter, b, "number", &three);
    lk_require_waiting(b, 1);
    lk_zkc_require_count(env->client, "/shop/number/locks", 2);
    lk_pause_ms(100);
    assert_int_equal(lk_zkc_delete(env->client, made), LK_ZKC_OK);
    lk_give(lk_locking_grant(&waiter));
    lk_give(held);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* The permit is given back, so the first in the queue says how many there are. The second waiter finds that when the first one leaves. */
static void a_waiter_is_refused_when_its_number_is_used_no_more(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->zk, "/shop"), *b = lk_open_at(env->zk, "/shop");
    locker_lock_options three = permit(3), brief = permit(3);
    char made[LK_ZKC_NAME_MAX];
    locker_handle *held = take(a, "changes", &three);
    stand_for(env, "changes", 2, made);
    brief.wait_ms = 1000;
    lk_locking first, second;
    lk_locking_start(&first, b, "changes", &brief);
    lk_require_waiting(b, 1);
    lk_zkc_require_count(env->client, "/shop/changes/locks", 2);
    lk_locking_start(&second, b, "changes", &three);
    lk_require_waiting(b, 2);
    lk_zkc_require_count(env->client, "/shop/changes/locks", 3);
    lk_give(held);
    assert_status(LOCKER_TIMEOUT, lk_locking_join(&first), first.err);
    assert_status(LOCKER_CONFIG, lk_locking_join(&second), second.err);
    assert_int_equal(lk_zkc_delete(env->client, made), LK_ZKC_OK);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* No permit is held, so the first in the queue says how many there are. The second call of a locker stands behind the first one, and
 * asks for no list for that. */
static void a_call_with_another_number_of_permits_than_the_first_is_refused(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop");
    const locker_lock_options two = permit(2), three = permit(3);
    char made[LK_ZKC_NAME_MAX];
    locker_handle *none = NULL;
    locker_error err;
    lk_give(take(l, "first", &two)); /* the nodes for permits are there */
    stand_for(env, "first", 2, made);
    lk_locking waiter;
    lk_locking_start(&waiter, l, "first", &two);
    lk_require_waiting(l, 1);
    assert_status(LOCKER_CONFIG, locker_lock(l, "first", &three, &none, &err), err);
    assert_non_null(strstr(err.text, "in use with 2 permits, but this call says 3"));
    assert_int_equal(lk_zkc_delete(env->client, made), LK_ZKC_OK);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

/* A node of a lock's that is younger than a waiter's place, and was left there by a client that looks for no permits. */
static void a_younger_lock_does_not_refuse_a_waiter(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->zk, "/shop"), *b = lk_open_at(env->zk, "/shop");
    const locker_lock_options one = permit(1);
    char intruder[LK_ZKC_NAME_MAX];
    locker_handle *held = take(a, "intruder", &one);
    lk_locking first, second;
    lk_locking_start(&first, b, "intruder", &one);
    lk_require_waiting(b, 1);
    lk_locking_start(&second, b, "intruder",
                     &one); /* at its head for the first time when the intruder is there */
    lk_require_waiting(b, 2);
    assert_int_equal(
        lk_zkc_create(env->client, "/shop/intruder/x-lock-", "", LK_ZKC_EPHEMERAL_SEQUENTIAL, intruder),
        LK_ZKC_OK);
    lk_give(held);
    lk_give(lk_locking_grant(&first));
    lk_give(lk_locking_grant(&second));
    assert_int_equal(try_once(a, "intruder", &one), LOCKER_CONFIG); /* the key is a lock now */
    assert_int_equal(lk_zkc_delete(env->client, intruder), LK_ZKC_OK);
    assert_int_equal(try_once(a, "intruder", &one), LOCKER_OK);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* The session of the one lock's node beside those for permits. */
static int64_t session_of_contender(lk_env *env, const char *parent)
{
    char path[LK_ZKC_NAME_MAX];
    for (size_t n = 0; n < 2; n++) {
        lk_zkc_nth(env->client, parent, n, path);
        if (strstr(path, "-lock-") != NULL)
            return lk_session_of(env->client, parent, n);
    }
    return lk_session_of(env->client, parent, 2);
}

/* A waiter's session ends, so its place does: that nobody had permits before that one says nothing of the next. */
static void a_new_place_is_checked_anew(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s"), *other = lk_open_at(env->zk, "/shop");
    const locker_lock_options one = permit(1), plain = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_give(take(other, "anew", &one)); /* the nodes for permits are there */
    locker_handle *held = lk_take(other, "anew");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "anew", &plain);
    lk_require_waiting(l, 1);
    lk_zkc_require_count(env->client, "/shop/anew", 4);
    lk_pause_ms(300); /* it has looked for permits */
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_give(held);
    lk_zkc_end_session(env->zk, session_of_contender(env, "/shop/anew"));
    lk_zkc_require_count(env->client, "/shop/anew", 2);
    held = take(other, "anew", &one);
    lk_proxy_refuse(env->proxy, false);
    assert_status(LOCKER_CONFIG, lk_locking_join(&waiter), waiter.err);
    lk_give(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* A lock that comes sees a place in the queue for permits, which has gone when it is asked for its age: to a permit. */
static void a_place_that_has_gone_may_be_a_permit(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s"),
           *other = lk_open_at(env->zk, "/shop");
    const locker_lock_options one = permit(1), plain = lk_wait_options(LK_TEST_PATIENCE_MS);
    char place[LK_ZKC_NAME_MAX], taken[LK_ZKC_NAME_MAX];
    lk_give(take(other, "moves", &one));
    assert_int_equal(
        lk_zkc_create(env->client, "/shop/moves/locks/x-lock-", "", LK_ZKC_EPHEMERAL_SEQUENTIAL, place),
        LK_ZKC_OK);
    const lk_passed since = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
    lk_locking waiter;
    lk_proxy_delay(env->proxy, 600, 0);
    lk_locking_start(&waiter, l, "moves", &plain);
    lk_proxy_await_passed(since, 3); /* with its place, and the two of the check; its question comes next */
    lk_pause_ms(150);
    assert_int_equal(
        lk_zkc_create(env->client, "/shop/moves/leases/lease-", "", LK_ZKC_EPHEMERAL_SEQUENTIAL, taken),
        LK_ZKC_OK);
    assert_int_equal(lk_zkc_delete(env->client, place), LK_ZKC_OK);
    if (!assert_unless_late(lk_locking_join(&waiter) == LOCKER_CONFIG)) /* the question was answered before */
        locker_handle_free(waiter.held);
    lk_proxy_delay(env->proxy, 0, 0);
    assert_int_equal(lk_zkc_delete(env->client, taken), LK_ZKC_OK);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* Of this thread's next requests, the one with this number finds its connection broken. 0: none does. */
static _Thread_local int broken_send;

/* Of the whole program, exported to the libraries that it loads (CMakeLists.txt), instead of the C library's. */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    const bool begins = size == sizeof(int32_t); /* the client library sends a request's length first */
    if (begins && broken_send > 0 && --broken_send == 0) {
        errno = ECONNRESET;
        return -1;
    }
    return sendto(fd, bytes, size, flags, NULL, 0);
}

/* Of several requests that are sent together, one finds the connection broken. The client library keeps that for the next
 * connection. The requests behind it are not sent, and what they ask for is not missing at the service. A look has seven: two for
 * the list of the key's node, then the record, the lists of places and of permits, and the two permits. */
static void requests_that_are_not_sent_prove_nothing(void **state)
{
    enum { QUESTIONS = 7 };
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?ttl=20s&command_timeout=20s"),
           *asks = lk_open_at(env->zk, "/shop?ttl=20s&command_timeout=20s");
    const locker_lock_options two = permit(2);
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_give(lk_take(asks, "begun"));
    for (int i = 1; i <= QUESTIONS; i++) {
        locker_handle *held[] = {take(l, "unsent", &two), take(l, "unsent", &two)};
        broken_send = i;
        assert_ok(locker_show(asks, "unsent", &info, &err), err);
        assert_int_equal(broken_send, 0);
        assert_int_equal(info.holders_len, 2);
        locker_info_clear(&info);
        broken_send = i;
        assert_ok(locker_break(asks, "unsent", NULL, &info, &err), err);
        assert_int_equal(broken_send, 0);
        assert_int_equal(info.holders_len, 2);
        locker_info_clear(&info);
        for (int n = 0; n < 2; n++) {
            lk_require_state(held[n], LOCKER_STATE_LOST);
            lk_give_lost(held[n]);
        }
    }
    lk_close_locker(asks);
    lk_close_locker(l);
}

/* A call for a lock lists the permits first. A list that is lost has not shown that no permit is taken: the lock is refused. */
static void a_lost_check_grants_no_lock_beside_a_permit(void **state)
{
    enum { REQUESTS = 8, LISTS = 5 };
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?ttl=20s&command_timeout=20s"),
           *plain = lk_open_at(env->zk, "/shop?ttl=20s&command_timeout=20s"),
           *cut = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    const locker_lock_options one = permit(1), waits = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held = take(l, "unchecked", &one), *none = NULL;
    for (int i = 1; i <= REQUESTS; i++) {
        broken_send = i;
        assert_int_equal(try_once(plain, "unchecked", NULL), LOCKER_CONFIG);
        broken_send = i;
        assert_int_equal(locker_lock(plain, "unchecked", &waits, &none, NULL), LOCKER_CONFIG);
        broken_send = 0;
    }
    for (unsigned i = 1; i <= LISTS; i++) {
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_LIST, i, 0);
        assert_int_equal(try_once(cut, "unchecked", NULL), LOCKER_CONFIG);
        lk_proxy_harm_none(env->proxy);
    }
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(cut);
    lk_close_locker(plain);
    lk_close_locker(l);
}

/* A call for a lock that is refused has a place for a moment: show and break are about the permits all the same. */
static void a_refused_lock_hides_no_permit(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop"), *asks = lk_open_at(env->zk, "/shop");
    const locker_lock_options two = permit(2);
    char made[LK_ZKC_NAME_MAX];
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    locker_handle *held[] = {take(l, "beside", &two), take(l, "beside", &two)};
    assert_int_equal(
        lk_zkc_create(env->client, "/shop/beside/x-lock-", "", LK_ZKC_EPHEMERAL_SEQUENTIAL, made), LK_ZKC_OK);
    assert_ok(locker_show(asks, "beside", &info, &err), err);
    assert_int_equal(info.holders_len, 2);
    assert_int_equal(info.permits, 2);
    assert_int_equal(info.waiters, 0);
    locker_info_clear(&info);
    assert_ok(locker_break(asks, "beside", NULL, &info, &err), err);
    assert_int_equal(info.holders_len, 2);
    locker_info_clear(&info);
    for (int i = 0; i < 2; i++) {
        lk_require_state(held[i], LOCKER_STATE_LOST);
        lk_give_lost(held[i]);
    }
    assert_int_equal(lk_zkc_delete(env->client, made), LK_ZKC_OK);
    lk_close_locker(asks);
    lk_close_locker(l);
}

typedef struct {
    locker *l;
    const char *key;
    locker_info info;
    locker_status status;
    pthread_t thread;
} showing;

static void *show_it(void *context)
{
    showing *const s = context;
    s->status = locker_show(s->l, s->key, &s->info, NULL);
    return NULL;
}

/* The holder that was listed has gone when it is read, and the next one holds the key: show looks again. */
static void a_hand_over_during_show(void **state)
{
    lk_env *env = *state;
    for (int32_t permits = 0; permits < 2; permits++) {
        const char *const key = permits > 0 ? "over-permit" : "over-lock";
        locker *a = lk_open_at(env->zk, "/shop"), *b = lk_open_at(env->zk, "/shop"),
               *asks = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
        const locker_lock_options options = permit(permits);
        showing s = {.l = asks, .key = key, .info = LOCKER_INFO_INIT};
        lk_locking waiter;
        locker_handle *held = take(a, key, &options);
        if (permits > 0) {
            lk_locking_start(&waiter, b, key, &options);
            lk_require_waiting(b, 1);
        }
        const lk_passed since = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
        lk_proxy_delay(env->proxy, 600, 0); /* requests are late: the reads come after the hand-over */
        assert_int_equal(pthread_create(&s.thread, NULL, show_it, &s), 0);
        lk_proxy_await_passed(since, permits > 0 ? 3 : 1);
        lk_pause_ms(150);
        if (permits == 0) {
            lk_locking_start(&waiter, b, key, &options);
            lk_require_waiting(b, 1);
        }
        lk_give(held);
        held = lk_locking_grant(&waiter);
        (void)pthread_join(s.thread, NULL);
        assert_int_equal(s.status, LOCKER_OK);
        assert_true(s.info.held);
        assert_int_equal(s.info.token, locker_handle_token(held));
        locker_info_clear(&s.info);
        lk_proxy_delay(env->proxy, 0, 0);
        lk_give(held);
        lk_close_locker(asks);
        lk_close_locker(b);
        lk_close_locker(a);
    }
}

/* Both permits change hands between show's list and its reads. One is held at every moment: show does not report a free key because the
 * last waiter still waits. */
static void permits_change_hands_during_show(void **state)
{
    enum { WAITERS = 3 };
    lk_env *env = *state;
    locker *l[2 + WAITERS], *asks = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    const locker_lock_options two = permit(2);
    showing s = {.l = asks, .key = "both-move", .info = LOCKER_INFO_INIT};
    lk_locking waiters[WAITERS];
    for (int i = 0; i < 2 + WAITERS; i++)
        l[i] = lk_open_at(env->zk, "/shop");
    locker_handle *held[] = {take(l[0], s.key, &two), take(l[1], s.key, &two)};
    for (int i = 0; i < WAITERS; i++) {
        lk_locking_start(&waiters[i], l[2 + i], s.key, &two);
        lk_zkc_require_count(env->client, "/shop/both-move/locks", (size_t)i + 1);
    }
    const lk_passed since = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
    lk_proxy_delay(env->proxy, 600, 0);
    assert_int_equal(pthread_create(&s.thread, NULL, show_it, &s), 0);
    lk_proxy_await_passed(since, 3);
    lk_pause_ms(100);
    for (int i = 0; i < 2; i++) {
        lk_give(held[i]);
        held[i] = lk_locking_grant(&waiters[i]);
    }
    (void)pthread_join(s.thread, NULL);
    assert_int_equal(s.status, LOCKER_OK);
    assert_true(s.info.held);
    assert_int_equal(s.info.waiters, 1);
    locker_info_clear(&s.info);
    lk_proxy_delay(env->proxy, 0, 0);
    lk_give(held[0]);
    lk_give(lk_locking_grant(&waiters[2]));
    lk_give(held[1]);
    lk_close_locker(asks);
    for (int i = 0; i < 2 + WAITERS; i++)
        lk_close_locker(l[i]);
}

typedef struct {
    lk_env *env;
    pthread_t thread;
    atomic_bool *stops;
} passing_on;

/* Lock while another waits, again and again. */
static void *pass_on(void *context)
{
    passing_on *const p = context;
    locker *l = lk_open_at(p->env->zk, "/shop");
    lk_zkc *client = lk_zkc_open(server);
    while (!atomic_load(p->stops)) {
        locker_handle *held = NULL;
        if (locker_lock(l, "passed-on", NULL, &held, NULL) != LOCKER_OK)
            continue;
        while (!atomic_load(p->stops) && lk_zkc_count(client, "/shop/passed-on") < 2)
            continue;
        locker_handle_free(held);
    }
    lk_zkc_close(client);
    lk_close_locker(l);
    return NULL;
}

/* A key that changes hands faster than it can be read: show says that it is held, and a break that it is overtaken. Neither asks until
 * its time is over. */
static void a_key_that_changes_hands_all_the_time(void **state)
{
    lk_env *env = *state;
    atomic_bool stops = false;
    passing_on threads[2];
    locker *asks = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    for (int i = 0; i < 2; i++) {
        threads[i] = (passing_on){.env = env, .stops = &stops};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, pass_on, &threads[i]), 0);
    }
    lk_zkc_require_count(env->client, "/shop/passed-on", 2);
    lk_proxy_delay(env->proxy, 30, 0);
    assert_ok(locker_show(asks, "passed-on", &info, &err), err);
    assert_true(info.held);
    locker_info_clear(&info);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_LIST, 14,
                  0); /* the connection is lost once, after many looks */
    assert_ok(locker_show(asks, "passed-on", &info, &err), err);
    locker_info_clear(&info);
    lk_proxy_harm_none(env->proxy);
    const locker_status status = locker_break(asks, "passed-on", NULL, &info, &err);
    assert_true(status == LOCKER_BUSY || status == LOCKER_OK);
    locker_info_clear(&info);
    lk_proxy_delay(env->proxy, 0, 0);
    atomic_store(&stops, true);
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i].thread, NULL);
    lk_close_locker(asks);
}

/* No permit is taken. A call for a permit came first, so the call for a lock behind it is refused: it is not the holder. */
static void a_younger_lock_is_not_the_holder(void **state)
{
    lk_env *env = *state;
    locker *first = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s"),
           *second = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s"),
           *asks = lk_open_at(env->zk, "/shop");
    const locker_lock_options one = permit(1), plain = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking permits, locks;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_give(take(first, "younger", &one));
    lk_proxy_delay(env->proxy, 600, 0);
    lk_locking_start(&permits, first, "younger", &one);
    lk_zkc_require_count(env->client, "/shop/younger/locks", 1);
    lk_locking_start(&locks, second, "younger", &plain);
    lk_zkc_require_count(env->client, "/shop/younger", 3);
    const locker_status shown = locker_show(asks, "younger", &info, &err),
                        broken = locker_break(asks, "younger", NULL, NULL, NULL);
    const bool held = info.held;
    locker_info_clear(&info);
    locker_handle *const taken = lk_locking_grant(&permits);
    assert_status(LOCKER_CONFIG, lk_locking_join(&locks), locks.err);
    if (assert_unless_late(shown == LOCKER_OK && !held)) /* else the permit was taken before */
        assert_int_equal(broken, LOCKER_INVALID);
    lk_proxy_delay(env->proxy, 0, 0);
    lk_give(taken);
    lk_close_locker(asks);
    lk_close_locker(second);
    lk_close_locker(first);
}

static void make_plain(lk_env *env, const char *path)
{
    (void)lk_zkc_create(env->client, path, "", LK_ZKC_PLAIN, NULL);
}

static void make_place(lk_env *env, const char *path, char *made)
{
    assert_int_equal(lk_zkc_create(env->client, path, "", LK_ZKC_EPHEMERAL_SEQUENTIAL, made), LK_ZKC_OK);
}

/* A reader holds the key. A call for a permit comes, and then another reader, which is refused because of the permit: it is no holder,
 * and is not broken. */
static void a_reader_behind_a_permit_is_not_a_holder(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop"), *asks = lk_open_at(env->zk, "/shop"),
           *slow = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    const locker_lock_options reads = shared();
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    char made[LK_ZKC_NAME_MAX];
    lk_locking second;
    lk_give(lk_take(slow, "warm"));
    locker_handle *held = take(l, "behind-permit", &reads);
    make_plain(env, "/shop/behind-permit/locks");
    make_place(env, "/shop/behind-permit/locks/x-lock-", made);
    lk_proxy_delay(env->proxy, 500, 0);
    lk_locking_start(&second, slow, "behind-permit", &reads);
    lk_zkc_require_count(env->client, "/shop/behind-permit", 3);
    const locker_status broken = locker_break(asks, "behind-permit", NULL, &info, &err);
    const size_t count = info.holders_len;
    const uint64_t token = info.token;
    locker_info_clear(&info);
    assert_status(LOCKER_CONFIG, lk_locking_join(&second), second.err);
    assert_int_equal(broken, LOCKER_OK);
    assert_true(count <= 1);
    assert_int_equal(token, locker_handle_token(held));
    lk_proxy_delay(env->proxy, 0, 0);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give_lost(held);
    assert_int_equal(lk_zkc_delete(env->client, made), LK_ZKC_OK);
    lk_close_locker(slow);
    lk_close_locker(asks);
    lk_close_locker(l);
}

/* A foreign semaphore passes its permit on as Curator's does: the next holder has its lease before the last one's is gone. The key is
 * held at every moment. */
static void a_foreign_permit_changes_hands_during_show(void **state)
{
    lk_env *env = *state;
    locker *asks = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    showing s = {.l = asks, .key = "foreign-permit", .info = LOCKER_INFO_INIT};
    char first[LK_ZKC_NAME_MAX], place[LK_ZKC_NAME_MAX], second[LK_ZKC_NAME_MAX];
    make_plain(env, "/shop");
    make_plain(env, "/shop/foreign-permit");
    make_plain(env, "/shop/foreign-permit/locks");
    make_plain(env, "/shop/foreign-permit/leases");
    make_place(env, "/shop/foreign-permit/leases/x-lease-", first);
    make_place(env, "/shop/foreign-permit/locks/x-lock-", place);
    const lk_passed since = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
    lk_proxy_delay(env->proxy, 400, 0);
    assert_int_equal(pthread_create(&s.thread, NULL, show_it, &s), 0);
    lk_proxy_await_passed(since, 3);
    lk_pause_ms(60);
    make_place(env, "/shop/foreign-permit/leases/y-lease-", second);
    assert_int_equal(lk_zkc_delete(env->client, first), LK_ZKC_OK);
    (void)pthread_join(s.thread, NULL);
    assert_int_equal(s.status, LOCKER_OK);
    assert_true(s.info.held);
    locker_info_clear(&s.info);
    lk_proxy_delay(env->proxy, 0, 0);
    assert_int_equal(lk_zkc_delete(env->client, place), LK_ZKC_OK);
    assert_int_equal(lk_zkc_delete(env->client, second), LK_ZKC_OK);
    lk_close_locker(asks);
}

typedef struct {
    lk_env *env;
    pthread_t thread;
    atomic_bool *stops;
} calling;

/* Ask for a permit of a key that is locked, again and again. */
static void *call_in_vain(void *context)
{
    calling *const c = context;
    locker *l = lk_open_at(c->env->zk, "/shop");
    const locker_lock_options one = permit(1);
    while (!atomic_load(c->stops)) {
        locker_handle *held = NULL;
        if (locker_lock(l, "in-vain", &one, &held, NULL) == LOCKER_OK)
            locker_handle_free(held);
    }
    lk_close_locker(l);
    return NULL;
}

/* Refused calls for a permit come and go, and hinder no break of the lock. */
static void refused_calls_hinder_no_break(void **state)
{
    enum { CALLERS = 6 };
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop"),
           *asks = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    locker_handle *held = lk_take(l, "in-vain");
    atomic_bool stops = false;
    calling all[CALLERS];
    locker_info info = LOCKER_INFO_INIT;
    char place[LK_ZKC_NAME_MAX];
    make_plain(env, "/shop/in-vain/locks");
    make_plain(env, "/shop/in-vain/leases");
    make_place(env, "/shop/in-vain/locks/x-lock-",
               place); /* each call makes a place behind it, before it is refused */
    for (int i = 0; i < CALLERS; i++) {
        all[i] = (calling){.env = env, .stops = &stops};
        assert_int_equal(pthread_create(&all[i].thread, NULL, call_in_vain, &all[i]), 0);
    }
    lk_pause_ms(500);
    assert_int_equal(lk_zkc_delete(env->client, place), LK_ZKC_OK);
    lk_proxy_delay(env->proxy, 25, 0);
    const locker_status broken = locker_break(asks, "in-vain", NULL, &info, NULL);
    const uint64_t token = info.token;
    locker_info_clear(&info);
    lk_proxy_delay(env->proxy, 0, 0);
    atomic_store(&stops, true);
    for (int i = 0; i < CALLERS; i++)
        (void)pthread_join(all[i].thread, NULL);
    assert_int_equal(broken, LOCKER_OK);
    assert_int_equal(token, locker_handle_token(held));
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give_lost(held);
    lk_close_locker(asks);
    lk_close_locker(l);
}

/* Permits that are waited for, and that are not taken: there is nothing to break. */
static void a_break_of_waiters_alone_says_so(void **state)
{
    static const char *const nodes[] = {"/shop", "/shop/idle", "/shop/idle/locks",
                                        "/shop/idle/locks/x-lock-0000000000"};
    enum { LISTS = 10 };
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?command_timeout=20s");
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    for (unsigned i = 0; i < sizeof nodes / sizeof *nodes; i++)
        (void)lk_zkc_create(env->client, nodes[i], "", LK_ZKC_PLAIN, NULL);
    assert_ok(locker_show(l, "idle", &info, &err), err);
    assert_false(info.held);
    assert_int_equal(info.waiters, 1);
    locker_info_clear(&info);
    const lk_passed before = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
    assert_status(LOCKER_INVALID, locker_break(l, "idle", NULL, NULL, &err), err);
    assert_true(lk_proxy_requests(env->proxy, LK_ZKP_LIST) < before.count + LISTS);
    lk_close_locker(l);
}

/* Threads of one locker read for each other, so who counted the permits may hear that there is room before it has gone on. */
typedef struct {
    locker *l;
    const char *key;
    pthread_t thread;
    int beyond; /* slots that there aren't */
} counting;

static void *count_slots(void *context)
{
    counting *const c = context;
    locker_lock_options one = permit(1);
    for (int i = 0; i < 20; i++) {
        locker_handle *held = NULL;
        if (locker_lock(c->l, c->key, &one, &held, NULL) != LOCKER_OK)
            c->beyond++;
        else
            c->beyond += locker_handle_slot(held) != 0;
        locker_handle_free(held);
    }
    return NULL;
}

static void no_slot_is_beyond_the_permits(void **state)
{
    lk_env *env = *state;
    static const char *const keys[] = {"slots-a", "slots-b", "slots-c"};
    locker *l[4];
    counting all[24];
    for (unsigned i = 0; i < 4; i++)
        l[i] = lk_open_at(env->zk, "/shop");
    for (unsigned i = 0; i < 24; i++) {
        all[i] = (counting){.l = l[i % 4], .key = keys[i / 4 % 3]};
        assert_int_equal(pthread_create(&all[i].thread, NULL, count_slots, &all[i]), 0);
    }
    int beyond = 0;
    for (unsigned i = 0; i < 24; i++) {
        (void)pthread_join(all[i].thread, NULL);
        beyond += all[i].beyond;
    }
    for (unsigned i = 0; i < 4; i++)
        lk_close_locker(l[i]);
    assert_int_equal(beyond, 0);
}

#define sharing_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

static const struct CMUnitTest tests[] = {
    sharing_test(ours_exclude_ours_whatever_the_names),
    sharing_test(names_are_mutex_or_readwrite),
    sharing_test(kazoos_readers_share),
    sharing_test(more_than_a_thousand_readers),
    sharing_test(a_reader_lists_again_when_its_writer_has_gone),
    sharing_test(a_mark_does_not_go_back),
    sharing_test(the_answer_to_an_exchange_is_lost),
    sharing_test(a_canceled_exchange_leaves_nothing),
    sharing_test(a_claim_without_a_permit_leaves_no_parent),
    sharing_test(a_try_behind_a_client_that_takes_no_permit_is_busy),
    sharing_test(parents_of_permits_are_made_again),
    sharing_test(the_head_counts_again),
    sharing_test(the_younger_use_is_refused),
    sharing_test(a_call_with_the_number_of_permits_of_the_holder_is_not_refused),
    sharing_test(a_waiter_is_refused_when_its_number_is_used_no_more),
    sharing_test(a_call_with_another_number_of_permits_than_the_first_is_refused),
    sharing_test(a_younger_lock_does_not_refuse_a_waiter),
    sharing_test(a_new_place_is_checked_anew),
    sharing_test(a_place_that_has_gone_may_be_a_permit),
    sharing_test(a_refused_lock_hides_no_permit),
    sharing_test(a_hand_over_during_show),
    sharing_test(permits_change_hands_during_show),
    sharing_test(a_key_that_changes_hands_all_the_time),
    sharing_test(a_younger_lock_is_not_the_holder),
    sharing_test(a_reader_behind_a_permit_is_not_a_holder),
    sharing_test(a_foreign_permit_changes_hands_during_show),
    sharing_test(refused_calls_hinder_no_break),
    sharing_test(a_break_of_waiters_alone_says_so),
    sharing_test(no_slot_is_beyond_the_permits),
};

const lk_group lk_sharing = {"sharing", tests, sizeof tests / sizeof tests[0], start_server, stop_server};

static const struct CMUnitTest unsent_tests[] = {
    sharing_test(requests_that_are_not_sent_prove_nothing),
    sharing_test(a_lost_check_grants_no_lock_beside_a_permit),
};

const lk_group lk_unsent = {"unsent", unsent_tests, sizeof unsent_tests / sizeof unsent_tests[0],
                            start_server, stop_server};
