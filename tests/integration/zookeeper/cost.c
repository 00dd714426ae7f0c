/* cost.c: how much a lock, a wait, a hand-over and a heartbeat ask of the server, counted by a proxy. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "zk_tests.h"

static unsigned creates(lk_env *env)
{
    return lk_proxy_requests(env->proxy, LK_ZKP_CREATE2);
}

static unsigned lists(lk_env *env)
{
    return lk_proxy_requests(env->proxy, LK_ZKP_LIST);
}

/* create and list to lock, delete to unlock, and nothing for the parents once they are there. */
static void one_request_of_each_kind(void **state)
{
    enum { TIMES = 10 };
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop");
    unsigned created, listed, deleted, parents;
    lk_give(lk_take(l, "counted"));
    created = creates(env);
    listed = lists(env);
    deleted = lk_proxy_requests(env->proxy, LK_ZKP_DELETE);
    parents = lk_proxy_requests(env->proxy, LK_ZKP_CREATE_CONTAINER);
    for (int i = 0; i < TIMES; i++)
        lk_give(lk_take(l, "counted"));
    assert_unless_late(creates(env) - created == TIMES);
    assert_unless_late(lists(env) - listed == TIMES);
    assert_unless_late(lk_proxy_requests(env->proxy, LK_ZKP_DELETE) - deleted == TIMES);
    assert_unless_late(lk_proxy_requests(env->proxy, LK_ZKP_CREATE_CONTAINER) == parents);
    lk_close_locker(l);
}

struct flight {
    lk_env *env;
    unsigned created, listed;
};

static bool both_are_out(void *context)
{
    const struct flight *flight = context;
    return creates(flight->env) == flight->created + 1 && lists(flight->env) == flight->listed + 1;
}

/* Both requests of a lock are with the server before the answer to either: one round trip. */
static void create_and_list_in_one_flight(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    lk_locking locking;
    struct flight flight = {env, 0, 0};
    lk_give(lk_take(l, "flight"));
    flight.created = creates(env);
    flight.listed = lists(env);
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&locking, l, "flight", NULL);
    lk_require(both_are_out, &flight, "create and list should be sent without waiting for an answer");
    lk_proxy_hold(env->proxy, false, false);
    lk_give(lk_locking_grant(&locking));
    lk_close_locker(l);
}

static void a_waiting_process_is_quiet(void **state)
{
    enum { WAITERS = 5 };
    lk_env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_through(env, "/shop");
    locker_handle *held = lk_take(holder, "quiet");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking waiters[WAITERS];
    unsigned created, listed, got = lk_proxy_requests(env->proxy, LK_ZKP_GET);
    options.cancel = cancel;
    for (size_t i = 0; i < WAITERS; i++) {
        lk_locking_start(&waiters[i], l, "quiet", &options);
        lk_zkc_require_count(env->client, "/shop/quiet", i + 2);
    }
    assert_false(lk_readable(locker_handle_fd(held), 500)); /* their watches are set */
    created = creates(env);
    listed = lists(env);
    got += WAITERS + 1; /* each place, and what the first one waits for, is watched by one request */
    assert_unless_late(lk_proxy_requests(env->proxy, LK_ZKP_GET) == got);
    assert_false(lk_readable(locker_handle_fd(held), 2000));
    assert_unless_late(creates(env) == created);
    assert_unless_late(lists(env) == listed);
    assert_unless_late(lk_proxy_requests(env->proxy, LK_ZKP_GET) == got);
    locker_cancel_fire(cancel);
    for (size_t i = 0; i < WAITERS; i++)
        assert_status(LOCKER_CANCELED, lk_locking_join(&waiters[i]), waiters[i].err);
    lk_give(held);
    locker_cancel_free(cancel);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* Who was right behind it lists the queue, and those further behind hear nothing. */
static void a_release_wakes_one(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_through(env, "/shop"),
           *other =
               lk_open_through(env, "/shop"); /* a second one of `l` would follow the first without a list */
    locker_handle *held = lk_take(holder, "wakes");
    lk_locking first, second;
    unsigned created, listed;
    uint64_t attempts;
    lk_locking_start(&first, l, "wakes", NULL);
    lk_zkc_require_count(env->client, "/shop/wakes", 2);
    lk_locking_start(&second, other, "wakes", NULL);
    lk_zkc_require_count(env->client, "/shop/wakes", 3);
    assert_false(lk_readable(locker_handle_fd(held), 500)); /* their watches are set */
    created = creates(env);
    listed = lists(env);
    attempts = lk_stats(l).attempts;
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&first), first.err);
    assert_unless_late(lists(env) - listed == 1);
    assert_unless_late(creates(env) == created);
    assert_unless_late(lk_stats(l).attempts - attempts == 1);
    lk_give(first.held);
    assert_status(LOCKER_OK, lk_locking_join(&second), second.err);
    assert_unless_late(lists(env) - listed == 2);
    assert_unless_late(creates(env) == created);
    lk_give(second.held);
    lk_close_locker(other);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* ------------------------------------------------------------------ who is ahead ---- */

