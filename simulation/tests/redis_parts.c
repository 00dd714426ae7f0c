/*
 * redis_parts.c: what the simulated Redis has and a real one can't be compared in: replicas that lag,
 * failovers, restarts, faults, and the same bytes for the same calls.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "redis_words.h"
#include "simulation/redis/replication.h"

enum { SECOND = 1000000000 };
static const int64_t epoch_ns = INT64_C(1700000000000000000);

/* ------------------------------------------------------------------ a server and who asks it ---- */

static lk_sr_server *make(uint64_t seed)
{
    const lk_sr_setup setup = {.seed = seed, .host = "10.0.0.1", .port = 6379, .clock_ns = epoch_ns};
    return lk_sr_new(&setup);
}

static lk_sr_client *join(lk_sr_server *server)
{
    return lk_sr_connect(server, "10.0.0.9:1234", NULL);
}

static void say(lk_sr_client *client, const char *line)
{
    lk_sr_feed(client, lk_sr_word(line));
    lk_sr_feed(client, lk_sr_word("\r\n"));
}

static void expect(lk_sr_client *client, const char *answer)
{
    const lk_sr_text output = lk_sr_output(client);
    char text[1024];
    (void)snprintf(text, sizeof text, "%.*s", (int)output.len, output.len > 0 ? output.data : "");
    assert_string_equal(text, answer);
    lk_sr_sent(client, output.len);
}

static void ask(lk_sr_client *client, const char *line, const char *answer)
{
    say(client, line);
    expect(client, answer);
}

/* All that the link has arrives, and is confirmed. */
static void carry(lk_sr_link *link, lk_sr_server *replica)
{
    for (lk_sr_text unit = lk_sr_link_unit(link); unit.len > 0; unit = lk_sr_link_unit(link)) {
        lk_sr_apply(replica, unit);
        lk_sr_link_taken(link);
    }
    lk_sr_acknowledge(link, lk_sr_offset(replica));
}

/* A master and its replica, in step, and a client of each. */
typedef struct {
    lk_sr_server *master, *replica;
    lk_sr_client *at_master, *at_replica;
    lk_sr_link *link;
} two;

static int begin(void **state)
{
    two *t = test_calloc(1, sizeof *t);
    t->master = make(1);
    t->replica = make(2);
    lk_sr_follow(t->replica, "10.0.0.1", 6379);
    t->link = lk_sr_attach(t->master, t->replica);
    t->at_master = join(t->master);
    t->at_replica = join(t->replica);
    *state = t;
    return 0;
}

static int end(void **state)
{
    two *t = *state;
    lk_sr_detach(t->link);
    lk_sr_free(t->master);
    lk_sr_free(t->replica);
    test_free(t);
    return 0;
}

/* ------------------------------------------------------------------ replicas ---- */

static void a_replica_lags_as_long_as_it_is_let(void **state)
{
    two *t = *state;
    ask(t->at_master, "SET a 1", "+OK\r\n");
    ask(t->at_replica, "GET a", "$-1\r\n");
    carry(t->link, t->replica);
    ask(t->at_replica, "GET a", "$1\r\n1\r\n");
    ask(t->at_replica, "SET a 2", "-READONLY You can't write against a read only replica.\r\n");
}

static void wait_is_answered_when_the_replica_has_acknowledged(void **state)
{
    two *t = *state;
    ask(t->at_master, "SET a 1", "+OK\r\n");
    say(t->at_master, "WAIT 1 0");
    say(t->at_master, "PING");
    expect(t->at_master, "");
    assert_int_equal(lk_sr_due(t->master), INT64_MAX);
    carry(t->link, t->replica);
    expect(t->at_master, ":1\r\n+PONG\r\n");
}

static void wait_ends_with_its_time(void **state)
{
    two *t = *state;
    ask(t->at_master, "SET a 1", "+OK\r\n");
    say(t->at_master, "WAIT 1 500");
    const int64_t due = lk_sr_due(t->master);
    assert_int_equal(due, 501000000);
    lk_sr_advance(t->master, due - 1);
    expect(t->at_master, "");
    lk_sr_advance(t->master, due);
    expect(t->at_master, ":0\r\n");
}

