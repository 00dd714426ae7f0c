/* cluster_slots.c: hash slots of a Redis Cluster that migrate while locks in them are held, waited for and released. */
#include "cluster_tests.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int begin(void **state)
{
    return lk_cluster_begin(state);
}

/* ------------------------------------------------------------------ a slot that stays half moved ---- */

/* Which of a lock's keys are moved at first. What is made later is where the locker makes it. */
enum {
    LOCK = 1,
    COUNTER = 2,
    QUEUE = 4,
    COMBINATIONS = 8,
    CASES = COMBINATIONS + 1,
    HALF_TTL_MS = 2000,
    TTLS = 3
};

/* One slot. The last case is one in which there was nothing when its move began. */
struct half {
    lk_cluster *cluster;
    lk_move move;
    int moved;
    char key[32], queue[64], info[64];
    const char *counter;
    locker_handle *held;
    lk_locking waiter;
    uint64_t token; /* the last; at first the server's time, which the first exceeds */
};

static locker *alice, *bob, *carol; /* who only tries: a locker whose own callers wait says BUSY by itself */

static bool holds(const struct half *h, int node, const char *key)
{
    char keys[4096], word[80];
    lk_keys_at(h->cluster, node, h->move.slot, keys, sizeof keys);
    snprintf(word, sizeof word, " %s ", key);
    return strstr(keys, word) != NULL;
}

/* No key is at both nodes: MIGRATE would fail, and of two counters one is wrong. */
static void expect_no_twins(const struct half *h, const char *when)
{
    char keys[4096], *rest = keys;
    lk_keys_at(h->cluster, h->move.from, h->move.slot, keys, sizeof keys);
    for (char *key = strsep(&rest, " "); key != NULL; key = strsep(&rest, " "))
        if (key[0] != '\0' && holds(h, h->move.to, key))
            test_fails("case %d, %s: %s is at both nodes", h->moved, when, key);
}

static void expect_growth(struct half *h, const locker_handle *held, const char *when)
{
    const uint64_t token = locker_handle_token(held);
    if (token <= h->token)
        test_fails("case %d, %s: the token %llu comes after %llu", h->moved, when, (unsigned long long)token,
                   (unsigned long long)h->token);
    h->token = token;
}

static void take(struct half *h, locker *l, const char *when)
{
    const locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_error err;
    const locker_status status = locker_lock(l, h->key, &options, &h->held, &err);
    if (status != LOCKER_OK)
        test_fails("case %d, %s: %s", h->moved, when, err.text);
    expect_growth(h, h->held, when);
}

static void give(struct half *h, const char *when)
{
    locker_error err;
    const locker_status status = locker_unlock(h->held, &err);
    if (status != LOCKER_OK)
        test_fails("case %d, %s: unlock says %s", h->moved, when, err.text);
    locker_handle_free(h->held);
    h->held = NULL;
}

static bool is_known(void *context)
{
    const struct half *h = context;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    assert_ok(locker_show(carol, h->key, &info, &err), err);
    const bool known = info.held && info.token == h->token;
    locker_info_clear(&info);
    return known;
}

static void move(const struct half *h, const char *key)
{
    if (holds(h, h->move.from, key))
        lk_cluster_need(h->cluster, lk_cluster_move_key(h->cluster, &h->move, key));
}

/* Alice holds, Bob waits, and then the slot begins to move. */
static void half_begin(struct half *h, lk_cluster *cluster, int number)
{
    static int next; /* of each slot once: it is the other node's then */
    *h = (struct half){.cluster = cluster, .moved = number};
    lk_key_of_share(cluster, 0, next++, h->key);
    snprintf(h->queue, sizeof h->queue, "{%s}:locker:queue", h->key);
    snprintf(h->info, sizeof h->info, "{%s}:locker:info", h->key);
    h->counter = strdup(lk_fence_key(h->key));
    h->move = (lk_move){lk_cluster_slot(h->key), lk_node_of(cluster, h->key), 1};
    h->token = (uint64_t)lk_node_number(cluster, h->move.from, "EVAL \"%s\" 0",
                                        "local t = redis.call('TIME') return t[1] * 1000000 + t[2]");
    if (number < COMBINATIONS) {
        lk_give(lk_take(bob, h->key));
        take(h, alice, "at first");
        lk_locking_start(&h->waiter, bob, h->key, NULL);
    }
}