enum { AHEAD_MAX = 4 };

/* A queue of one key, made in the order of the calls: the first has the lock. */
struct line {
    lk_env *env;
    const char *key;
    char path[64];
    size_t count;
    locker_handle *held; /* by the first */
    lk_locking waiters[AHEAD_MAX];
    locker_cancel *cancels[AHEAD_MAX];
};

static void line_begin(struct line *line, lk_env *env, const char *key, locker *l)
{
    *line = (struct line){.env = env, .key = key, .count = 1};
    snprintf(line->path, sizeof line->path, "/shop/%s", key);
    line->held = lk_take(l, key);
}

static lk_locking *line_up(struct line *line, locker *l)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    size_t i = line->count - 1;
    assert_true(i < AHEAD_MAX);
    line->cancels[i] = options.cancel = locker_cancel_new();
    lk_locking_start(&line->waiters[i], l, line->key, &options);
    lk_zkc_require_count(line->env->client, line->path, ++line->count);
    return &line->waiters[i];
}

static void give_up(struct line *line, size_t i)
{
    locker_cancel_fire(line->cancels[i]);
    assert_status(LOCKER_CANCELED, lk_locking_join(&line->waiters[i]), line->waiters[i].err);
    lk_zkc_require_count(line->env->client, line->path, --line->count);
}

static void line_end(struct line *line)
{
    for (size_t i = 0; i < AHEAD_MAX; i++)
        locker_cancel_free(line->cancels[i]);
}

struct seen {
    lk_env *env;
    unsigned listed, got, deleted;
};

static struct seen seen_now(lk_env *env)
{
    return (struct seen){env, lists(env), lk_proxy_requests(env->proxy, LK_ZKP_GET),
                         lk_proxy_requests(env->proxy, LK_ZKP_DELETE)};
}

/* Behind a place of our own nothing is watched. When that is given back, the one behind it reads itself, and no list. */
static void behind_our_own_place_nothing_is_watched(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop");
    struct seen before;
    struct line line;
    lk_passed lists_passed;
    locker_error err;
    unsigned got;
    line_begin(&line, env, "own", l);
    assert_false(lk_readable(locker_handle_fd(line.held), 500)); /* it is watched itself */
    before = seen_now(env);
    lists_passed = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
    line_up(&line, l);
    lk_proxy_await_passed(lists_passed, 1);
    assert_ok(locker_ping(l, NULL, &err), err); /* its answer comes behind that to the list */
    got = lk_proxy_requests(env->proxy, LK_ZKP_GET);
    lk_give(line.held);
    lk_give(lk_locking_grant(&line.waiters[0]));
    assert_unless_late(lists(env) - before.listed == 1); /* to enter */
    assert_unless_late(got - before.got <= 1);           /* its own node, if this took long */
    line_end(&line);
    lk_close_locker(l);
}

static bool delete_and_read_are_out(void *context)
{
    const struct seen *seen = context;
    return lk_proxy_requests(seen->env->proxy, LK_ZKP_GET) > seen->got &&
           lk_proxy_requests(seen->env->proxy, LK_ZKP_DELETE) > seen->deleted;
}

