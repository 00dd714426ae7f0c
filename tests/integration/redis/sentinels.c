/* sentinels.c: a master that Sentinels name: it is found, found again after a failover, and what they don't know is told. */
#include "redis_tests.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTINELS = 3, DOWN_MS = 300 };

static const char master_name[] = "the-master";

/* A master, its replica, and those that watch them. */
typedef struct {
    lk_server *master, *replica;
    lk_server sentinel[SENTINELS];
} house;

static bool agree(void *context)
{
    char question[64], answer[512];
    snprintf(question, sizeof question, "SENTINEL CKQUORUM %s", master_name);
    return lk_server_ask(context, question, answer, sizeof answer) && strncmp(answer, "OK 3", 4) == 0;
}

struct view {
    lk_server *sentinel;
    int port; /* of the master that it should name, with so many replicas */
    const char *replicas;
};

/* INFO's line of the master. */
static bool sees(void *context)
{
    const struct view *v = context;
    char answer[8192], port[32], replicas[32];
    snprintf(port, sizeof port, ":%d,", v->port);
    snprintf(replicas, sizeof replicas, "slaves=%s,", v->replicas);
    const char *line = lk_server_ask(v->sentinel, "INFO sentinel", answer, sizeof answer)
                           ? strstr(answer, "master0:")
                           : NULL;
    return line != NULL && strstr(line, port) != NULL && strstr(line, replicas) != NULL;
}

static void start_sentinel(lk_server *sentinel, const char *const *options)
{
    lk_test_need(sentinel,
                 lk_server_start(sentinel, &lk_server_sentinel, &(lk_server_setup){.options = options}) &&
                     lk_server_await(sentinel));
}

static int begin(void **state)
{
    static const char *const open_to_all[] = {"--protected-mode", "no", NULL};
    house *h = calloc(1, sizeof *h);
    *state = h;
    h->master = lk_test_redis(open_to_all);
    h->replica = lk_test_redis(open_to_all);
    lk_follow(h->replica, h->master);
    lk_follow(h->master, NULL); /* with a login for when it is a replica */
    for (int i = 0; i < SENTINELS; i++) {
        start_sentinel(&h->sentinel[i], NULL);
        lk_test_need(&h->sentinel[i], lk_server_watch(&h->sentinel[i], master_name, h->master, 2, DOWN_MS));
    }
    return 0;
}

static int end(void **state)
{
    house *h = *state;
    for (int i = 0; i < SENTINELS; i++)
        if (h->sentinel[i].kind != NULL)
            lk_server_remove(&h->sentinel[i]);
    lk_test_redis_free(h->replica);
    lk_test_redis_free(h->master);
    free(h);
    return 0;
}

#define house_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

static locker_status try_open(const house *h, const char *name, const char *query, locker **l,
                              locker_error *err)
{
    return lk_try_uri(l, err, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/%s?%s",
                      h->sentinel[0].port, h->sentinel[1].port, h->sentinel[2].port, name, query);
}

static locker *open_house(const house *h, const char *query)
{
    locker_error err;
    locker *l;
    assert_ok(try_open(h, master_name, query, &l, &err), err);
    return l;
}

static void the_master_that_they_name_is_used(void **state)
{
    const house *h = *state;
    char text[200];
    locker *l = open_house(h, "");
    locker_handle *held = lk_take(l, "k", NULL);
    assert_true(lk_server_text(h->master, text, sizeof text, "GET k"));
    lk_give(held);
    lk_close_locker(l);
    snprintf(text, sizeof text, "%s/3", master_name);
    locker_error err;
    assert_ok(try_open(h, text, "", &l, &err), err);
    held = lk_take(l, "k", NULL);
    lk_server_do(h->master, "SELECT 3");
    assert_true(lk_server_text(h->master, text, sizeof text, "GET k"));
    lk_give(held);
    lk_close_locker(l);
}

/* Neither one that is gone nor one that says nothing hides the others; which of them was of use is known then. */
static void one_that_is_gone_hides_no_other(void **state)
{
    house *h = *state;
    lk_server_kill(&h->sentinel[0]);
    lk_test_freeze(&h->sentinel[1]);
    const int64_t from = lk_test_now_ms();
    locker *l = open_house(h, "connect_timeout=10s");
    assert_true(lk_test_now_ms() - from < 10000 / 2);
    lk_give(lk_take(l, "k", NULL));
    lk_close_locker(l);
    lk_server_thaw(&h->sentinel[1]);
}

