/* grant_time.c: since when a lock is held that was waited for, as show tells it, and what that costs. */
#include <string.h>
#include <time.h>

#include "zk_tests.h"

enum { SHORT_MS = 250 }; /* a lock that is given back sooner isn't written about */

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t shown_since(locker *l, const char *key)
{
    locker_info info = LOCKER_INFO_INIT;
    int64_t since;
    locker_error err;
    assert_ok(locker_show(l, key, &info, &err), err);
    since = info.since_unix_ms;
    locker_info_clear(&info);
    return since;
}

struct wanted {
    locker *l;
    const char *key;
    int64_t after;
};

static bool is_shown_later(void *context)
{
    const struct wanted *wanted = context;
    return shown_since(wanted->l, wanted->key) > wanted->after;
}

/* A queue of three on one key, in which the second gets the lock after a while. Its time of coming is before
 * `queued`, its grant after `given`. */
struct turn {
    locker *l;
    lk_locking second, third;
    int64_t queued, given;
    int64_t wait_ms; /* how long the second waits at least */
};

static bool all_are_watched(void *context)
{
    return lk_proxy_requests(context, LK_ZKP_GET) == 4; /* each itself; the third the second */
}

static void turn_begin(struct turn *turn, lk_env *env, locker *l, locker *third)
{
    locker_handle *first = lk_take(l, "turn");
    turn->l = l;
    lk_locking_start(&turn->second, l, "turn", NULL);
    lk_zkc_require_count(env->client, "/shop/turn", 2);
    turn->queued = wall_ms();
    lk_locking_start(&turn->third, third, "turn", NULL);
    lk_zkc_require_count(env->client, "/shop/turn", 3);
    if (env->proxy != NULL)
        lk_require(all_are_watched, env->proxy, "those of the queue should be watched");
    if (turn->wait_ms > 0)
        assert_false(lk_readable(locker_handle_fd(first), turn->wait_ms));
    turn->given = wall_ms();
    lk_give(first);
    assert_status(LOCKER_OK, lk_locking_join(&turn->second), turn->second.err);
}

static void turn_end(struct turn *turn)
{
    lk_give(turn->second.held);
    lk_give(lk_locking_grant(&turn->third));
}

static void a_lock_that_was_waited_for_is_held_since_its_grant(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop");
    struct wanted wanted = {l, "turn", 0};
    locker_info broken = LOCKER_INFO_INIT;
    struct turn turn = {.wait_ms = 2L * LK_TEST_SLACK_MS};
    locker_error err;
    turn_begin(&turn, env, l, l);
    wanted.after = turn.queued;
    lk_require(is_shown_later, &wanted, "the time of the grant should be shown");
    /* by the server's clock, which is known as well as its answers are quick */
    const int64_t since = shown_since(l, "turn");
    assert_unless_late(since >= turn.given - LK_TEST_SLACK_MS && since <= wall_ms() + LK_TEST_SLACK_MS);
    turn_end(&turn);

    turn.second.held = lk_take(l, "turn"); /* this one didn't wait: what is written is of another grant */
    assert_true(shown_since(l, "turn") > turn.given);
    assert_ok(locker_break(l, "turn", NULL, &broken, &err), err);
    assert_true(broken.since_unix_ms > turn.given);
    locker_info_clear(&broken);
    lk_give_lost(turn.second.held);
    lk_close_locker(l);
}

struct sets {
    lk_env *env;
    unsigned before;
};

static bool one_more_set(void *context)
{
    const struct sets *sets = context;
    return lk_proxy_requests(sets->env->proxy, LK_ZKP_SET) == sets->before + 1;
}

