/* sentinels.c: a master that Sentinels name: it is found, found again after a failover, and what they don't know is told. */
#include "sentinel_house.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locker_status try_open(const lk_house *h, const char *name, const char *query, locker **l,
                              locker_error *err)
{
    return lk_house_try_open(h, "redis+sentinel", name, query, l, err);
}

static void the_master_that_sentinels_name_is_used(void **state)
{
    const lk_house *h = *state;
    char text[200];
    locker *l = lk_house_open(h, "");
    locker_handle *held = lk_take(l, "k");
    assert_true(lk_server_text(h->master, text, sizeof text, "GET k"));
    lk_give(held);
    lk_close_locker(l);
    snprintf(text, sizeof text, "%s/3", lk_master_name);
    locker_error err;
    assert_ok(try_open(h, text, "", &l, &err), err);
    held = lk_take(l, "k");
    lk_server_do(h->master, "SELECT 3");
    assert_true(lk_server_text(h->master, text, sizeof text, "GET k"));
    lk_give(held);
    lk_close_locker(l);
}

/* Neither one that is gone nor one that says nothing hides the others; which of them was of use is known then. */
static void an_unreachable_sentinel_hides_no_other(void **state)
{
    lk_house *h = *state;
    lk_server_kill(&h->sentinel[0]);
    lk_test_freeze(&h->sentinel[1]);
    const int64_t from = lk_test_now_ms();
    locker *l = lk_house_open(h, "connect_timeout=10s");
    assert_timely(lk_test_now_ms() - from, 10000 / 2);
    lk_give(lk_take(l, "k"));
    lk_close_locker(l);
    lk_server_thaw(&h->sentinel[1]);
}

static void errors_say_what_the_sentinels_do_not_know(void **state)
{
    lk_house *h = *state;
    char uri[200];
    locker_error err;
    locker *l;
    assert_status(LOCKER_CONFIG, try_open(h, "another", "", &l, &err), err);
    assert_non_null(strstr(err.text, "watches no master named 'another'"));
    assert_status(LOCKER_CONFIG, try_open(h, "", "", &l, &err), err);
    assert_non_null(strstr(err.text, "names no master"));
    assert_status(LOCKER_CONFIG, try_open(h, "the-master/x", "", &l, &err), err);
    snprintf(uri, sizeof uri, "redis+sentinel://127.0.0.1:%d/%s", h->replica->port, lk_master_name);
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "%s", uri), err);
    assert_non_null(strstr(err.text, "is not a Sentinel"));
    assert_status(LOCKER_CONFIG,
                  lk_try_uri(&l, &err, "redis://127.0.0.1:%d/?sentinel_user=x", h->master->port), err);
    assert_non_null(strstr(err.text, "sentinel_user"));
    for (int i = 0; i < LK_SENTINELS; i++)
        lk_server_kill(&h->sentinel[i]);
    assert_status(LOCKER_UNAVAILABLE, try_open(h, lk_master_name, "", &l, &err), err);
    assert_non_null(strstr(err.text, "cannot ask any of the Sentinels (3)"));
}

/* Opens a locker that asks the first of them alone, as that user. */
static locker_status try_as(const lk_house *h, const char *user, const char *file, locker **l,
                            locker_error *err)
{
    return lk_try_uri(l, err, "redis+sentinel://127.0.0.1:%d/%s?sentinel_user=%s&sentinel_password_file=%s",
                      h->port[0], lk_master_name, user, file);
}

static void sentinels_have_users_of_their_own(void **state)
{
    lk_house *h = *state;
    char directory[100], file[120];
    locker_error err;
    locker *l;
    lk_server_remove(&h->sentinel[0]);
    h->sentinel[0] = (lk_server){0};
    lk_house_sentinel(h, 0, NULL);
    lk_house_watch(h, 0, h->master->port);
    lk_require_answer(&h->sentinel[0], "ACL SETUSER blind on >look -@all +ping");
    lk_require_answer(&h->sentinel[0], "ACL SETUSER looker on >look -@all +sentinel|get-master-addr-by-name");
    lk_require_answer(&h->sentinel[0], "ACL SETUSER default on >secret -@all +auth");
    assert_status(LOCKER_DENIED,
                  lk_try_uri(&l, &err, "redis+sentinel://127.0.0.1:%d/%s", h->port[0], lk_master_name), err);
    assert_non_null(strstr(err.text, "sentinel_password_file"));
    lk_private_directory(directory);
    snprintf(file, sizeof file, "%s/word", directory);
    FILE *f = fopen(file, "w");
    assert_true(f != NULL && fputs("look\n", f) >= 0 && fclose(f) == 0);
    assert_ok(try_as(h, "looker", file, &l, &err), err);
    lk_give(lk_take(l, "k"));
    lk_close_locker(l);
    assert_status(LOCKER_DENIED, try_as(h, "nobody", file, &l, &err), err);
    assert_non_null(strstr(err.text, "refuses user 'nobody'"));
    assert_null(strstr(err.text, "look"));
    assert_status(LOCKER_DENIED, try_as(h, "blind", file, &l, &err), err);
    assert_non_null(strstr(err.text, "does not let user 'blind' ask for the master"));
    assert_non_null(strstr(err.text, "+sentinel|get-master-addr-by-name"));
    lk_remove_directory(directory);
}