/* The read goes out with the delete: one round trip from unlock to the next grant. */
static void behind_our_own_place_in_one_flight(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    lk_unlocking unlocking;
    struct seen before;
    struct line line;
    line_begin(&line, env, "own", l);
    line_up(&line, l);
    lk_require_waiting(l, 1);
    assert_false(lk_readable(locker_handle_fd(line.held), 500)); /* both are watched themselves */
    before = seen_now(env);
    lk_proxy_hold(env->proxy, false, true);
    lk_unlocking_start(&unlocking, line.held);
    lk_require(delete_and_read_are_out, &before,
               "delete and read should be sent without waiting for an answer");
    lk_proxy_hold(env->proxy, false, false);
    assert_status(LOCKER_OK, lk_unlocking_join(&unlocking), unlocking.err);
    lk_give(lk_locking_grant(&line.waiters[0]));
    locker_handle_free(line.held);
    line_end(&line);
    lk_close_locker(l);
}

/* A place behind one of its locker that waits asks for no list: the one that tells when that is first shows
 * both. The lock goes by the order of arrival all the same, over another's that stands between the two. */
static void spare_a_list(lk_env *env, bool silent)
{
    locker *l = lk_open_through(env, "/shop?ttl=40s"), *other = lk_open_at(env->zk, "/shop?ttl=40s");
    struct line line;
    line_begin(&line, env, "spared", other);
    line_up(&line, l);
    lk_require_waiting(l, 1);
    line_up(&line, other);
    unsigned listed = lists(env);
    line_up(&line, l);
    lk_require_waiting(l, 2);
    assert_unless_late(lists(env) == listed);
    if (silent)
        assert_false(lk_readable(locker_handle_fd(line.held), 150)); /* nothing is answered meanwhile */
    else
        lk_give(lk_take(l, "beside"));
    listed = lists(env);
    lk_give(line.held);
    assert_status(LOCKER_OK, lk_locking_join(&line.waiters[0]), line.waiters[0].err);
    assert_unless_late(lists(env) - listed == (silent ? 1 : 0));
    lk_give(line.waiters[0].held);
    assert_status(LOCKER_OK, lk_locking_join(&line.waiters[1]), line.waiters[1].err);
    assert_false(lk_readable(locker_handle_fd(line.waiters[1].held), 150)); /* nothing comes meanwhile */
    assert_int_equal(lk_stats(l).held, 0);
    assert_unless_late(lists(env) - listed == 1);
    lk_give(line.waiters[1].held);
    lk_give(lk_locking_grant(&line.waiters[2]));
    assert_unless_late(lists(env) - listed == 2);
    line_end(&line);
    lk_close_locker(other);
    lk_close_locker(l);
}

static void behind_our_own_waiting_place_no_list_is_sent(void **state)
{
    spare_a_list(*state, true);
}

/* The first of them needs no list either, so the second one still has to ask who stands between them. */
static void behind_places_of_both_lockers_a_list_is_sent(void **state)
{
    spare_a_list(*state, false);
}

/* Behind one place of another locker the server's word that this was deleted is enough, if it has answered just now. */
static void behind_a_place_of_another_locker_no_list_is_sent(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s"), *other = lk_open_at(env->zk, "/shop?ttl=40s");
    struct line line;
    line_begin(&line, env, "one", other);
    line_up(&line, l);
    lk_require_waiting(l, 1);
    lk_give(lk_take(l, "beside"));
    const unsigned listed = lists(env);
    lk_give(line.held);
    assert_status(LOCKER_OK, lk_locking_join(&line.waiters[0]), line.waiters[0].err);
    assert_unless_late(lists(env) == listed);
    lk_give(line.waiters[0].held);
    line_end(&line);
    lk_close_locker(other);
    lk_close_locker(l);
}

static bool is_dropped(void *context)
{
    const lk_env *env = context;
    return lk_proxy_dropped(env->proxy) > 0;
}

static lk_proxy *refusing;