static bool has_queue(void *context)
{
    const struct half *h = context;
    return holds(h, h->move.from, h->queue);
}

static void half_move(struct half *h)
{
    if (h->moved < COMBINATIONS)
        lk_require(has_queue, h, "the waiter should stand in the queue");
    lk_cluster_need(h->cluster, lk_cluster_move_begin(h->cluster, &h->move));
    if (h->moved == COMBINATIONS)
        return;
    if ((h->moved & LOCK) != 0) {
        move(h, h->key);
        move(h, h->info);
    }
    if ((h->moved & COUNTER) != 0)
        move(h, h->counter);
    if ((h->moved & QUEUE) != 0)
        move(h, h->queue);
}

static bool is_queue_gone(void *context)
{
    const struct half *h = context;
    return !holds(h, h->move.from, h->queue) && !holds(h, h->move.to, h->queue);
}

/* Fail unless the status is UNAVAILABLE, with a text that says why. */
static void expect_migrating(const struct half *h, locker_status status, const locker_error *err,
                             const char *what)
{
    if (status != LOCKER_UNAVAILABLE || strstr(err->text, "slot is being migrated") == NULL)
        test_fails("case %d: %s answers %s: %s", h->moved, what, locker_status_name(status), err->text);
}

/* A script gets its keys only while all of them are where the slot was. */
static void half_expect_refused(const struct half *h)
{
    locker_handle *held;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    if (h->moved == 0) {
        lk_expect_busy(carol, h->key);
        return;
    }
    expect_migrating(h, locker_try_lock(carol, h->key, NULL, &held, &err), &err, "a try");
    expect_migrating(h, locker_show(carol, h->key, &info, &err), &err, "show");
    expect_migrating(h, locker_break(carol, h->key, NULL, NULL, &err), &err, "break");
}

static void half_end_move(struct half *h)
{
    expect_no_twins(h, "when it had moved in part");
    lk_cluster_need(h->cluster, lk_cluster_move_end(h->cluster, &h->move));
}

/* The slot has moved. The waiter has the lock within a poll. */
static void half_end(struct half *h)
{
    if (h->moved < COMBINATIONS) {
        h->held = lk_locking_grant(&h->waiter);
        expect_growth(h, h->held, "to the waiter");
        lk_require(is_queue_gone, h, "who has it should not stand in the queue");
        give(h, "by the waiter");
    }
    take(h, alice, "when it has moved");
    give(h, "when it has moved");
    assert_true(holds(h, h->move.to, h->counter));
    free((char *)h->counter);
}

static struct half *begin_cases(lk_cluster *cluster, int count, int64_t poll_ms)
{
    char query[80];
    struct half *cases = calloc((size_t)count, sizeof *cases);
    assert_non_null(cases);
    snprintf(query, sizeof query, "ttl=%dms&poll=%lldms", HALF_TTL_MS, (long long)poll_ms);
    alice = lk_open_cluster(cluster, 0, query);
    bob = lk_open_cluster(cluster, 1, query);
    carol = lk_open_cluster(cluster, 2, query);
    for (int i = 0; i < count; i++)
        half_begin(&cases[i], cluster, i);
    for (int i = 0; i < count; i++)
        half_move(&cases[i]);
    return cases;
}

static void end_cases(struct half *cases)
{
    lk_close_locker(carol);
    lk_close_locker(bob);
    lk_close_locker(alice);
    free(cases);
}