static void a_client_in_wait_is_closed_when_its_master_becomes_a_replica(void **state)
{
    two *t = *state;
    ask(t->at_master, "SET a 1", "+OK\r\n");
    say(t->at_master, "WAIT 1 0");
    lk_sr_follow(t->master, "10.0.0.2", 6379);
    expect(t->at_master,
           "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> "
           "replica?)\r\n");
    assert_true(lk_sr_is_closed(t->at_master));
}

/* The last grants are lost: that is what fencing is for. */
static void a_failover_loses_what_was_on_its_way(void **state)
{
    two *t = *state;
    ask(t->at_master, "SET kept 1", "+OK\r\n");
    carry(t->link, t->replica);
    ask(t->at_master, "SET lost 1", "+OK\r\n");
    lk_sr_promote(t->replica);
    ask(t->at_replica, "EXISTS kept lost", ":1\r\n");
    ask(t->at_replica, "SET new 1", "+OK\r\n");
    ask(t->at_replica, "ROLE", "*3\r\n$6\r\nmaster\r\n:53\r\n*0\r\n");
}

static void a_lease_ends_at_a_replica_when_its_master_says_so(void **state)
{
    two *t = *state;
    ask(t->at_master, "SET a 1 PX 100", "+OK\r\n");
    carry(t->link, t->replica);
    lk_sr_advance(t->replica, SECOND);
    ask(t->at_replica, "GET a", "$-1\r\n");
    ask(t->at_replica, "DBSIZE", ":1\r\n");
    lk_sr_advance(t->master, SECOND);
    carry(t->link, t->replica);
    ask(t->at_replica, "DBSIZE", ":0\r\n");
}