static size_t swallow(const lk_message *request, char *out, size_t size)
{
    (void)request;
    (void)out;
    (void)size;
    return 0;
}

/* Answers a list and the create before it with one piece: the client gives the connection up by the first, and reads both. */
static size_t refuse_both(const lk_message *list, char *out, size_t size)
{
    enum { NUMBER = 4, ZXID = 8 };
    const size_t length = lk_proxy_zookeeper_nameless(list, out, size / 2);
    uint32_t number;
    memset(out + ZXID, 0, sizeof(int64_t));
    memcpy(out + length, out, length);
    memcpy(&number, out + NUMBER, sizeof number);
    number = htonl(ntohl(number) - 1);
    memcpy(out + NUMBER, &number, sizeof number);
    lk_proxy_answer(refusing, LK_ZKP_LIST, NULL);
    return 2 * length;
}

/* Of a connection that was given up an answer may still be read. The next one tells first what was deleted meanwhile, in any
 * order, so there the same word is only a reason to list. */
static void the_first_events_of_a_new_connection_are_only_hints(void **state)
{
    lk_env *env = *state;
    const int port = lk_proxy_port(env->proxy); /* twice: of several servers the next one is tried at once */
    locker *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=40s", port, port),
           *other = lk_open_at(env->zk, "/shop?ttl=40s");
    struct line line;
    locker_handle *none = NULL;
    locker_error err;
    line_begin(&line, env, "told", other);
    line_up(&line, l);
    lk_require_waiting(l, 1);
    lk_give(lk_take(l, "beside"));
    lk_proxy_drop_unasked(env->proxy, true);
    lk_give(line.held);
    lk_require(is_dropped, env, "the deletion should be told");
    lk_proxy_drop_unasked(env->proxy, false);
    refusing = env->proxy;
    lk_proxy_answer(env->proxy, LK_ZKP_CREATE2, swallow);
    lk_proxy_answer(env->proxy, LK_ZKP_LIST, refuse_both);
    const unsigned listed = lists(env);
    assert_status(LOCKER_DENIED, locker_lock(l, "beside", NULL, &none, &err), err);
    assert_status(LOCKER_OK, lk_locking_join(&line.waiters[0]), line.waiters[0].err);
    assert_int_equal(lists(env) - listed, 2); /* the one that was refused is the first */
    lk_give(line.waiters[0].held);
    lk_proxy_answer(env->proxy, LK_ZKP_CREATE2, NULL);
    line_end(&line);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* The server was too busy for the delete, or so it says: the place behind it can't know that it is first. */
static void behind_our_own_place_that_may_stay_a_list_is_sent(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s");
    struct line line;
    line_begin(&line, env, "stays", l);
    line_up(&line, l);
    lk_require_waiting(l, 1);
    lk_give(lk_take(l, "beside")); /* the server has just answered: the delete is not its word all the same */
    const unsigned listed = lists(env);
    lk_proxy_forge(env->proxy, LK_ZKP_DELETE, lk_proxy_zookeeper_throttled);
    lk_give(line.held);
    lk_give(lk_locking_grant(&line.waiters[0]));
    assert_int_equal(lists(env) - listed, 1);
    line_end(&line);
    lk_close_locker(l);
}

/* Delete the second place of the line, and give the lock back by the first. The second one's call waits under another name then,
 * and what it is granted is there. */
static void expect_another_place(struct line *line)
{
    char path[LK_ZKC_NAME_MAX];
    lk_zkc_nth(line->env->client, line->path, 1, path);
    assert_int_equal(lk_zkc_delete(line->env->client, path), LK_ZKC_OK);
    lk_give(line->held);
    lk_proxy_hold(line->env->proxy, false, false);
    locker_handle *const held = lk_locking_grant(&line->waiters[0]);
    lk_zkc_require_count(line->env->client, line->path, 1);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
}

static void a_place_deleted_before_anothers_is_not_granted(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s"), *other = lk_open_at(env->zk, "/shop?ttl=40s");
    struct line line;
    line_begin(&line, env, "went", other);
    line_up(&line, l);
    lk_require_waiting(l, 1);
    lk_give(lk_take(l, "beside"));
    lk_proxy_hold(env->proxy, false, true); /* both deletions are told at once */
    expect_another_place(&line);
    line_end(&line);
    lk_close_locker(other);
    lk_close_locker(l);
}

static void a_place_deleted_before_our_own_is_not_granted(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s");
    struct line line;
    line_begin(&line, env, "went", l);
    line_up(&line, l);
    lk_require_waiting(l, 1);
    expect_another_place(&line); /* it is not watched yet */
    line_end(&line);
    lk_close_locker(l);
}

/* Of the crowd more than one find the same one first, where a table has grown meanwhile: to more than 128 places. So many requests
 * as it makes may be in flight at once. */
enum { BESIDE = 100, CROWD = 40, COME_MOST = 4 };

struct many {
    lk_env *env;
    unsigned created;
};

static bool some_are_asked_for(void *context)
{
    const struct many *many = context;
    return creates(many->env) == many->created + COME_MOST;
}

static void *lock_and_unlock(void *l)
{
    locker_handle *held = NULL;
    const locker_status status = locker_lock(l, "many", NULL, &held, NULL);
    return status == LOCKER_OK && locker_unlock(held, NULL) == LOCKER_OK ? held : NULL;
}

/* Many of a locker begin to wait before the first is told its place. Each follows the one right ahead of it, and reads itself
 * when that one gives the lock back, so the queue is not listed for each. A few come at a time, because other clients' requests would
 * stand behind those of all. */
static void many_of_ours_are_served_without_lists(void **state)
{
    lk_env *env = *state;
    lk_locking first;
    pthread_t waiters[CROWD];
    locker_handle *beside[BESIDE];
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s");
    locker *other = lk_open_at(env->zk, "/shop?ttl=40s");
    locker_handle *held = lk_take(other, "many");
    lk_locking_start(&first, l, "many", NULL);
    lk_zkc_require_count(env->client, "/shop/many", 2);
    lk_require_waiting(l, 1);
    for (int i = 0; i < BESIDE; i++) {
        char key[32];
        snprintf(key, sizeof key, "beside-%d", i);
        beside[i] = lk_take(l, key);
    }
    struct many many = {env, creates(env)};
    const unsigned listed = lists(env);
    lk_proxy_hold(env->proxy, false, true);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&waiters[i], NULL, lock_and_unlock, l), 0);
    lk_require(some_are_asked_for, &many, "some should be asked for");
    assert_false(lk_readable(locker_handle_fd(beside[0]), 200));
    assert_int_equal(creates(env) - many.created, COME_MOST);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_waiting(l, CROWD + 1);
    lk_give(held);
    lk_give(lk_locking_grant(&first));
    for (int i = 0; i < CROWD; i++) {
        void *served;
        assert_int_equal(pthread_join(waiters[i], &served), 0);
        assert_non_null(served);
        locker_handle_free(served);
    }
    assert_unless_late(lists(env) - listed <= 1); /* for the first of them */
    for (int i = 0; i < BESIDE; i++)
        locker_handle_free(beside[i]);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* Calls of one locker for one key, in their order: the creates of the first few are under way, with their answers kept back. */