/* What a machine that held somebody up for too long has left. */
static void half_give_up(struct half *h)
{
    if (h->moved < COMBINATIONS) {
        locker_handle_free(h->held);
        lk_give(lk_locking_grant(&h->waiter));
    }
    lk_cluster_need(h->cluster, lk_cluster_move_end(h->cluster, &h->move));
    free((char *)h->counter);
}

/* Answers how many locks were lost meanwhile. */
static int hold_half_moved(lk_cluster *cluster)
{
    struct half *cases = begin_cases(cluster, CASES, 500);
    int lost = 0;
    for (int i = 0; i < TTLS; i++) {
        lk_pause_ms(HALF_TTL_MS);
        for (int k = 0; k < CASES; k++)
            half_expect_refused(&cases[k]);
    }
    for (int i = 0; i < COMBINATIONS; i++)
        if (locker_handle_state(cases[i].held) == LOCKER_STATE_LOST) {
            print_message("case %d: the lock was lost\n", i);
            lost++;
        }
    for (int i = 0; lost == 0 && i < CASES; i++) {
        half_end_move(&cases[i]);
        if (i < COMBINATIONS) {
            lk_require(is_known, &cases[i], "who has had it for three TTLs should be told");
            give(&cases[i], "after three TTLs");
        }
    }
    for (int i = 0; i < CASES; i++)
        lost == 0 ? half_end(&cases[i]) : half_give_up(&cases[i]);
    end_cases(cases);
    return lost;
}

/* What is lost on a machine that holds a server up for a part of a TTL proves nothing. */
static void require_kept(lk_cluster *cluster, int (*hold)(lk_cluster *cluster), int64_t ttl_ms)
{
    enum { TRIES = 3 };
    for (int tries = 1;; tries++) {
        lk_canary *canary = lk_canary_begin(cluster);
        const int lost = hold(cluster);
        const int64_t late_ms = lk_canary_end(canary);
        if (lost == 0)
            return;
        if (late_ms < ttl_ms / 4 || tries == TRIES)
            test_fails("%d locks were lost; the machine was up to %lld ms late", lost, (long long)late_ms);
        print_message("%d locks were lost on a machine that was %lld ms late: once more\n", lost,
                      (long long)late_ms);
    }
}

static void a_half_migrated_slot_keeps_locks(void **state)
{
    require_kept(*state, hold_half_moved, HALF_TTL_MS);
}

static void a_lock_is_released_in_a_half_migrated_slot(void **state)
{
    struct half *cases = begin_cases(*state, COMBINATIONS, 500);
    for (int i = 0; i < COMBINATIONS; i++)
        give(&cases[i], "while it moves");
    for (int i = 0; i < COMBINATIONS; i++) {
        half_end_move(&cases[i]);
        half_end(&cases[i]);
    }
    end_cases(cases);
}

/* ------------------------------------------------------------------ one lock, which has moved, and its info has not ---- */

/* Alice listens, and the server knows that she holds the lock. */
static bool is_listening(void *context)
{
    const struct half *h = context;
    return is_known(context) && lk_node_number(h->cluster, h->move.from, "EVAL \"%s\" 0 locker:wake:*%s",
                                               "return #redis.call('PUBSUB', 'SHARDCHANNELS', ARGV[1])",
                                               strchr(h->counter, '{')) > 0;
}

static void one_begin(struct half *h, lk_cluster *cluster, int number)
{
    *h = (struct half){.cluster = cluster};
    alice = lk_open_cluster(cluster, 0, "ttl=10m&command_timeout=20s");
    carol = lk_open_cluster(cluster, 1, "ttl=10m");
    lk_key_of_share(cluster, 0, number, h->key);
    (void)snprintf(h->queue, sizeof h->queue, "{%s}:locker:queue", h->key);
    h->counter = lk_fence_key(h->key);
    h->move = (lk_move){lk_cluster_slot(h->key), lk_node_of(cluster, h->key), 1};
    h->held = lk_take(alice, h->key);
    h->token = locker_handle_token(h->held);
    lk_require(is_listening, h, "the holder should listen");
}