static void what_they_do_not_know_is_told(void **state)
{
    house *h = *state;
    char uri[200];
    locker_error err;
    locker *l;
    assert_status(LOCKER_CONFIG, try_open(h, "another", "", &l, &err), err);
    assert_non_null(strstr(err.text, "watches no master that is called 'another'"));
    assert_status(LOCKER_CONFIG, try_open(h, "", "", &l, &err), err);
    assert_non_null(strstr(err.text, "names no master"));
    assert_status(LOCKER_CONFIG, try_open(h, "the-master/x", "", &l, &err), err);
    snprintf(uri, sizeof uri, "redis+sentinel://127.0.0.1:%d/%s", h->replica->port, master_name);
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "%s", uri), err);
    assert_non_null(strstr(err.text, "is no Sentinel"));
    assert_status(LOCKER_CONFIG,
                  lk_try_uri(&l, &err, "redis://127.0.0.1:%d/?sentinel_user=x", h->master->port), err);
    assert_non_null(strstr(err.text, "sentinel_user"));
    for (int i = 0; i < SENTINELS; i++)
        lk_server_kill(&h->sentinel[i]);
    assert_status(LOCKER_UNAVAILABLE, try_open(h, master_name, "", &l, &err), err);
    assert_non_null(strstr(err.text, "none of the Sentinels (3)"));
}

static void they_have_users_of_their_own(void **state)
{
    house *h = *state;
    char directory[100], file[120];
    locker_error err;
    locker *l;
    lk_server_remove(&h->sentinel[0]);
    h->sentinel[0] = (lk_server){0};
    start_sentinel(&h->sentinel[0], NULL);
    lk_test_need(&h->sentinel[0], lk_server_watch(&h->sentinel[0], master_name, h->master, 2, DOWN_MS));
    char answer[100];
    assert_true(lk_server_ask(&h->sentinel[0], "ACL SETUSER looker on >look +@all", answer, sizeof answer));
    assert_true(
        lk_server_ask(&h->sentinel[0], "ACL SETUSER default on >secret -@all +auth", answer, sizeof answer));
    const int port = h->sentinel[0].port;
    assert_status(LOCKER_DENIED, lk_try_uri(&l, &err, "redis+sentinel://127.0.0.1:%d/%s", port, master_name),
                  err);
    assert_non_null(strstr(err.text, "sentinel_password_file"));
    lk_private_directory(directory);
    snprintf(file, sizeof file, "%s/word", directory);
    FILE *f = fopen(file, "w");
    assert_true(f != NULL && fputs("look\n", f) >= 0 && fclose(f) == 0);
    assert_ok(lk_try_uri(&l, &err,
                         "redis+sentinel://127.0.0.1:%d/%s?sentinel_user=looker&sentinel_password_file=%s",
                         port, master_name, file),
              err);
    lk_give(lk_take(l, "k", NULL));
    lk_close_locker(l);
    assert_status(
        LOCKER_DENIED,
        lk_try_uri(&l, &err,
                   "redis+sentinel://127.0.0.1:%d/%s?sentinel_user=nobody&sentinel_password_file=%s", port,
                   master_name, file),
        err);
    assert_non_null(strstr(err.text, "refuses user 'nobody'"));
    assert_null(strstr(err.text, "look"));
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
static void fail_over(house *h, void (*strike)(house *h))
{
    for (int i = 0; i < SENTINELS; i++) {
        struct view v = {&h->sentinel[i], h->master->port, "1"};
        lk_require(agree, &h->sentinel[i], "the Sentinels should know each other");
        lk_require(sees, &v, "a Sentinel should know the replica");
    }
    locker *l = open_house(h, "ttl=3s&connect_timeout=2s");
    struct load load[2] = {{.l = l, .number = 0}, {.l = l, .number = 1}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&load[i].thread, NULL, work, &load[i]), 0);
    require_cycles(load, "locks should be taken");
    strike(h);
    struct view v = {&h->sentinel[2], h->replica->port, "1"};
    lk_require(sees, &v, "the replica should be made master");
    require_cycles(load, "locks should be taken at the new master");
    for (int i = 0; i < 2; i++)
        load[i].stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(load[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        assert_false(load[i].back);
    locker_handle *held = lk_take(l, "k", NULL);
    require_lock_at(h->replica);
    lk_give(held);
    lk_close_locker(l);
}

static void kill_master(house *h)
{
    lk_server_kill(h->master);
}

static void a_failover_is_followed(void **state)
{
    fail_over(*state, kill_master);
}

static void freeze_master(house *h)
{
    lk_test_freeze(h->master);
}

/* It comes back, believes that it is the master, and is told. Nobody stays with it. */
static void an_old_master_that_comes_back_is_left(void **state)
{
    house *h = *state;
    fail_over(h, freeze_master);
    lk_server_thaw(h->master);
    locker *l = open_house(h, "");
    locker_handle *held = lk_take(l, "k", NULL);
    require_lock_at(h->replica);
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    house_test(the_master_that_they_name_is_used),
    house_test(one_that_is_gone_hides_no_other),
    house_test(what_they_do_not_know_is_told),
    house_test(they_have_users_of_their_own),
    house_test(a_failover_is_followed),
    house_test(an_old_master_that_comes_back_is_left),
};

const lk_group lk_sentinels = {"sentinels", tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL};
