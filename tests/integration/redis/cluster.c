/* cluster.c: a healthy Redis Cluster: which node keeps a lock, which clients are notified, and what is refused. */
#include "cluster_tests.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_APART = 16 }; /* each so manyth slot is locked */

/* Each node can be reached by as many addresses. */
enum { ADDRESSES = 16 };

static int begin(void **state)
{
    static char names[ADDRESSES][16];
    static const char *options[ADDRESSES + 6] = {"--appendonly", "yes", "--appendfsync", "no", "--bind"};
    for (int i = 0; i < ADDRESSES; i++) {
        snprintf(names[i], sizeof names[i], "127.0.0.%d", 1 + i);
        options[5 + i] = names[i];
    }
    return lk_cluster_begin_with(state, &(lk_cluster_setup){.options = options});
}

/* ------------------------------------------------------------------ where locks are ---- */

/* A name in each slot that is looked at; a text of the test program. */
static const char *name_in(unsigned slot)
{
    static char names[LK_CLUSTER_SLOTS][12];
    for (unsigned i = 0; names[slot][0] == '\0'; i++) {
        char name[12];
        snprintf(name, sizeof name, "n%u", i);
        const unsigned where = lk_cluster_slot(name);
        if (names[where][0] == '\0')
            memcpy(names[where], name, sizeof name);
    }
    return names[slot];
}

/* The lock is where its slot is, and nothing but counters stays. */
static void locks_of_all_slots_are_granted(void **state)
{
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 0, "");
    long long counters[LK_CLUSTER_MASTERS] = {0};
    for (unsigned slot = 0; slot < LK_CLUSTER_SLOTS; slot += SLOTS_APART) {
        const char *key = name_in(slot);
        const int share = lk_share_of(cluster, slot);
        locker_handle *held = lk_take(l, key);
        if (slot % (64 * SLOTS_APART) == 0)
            assert_int_equal(lk_node_number(cluster, share, "EXISTS %s", key), 1);
        const uint64_t token = locker_handle_token(held);
        lk_give(held);
        if (slot % (8 * SLOTS_APART) == 0) {
            held = lk_take(l, key);
            assert_true(locker_handle_token(held) > token);
            lk_give(held);
        }
        counters[share]++;
    }
    for (int i = 0; i < LK_CLUSTER_MASTERS; i++)
        assert_int_equal(lk_node_number(cluster, i, "DBSIZE"), counters[i]);
    lk_close_locker(l);
}

/* Names with braces of their own have their companions in their slot, or a cluster would refuse the script. */
static void names_with_braces_are_locked(void **state)
{
    static const char *const names[] = {"a{b}c", "a}b",  "{",     "{}x",    "}",
                                        "{b}",   "{b}.", "plain", "{a}{b}", "a{{b}}c"};
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 1, "namespace=braces"),
           *rival = lk_open_cluster(cluster, 2, "namespace=braces");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        locker_handle *held = lk_take(l, names[i]);
        lk_locking waiter;
        lk_expect_busy(rival, names[i]);
        lk_locking_start(&waiter, rival, names[i], NULL);
        lk_require_waiting(rival, 1);
        lk_give(held);
        lk_give(lk_locking_grant(&waiter));
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A key of each share. */
static const char *key_of(const lk_cluster *cluster, int share)
{
    static char keys[LK_CLUSTER_MASTERS][32];
    return lk_key_of_share(cluster, share, 1, keys[share]);
}

/* The other process polls each 20 s or more. */
static void a_hand_over_notifies_the_waiter(void **state)
{
    lk_cluster *cluster = *state;
    char hosts[300], uri[400];
    locker *l = lk_open_cluster(cluster, 0, "ttl=60s&poll=60s");
    snprintf(uri, sizeof uri, "redis+cluster://%s/?ttl=60s&poll=60s",
             lk_cluster_hosts(cluster, 3, hosts, sizeof hosts));
    lk_child *puppet = lk_puppet_start(uri);
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++) {
        uint64_t token = 0;
        locker_handle *held = lk_take(l, key_of(cluster, share));
        const uint64_t before = locker_handle_token(held);
        lk_puppet_wait(puppet, key_of(cluster, share), LK_TEST_PATIENCE_MS, 60000, true);
        lk_pause_ms(50); /* it may look once more when it has subscribed */
        const int64_t from = lk_test_now_ms();
        lk_give(held);
        assert_int_equal(lk_puppet_granted(puppet, &token), LOCKER_OK);
        const int64_t took = lk_test_now_ms() - from;
        if (took > 5000)
            test_fails("it took %lld ms at master %d", (long long)took, share);
        assert_true(token > before);
        assert_int_equal(lk_puppet_unlock(puppet), LOCKER_OK);
    }
    lk_child_kill(puppet);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what is told ---- */