static void one_move(const struct half *h)
{
    lk_cluster_need(h->cluster, lk_cluster_move_begin(h->cluster, &h->move));
    move(h, h->key);
}

static void one_end(void)
{
    lk_close_locker(carol);
    lk_close_locker(alice);
}

/* Of a node that does not have the slot yet, too. Returns the number that it answers. */
static long long ask_behind(const lk_cluster *cluster, int node, const char *command, const char *key)
{
    redisContext *const server = redisConnect("127.0.0.1", cluster->node[node].port);
    assert_non_null(server);
    freeReplyObject(redisCommand(server, "ASKING"));
    redisReply *const reply = redisCommand(server, "%s %s", command, key);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    const long long number = reply->integer;
    freeReplyObject(reply);
    redisFree(server);
    return number;
}

static void do_at(lk_cluster *cluster, int node, const char *format, unsigned slot)
{
    char command[64], answer[64];
    (void)snprintf(command, sizeof command, format, slot);
    if (!lk_server_ask(&cluster->node[node], command, answer, sizeof answer))
        test_fails("%s: %s", command, answer);
}

/* Make both nodes of a move refuse the command, or allow it again. */
static void refuse(struct half *h, const char *command, bool on)
{
    char rule[64];
    (void)snprintf(rule, sizeof rule, "ACL SETUSER default %s%s", on ? "-" : "+", command);
    do_at(h->cluster, h->move.from, rule, 0);
    do_at(h->cluster, h->move.to, rule, 0);
}

/* The holder is not notified of the break. The slot begins to move, and the holder learns of the break when it releases the lock. */
static void a_release_in_a_slot_that_moves_reports_a_break(void **state)
{
    struct half h;
    locker_error err;
    one_begin(&h, *state, 56);
    refuse(&h, "spublish", true);
    assert_ok(locker_break(carol, h.key, NULL, NULL, &err), err);
    assert_int_equal(locker_handle_state(h.held), LOCKER_STATE_HELD);
    one_move(&h);
    assert_status(LOCKER_LOST, locker_unlock(h.held, &err), err);
    assert_non_null(strstr(err.text, "broken"));
    locker_handle_free(h.held);
    refuse(&h, "spublish", false);
    lk_cluster_need(h.cluster, lk_cluster_move_end(h.cluster, &h.move));
    one_end();
}

/* By itself it would look again after a minute. */
static void a_lock_released_in_a_migrating_slot_is_granted_after_it(void **state)
{
    struct half h;
    one_begin(&h, *state, 57);
    bob = lk_open_cluster(h.cluster, 2, "ttl=10m&poll=1m");
    lk_locking_start(&h.waiter, bob, h.key, NULL);
    lk_require(has_queue, &h, "the waiter should stand in the queue");
    one_move(&h);
    lk_give(h.held);
    lk_cluster_need(h.cluster, lk_cluster_move_end(h.cluster, &h.move));
    lk_give(lk_locking_grant(&h.waiter));
    lk_close_locker(bob);
    one_end();
}

static void a_waiter_leaves_its_queue_in_a_migrating_slot(void **state)
{
    struct half h;
    const locker_lock_options options = lk_wait_options(1500);
    one_begin(&h, *state, 54);
    bob = lk_open_cluster(h.cluster, 2, "ttl=10m&poll=1m");
    lk_locking_start(&h.waiter, bob, h.key, &options);
    lk_require(has_queue, &h, "the waiter should stand in the queue");
    one_move(&h);
    assert_int_not_equal(lk_locking_join(&h.waiter), LOCKER_OK);
    lk_require(is_queue_gone, &h, "a waiter that gave up should leave the queue");
    lk_give(h.held);
    lk_cluster_need(h.cluster, lk_cluster_move_end(h.cluster, &h.move));
    lk_close_locker(bob);
    one_end();
}