enum { COMERS = 12, GIVE_UP = 3 };

struct comers {
    lk_env *env;
    locker *other, *l;
    locker_handle *held;
    lk_locking calls[COMERS];
    locker_cancel *cancels[COMERS];
    uint64_t attempts;
    unsigned created;
};

static bool latest_asks(void *context)
{
    const struct comers *all = context;
    return lk_stats(all->l).attempts == all->attempts;
}

static bool some_are_out(void *context)
{
    const struct comers *all = context;
    return creates(all->env) == all->created + COME_MOST;
}

static void come(struct comers *all, lk_env *env)
{
    *all = (struct comers){.env = env, .other = lk_open_at(env->zk, "/shop?ttl=40s")};
    all->l = lk_open_through(env, "/shop?ttl=40s&command_timeout=40s");
    all->held = lk_take(all->other, "comers");
    all->attempts = lk_stats(all->l).attempts;
    all->created = creates(env);
    lk_proxy_hold(env->proxy, false, true);
    for (int i = 0; i < COMERS; i++) {
        locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
        all->cancels[i] = options.cancel = locker_cancel_new();
        all->attempts++;
        lk_locking_start(&all->calls[i], all->l, "comers", &options);
        lk_require(latest_asks, all, "one more should ask");
        lk_locking_await_rest(&all->calls[i]);
    }
    lk_require(some_are_out, all, "some should be out");
}

