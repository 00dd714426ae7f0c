/* ensemble.c: the simulated ZooKeeper as an ensemble: what can't be held against a real one, because there
 * nobody decides when a message arrives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulation/zookeeper/zookeeper.h"

enum {
    TICK_MS = 200,
    SESSION_MS = 1000,
    STEP_MS = 10,
    PATIENCE_MS = 20000,
    SYNC_TICKS = 5,
    CONNECTIONS_MOST = 16
};
static const int64_t ms = 1000000;

/* An ensemble, and what of it does not go on. */
static struct {
    lk_simzk *z;
    int servers;
    bool cut[LK_SIMZK_SERVERS_MAX];   /* no message comes to it or leaves it */
    bool lags[LK_SIMZK_SERVERS_MAX];  /* it applies nothing */
    bool stuck[LK_SIMZK_SERVERS_MAX]; /* its disk writes nothing */
    lk_simzk_connection *connections[CONNECTIONS_MOST];
    int connected;
} w;

typedef struct {
    lk_simzk_connection *connection;
    lk_simzk_hello hello;
    int32_t xid;
    int events; /* that came before the last answer */
    int32_t event_type;
} client;

/* ------------------------------------------------------------------ the world ---- */

static bool goes_on(lk_simzk_link link)
{
    switch (link.channel) {
    case LK_SIMZK_DISK:
        return !w.stuck[link.to];
    case LK_SIMZK_APPLY:
        return !w.lags[link.to];
    default:
        return !w.cut[link.from] && !w.cut[link.to];
    }
}

static bool deliver_one(void)
{
    for (int channel = 0; channel < LK_SIMZK_CHANNELS; channel++) {
        for (int i = 0; i < w.servers * w.servers; i++) {
            const lk_simzk_link link = {(lk_simzk_channel)channel, i / w.servers, i % w.servers};
            if (goes_on(link) && lk_simzk_deliver(w.z, link))
                return true;
        }
    }
    return false;
}

static void settle(void)
{
    while (deliver_one()) {
    }
}

static void run(int64_t for_ms)
{
    for (int64_t end = lk_simzk_now(w.z) + for_ms * ms; lk_simzk_now(w.z) < end;) {
        lk_simzk_advance(w.z, lk_simzk_now(w.z) + STEP_MS * ms);
        settle();
    }
}

/* Until one of those that aren't cut off leads. */
static int run_until_led(void)
{
    for (int64_t left = PATIENCE_MS; left > 0; left -= STEP_MS) {
        const int leader = lk_simzk_leader(w.z);
        if (leader >= 0 && !w.cut[leader])
            return leader;
        run(STEP_MS);
    }
    fail_msg("nobody leads");
    return -1;
}

static void await_serving(int server)
{
    for (int64_t left = PATIENCE_MS; left > 0 && !lk_simzk_serves(w.z, server); left -= STEP_MS)
        run(STEP_MS);
    assert_true(lk_simzk_serves(w.z, server));
}

static void begin(int servers)
{
    const lk_simzk_setup setup = {
        .servers = servers,
        .tick_ms = TICK_MS,
        .sync_limit = SYNC_TICKS,
        .clocks = {{0, 0}, {77 * ms, 5000}, {1234567, -5000}, {5 * ms, 0}, {99 * ms, 100}}};
    memset(&w, 0, sizeof w);
    w.z = lk_simzk_new(&setup);
    w.servers = servers;
    run_until_led();
    for (int i = 0; i < servers; i++)
        await_serving(i);
}

static int begin_three(void **state)
{
    (void)state;
    begin(3);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < w.connected; i++)
        lk_simzk_disconnect(w.connections[i]);
    lk_simzk_free(w.z);
    return 0;
}

static int a_follower(int but)
{
    for (int i = 0; i < w.servers; i++)
        if (i != lk_simzk_leader(w.z) && i != but)
            return i;
    return -1;
}

/* ------------------------------------------------------------------ clients ---- */