/* The holder has not heard yet that another has the lock. */
static void a_release_in_a_slot_that_moves_leaves_anothers_lock(void **state)
{
    struct half h;
    locker_error err;
    char command[128], answer[64];
    one_begin(&h, *state, 51);
    (void)snprintf(command, sizeof command, "SET %s 0123456789abcdef0123456789abcdef PX 600000", h.key);
    assert_true(lk_server_ask(&h.cluster->node[h.move.from], command, answer, sizeof answer));
    one_move(&h);
    assert_status(LOCKER_LOST, locker_unlock(h.held, &err), err);
    locker_handle_free(h.held);
    assert_int_equal(ask_behind(h.cluster, h.move.to, "DEL", h.key), 1);
    lk_cluster_need(h.cluster, lk_cluster_move_end(h.cluster, &h.move));
    one_end();
}

/* Alice's leases were extended more often than that. */
static bool is_renewed(void *before)
{
    return lk_stats(alice).renewals > *(uint64_t *)before;
}

struct unlocking {
    locker_handle *held;
    locker_status status;
    locker_error err;
};

static void *unlock(void *context)
{
    struct unlocking *u = context;
    u->status = locker_unlock(u->held, &u->err);
    return NULL;
}

static bool is_blocked(void *server)
{
    char text[4096];
    return lk_server_ask(server, "INFO clients", text, sizeof text) &&
           strstr(text, "blocked_clients:0") == NULL;
}

/* The lock was renewed at the node to which its slot moved, got lost there, and the slot stayed where it was. So a release whose first
 * request was lost does not know from the word of that node whether it was the one that released it. */
static void a_renewal_in_a_slot_that_moves_proves_nothing_to_a_release(void **state)
{
    static struct unlocking u;
    struct half h;
    pthread_t thread;
    one_begin(&h, *state, 52);
    lk_server *const from = &h.cluster->node[h.move.from];
    uint64_t renewals = 0;
    lk_require(is_renewed, &renewals, "who listens should renew at once");
    one_move(&h);
    renewals = lk_stats(alice).renewals;
    do_at(h.cluster, h.move.from, "CLIENT KILL TYPE pubsub", 0); /* who listens anew renews at once */
    lk_require(is_renewed, &renewals, "the lease should be renewed");
    assert_int_equal(ask_behind(h.cluster, h.move.to, "DEL", h.key), 1);
    do_at(h.cluster, h.move.to, "CLUSTER SETSLOT %u STABLE", h.move.slot);
    do_at(h.cluster, h.move.from, "CLUSTER SETSLOT %u STABLE", h.move.slot);
    do_at(h.cluster, h.move.from, "CLIENT PAUSE 600000 WRITE", 0);
    u.held = h.held;
    assert_int_equal(pthread_create(&thread, NULL, unlock, &u), 0);
    lk_require(is_blocked, from, "the release should have come");
    do_at(h.cluster, h.move.from, "CLIENT KILL TYPE normal SKIPME yes", 0);
    do_at(h.cluster, h.move.from, "CLIENT UNPAUSE", 0);
    lk_join(thread, "unlock");
    assert_status(LOCKER_UNKNOWN, u.status, u.err);
    locker_handle_free(h.held);
    one_end();
}

/* ------------------------------------------------------------------ who has it ---- */

/* What the thread that notes grants is held up by. */
struct stall {
    lk_gate entered, leave;
};

static void stand_still(locker_handle *lost, void *user)
{
    struct stall *stall = user;
    (void)lost;
    lk_gate_open(&stall->entered, 1);
    (void)lk_gate_pass(&stall->leave);
}