static void unlock_reports_ok_lost_and_unknown_correctly(void **state)
{
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 0, "ttl=60s"), *rival = lk_open_cluster(cluster, 1, "ttl=60s");
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++) {
        const char *key = key_of(cluster, share);
        locker_error err;
        lk_give(lk_take(l, key));
        locker_handle *held = lk_take(l, key);
        assert_int_equal(lk_node_number(cluster, share, "DEL %s", key), 1);
        lk_give_lost(held);
        held = lk_take(l, key);
        assert_ok(locker_break(rival, key, NULL, NULL, &err), err);
        lk_require_state(held, LOCKER_STATE_LOST);
        lk_give_lost(held);
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

typedef struct {
    locker *l;
    const char *key;
} told_of;

static bool is_told_of(void *context)
{
    const told_of *asked = context;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    assert_ok(locker_show(asked->l, asked->key, &info, &err), err);
    const bool told = info.held && info.owner[0] != '\0';
    locker_info_clear(&info);
    return told;
}

static void show_and_break_find_the_node(void **state)
{
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 0, "ttl=60s"), *other = lk_open_cluster(cluster, 2, "ttl=60s");
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++) {
        const char *key = key_of(cluster, share);
        locker_lock_options tell = lk_wait_options(LK_TEST_PATIENCE_MS);
        locker_break_options which = LOCKER_BREAK_OPTIONS_INIT;
        locker_info info = LOCKER_INFO_INIT;
        locker_error err;
        assert_ok(locker_show(other, key, &info, &err), err);
        assert_false(info.held);
        locker_info_clear(&info);
        tell.label = "somebody";
        locker_handle *held = lk_take_with(l, key, &tell);
        lk_require(is_told_of, &(told_of){other, key}, "what is held for 5 ms is told of");
        assert_ok(locker_show(other, key, &info, &err), err);
        assert_true(info.held);
        assert_string_equal(info.owner, "somebody");
        assert_int_equal(info.token, locker_handle_token(held));
        locker_info_clear(&info);
        which.token = locker_handle_token(held) + 1;
        assert_status(LOCKER_BUSY, locker_break(other, key, &which, NULL, &err), err);
        which.token = locker_handle_token(held);
        assert_ok(locker_break(other, key, &which, &info, &err), err);
        assert_string_equal(info.owner, "somebody");
        locker_info_clear(&info);
        assert_status(LOCKER_INVALID, locker_break(other, key, NULL, NULL, &err), err);
        lk_give_lost(held);
    }
    lk_close_locker(other);
    lk_close_locker(l);
}

static void foreign_data_is_left_unchanged(void **state)
{
    lk_cluster *const cluster = *state;
    const char *const key = key_of(cluster, 1);
    locker *const l = lk_open_cluster(cluster, 0, "poll=100ms");
    lk_foreign_expect_all(&cluster->node[lk_node_of(cluster, key)], l, key);
    lk_close_locker(l);
}

static void ping_queries_the_cluster(void **state)
{
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 4, ""); /* a replica, which names the others */
    int64_t us = -1;
    locker_error err;
    assert_ok(locker_ping(l, &us, &err), err);
    assert_true(us >= 0);
    lk_close_locker(l);
}

static void close_gives_back_what_is_held(void **state)
{
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 0, "ttl=60s"), *other = lk_open_cluster(cluster, 1, "ttl=60s");
    locker_handle *held[LK_CLUSTER_MASTERS];
    lk_locking waiter;
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++)
        held[share] = lk_take(l, key_of(cluster, share));
    lk_locking_start(&waiter, other, key_of(cluster, 1), NULL);
    lk_require_waiting(other, 1);
    lk_close_locker(l);
    lk_give(lk_locking_grant(&waiter));
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++) {
        assert_int_equal(lk_node_number(cluster, share, "EXISTS %s", key_of(cluster, share)), 0);
        locker_handle_free(held[share]);
    }
    lk_close_locker(other);
}

/* ------------------------------------------------------------------ what it becomes ---- */