/* ------------------------------------------------------------------ failovers ---- */

struct load {
    locker *l;
    pthread_t thread;
    int number;
    atomic_bool stop;
    atomic_ulong cycles;
    uint64_t token;
    bool back; /* a token was no greater than the one before */
};

static void *work(void *load_)
{
    struct load *load = load_;
    char key[16];
    snprintf(key, sizeof key, "load-%d", load->number);
    while (!load->stop) {
        const locker_lock_options bounded = lk_wait_options(LK_TEST_PATIENCE_MS);
        locker_handle *held = NULL;
        locker_error err;
        if (locker_lock(load->l, key, &bounded, &held, &err) != LOCKER_OK)
            continue;
        load->back = load->back || locker_handle_token(held) <= load->token;
        load->token = locker_handle_token(held);
        (void)locker_unlock(held, &err);
        locker_handle_free(held);
        load->cycles++;
    }
    return NULL;
}

static bool goes_on(void *context)
{
    struct load *load = context;
    enum { CYCLES = 50 };
    for (int i = 0; i < 2; i++)
        if (load[i].cycles < CYCLES)
            return false;
    return true;
}

static void require_cycles(struct load *load, const char *what)
{
    load[0].cycles = load[1].cycles = 0;
    lk_require(goes_on, load, what);
}

/* Sentinels end the connections to a server that they promote, that of tests among them. */
static void require_lock_at(const lk_server *server)
{
    char answer[100];
    assert_true(lk_server_ask(server, "EXISTS k", answer, sizeof answer));
    assert_string_equal(answer, "1");
}