/* The slot has moved when it is to be noted who has the lock. `half`: the lock has moved, and the rest has not. */
static void note_follows(lk_cluster *cluster, int number, bool half)
{
    static struct stall stall;
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    struct half h = {.cluster = cluster};
    locker_error err;
    char other[32];
    lk_gate_init(&stall.entered);
    lk_gate_init(&stall.leave);
    alice = lk_open_cluster(cluster, 0, "ttl=60s");
    carol = lk_open_cluster(cluster, 1, "ttl=60s");
    options.on_lost = stand_still;
    options.user = &stall;
    locker_handle *broken = lk_take_with(alice, lk_key_of_share(cluster, 1, number, other), &options);
    assert_ok(locker_break(carol, other, NULL, NULL, &err), err);
    lk_gate_await(&stall.entered, 1, "the loss should be told");
    lk_key_of_share(cluster, 0, number, h.key);
    h.held = lk_take(alice, h.key);
    h.token = locker_handle_token(h.held);
    h.move = (lk_move){lk_cluster_slot(h.key), lk_node_of(cluster, h.key), 1};
    lk_cluster_need(cluster, lk_cluster_move_begin(cluster, &h.move));
    half ? move(&h, h.key) : lk_cluster_need(cluster, lk_cluster_move_end(cluster, &h.move));
    lk_gate_open(&stall.leave, 1);
    if (half) {
        expect_migrating(&h, locker_break(carol, h.key, NULL, NULL, &err), &err, "break");
        lk_pause_ms(300); /* the note is refused */
        lk_cluster_need(cluster, lk_cluster_move_end(cluster, &h.move));
    }
    lk_require(is_known, &h, "who has it where it is now should be told");
    lk_give(h.held);
    lk_give_lost(broken);
    lk_close_locker(carol);
    lk_close_locker(alice);
    lk_gate_destroy(&stall.leave);
    lk_gate_destroy(&stall.entered);
}

static void a_note_follows_its_slot(void **state)
{
    note_follows(*state, 60, false);
}

static void a_note_follows_its_lock(void **state)
{
    note_follows(*state, 61, true);
}

/* ------------------------------------------------------------------ leases ---- */

enum { LEASES = 1000 };

/* Three TTLs; with LOCKER_TEST_LONG ten short ones. */
static bool is_long(void)
{
    return getenv("LOCKER_TEST_LONG") != NULL;
}

static int lease_ttl_ms(void)
{
    return is_long() ? 2000 : 4000;
}

static void take_leases(const lk_cluster *cluster, locker *l, locker_handle **held)
{
    for (int i = 0; i < LEASES; i++) {
        char key[32];
        snprintf(key, sizeof key, "lease-%d", i);
        if (i < 20) /* some of the few slots as well */
            lk_key_of_share(cluster, i % LK_CLUSTER_MASTERS, 40 + i / LK_CLUSTER_MASTERS, key);
        held[i] = lk_take(l, key);
    }
}

/* Answers how many were lost. */
static int give_leases(locker_handle **held)
{
    int lost = 0;
    for (int i = 0; i < LEASES; i++) {
        const bool was_lost = locker_handle_state(held[i]) == LOCKER_STATE_LOST;
        lost += was_lost;
        was_lost ? lk_give_lost(held[i]) : lk_give(held[i]);
    }
    return lost;
}

/* All slots of a node go away and come back, as often as there is time, while others lock. */
static lk_load_result reshard_until(lk_cluster *cluster, const char *query, int64_t until)
{
    lk_load *load = lk_load_begin(cluster, query);
    do {
        lk_load_require(load, 5, "locks should be taken");
        lk_cluster_need(cluster, lk_cluster_move_share(cluster, 2, 0));
        lk_load_require(load, 5, "locks should be taken where they are now");
        lk_cluster_need(cluster, lk_cluster_move_share(cluster, 2, 2));
    } while (lk_test_now_ms() < until);
    return lk_load_end(load);
}