static lk_simzk_answer *next_reply(client *c)
{
    lk_simzk_answer *answer;
    c->events = 0;
    while ((answer = lk_simzk_receive(c->connection)) != NULL && answer->kind == LK_SIMZK_EVENT) {
        c->events++;
        c->event_type = answer->type;
        lk_simzk_answer_free(answer);
    }
    if (answer != NULL && answer->kind == LK_SIMZK_REPLY && answer->zxid > c->hello.seen)
        c->hello.seen = answer->zxid;
    return answer;
}

/* Whether the session is there. */
static bool enter(client *c, int server)
{
    c->connection = lk_simzk_connect(w.z, server, &c->hello);
    assert_non_null(c->connection);
    w.connections[w.connected++] = c->connection;
    settle();
    lk_simzk_answer *const answer = next_reply(c);
    const bool welcome = answer != NULL && answer->timeout_ms > 0;
    if (welcome) {
        c->hello.session = answer->session;
        c->hello.password = answer->password;
    }
    lk_simzk_answer_free(answer);
    return welcome;
}

static void leave(client *c)
{
    for (int i = 0; i < w.connected; i++)
        if (w.connections[i] == c->connection)
            w.connections[i] = NULL;
    lk_simzk_disconnect(c->connection);
    c->connection = NULL;
}

static client new_client(int server)
{
    client c = {.hello = {.timeout_ms = SESSION_MS}};
    assert_true(enter(&c, server));
    return c;
}

static void tell(client *c, lk_simzk_op op)
{
    static const lk_simzk_ace anyone = {31, "world", "anyone"};
    op.acl = (lk_simzk_acl){&anyone, 1};
    op.data.len = -1;
    lk_simzk_send(c->connection, &(lk_simzk_request){.xid = ++c->xid, .op = op});
}

/* The answer, which is to be freed; NULL: none comes. */
static lk_simzk_answer *ask(client *c, lk_simzk_op op)
{
    tell(c, op);
    settle();
    return next_reply(c);
}

enum { NO_ANSWER = 1 };

static int result(client *c, lk_simzk_op op)
{
    lk_simzk_answer *const answer = ask(c, op);
    const int error = answer != NULL ? (int)answer->error : NO_ANSWER;
    lk_simzk_answer_free(answer);
    return error;
}

static int create(client *c, const char *path, int32_t mode)
{
    return result(
        c, (lk_simzk_op){.kind = mode == LK_SIMZK_CONTAINER ? LK_SIMZK_CREATE_CONTAINER : LK_SIMZK_CREATE2,
                         .path = path,
                         .mode = mode});
}

static int delete_node(client *c, const char *path)
{
    return result(c, (lk_simzk_op){.kind = LK_SIMZK_DELETE, .path = path, .version = -1});
}

static int exists(client *c, const char *path)
{
    return result(c, (lk_simzk_op){.kind = LK_SIMZK_EXISTS, .path = path});
}

/* The same by a client that has just come to that server. */
static int exists_at(int server, const char *path)
{
    client late = new_client(server);
    const int error = exists(&late, path);
    leave(&late);
    return error;
}

static int watch(client *c, const char *path)
{
    return result(c, (lk_simzk_op){.kind = LK_SIMZK_EXISTS, .path = path, .watch = true});
}

/* Its session goes on: pings, as a client library sends them. */
static void live(client *c, int64_t for_ms)
{
    for (int64_t left = for_ms; left > 0; left -= SESSION_MS / 4) {
        tell(c, (lk_simzk_op){.kind = LK_SIMZK_PING});
        run(SESSION_MS / 4);
    }
    while (!lk_simzk_is_closed(c->connection)) {
        lk_simzk_answer *const answer = next_reply(c);
        if (answer == NULL)
            return;
        lk_simzk_answer_free(answer);
    }
}

/* ------------------------------------------------------------------ elections ---- */

static void a_leader_is_elected_in_ensembles_of_any_size(void **state)
{
    (void)state;
    for (int servers = 1; servers <= 5; servers += 2) {
        begin(servers);
        client c = new_client(servers - 1);
        assert_int_equal(create(&c, "/a", 0), LK_SIMZK_OK);
        for (int i = 0; i < servers; i++)
            assert_true(lk_simzk_applied(w.z, i) == lk_simzk_applied(w.z, 0));
        (void)end(state);
    }
}