/* `strike` ends the master's service; somebody waits for a lock of another locker meanwhile. */
static void fail_over(lk_house *h, void (*strike)(lk_house *h))
{
    lk_house_require_known(h, h->master->port, 1);
    locker *l = lk_house_open(h, "ttl=3s&connect_timeout=2s");
    struct load load[2] = {{.l = l, .number = 0}, {.l = l, .number = 1}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&load[i].thread, NULL, work, &load[i]), 0);
    require_cycles(load, "locks should be taken");
    strike(h);
    assert_int_equal(lk_house_require_other(h, h->master->port), h->replica->port);
    require_cycles(load, "locks should be taken at the new master");
    for (int i = 0; i < 2; i++)
        load[i].stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(load[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        assert_false(load[i].back);
    locker_handle *held = lk_take(l, "k");
    require_lock_at(h->replica);
    lk_give(held);
    lk_close_locker(l);
}

static void kill_master(lk_house *h)
{
    lk_server_kill(h->master);
}

static void a_failover_is_followed(void **state)
{
    fail_over(*state, kill_master);
}

static void freeze_master(lk_house *h)
{
    lk_test_freeze(h->master);
}

/* It comes back, believes that it is the master, and is told. Nobody stays with it. */
static void an_old_master_that_comes_back_is_left(void **state)
{
    lk_house *h = *state;
    fail_over(h, freeze_master);
    lk_server_thaw(h->master);
    locker *l = lk_house_open(h, "");
    locker_handle *held = lk_take(l, "k");
    require_lock_at(h->replica);
    lk_give(held);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what is asked of them meanwhile ---- */

struct renewals {
    locker *l;
    uint64_t before;
};

static bool are_more(void *context)
{
    const struct renewals *renewals = context;
    return lk_stats(renewals->l).renewals > renewals->before;
}

static void require_renewals(locker *l, int count)
{
    struct renewals renewals = {.l = l, .before = lk_stats(l).renewals + (uint64_t)count - 1};
    lk_require(are_more, &renewals, "the lock should be renewed");
}

static void have_two_replicas(lk_house *h)
{
    h->second = lk_test_redis(lk_open_to_all);
    lk_follow(h->second, h->master);
    lk_require_confirming(h->master, 2);
    lk_house_require_known(h, h->master->port, 2);
}

static lk_server *server_at(const lk_house *h, int port)
{
    return port == h->replica->port ? h->replica : h->second;
}

/* By SENTINEL FAILOVER the old master stays one until four of the Sentinels' periods have passed, and no connection is lost. */
static lk_server *fail_over_as_planned(lk_house *h)
{
    char text[64];
    for (int i = 0; i < LK_SENTINELS; i++)
        lk_test_need(&h->sentinel[i], lk_server_pace(&h->sentinel[i], 60000, 200));
    snprintf(text, sizeof text, "SENTINEL FAILOVER %s", lk_master_name);
    lk_require_answer(&h->sentinel[0], text);
    return server_at(h, lk_house_require_other(h, h->master->port));
}

/* No replica of the old master is left, so a holder has others asked who the master is, and goes there with its lock. */
static void a_planned_failover_loses_no_lease(void **state)
{
    lk_house *h = *state;
    char text[8192];
    have_two_replicas(h);
    locker *l = lk_house_open(h, "ttl=4s&wait_replicas=1&wait_timeout=200ms");
    locker *other = lk_house_open(h, "wait_replicas=1&wait_timeout=200ms"); /* renews nothing */
    lk_give(lk_take(other, "another"));
    locker_handle *held = lk_take(l, "k");
    lk_server *const master = fail_over_as_planned(h);
    require_renewals(l, 2);
    lk_server_text(h->master, text, sizeof text, "INFO replication");
    assert_non_null(strstr(text, "role:master")); /* and none of its clients was told */
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_int_equal(lk_stats(l).lost, 0);
    assert_true(lk_server_ask(master, "EXISTS k", text, sizeof text));
    assert_string_equal(text, "1");
    lk_give(lk_take(other, "another"));
    lk_close_locker(other);
    lk_give(held);
    assert_true(lk_server_ask(master, "EXISTS k", text, sizeof text));
    assert_string_equal(text, "0");
    lk_close_locker(l);
}

/* Who shares a lock, and who has a permit, goes there with it, and keeps out there whom it kept out here. */
static void a_planned_failover_loses_no_share(void **state)
{
    static const char query[] = "ttl=4s&wait_replicas=1&wait_timeout=200ms";
    lk_house *h = *state;
    have_two_replicas(h);
    locker *l = lk_house_open(h, query), *b = lk_house_open(h, query);
    locker_lock_options share = LOCKER_LOCK_OPTIONS_INIT, permit = LOCKER_LOCK_OPTIONS_INIT;
    share.mode = LOCKER_SHARED;
    permit.permits = 2;
    locker_handle *readers[] = {lk_take_with(l, "k", &share), lk_take_with(b, "k", &share)};
    locker_handle *first = lk_take_with(l, "permits", &permit), *second, *none = NULL;
    locker_error err;
    (void)fail_over_as_planned(h);
    require_renewals(l, 4);
    require_renewals(b, 2);
    lk_expect_busy(b, "k");
    for (int i = 0; i < 2; i++)
        assert_int_equal(locker_handle_state(readers[i]), LOCKER_STATE_HELD);
    second = lk_take_with(b, "permits", &permit);
    assert_int_equal(locker_handle_slot(second), 1 - locker_handle_slot(first));
    assert_true(locker_handle_token(second) > locker_handle_token(first));
    assert_status(LOCKER_BUSY, locker_try_lock(b, "permits", &permit, &none, &err), err);
    lk_give(readers[0]);
    lk_expect_busy(l, "k");
    lk_give(readers[1]);
    lk_give(lk_take(l, "k"));
    lk_give(first);
    lk_give(second);
    lk_close_locker(b);
    lk_close_locker(l);
}

/* How many connections a Sentinel was asked by, this one among them. */
static long long count_connections(const lk_server *sentinel)
{
    static const char label[] = "total_connections_received:";
    char answer[16384];
    assert_true(lk_server_ask(sentinel, "INFO stats", answer, sizeof answer));
    const char *const at = strstr(answer, label);
    assert_non_null(at);
    return strtoll(at + sizeof label - 1, NULL, 10);
}

/* What most of them name counts: one alone has not heard, or is cut off together with an old master. */
static void a_single_sentinel_that_names_another_master_is_not_followed(void **state)
{
    lk_house *h = *state;
    char text[256];
    locker *l = lk_house_open(h, "ttl=30s&wait_replicas=1&wait_timeout=50ms");
    lk_server *const stray = lk_test_redis(lk_open_to_all);
    locker_handle *none = NULL;
    locker_error err;
    lk_house_require_known(h, h->master->port, 1);
    snprintf(text, sizeof text, "SENTINEL REMOVE %s", lk_master_name);
    lk_require_answer(&h->sentinel[0], text);
    lk_test_need(&h->sentinel[0], lk_server_watch(&h->sentinel[0], lk_master_name, stray, 2, 60000));
    lk_test_freeze(h->replica);
    const long long before = count_connections(&h->sentinel[1]);
    const int64_t began = lk_test_now_ms();
    for (int i = 0; i < 24; i++)
        assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "k", NULL, &none, &err), err);
    const long long asked = count_connections(&h->sentinel[1]) - before - 1;
    if (asked > 4 + (lk_test_now_ms() - began) / 500) /* not by each; one of the others may come, by two */
        test_fails("a Sentinel was asked %lld times in %d ms", asked, (int)(lk_test_now_ms() - began));
    lk_server_thaw(h->replica);
    locker_handle *held = lk_take(l, "k");
    require_lock_at(h->master);
    assert_int_equal(lk_calls_of(stray, "hello"), 0);
    lk_give(held);
    lk_close_locker(l);
    lk_test_redis_free(stray);
}