/* Half of the time nothing happens to them. Answers how many were lost. */
static int hold_leases(lk_cluster *cluster)
{
    const int ttl_ms = lease_ttl_ms(), ttls = is_long() ? 10 : 3;
    locker_handle **held = calloc(LEASES, sizeof(locker_handle *));
    char query[40];
    assert_non_null(held);
    snprintf(query, sizeof query, "ttl=%dms", ttl_ms);
    locker *l = lk_open_cluster(cluster, 0, query);
    take_leases(cluster, l, held);
    const int64_t until = lk_test_now_ms() + ttls * ttl_ms;
    lk_pause_ms(ttls * ttl_ms / 2);
    const lk_load_result result = reshard_until(cluster, query, until);
    const int lost = give_leases(held);
    lk_close_locker(l);
    free(held);
    if (result.overlaps + result.tokens + result.answers > 0)
        test_fails("%u overlaps, %u tokens, %u answers: %s", result.overlaps, result.tokens, result.answers,
                   result.text);
    return lost + (int)result.lost;
}

static void leases_outlive_a_reshard(void **state)
{
    require_kept(*state, hold_leases, lease_ttl_ms());
}

/* ------------------------------------------------------------------ several keys ---- */

static long long count_refused(lk_cluster *cluster, int node)
{
    return lk_node_number(
        cluster, node, "EVAL \"%s\" 0",
        "return tonumber(string.match(redis.call('INFO', 'errorstats'), 'MOVED:count=(%d+)') or '0')");
}

/* Of a user who may not subscribe: a server tells those who listen in a slot that it has gone. */
static locker *open_deaf(lk_cluster *cluster)
{
    char answer[128];
    locker_error err;
    locker *l;
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        assert_true(lk_server_ask(&cluster->node[i],
                                  "ACL SETUSER deaf on >pw ~* &* +@all -subscribe -ssubscribe", answer,
                                  sizeof answer));
    assert_ok(lk_try_uri(&l, &err, "redis+cluster://deaf:pw@127.0.0.1:%d/?ttl=600s", cluster->node[0].port),
              err);
    return l;
}