static void the_newest_history_wins(void **state)
{
    (void)state;
    const int leader = lk_simzk_leader(w.z), one = a_follower(-1), other = a_follower(one);
    client c = new_client(leader);
    w.cut[other] = true; /* the highest number would win, were they equal */
    assert_int_equal(create(&c, "/a", 0), LK_SIMZK_OK);
    leave(&c);
    lk_simzk_crash(w.z, leader, true);
    w.cut[other] = false;
    assert_int_equal(run_until_led(), one);
    await_serving(other);
    assert_int_equal(exists_at(other, "/a"), LK_SIMZK_OK);
}

static void zxids_begin_anew_with_each_epoch(void **state)
{
    (void)state;
    const int leader = lk_simzk_leader(w.z);
    client c = new_client(a_follower(-1));
    lk_simzk_answer *before = ask(&c, (lk_simzk_op){.kind = LK_SIMZK_CREATE2, .path = "/a"});
    leave(&c);
    lk_simzk_crash(w.z, leader, true);
    run_until_led();
    await_serving(a_follower(leader));
    client d = new_client(a_follower(leader));
    lk_simzk_answer *after = ask(&d, (lk_simzk_op){.kind = LK_SIMZK_CREATE2, .path = "/b"});
    assert_non_null(before);
    assert_non_null(after);
    assert_true(after->stat.czxid >> 32 > before->stat.czxid >> 32);
    assert_true((after->stat.czxid & UINT32_MAX) < 4);
    lk_simzk_answer_free(before);
    lk_simzk_answer_free(after);
}

/* The leader alone has it. */
static void a_proposal_that_only_a_dead_leader_had_is_dropped(void **state)
{
    (void)state;
    const int leader = lk_simzk_leader(w.z);
    client c = new_client(leader);
    w.cut[leader] = true;
    assert_int_equal(create(&c, "/a", 0), NO_ANSWER);
    leave(&c);
    lk_simzk_crash(w.z, leader, true);
    w.cut[leader] = false;
    run_until_led();
    client d = new_client(lk_simzk_leader(w.z));
    assert_int_equal(create(&d, "/b", 0), LK_SIMZK_OK);
    leave(&d);
    lk_simzk_start(w.z, leader, true);
    await_serving(leader);
    assert_int_equal(exists_at(leader, "/a"), LK_SIMZK_NONODE);
    assert_int_equal(exists_at(leader, "/b"), LK_SIMZK_OK);
}

/* One follower has written it, and the leader doesn't know. */
static void a_proposal_that_was_written_survives_unanswered(void **state)
{
    (void)state;
    const int leader = lk_simzk_leader(w.z), one = a_follower(-1);
    client c = new_client(leader);
    w.stuck[leader] = w.stuck[one] = w.stuck[a_follower(one)] = true;
    assert_int_equal(create(&c, "/a", 0), NO_ANSWER);
    leave(&c);
    lk_simzk_crash(w.z, leader, false);
    memset(w.stuck, 0, sizeof w.stuck);
    lk_simzk_crash(w.z, a_follower(one), false); /* to have it forget */
    assert_true(lk_simzk_deliver(w.z, (lk_simzk_link){LK_SIMZK_DISK, one, one}));
    for (int i = 0; i < 3; i++)
        lk_simzk_start(w.z, i, true);
    assert_int_equal(run_until_led(), one);
    assert_int_equal(exists_at(one, "/a"), LK_SIMZK_OK);
}

static void without_a_majority_nothing_is_served(void **state)
{
    (void)state;
    const int leader = lk_simzk_leader(w.z), one = a_follower(-1), other = a_follower(one);
    client c = new_client(leader);
    assert_int_equal(create(&c, "/a", 0), LK_SIMZK_OK);
    lk_simzk_crash(w.z, one, true);
    lk_simzk_crash(w.z, other, true);
    run((SYNC_TICKS + 3) * TICK_MS);
    assert_true(lk_simzk_is_closed(c.connection));
    leave(&c);
    assert_int_equal(lk_simzk_leader(w.z), -1);
    assert_false(enter(&c, leader));
    assert_true(lk_simzk_is_closed(c.connection));
    leave(&c);
    lk_simzk_start(w.z, one, true);
    run_until_led();
    assert_true(enter(&c, lk_simzk_leader(w.z))); /* sessions have a whole time-out again */
    assert_int_equal(exists(&c, "/a"), LK_SIMZK_OK);
}