static void messages_are_heard_at_replicas(void **state)
{
    two *t = *state;
    ask(t->at_replica, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    ask(t->at_master, "PUBLISH c m", ":0\r\n");
    carry(t->link, t->replica);
    expect(t->at_replica, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
}

static void what_a_script_does_arrives_as_a_whole(void **state)
{
    two *t = *state;
    const char *script = "redis.call('SET', KEYS[1], 1, 'PX', 5000) redis.call('INCR', KEYS[1]) return 1";
    char request[256];
    (void)snprintf(request, sizeof request, "*4\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$1\r\na\r\n",
                   strlen(script), script);
    lk_sr_feed(t->at_master, lk_sr_word(request));
    expect(t->at_master, ":1\r\n");
    const lk_sr_text unit = lk_sr_link_unit(t->link);
    const char *effects = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"
                          "*5\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n$4\r\nPXAT\r\n$13\r\n1700000005000\r\n"
                          "*2\r\n$4\r\nINCR\r\n$1\r\na\r\n";
    assert_int_equal(unit.len, strlen(effects));
    assert_memory_equal(unit.data, effects, unit.len);
    lk_sr_link_taken(t->link);
    assert_int_equal(lk_sr_link_unit(t->link).len, 0);
}

static void min_replicas_to_write(void **state)
{
    two *t = *state;
    ask(t->at_master, "CONFIG SET min-replicas-to-write 1", "+OK\r\n");
    ask(t->at_master, "SET a 1", "+OK\r\n");
    lk_sr_detach(t->link);
    t->link = NULL;
    ask(t->at_master, "SET a 1", "-NOREPLICAS Not enough good replicas to write.\r\n");
}

/* Keys in which the two differ are asked for at both. */
static void a_replica_has_the_data_of_its_master(void **state)
{
    static const char *const suffixes[] = {"", ":locker:queue", ":locker:fence", ":locker:info"};
    static const char *const questions[] = {"GET", "PTTL", "TYPE", "LLEN", "HLEN", "ZCARD"};
    two *t = *state;
    words w = {.count = 0};
    lk_sr_bytes bytes = {NULL, 0, 0};
    drawing d = {.random = 7, .clock_us = epoch_ns / 1000, .first_client = 100};
    for (int i = 0; i < 20000; i++) {
        d.theme = i % 2 == 0 ? THEME_KEYS : THEME_LOCKS;
        bytes.len = 0;
        words_draw(&d, &w);
        words_put(&w, &bytes);
        lk_sr_feed(t->at_master, lk_sr_view(&bytes));
        lk_sr_sent(t->at_master, lk_sr_output(t->at_master).len);
        if (i % 50 == 0 ||
            lk_sr_is_closed(t->at_master)) { /* not in Pub/Sub for ever, nor in another database */
            lk_sr_disconnect(t->at_master);
            t->at_master = join(t->master);
        }
    }
    carry(t->link, t->replica);
    assert_int_equal(lk_sr_offset(t->master), lk_sr_offset(t->replica));
    assert_true(lk_sr_offset(t->master) > 100000);
    for (size_t i = 0; i < 4 * 4 * 6; i++) {
        char line[64];
        static const char *const keys[] = {"a", "b", "ab", "locker:fence:{1}"};
        const char *key = keys[i % 4], *suffix = suffixes[i / 4 % 4];
        (void)snprintf(line, sizeof line, suffix[0] != '\0' ? "%s {%s}%s" : "%s %s%s", questions[i / 16], key,
                       suffix);
        lk_sr_client *asker = join(t->master);
        say(asker, line);
        const lk_sr_text answer = lk_sr_output(asker);
        lk_sr_bytes copy = {NULL, 0, 0};
        lk_sr_put(&copy, answer);
        lk_sr_put(&copy, (lk_sr_text){"", 1});
        ask(t->at_replica, line, copy.data);
        lk_sr_bytes_free(&copy);
        lk_sr_disconnect(asker);
    }
    lk_sr_bytes_free(&bytes);
    words_clear(&w);
}

/* ------------------------------------------------------------------ restarts, faults, time ---- */

static lk_sr_client *rejoin(lk_sr_server *server, lk_sr_client *client)
{
    assert_true(lk_sr_is_closed(client));
    lk_sr_disconnect(client);
    return join(server);
}

static void a_restart_keeps_data_or_loses_them(void **state)
{
    lk_sr_server *server = make(1);
    lk_sr_client *client = join(server);
    (void)state;
    ask(client, "SET a 1 PX 5000", "+OK\r\n");
    ask(client, "EVAL return(1) 0", ":1\r\n");
    lk_sr_restart(server, true);
    client = rejoin(server, client);
    ask(client, "PTTL a", ":5000\r\n");
    ask(client, "EVALSHA 098e0f0d1448c0a81dafe820f66d460eb09263da 0",
        "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    lk_sr_restart(server, false);
    client = rejoin(server, client);
    ask(client, "EXISTS a", ":0\r\n");
    ask(client, "CLIENT ID", ":1\r\n");
    lk_sr_free(server);
}

static void a_restart_goes_back_to_what_was_saved(void **state)
{
    lk_sr_server *server = make(1);
    lk_sr_client *client = join(server);
    (void)state;
    ask(client, "SET a 1", "+OK\r\n");
    lk_sr_save(server);
    ask(client, "SET b 1", "+OK\r\n");
    lk_sr_restart(server, true);
    client = rejoin(server, client);
    ask(client, "EXISTS a b", ":1\r\n");
    lk_sr_free(server);
}

static void each_run_has_an_id_of_its_own(void **state)
{
    lk_sr_server *server = make(1);
    char ids[2][512];
    (void)state;
    for (int i = 0; i < 2; i++) {
        lk_sr_client *client = join(server);
        say(client, "INFO server");
        const lk_sr_text info = lk_sr_output(client);
        const char *id = memmem(info.data, info.len, "run_id:", 7);
        assert_non_null(id);
        (void)snprintf(ids[i], sizeof ids[i], "%.47s", id);
        lk_sr_disconnect(client);
        lk_sr_restart(server, true);
    }
    assert_string_not_equal(ids[0], ids[1]);
    lk_sr_free(server);
}

static void faults_are_answered(void **state)
{
    lk_sr_server *server = make(1);
    lk_sr_client *client = join(server);
    (void)state;
    lk_sr_set_faults(server, LK_SR_LOADING);
    ask(client, "GET a", "-LOADING Redis is loading the dataset in memory\r\n");
    ask(client, "SELECT 0", "+OK\r\n");
    lk_sr_set_faults(server, LK_SR_BUSY);
    ask(client, "GET a",
        "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n");
    lk_sr_set_faults(server, LK_SR_NO_DISK);
    ask(client, "GET a", "$-1\r\n");
    say(client, "SET a 1");
    assert_memory_equal(lk_sr_output(client).data, "-MISCONF ", 9);
    lk_sr_sent(client, lk_sr_output(client).len);
    lk_sr_set_faults(server, 0);
    lk_sr_set_memory(server, 1);
    ask(client, "SET a 1", "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    ask(client, "DEL a", ":0\r\n");
    lk_sr_set_memory(server, 2 << 20);
    ask(client, "SET a 1", "+OK\r\n");
    lk_sr_free(server);
}

static void leases_go_by_a_clock_that_is_set(void **state)
{
    lk_sr_server *server = make(1);
    lk_sr_client *client = join(server);
    (void)state;
    ask(client, "SET a 1 PX 5000", "+OK\r\n");
    lk_sr_set_clock(server, epoch_ns - 10 * (int64_t)SECOND);
    ask(client, "PTTL a", ":15000\r\n");
    ask(client, "TIME", "*2\r\n$10\r\n1699999990\r\n$1\r\n0\r\n");
    lk_sr_set_clock(server, epoch_ns + 6 * (int64_t)SECOND);
    ask(client, "PTTL a", ":-2\r\n");
    lk_sr_free(server);
}

typedef struct {
    lk_sr_client *client;
    int times;
} heard;

static void note(void *context, lk_sr_client *client)
{
    heard *h = context;
    h->client = client;
    h->times++;
}

static void the_owner_is_notified_of_output(void **state)
{
    heard h = {.times = 0};
    const lk_sr_setup setup = {.ready = note, .context = &h};
    lk_sr_server *server = lk_sr_new(&setup);
    lk_sr_client *listener = join(server), *sender = join(server);
    (void)state;
    ask(listener, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    assert_ptr_equal(h.client, listener);
    h.times = 0;
    ask(sender, "PUBLISH c m", ":1\r\n");
    assert_int_equal(h.times, 2);
    lk_sr_free(server);
}

/* A run of random commands, as a hash of all answers. */
static uint64_t run(uint64_t seed)
{
    lk_sr_server *server = make(seed);
    lk_sr_client *client = join(server);
    words w = {.count = 0};
    lk_sr_bytes bytes = {NULL, 0, 0};
    drawing d = {.random = seed, .clock_us = epoch_ns / 1000, .first_client = 100};
    uint64_t hash = 0;
    for (int i = 0; i < 2000; i++) {
        d.theme = (theme)draw(&d, THEMES);
        bytes.len = 0;
        words_draw(&d, &w);
        words_put(&w, &bytes);
        lk_sr_feed(client, lk_sr_view(&bytes));
        const lk_sr_text output = lk_sr_output(client);
        for (size_t j = 0; j < output.len; j++)
            hash = hash * 31 + (unsigned char)output.data[j];
        lk_sr_sent(client, output.len);
        lk_sr_advance(server, i * (int64_t)SECOND);
        if (lk_sr_is_closed(client) || i % 50 == 0) {
            lk_sr_disconnect(client);
            client = join(server);
        }
    }
    words_clear(&w);
    lk_sr_bytes_free(&bytes);
    lk_sr_free(server);
    return hash;
}

static void the_same_calls_give_the_same_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 5; seed++)
        assert_true(run(seed) == run(seed));
    assert_true(run(1) != run(2));
}

#define WITH_TWO(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TWO(a_replica_lags_as_long_as_it_is_let),
        WITH_TWO(wait_is_answered_when_the_replica_has_acknowledged),
        WITH_TWO(wait_ends_with_its_time),
        WITH_TWO(a_client_in_wait_is_closed_when_its_master_becomes_a_replica),
        WITH_TWO(a_failover_loses_what_was_on_its_way),
        WITH_TWO(a_lease_ends_at_a_replica_when_its_master_says_so),
        WITH_TWO(messages_are_heard_at_replicas),
        WITH_TWO(what_a_script_does_arrives_as_a_whole),
        WITH_TWO(min_replicas_to_write),
        WITH_TWO(a_replica_has_the_data_of_its_master),
        cmocka_unit_test(a_restart_keeps_data_or_loses_them),
        cmocka_unit_test(a_restart_goes_back_to_what_was_saved),
        cmocka_unit_test(each_run_has_an_id_of_its_own),
        cmocka_unit_test(faults_are_answered),
        cmocka_unit_test(leases_go_by_a_clock_that_is_set),
        cmocka_unit_test(the_owner_is_notified_of_output),
        cmocka_unit_test(the_same_calls_give_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