/* Who waits behind it hears nothing of it, and asks nothing. */
static void writing_the_time_of_a_grant_wakes_no_waiter(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop"), *other = lk_open_through(env, "/shop");
    struct sets sets = {env, 0};
    unsigned got, listed;
    uint64_t attempts;
    struct turn turn = {0};
    turn_begin(&turn, env, l, other);
    attempts = lk_stats(other).attempts;
    listed = lk_proxy_requests(env->proxy, LK_ZKP_LIST);
    got = lk_proxy_requests(env->proxy, LK_ZKP_GET);
    lk_require(one_more_set, &sets, "the time of the grant should be written");
    assert_false(lk_readable(locker_handle_fd(turn.second.held), 500)); /* nothing more comes */
    assert_unless_late(one_more_set(&sets));
    assert_unless_late(lk_proxy_requests(env->proxy, LK_ZKP_GET) - got <= 1); /* to see what is there */
    assert_unless_late(lk_proxy_requests(env->proxy, LK_ZKP_LIST) == listed);
    assert_unless_late(lk_stats(other).attempts == attempts);
    turn_end(&turn);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* A grant whose time is written late, by one that has not heard yet that its lock was broken, does not take
 * the place of the next one's. */
static void the_time_of_an_older_grant_comes_late(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s"), *other = lk_open_at(env->zk, "/shop");
    lk_passed reads = lk_proxy_passed(env->proxy, LK_ZKP_GET);
    locker_handle *first = lk_take(other, "turn");
    lk_locking older, later;
    locker_error err;
    lk_locking_start(&older, l, "turn", NULL);
    lk_zkc_require_count(env->client, "/shop/turn", 2);
    lk_locking_start(&later, other, "turn", NULL);
    lk_zkc_require_count(env->client, "/shop/turn", 3);
    lk_proxy_await_passed(reads, 2); /* it watches the first one's node, and its own */
    lk_give(first);
    assert_status(LOCKER_OK, lk_locking_join(&older), older.err);
    lk_proxy_hold(env->proxy, true, false);
    lk_proxy_drop_unasked(env->proxy, true);
    assert_ok(locker_break(other, "turn", NULL, NULL, &err), err);
    assert_status(LOCKER_OK, lk_locking_join(&later), later.err);
    lk_require_since(env->client, "/shop/turn", locker_handle_token(later.held));
    lk_proxy_hold(env->proxy, false, false);
    for (int i = 0; i < 3; i++) /* behind the read of what is there, and behind what that leads to */
        assert_ok(locker_ping(l, NULL, &err), err);
    lk_require_since(env->client, "/shop/turn", locker_handle_token(later.held));
    lk_give(later.held);
    lk_give_lost(older.held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* One that waits and gives the lock back soon, and one that does not wait, cost nothing of it. */
static void short_and_free_locks_write_nothing(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop");
    lk_locking waiter;
    locker_handle *held = lk_take(l, "short");
    int64_t released;
    bool was_short;
    lk_locking_start(&waiter, l, "short", NULL);
    lk_zkc_require_count(env->client, "/shop/short", 2);
    released = lk_test_now_ms();
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    was_short = lk_test_now_ms() - released < SHORT_MS; /* a busy machine may have made it longer */
    held = lk_take(l, "short");
    assert_false(lk_readable(locker_handle_fd(held), 600)); /* longer than a grant has to last */
    assert_in_range(lk_proxy_requests(env->proxy, LK_ZKP_SET), 0, was_short ? 0 : 1);
    lk_give(held);
    lk_close_locker(l);
}

/* Somebody keeps something of his own at the key's node. */
static void foreign_data_at_the_key_is_left_unchanged(void **state)
{
    static const char theirs[] = "locker: grants nothing";
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop");
    char data[64] = "";
    struct turn turn = {0};
    lk_give(lk_take(l, "turn"));
    assert_int_equal(lk_zkc_set(env->client, "/shop/turn", theirs), LK_ZKC_OK);
    turn_begin(&turn, env, l, l);
    assert_false(lk_readable(locker_handle_fd(turn.second.held), 600));
    assert_int_equal(lk_zkc_get(env->client, "/shop/turn", data, sizeof data, NULL), LK_ZKC_OK);
    assert_string_equal(data, theirs);
    assert_in_range(shown_since(l, "turn"), 1, turn.queued + 2); /* as long as is known */
    turn_end(&turn);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(a_lock_that_was_waited_for_is_held_since_its_grant),
    proxied_test(writing_the_time_of_a_grant_wakes_no_waiter),
    proxied_test(the_time_of_an_older_grant_comes_late),
    proxied_test(short_and_free_locks_write_nothing),
    server_test(foreign_data_at_the_key_is_left_unchanged),
};

const lk_group lk_grant_time = {"grant_time", tests, sizeof tests / sizeof tests[0], NULL, NULL};