/* Its expirer runs before it reads that it is none any more; that ends no session of the others. */
static void a_leader_that_was_stopped_resigns(void **state)
{
    (void)state;
    const int former = lk_simzk_leader(w.z);
    client c = new_client(a_follower(-1));
    assert_int_equal(create(&c, "/a", LK_SIMZK_EPHEMERAL), LK_SIMZK_OK);
    lk_simzk_stop(w.z, former);
    for (int64_t left = PATIENCE_MS; left > 0 && lk_simzk_leader(w.z) == former; left -= STEP_MS)
        run(STEP_MS);
    const int leader = lk_simzk_leader(w.z);
    assert_int_not_equal(leader, former);
    leave(&c);
    assert_true(enter(&c, leader));
    lk_simzk_continue(w.z, former);
    live(&c, 3 * SESSION_MS);
    assert_int_equal(lk_simzk_leader(w.z), leader);
    await_serving(former);
    assert_int_equal(exists(&c, "/a"), LK_SIMZK_OK);
}

/* ------------------------------------------------------------------ sessions ---- */

static void a_session_ends_by_the_leader_with_all_that_is_its_own(void **state)
{
    (void)state;
    const int one = a_follower(-1);
    client c = new_client(one), other = new_client(a_follower(one));
    assert_int_equal(create(&c, "/a", LK_SIMZK_EPHEMERAL), LK_SIMZK_OK);
    assert_int_equal(watch(&other, "/a"), LK_SIMZK_OK);
    live(&other, SESSION_MS - TICK_MS);
    assert_true(lk_simzk_has_session(w.z, c.hello.session));
    live(&other,
         3 * TICK_MS + SESSION_MS / 4); /* a PING may have passed the touch on, and a bucket is a tick */
    assert_false(lk_simzk_has_session(w.z, c.hello.session));
    assert_int_equal(other.event_type, LK_SIMZK_DELETED);
    assert_int_equal(exists(&other, "/a"), LK_SIMZK_NONODE);
    for (lk_simzk_answer *answer; (answer = next_reply(&c)) != NULL;)
        lk_simzk_answer_free(answer);
    assert_true(lk_simzk_is_closed(c.connection));
    leave(&c);
    assert_false(enter(&c, one));
}

static void a_followers_clients_live_on_by_its_replies_to_pings(void **state)
{
    (void)state;
    const int one = a_follower(-1);
    client c = new_client(one);
    live(&c, 10 * SESSION_MS);
    assert_true(lk_simzk_has_session(w.z, c.hello.session));
    assert_int_equal(create(&c, "/a", LK_SIMZK_EPHEMERAL), LK_SIMZK_OK);
}

/* ... and end without; the follower serves them for a while. */
static void a_follower_that_is_cut_off_serves_sessions_that_have_ended(void **state)
{
    (void)state;
    const lk_simzk_setup setup = {.servers = 3, .tick_ms = TICK_MS, .sync_limit = 20};
    memset(&w, 0, sizeof w);
    w.z = lk_simzk_new(&setup);
    w.servers = 3;
    run_until_led();
    const int one = a_follower(-1);
    await_serving(one);
    client c = new_client(one), other = new_client(lk_simzk_leader(w.z));
    assert_int_equal(create(&c, "/a", LK_SIMZK_EPHEMERAL), LK_SIMZK_OK);
    w.cut[one] = true;
    for (int i = 0; i < 8; i++) {
        live(&c, SESSION_MS / 4);
        assert_int_equal(exists(&other, "/a"),
                         lk_simzk_has_session(w.z, c.hello.session) ? LK_SIMZK_OK : LK_SIMZK_NONODE);
    }
    assert_int_equal(exists(&other, "/a"), LK_SIMZK_NONODE);
    assert_int_equal(exists(&c, "/a"), LK_SIMZK_OK);
    assert_int_equal(delete_node(&c, "/a"), NO_ANSWER);
    live(&other, 20 * TICK_MS + SESSION_MS);
    assert_false(lk_simzk_serves(w.z, one));
}