/* Who lost everything but the master goes back to that; to one that has started again it does not, for that may be another's. */
static void without_sentinels_a_client_returns_only_to_the_same_master_run(void **state)
{
    lk_house *h = *state;
    locker *l = lk_house_open(h, "ttl=3s&command_timeout=1s&connect_timeout=2s");
    locker_handle *held = lk_take(l, "k"), *none = NULL;
    locker_error err;
    for (int i = 0; i < LK_SENTINELS; i++)
        lk_server_kill(&h->sentinel[i]);
    for (int i = 0; i < 2; i++) {
        lk_server_do(h->master, "CLIENT KILL TYPE normal SKIPME yes");
        lk_server_do(h->master, "CLIENT KILL TYPE pubsub");
        require_renewals(l, 1);
    }
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_server_kill(h->master);
    lk_test_launch(h->master, true);
    assert_true(lk_server_await(h->master));
    locker_lock_options brief = lk_wait_options(1500);
    assert_status(LOCKER_UNAVAILABLE, locker_lock(l, "k", &brief, &none, &err), err);
    assert_non_null(strstr(err.text, "cannot ask any of the Sentinels (3)"));
    lk_close_locker(l);
}

/* The connection for renewals is sought at a master that says nothing, for half of connect_timeout; who asks for something then
 * does not stand behind that. */
static void a_silent_master_holds_no_call_up(void **state)
{
    lk_house *h = *state;
    have_two_replicas(h);
    locker *l = lk_house_open(
        h, "ttl=1s&wait_replicas=1&wait_timeout=100ms&command_timeout=300ms&connect_timeout=60s");
    locker_handle *held = lk_take(l, "k");
    lk_test_freeze(h->master);
    (void)lk_house_require_other(h, h->master->port);
    lk_require_state(held, LOCKER_STATE_LOST); /* so the connections have been given up by now */
    lk_give_lost(held);
    const int64_t began = lk_test_now_ms();
    lk_give(lk_take(l, "another"));
    assert_timely(lk_test_now_ms() - began, 10000);
    lk_server_thaw(h->master);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    house_test(the_master_that_sentinels_name_is_used),
    house_test(an_unreachable_sentinel_hides_no_other),
    house_test(errors_say_what_the_sentinels_do_not_know),
    house_test(sentinels_have_users_of_their_own),
    house_test(a_failover_is_followed),
    house_test(an_old_master_that_comes_back_is_left),
    house_test(a_planned_failover_loses_no_lease),
    house_test(a_planned_failover_loses_no_share),
    house_test(a_single_sentinel_that_names_another_master_is_not_followed),
    house_test(without_sentinels_a_client_returns_only_to_the_same_master_run),
    house_test(a_silent_master_holds_no_call_up),
};

const lk_group lk_sentinels = {"sentinels", tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL};