static void cancel_one(struct comers *all, int i)
{
    locker_cancel_fire(all->cancels[i]);
    assert_status(LOCKER_CANCELED, lk_locking_join(&all->calls[i]), all->calls[i].err);
}

static void go(struct comers *all)
{
    uint64_t last = 0;
    lk_give(all->held);
    for (int i = 0; i < COMERS; i++) {
        locker_handle *const held =
            all->calls[i].status != LOCKER_CANCELED ? lk_locking_grant(&all->calls[i]) : NULL;
        locker_cancel_free(all->cancels[i]);
        if (held == NULL)
            continue;
        assert_unless_late(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_give(held);
    }
    lk_close_locker(all->l);
    lk_close_locker(all->other);
}

/* The first, whose create is under way, one in the middle and the last: the others go on, in their order. */
static void a_queued_waiter_that_gives_up_does_not_delay_the_others(void **state)
{
    lk_env *env = *state;
    struct comers all;
    come(&all, env);
    cancel_one(&all, COMERS / 2);
    cancel_one(&all, 0);
    cancel_one(&all, COMERS - 1);
    assert_int_equal(creates(env), all.created + COME_MOST);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_waiting(all.l, COMERS - GIVE_UP);
    assert_int_equal(creates(env), all.created + COMERS - GIVE_UP + 1);
    go(&all);
}

static void *lock_and_unlock_comers(void *l)
{
    locker_handle *held = NULL;
    const locker_status status = locker_lock(l, "comers", NULL, &held, NULL);
    return status == LOCKER_OK && locker_unlock(held, NULL) == LOCKER_OK ? held : NULL;
}

/* The connection ends while all wait: they come by another one. */
static void a_connection_lost_while_waiters_queue(void **state)
{
    lk_env *env = *state;
    pthread_t threads[COMERS];
    struct comers all = {.env = env, .other = lk_open_at(env->zk, "/shop?ttl=40s")};
    all.l = lk_open_through(env, "/shop?ttl=40s&command_timeout=40s");
    all.held = lk_take(all.other, "comers");
    all.created = creates(env);
    lk_proxy_hold(env->proxy, false, true);
    for (int i = 0; i < COMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lock_and_unlock_comers, all.l), 0);
    lk_require(some_are_out, &all, "some should be out");
    assert_false(lk_readable(locker_handle_fd(all.held), 100));
    lk_proxy_cut_all(env->proxy);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_waiting(all.l, COMERS);
    lk_give(all.held);
    for (int i = 0; i < COMERS; i++) {
        void *served;
        assert_int_equal(pthread_join(threads[i], &served), 0);
        assert_non_null(served);
        locker_handle_free(served);
    }
    lk_close_locker(all.l);
    lk_close_locker(all.other);
}