static void a_session_that_moved_is_not_served_where_it_was(void **state)
{
    (void)state;
    const int one = a_follower(-1);
    client c = new_client(one), moved = c;
    assert_int_equal(create(&c, "/a", LK_SIMZK_EPHEMERAL), LK_SIMZK_OK);
    moved.connection = NULL;
    assert_true(enter(&moved, lk_simzk_leader(w.z)));
    assert_int_equal(exists(&c, "/a"), LK_SIMZK_OK); /* a read, which the follower answers by itself */
    assert_int_equal(delete_node(&c, "/a"), NO_ANSWER);
    assert_true(lk_simzk_is_closed(c.connection));
    assert_int_equal(delete_node(&moved, "/a"), LK_SIMZK_OK);
    leave(&c);
    c = moved;
    assert_true(enter(&moved, a_follower(one)));
    assert_int_equal(create(&moved, "/a", LK_SIMZK_EPHEMERAL), LK_SIMZK_OK);
    assert_int_equal(exists(&c, "/a"), NO_ANSWER); /* the leader looks at reads, too */
    assert_true(lk_simzk_is_closed(c.connection));
}

/* ------------------------------------------------------------------ what is seen when ---- */

/* By which a sync at the leader isn't enough. */
static void the_leader_tells_its_followers_before_it_applies(void **state)
{
    (void)state;
    const int leader = lk_simzk_leader(w.z);
    client holder = new_client(a_follower(-1)), other = new_client(leader);
    assert_int_equal(create(&holder, "/a", LK_SIMZK_EPHEMERAL), LK_SIMZK_OK);
    w.lags[leader] = true;
    assert_int_equal(delete_node(&holder, "/a"), LK_SIMZK_OK);
    assert_int_equal(result(&other, (lk_simzk_op){.kind = LK_SIMZK_SYNC, .path = "/"}), LK_SIMZK_OK);
    assert_int_equal(exists(&other, "/a"), LK_SIMZK_OK);
    /* A write of its own, which is ordered, and what is asked behind it. */
    assert_int_equal(delete_node(&other, "/b"), NO_ANSWER);
    tell(&other, (lk_simzk_op){.kind = LK_SIMZK_EXISTS, .path = "/a"});
    w.lags[leader] = false;
    settle();
    lk_simzk_answer *const written = next_reply(&other), *const read = next_reply(&other);
    assert_int_equal(written->error, LK_SIMZK_NONODE);
    assert_int_equal(read->error, LK_SIMZK_NONODE);
    lk_simzk_answer_free(written);
    lk_simzk_answer_free(read);
}

static void a_follower_lags_behind_and_sync_waits_for_it(void **state)
{
    (void)state;
    const int one = a_follower(-1);
    client c = new_client(one), other = new_client(lk_simzk_leader(w.z));
    w.lags[one] = true;
    assert_int_equal(create(&other, "/a", 0), LK_SIMZK_OK);
    assert_int_equal(exists(&c, "/a"), LK_SIMZK_NONODE);
    tell(&c, (lk_simzk_op){.kind = LK_SIMZK_SYNC, .path = "/"});
    assert_int_equal(exists(&c, "/a"), NO_ANSWER);
    w.lags[one] = false;
    settle();
    lk_simzk_answer *const synced = next_reply(&c), *const read = next_reply(&c);
    assert_int_equal(synced->error, LK_SIMZK_OK);
    assert_int_equal(read->error, LK_SIMZK_OK);
    lk_simzk_answer_free(synced);
    lk_simzk_answer_free(read);
}

static void a_server_refuses_a_client_that_has_seen_more(void **state)
{
    (void)state;
    const int one = a_follower(-1);
    client c = new_client(lk_simzk_leader(w.z));
    w.lags[one] = true;
    assert_int_equal(create(&c, "/a", 0), LK_SIMZK_OK);
    leave(&c);
    assert_false(enter(&c, one));
    assert_true(lk_simzk_is_closed(c.connection));
    leave(&c);
    w.lags[one] = false;
    settle();
    assert_true(enter(&c, one));
}

/* ------------------------------------------------------------------ nodes ---- */