static void a_map_in_pieces_is_read(void **state)
{
    lk_cluster *cluster = *state;
    const unsigned first = lk_cluster_first(cluster, 0);
    for (int share = 0; share < 3;
         share += 2) { /* one alone is read as any answer, while it has no replica */
        assert_int_equal(lk_node_number(cluster, share, "EVAL \"redis.call('FLUSHALL') return 1\" 0"), 1);
        lk_cluster_need(cluster, lk_cluster_scatter(cluster, share, share, 1));
    }
    locker *l = lk_open_cluster(cluster, 0, "");
    for (unsigned slot = first; slot < first + 4; slot++) {
        locker_handle *held = lk_take(l, name_in(slot));
        assert_int_equal(lk_node_number(cluster, (slot - first) % 2 == 0, "EXISTS %s", name_in(slot)), 1);
        lk_give(held);
        assert_int_equal(
            lk_node_number(cluster, (slot - first) % 2 == 0, "DEL %s", lk_fence_key(name_in(slot))), 1);
    }
    lk_close_locker(l);
    for (int share = 0; share < 3; share += 2)
        lk_cluster_need(cluster, lk_cluster_scatter(cluster, share, 1, share));
}

static bool is_listened_to(void *cluster)
{
    return lk_node_number(cluster, 0, "EVAL \"return#redis.call('PUBSUB','SHARDCHANNELS')\" 0") > 0;
}