/* Keys of all shares, of which one has moved since: its first node refuses their unlocks. */
static void several_are_unlocked_where_their_slots_are_now(void **state)
{
    lk_cluster *const cluster = *state;
    locker *const l =
        open_deaf(cluster); /* no renewal follows the slots before, and no message tells of them */
    char names[LOCKER_KEYS_MAX][32];
    const char *keys[LOCKER_KEYS_MAX];
    locker_handle *held;
    locker_error err;
    for (int i = 0, number = 0; i < LOCKER_KEYS_MAX; number++) {
        (void)snprintf(names[i], sizeof names[i], "several-%d", number);
        keys[i] = names[i];
        i += lk_share_of(cluster, lk_cluster_slot(names[i])) == i % LK_CLUSTER_MASTERS;
    }
    assert_ok(locker_lock_all(l, keys, LOCKER_KEYS_MAX, NULL, &held, &err), err);
    lk_cluster_need(cluster, lk_cluster_move_share(cluster, 2, 0));
    const long long refused = count_refused(cluster, 2);
    lk_give(held);
    assert_true(count_refused(cluster, 2) > refused);
    for (int i = 0; i < LOCKER_KEYS_MAX; i++)
        assert_int_equal(lk_node_number(cluster, lk_node_of(cluster, keys[i]), "EXISTS %s", keys[i]), 0);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ replicas ---- */

/* The lock has moved and its info has not, so the renewal goes by a command of one key: to a master whose replica is silent. */
static void a_renewal_in_a_slot_that_moves_needs_its_replicas(void **state)
{
    lk_cluster *const cluster = *state;
    char key[32];
    lk_key_of_share(cluster, 0, 58, key);
    const int from = lk_node_of(cluster, key);
    const lk_move move = {lk_cluster_slot(key), from, !from};
    locker *const l =
        lk_open_cluster(cluster, 0, "ttl=3s&command_timeout=2s&wait_replicas=1&wait_timeout=300ms");
    locker_handle *const held = lk_take(l, key);
    lk_cluster_need(cluster, lk_cluster_move_begin(cluster, &move));
    lk_cluster_need(cluster, lk_cluster_move_key(cluster, &move, key));
    lk_server *const replica = &cluster->node[lk_cluster_replica(cluster, move.to)];
    assert_true(lk_server_freeze(replica));
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_server_thaw(replica);
    lk_give_lost(held);
    lk_cluster_need(cluster, lk_cluster_move_end(cluster, &move));
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ locks that several hold ---- */

static const locker_lock_options share = {
    .size = sizeof(locker_lock_options), .wait_ms = -1, .mode = LOCKER_SHARED};

/* All of the keys are needed at once: while some are here and some there nothing is said, and nothing is lost. */
static void readers_and_permits_wait_until_a_slot_has_migrated(void **state)
{
    lk_cluster *const cluster = *state;
    char key[32];
    lk_key_of_share(cluster, 0, 600, key);
    locker *a = lk_open_cluster(cluster, 0, "ttl=60s"), *b = lk_open_cluster(cluster, 1, "ttl=60s");
    locker_handle *first = lk_take_with(a, key, &share), *second = NULL;
    lk_move move = {lk_cluster_slot(key), lk_node_of(cluster, key), 1};
    lk_cluster_need(cluster, lk_cluster_move_begin(cluster, &move));
    lk_cluster_need(cluster, lk_cluster_move_key(cluster, &move, key));
    locker_error err;
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(b, key, &share, &second, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(b, key, NULL, &second, &err), err);
    locker_info info = LOCKER_INFO_INIT;
    assert_status(LOCKER_UNAVAILABLE, locker_show(b, key, &info, &err), err);
    lk_locking waiting;
    lk_locking_start(&waiting, b, key, &share);
    lk_require_waiting(b, 1);
    lk_cluster_need(cluster, lk_cluster_move_end(cluster, &move));
    second = lk_locking_grant(&waiting);
    assert_int_equal(locker_handle_state(first), LOCKER_STATE_HELD);
    lk_give(first);
    lk_expect_busy(a, key);
    lk_give(second);
    lk_give(lk_take(a, key));
    lk_close_locker(b);
    lk_close_locker(a);
}

/* The waiter would poll after a minute. It is not subscribed again, as its slot stays where it is. */
static void a_lock_released_before_an_aborted_migration_is_granted_at_once(void **state)
{
    struct half h;
    one_begin(&h, *state, 70);
    bob = lk_open_cluster(h.cluster, 2, "ttl=10m&poll=1m");
    lk_locking_start(&h.waiter, bob, h.key, NULL);
    lk_require(has_queue, &h, "the waiter should stand in the queue");
    one_move(&h);
    lk_give(h.held);
    do_at(h.cluster, h.move.to, "CLUSTER SETSLOT %u STABLE", h.move.slot);
    do_at(h.cluster, h.move.from, "CLUSTER SETSLOT %u STABLE", h.move.slot);
    lk_give(lk_locking_grant(&h.waiter));
    lk_close_locker(bob);
    one_end();
}

static const struct CMUnitTest tests[] = {
    cluster_test(a_half_migrated_slot_keeps_locks),
    cluster_test(a_lock_is_released_in_a_half_migrated_slot),
    cluster_test(a_release_in_a_slot_that_moves_reports_a_break),
    cluster_test(a_lock_released_in_a_migrating_slot_is_granted_after_it),
    cluster_test(a_lock_released_before_an_aborted_migration_is_granted_at_once),
    cluster_test(a_waiter_leaves_its_queue_in_a_migrating_slot),
    cluster_test(a_release_in_a_slot_that_moves_leaves_anothers_lock),
    cluster_test(a_renewal_in_a_slot_that_moves_proves_nothing_to_a_release),
    cluster_test(a_note_follows_its_slot),
    cluster_test(a_note_follows_its_lock),
    cluster_test(leases_outlive_a_reshard),
    cluster_test(several_are_unlocked_where_their_slots_are_now),
    cluster_test(a_renewal_in_a_slot_that_moves_needs_its_replicas),
    cluster_test(readers_and_permits_wait_until_a_slot_has_migrated),
};

const lk_group lk_cluster_slots = {"cluster_slots", tests, sizeof tests / sizeof tests[0], begin,
                                   lk_cluster_end};