/* A line of a service that answers is no silence of it, however long one stands there: whose time is over is told TIMEOUT. */
static void a_waiter_queued_for_longer_than_command_timeout_gets_timeout(void **state)
{
    enum { ANSWER_MS = 1100, COMMAND_MS = 3000, WAIT_MS = COMMAND_MS + 150, STAND = 24 };
    lk_env *env = *state;
    const locker_lock_options bounded = lk_wait_options(WAIT_MS);
    locker *const other = lk_open_at(env->zk, "/shop?ttl=40s"), *const l = lk_open_through(
                                                                    env, "/shop?ttl=40s&command_timeout=3s");
    locker_handle *const held = lk_take(other, "comers"), *const own = lk_take(l, "own");
    pthread_t calls[STAND];
    lk_locking last;
    lk_proxy_delay(env->proxy, 0, ANSWER_MS);
    for (int i = 0; i < STAND; i++)
        assert_int_equal(pthread_create(&calls[i], NULL, lock_and_unlock_comers, l), 0);
    assert_false(lk_readable(locker_handle_fd(held), 50)); /* until they ask */
    lk_locking_start(&last, l, "comers", &bounded);
    const locker_status status = lk_locking_join(&last);
    assert_unless_late(status == LOCKER_TIMEOUT);
    lk_proxy_cut_all(env->proxy); /* who sleeps in line is told */
    lk_proxy_delay(env->proxy, 0, 0);
    lk_give(held);
    for (int i = 0; i < STAND; i++) {
        void *served;
        assert_int_equal(pthread_join(calls[i], &served), 0);
        assert_non_null(served);
        locker_handle_free(served);
    }
    lk_give(own);
    lk_close_locker(l);
    lk_close_locker(other);
}

/* One that gave up, and whose delete is under way, is not followed: create and list are sent as if it were
 * not there. */