/* Though nothing that is due has its locker do anything meanwhile. */
static void a_reader_is_notified_of_a_break(void **state)
{
    lk_cluster *cluster = *state;
    const char *const key = name_in(lk_cluster_first(cluster, 0));
    locker *l = lk_open_cluster(cluster, 0, "ttl=90s"), *other = lk_open_cluster(cluster, 1, "");
    locker_lock_options once = LOCKER_LOCK_OPTIONS_INIT;
    locker_error err;
    once.mode = LOCKER_SHARED;
    once.no_renew = true;
    locker_handle *held = lk_take_with(l, key, &once);
    lk_require(is_listened_to, cluster, "a holder should subscribe");
    assert_ok(locker_break(other, key, NULL, NULL, &err), err);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give_lost(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* Which ran at a node, this one among them. */
static long long count_scripts(lk_cluster *cluster, int node)
{
    return lk_node_number(cluster, node,
                          "EVAL \"local s, n = redis.call('INFO','commandstats'), 1 "
                          "for c in s:gmatch('cmdstat_eval%%a*:calls=(%%d+)') do n = n + c end return n\" 0");
}

static bool has_asked_twice(void *l)
{
    return lk_stats(l).attempts >= 2;
}

/* The slot may have moved since it was sent, and the lock have been broken elsewhere: so the server is asked. */
static void a_message_alone_grants_nothing(void **state)
{
    lk_cluster *cluster = *state;
    const char *const key = name_in(lk_cluster_first(cluster, 0));
    locker *l =
        lk_open_cluster(cluster, 0, "poll=60s"); /* first: the grant has a number that it can compare */
    locker *other = lk_open_cluster(cluster, 0, "");
    locker_handle *held = lk_take(other, key);
    lk_locking waiter;
    lk_locking_start(&waiter, l, key, NULL);
    lk_require(has_asked_twice, l, "a waiter should ask once more when it has subscribed");
    lk_require_waiting(l, 1);
    const long long before = count_scripts(cluster, 0);
    lk_give(held);
    held = lk_locking_grant(&waiter);
    assert_true(count_scripts(cluster, 0) - before >=
                3); /* the release, the waiter's question, and this one */
    lk_give(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* Of this process: "fd", "task". */
static int count_of(const char *what)
{
    char path[32];
    int count = 0;
    snprintf(path, sizeof path, "/proc/self/%s", what);
    DIR *all = opendir(path);
    assert_non_null(all);
    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

static bool is_at_rest(void *context)
{
    return count_of("task") <= *(const int *)context;
}

/* The node calls itself by its next address, and its connection breaks: so a locker learns of it, and takes it for another one. */
static void change_address(lk_server *node, int i)
{
    char answer[256], question[80];
    snprintf(question, sizeof question, "CONFIG SET cluster-announce-ip 127.0.0.%d", i % ADDRESSES + 1);
    assert_true(lk_server_ask(node, question, answer, sizeof answer));
    snprintf(question, sizeof question, "CLIENT KILL LADDR 127.0.0.%d:%d", (i - 1) % ADDRESSES + 1,
             node->port);
    assert_true(lk_server_ask(node, question, answer, sizeof answer));
}

/* A locker keeps nothing of where they were. */
static void nodes_may_change_their_addresses_for_ever(void **state)
{
    enum { SETTLED = 4, LAST = 4 * ADDRESSES };
    lk_cluster *cluster = *state;
    char answer[256], other[32];
    const char *const key = key_of(cluster, 2);
    lk_server *const node = &cluster->node[lk_node_of(cluster, key)];
    locker *l = lk_open_cluster(cluster, 0, "ttl=60s");
    locker_handle *held = lk_take(l, key);
    int tasks = count_of("task"), files = 0;
    /* some may be on their way out when it is counted */
    for (int i = 1; i < ADDRESSES || (count_of("fd") > files + 2 && i < LAST); i++) {
        change_address(node, i);
        lk_give(lk_take(l, lk_key_of_share(cluster, 2, 2, other)));
        lk_require(is_at_rest, &tasks, "nobody should be connecting any more");
        if (i == SETTLED)
            files = count_of("fd");
    }
    assert_in_range(count_of("fd"), 0, files + 2);
    lk_give(held);
    lk_close_locker(l);
    assert_true(lk_server_ask(node, "CONFIG SET cluster-announce-ip 127.0.0.1", answer, sizeof answer));
}

/* ------------------------------------------------------------------ how it is opened ---- */

static void any_node_that_answers_is_enough(void **state)
{
    lk_cluster *cluster = *state;
    locker_error err;
    locker *l;
    const int dead = lk_free_port();
    assert_ok(lk_try_uri(&l, &err, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d/", dead, cluster->node[2].port),
              err);
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++)
        lk_give(lk_take(l, key_of(cluster, share)));
    lk_close_locker(l);
    assert_status(LOCKER_UNAVAILABLE,
                  lk_try_uri(&l, &err, "redis+cluster://127.0.0.1:%d/?connect_timeout=1s", dead), err);
    /* one that says nothing hides no other */
    lk_test_freeze(&cluster->node[3]);
    const int64_t from = lk_test_now_ms();
    assert_ok(lk_try_uri(&l, &err, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d/?connect_timeout=2s",
                         cluster->node[3].port, cluster->node[0].port),
              err);
    lk_give(lk_take(l, key_of(cluster, 0)));
    assert_timely(lk_test_now_ms() - from, 10000);
    lk_close_locker(l);
    lk_server_thaw(&cluster->node[3]);
}

static void a_locker_survives_the_loss_of_the_node_in_its_uri(void **state)
{
    lk_cluster *cluster = *state;
    locker_error err;
    locker *l;
    assert_ok(lk_try_uri(&l, &err, "redis+cluster://127.0.0.1:%d/?ttl=60s", cluster->node[5].port), err);
    locker_handle *held = lk_take(l, key_of(cluster, 0));
    lk_server_kill(&cluster->node[5]);
    for (int share = 1; share < LK_CLUSTER_MASTERS; share++)
        lk_give(lk_take(l, key_of(cluster, share)));
    lk_give(held);
    lk_close_locker(l);
}

static void a_server_that_is_no_cluster_is_refused(void **state)
{
    lk_cluster *cluster = *state;
    lk_server *alone = lk_test_redis(NULL);
    locker_error err;
    locker *l;
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "redis+cluster://127.0.0.1:%d/", alone->port), err);
    assert_non_null(strstr(err.text, "redis://"));
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "redis://127.0.0.1:%d/", cluster->node[0].port), err);
    assert_non_null(strstr(err.text, "redis+cluster://"));
    lk_test_redis_free(alone);
}

static void a_cluster_has_one_database(void **state)
{
    lk_cluster *cluster = *state;
    locker_error err;
    locker *l;
    assert_status(LOCKER_CONFIG,
                  lk_try_uri(&l, &err, "redis+cluster://127.0.0.1:%d/2", cluster->node[0].port), err);
    assert_non_null(strstr(err.text, "database"));
    assert_ok(lk_try_uri(&l, &err, "redis+cluster://127.0.0.1:%d/0", cluster->node[0].port), err);
    lk_close_locker(l);
}

/* The counter has to be where the lock is. With a tag of its own a namespace has all its locks in one slot. */
static void braces_of_a_namespace_are_a_tag_or_refused(void **state)
{
    static const struct {
        const char *name;
        bool serves;
    } namespaces[] = {{"{shop}", true}, {"a{shop}b", true}, {"a}b", true}, {"a{b", false}, {"a{}b", false}};
    lk_cluster *cluster = *state;
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        locker_options options = LOCKER_OPTIONS_INIT;
        char uri[64];
        locker_error err;
        locker *l = NULL;
        options.name_space = namespaces[i].name;
        (void)snprintf(uri, sizeof uri, "redis+cluster://127.0.0.1:%d/", cluster->node[0].port);
        assert_status(namespaces[i].serves ? LOCKER_OK : LOCKER_CONFIG, locker_open(uri, &options, &l, &err),
                      err);
        for (int n = 0; n < 8 && l != NULL; n++) {
            char key[32];
            lk_give(lk_take(l, lk_key_of_share(cluster, n % LK_CLUSTER_MASTERS, n, key)));
        }
        lk_close_locker(l);
    }
}