static const char *numbered(client *c, char *text)
{
    lk_simzk_answer *const answer =
        ask(c, (lk_simzk_op){.kind = LK_SIMZK_CREATE2, .path = "/a/n", .mode = LK_SIMZK_SEQUENTIAL});
    strcpy(text, answer->path != NULL ? answer->path : "");
    lk_simzk_answer_free(answer);
    return text;
}

static void numbers_end(void **state)
{
    (void)state;
    char text[64];
    begin(1);
    client c = new_client(0);
    assert_int_equal(create(&c, "/a", 0), LK_SIMZK_OK);
    assert_string_equal(numbered(&c, text), "/a/n0000000000");
    lk_simzk_count_children(w.z, "/a", INT32_MAX - 1);
    assert_string_equal(numbered(&c, text), "/a/n2147483646");
    assert_string_equal(numbered(&c, text), "/a/n2147483647");
    assert_string_equal(numbered(&c, text), ""); /* that one is there */
    assert_int_equal(delete_node(&c, "/a/n2147483647"), LK_SIMZK_OK);
    w.stuck[0] = true; /* changes are under way */
    tell(&c, (lk_simzk_op){.kind = LK_SIMZK_CREATE2, .path = "/a/n", .mode = LK_SIMZK_SEQUENTIAL});
    tell(&c, (lk_simzk_op){.kind = LK_SIMZK_CREATE2, .path = "/a/n", .mode = LK_SIMZK_SEQUENTIAL});
    w.stuck[0] = false;
    settle();
    lk_simzk_answer *const one = next_reply(&c), *const other = next_reply(&c);
    assert_string_equal(one->path, "/a/n2147483647");
    assert_string_equal(other->path, "/a/n-2147483648");
    lk_simzk_answer_free(one);
    lk_simzk_answer_free(other);
}

static void containers_that_were_used_are_removed(void **state)
{
    (void)state;
    client c = new_client(a_follower(-1));
    assert_int_equal(create(&c, "/used", LK_SIMZK_CONTAINER), LK_SIMZK_OK);
    assert_int_equal(create(&c, "/full", LK_SIMZK_CONTAINER), LK_SIMZK_OK);
    assert_int_equal(create(&c, "/fresh", LK_SIMZK_CONTAINER), LK_SIMZK_OK);
    assert_int_equal(create(&c, "/used/a", 0), LK_SIMZK_OK);
    assert_int_equal(create(&c, "/full/a", 0), LK_SIMZK_OK);
    assert_int_equal(delete_node(&c, "/used/a"), LK_SIMZK_OK);
    live(&c, 61000);
    assert_int_equal(exists(&c, "/used"), LK_SIMZK_NONODE);
    assert_int_equal(exists(&c, "/full"), LK_SIMZK_OK);
    assert_int_equal(exists(&c, "/fresh"), LK_SIMZK_OK);
}

#define IN_THREE(test) cmocka_unit_test_setup_teardown(test, begin_three, end)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_leader_is_elected_in_ensembles_of_any_size),
    IN_THREE(the_newest_history_wins),
    IN_THREE(zxids_begin_anew_with_each_epoch),
    IN_THREE(a_proposal_that_only_a_dead_leader_had_is_dropped),
    IN_THREE(a_proposal_that_was_written_survives_unanswered),
    IN_THREE(without_a_majority_nothing_is_served),
    IN_THREE(a_leader_that_was_stopped_resigns),
    IN_THREE(a_session_ends_by_the_leader_with_all_that_is_its_own),
    IN_THREE(a_followers_clients_live_on_by_its_replies_to_pings),
    cmocka_unit_test_teardown(a_follower_that_is_cut_off_serves_sessions_that_have_ended, end),
    IN_THREE(a_session_that_moved_is_not_served_where_it_was),
    IN_THREE(the_leader_tells_its_followers_before_it_applies),
    IN_THREE(a_follower_lags_behind_and_sync_waits_for_it),
    IN_THREE(a_server_refuses_a_client_that_has_seen_more),
    cmocka_unit_test_teardown(numbers_end, end),
    IN_THREE(containers_that_were_used_are_removed),
};

int main(void)
{
    return cmocka_run_group_tests_name("simulated ZooKeeper", tests, NULL, NULL);
}