static void behind_our_own_place_that_is_being_deleted_a_list_is_sent(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s"),
           *other = lk_open_at(env->zk, "/shop?ttl=20s");
    struct line line;
    lk_locking locking;
    line_begin(&line, env, "goes", other);
    line_up(&line, l);
    lk_require_waiting(l, 1);
    struct flight flight = {env, creates(env), lists(env)};
    lk_proxy_hold(env->proxy, false, true);
    locker_cancel_fire(line.cancels[0]);
    assert_status(LOCKER_CANCELED, lk_locking_join(&line.waiters[0]), line.waiters[0].err);
    lk_locking_start(&locking, l, "goes", NULL);
    lk_require(both_are_out, &flight, "create and list should be sent without waiting for an answer");
    lk_proxy_hold(env->proxy, false, false);
    lk_give(line.held);
    lk_give(lk_locking_grant(&locking));
    line_end(&line);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* Requests that keep a place under watch, and all that may take them along. */
static unsigned reads_and_beats(lk_env *env)
{
    return lk_proxy_requests(env->proxy, LK_ZKP_GET) + lk_proxy_requests(env->proxy, LK_ZKP_MULTI) +
           lk_proxy_requests(env->proxy, LK_ZKP_EXISTS);
}

/* Ours, another's, and ours. False: a request of any kind went out that takes a watch along. */
static bool nothing_is_spent(lk_env *env, locker *l, locker *other, const char *key)
{
    lk_unlocking unlocking;
    struct line line;
    line_begin(&line, env, key, l);
    line_up(&line, other);
    assert_false(lk_readable(locker_handle_fd(line.held), 500)); /* it is watched itself */
    const unsigned earlier = reads_and_beats(env);
    line_up(&line, l);
    lk_require_waiting(l, 1);
    assert_false(lk_readable(locker_handle_fd(line.held), 50));
    const bool nothing = reads_and_beats(env) == earlier;
    struct seen before = seen_now(env);
    lk_unlocking_start(&unlocking, line.held);
    if (nothing)
        lk_require(delete_and_read_are_out, &before, "the node in between should be watched");
    assert_status(LOCKER_OK, lk_unlocking_join(&unlocking), unlocking.err);
    locker_handle_free(line.held);
    lk_give(lk_locking_grant(&line.waiters[0]));
    lk_give(lk_locking_grant(&line.waiters[1]));
    line_end(&line);
    return nothing;
}

/* What is ours further ahead has to be deleted before: the watch of the one in between goes along with that.
 * After 250 ms, which this thread may have been kept from running, it goes along with the watch of the place
 * itself. */
static void behind_places_of_both_lockers_no_extra_request_is_sent(void **state)
{
    enum { TRIES = 5 };
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s"), *other = lk_open_at(env->zk, "/shop");
    bool nothing = false;
    for (int i = 0; i < TRIES && !nothing; i++) {
        char key[32];
        snprintf(key, sizeof key, "along-%d", i);
        nothing = nothing_is_spent(env, l, other, key);
    }
    assert_true(nothing);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* The last of those ahead gives up: the others are served first, whoever's the places are. */
static void the_last_ahead_gives_up(lk_env *env, locker *l, locker *const *ahead, size_t count)
{
    lk_locking *ours;
    locker_handle *held;
    struct line line;
    line_begin(&line, env, "up", ahead[0]);
    for (size_t i = 1; i < count; i++)
        line_up(&line, ahead[i]);
    ours = line_up(&line, l);
    give_up(&line, count - 2);
    held = line.held;
    for (size_t i = 0;; i++) {
        assert_false(lk_readable(locker_handle_fd(held), 150)); /* nothing comes meanwhile */
        assert_int_equal(lk_stats(l).held, ahead[i] == l);
        lk_give(held);
        if (i == count - 2)
            break;
        assert_status(LOCKER_OK, lk_locking_join(&line.waiters[i]), line.waiters[i].err);
        held = line.waiters[i].held;
    }
    lk_give(lk_locking_grant(ours));
    line_end(&line);
}

static void a_waiter_that_gives_up_hands_nothing_over(void **state)
{
    enum { MOST = 4 };
    lk_env *env = *state;
    locker *sides[] = {lk_open_at(env->zk, "/shop"), lk_open_at(env->zk, "/shop")}, *ahead[MOST];
    for (size_t count = 2; count <= MOST; count++) {
        for (size_t mix = 0; mix < (size_t)1 << count; mix++) {
            for (size_t i = 0; i < count; i++)
                ahead[i] = sides[mix >> i & 1];
            the_last_ahead_gives_up(env, sides[0], ahead, count);
        }
    }
    lk_close_locker(sides[0]);
    lk_close_locker(sides[1]);
}

static void one_heartbeat_for_many_locks(void **state)
{
    enum { MANY = 50 };
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=2s");
    locker_handle *held[MANY];
    unsigned before;
    for (int i = 0; i < MANY; i++) {
        char key[32];

        snprintf(key, sizeof key, "beat-%d", i);
        held[i] = lk_take(l, key);
    }
    before = lk_proxy_requests(env->proxy, LK_ZKP_MULTI);
    assert_unless_late(
        !lk_readable(locker_handle_fd(held[0]), 2500)); /* longer than the session would last */
    const unsigned beats = lk_proxy_requests(env->proxy, LK_ZKP_MULTI) - before;
    assert_unless_late(beats >= 2 && beats <= 10);
    for (int i = 0; i < MANY; i++)
        lk_give_unless_late(held[i]);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    proxied_test(one_request_of_each_kind),
    proxied_test(create_and_list_in_one_flight),
    proxied_test(a_waiting_process_is_quiet),
    proxied_test(a_release_wakes_one),
    proxied_test(behind_our_own_place_nothing_is_watched),
    proxied_test(behind_our_own_place_in_one_flight),
    proxied_test(behind_our_own_waiting_place_no_list_is_sent),
    proxied_test(behind_places_of_both_lockers_a_list_is_sent),
    proxied_test(behind_a_place_of_another_locker_no_list_is_sent),
    proxied_test(the_first_events_of_a_new_connection_are_only_hints),
    proxied_test(behind_our_own_place_that_may_stay_a_list_is_sent),
    proxied_test(a_place_deleted_before_anothers_is_not_granted),
    proxied_test(a_place_deleted_before_our_own_is_not_granted),
    proxied_test(many_of_ours_are_served_without_lists),
    proxied_test(a_queued_waiter_that_gives_up_does_not_delay_the_others),
    proxied_test(a_waiter_queued_for_longer_than_command_timeout_gets_timeout),
    proxied_test(a_connection_lost_while_waiters_queue),
    proxied_test(behind_our_own_place_that_is_being_deleted_a_list_is_sent),
    proxied_test(behind_places_of_both_lockers_no_extra_request_is_sent),
    server_test(a_waiter_that_gives_up_hands_nothing_over),
    proxied_test(one_heartbeat_for_many_locks),
};

const lk_group lk_cost = {"cost", tests, sizeof tests / sizeof tests[0], NULL, NULL};