static void users_log_in_at_each_node(void **state)
{
    lk_cluster *cluster = *state;
    char answer[128];
    locker_error err;
    locker *l;
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        assert_true(lk_server_ask(&cluster->node[i],
                                  "ACL SETUSER shop on >sesame ~shop:* ~{shop:* &locker:wake:* +@all", answer,
                                  sizeof answer));
    assert_ok(lk_try_uri(&l, &err, "redis+cluster://shop:sesame@127.0.0.1:%d/?namespace=shop",
                         cluster->node[0].port),
              err);
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++)
        for (int n = 0; n < 3; n++) { /* somewhere: the namespace is hashed, too */
            char key[32];
            lk_give(lk_take(l, lk_key_of_share(cluster, share, n, key)));
        }
    lk_close_locker(l);
    assert_status(LOCKER_DENIED,
                  lk_try_uri(&l, &err, "redis+cluster://shop:pepper@127.0.0.1:%d/?namespace=shop",
                             cluster->node[0].port),
                  err);
    assert_null(strstr(err.text, "pepper"));
}

#ifdef LK_TEST_TLS
/* What its nodes say of each other is checked as what the URI says: each has to be who it is. */
static void all_nodes_speak_tls(void **state)
{
    enum { TLS_TIMEOUT_MS = 2000 }; /* nodes whose handshake fails, as two at once may, try again then */
    static lk_cluster secret;
    lk_server place = {0};
    char why[256], key[32];
    locker_error err;
    locker *l;
    (void)state;
    assert_true(lk_scratch_make("tls", place.directory, why, sizeof why));
    lk_test_certificates(&place);
    lk_cluster_need(&secret, lk_cluster_start(&secret, &(lk_cluster_setup){.timeout_ms = TLS_TIMEOUT_MS,
                                                                           .certificates = place.directory}));
    assert_ok(
        lk_try_uri(&l, &err,
                   "rediss+cluster://127.0.0.1:%d/?ttl=60s&poll=60s&tls_ca=%s/ca.crt&tls_cert=%s/client.crt&"
                   "tls_key=%s/client.key",
                   secret.node[0].port, place.directory, place.directory, place.directory),
        err);
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++) {
        lk_key_of_share(&secret, share, 0, key);
        locker_handle *held = lk_take(l, key);
        assert_int_equal(lk_node_number(&secret, lk_node_of(&secret, key), "EXISTS %s", key), 1);
        lk_give(held);
    }
    lk_close_locker(l);
    assert_status(LOCKER_PROTOCOL,
                  lk_try_uri(&l, &err, "rediss+cluster://127.0.0.1:%d/?tls_ca=%s/other-ca.crt",
                             secret.node[0].port, place.directory),
                  err);
    lk_cluster_remove(&secret);
    lk_scratch_remove(place.directory);
}
#endif

static const struct CMUnitTest tests[] = {
    cluster_test(locks_of_all_slots_are_granted), /* while nothing else is there */
    cluster_test(names_with_braces_are_locked),
    cluster_test(a_hand_over_notifies_the_waiter),
    cluster_test(unlock_reports_ok_lost_and_unknown_correctly),
    cluster_test(show_and_break_find_the_node),
    cluster_test(foreign_data_is_left_unchanged),
    cluster_test(ping_queries_the_cluster),
    cluster_test(close_gives_back_what_is_held),
    cluster_test(a_map_in_pieces_is_read),
    cluster_test(a_reader_is_notified_of_a_break),
    cluster_test(a_message_alone_grants_nothing),
    cluster_test(nodes_may_change_their_addresses_for_ever),
    cluster_test(any_node_that_answers_is_enough),
    cluster_test(a_locker_survives_the_loss_of_the_node_in_its_uri),
    cluster_test(a_server_that_is_no_cluster_is_refused),
    cluster_test(a_cluster_has_one_database),
    cluster_test(braces_of_a_namespace_are_a_tag_or_refused),
    cluster_test(users_log_in_at_each_node),
#ifdef LK_TEST_TLS
    cmocka_unit_test(all_nodes_speak_tls),
#endif
};

const lk_group lk_cluster_well = {"cluster", tests, sizeof tests / sizeof tests[0], begin, lk_cluster_end};
