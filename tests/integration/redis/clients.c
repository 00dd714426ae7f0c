/* clients.c: other clients on the same key: redis-py's Lock, and holders that set the key by hand. */
#include "redis_tests.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void start_py(lk_env *env)
{
    char port[16];
    const char *argv[] = {LK_PYTHON, LK_PY_LOCK, port, NULL};
    snprintf(port, sizeof port, "%d", env->server->port);
    env->child = lk_child_run(argv, "python3");
    lk_child_expect(env->child, "open");
}

static void py(lk_env *env, const char *command, const char *answer)
{
    lk_child_say(env->child, "%s", command);
    lk_child_expect(env->child, answer);
}

static void redis_py_holds_and_we_wait(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    lk_locking waiter;
    int64_t released;
    start_py(env);
    py(env, "lock shared none none", "ok");
    lk_expect_busy(l, "shared");
    lk_locking_start(&waiter, l, "shared", NULL);
    lk_require_waiting(l, 1);
    py(env, "release", "ok");
    released = lk_test_now_ms();
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_timely(waiter.ended_ms - released, 1000 + 2 * LK_TEST_SLACK_MS); /* by the poll, once a second */
    py(env, "lock shared none 0", "busy");
    lk_give(waiter.held);
    lk_close_locker(l);
}

static void redis_py_lets_its_lease_end(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_handle *held;
    int64_t began;
    start_py(env);
    py(env, "lock ends 0.4 none", "ok");
    began = lk_test_now_ms(); /* of our wait: the lease began before it */
    held = lk_take(l, "ends");
    assert_timely(lk_test_now_ms() - began, 400 + 2 * LK_TEST_SLACK_MS);
    py(env, "release", "lost");
    lk_give(held);
    lk_close_locker(l);
}

static void we_hold_and_redis_py_waits(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "ours");
    start_py(env);
    py(env, "lock ours none 0", "busy");
    lk_child_say(env->child, "%s", "lock ours 10 20");
    lk_give(held);
    lk_child_expect(env->child, "ok");
    lk_expect_busy(l, "ours");
    py(env, "release", "ok");
    lk_give(lk_take(l, "ours"));
    lk_close_locker(l);
}

static void a_redis_py_lock_that_took_our_place_stays(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "place");
    start_py(env);
    lk_server_do(env->server, "DEL place");
    py(env, "lock place 30 0", "ok");
    lk_give_lost(held);
    lk_expect_busy(l, "place");
    py(env, "release", "ok");
    lk_close_locker(l);
}

/* One of ours that asks for the lock again as soon as it has given it back. */
struct asker {
    locker *l;
    pthread_t thread;
    atomic_bool *over;
    atomic_int grants;
};

static void *ask_and_ask(void *argument)
{
    struct asker *asker = argument;
    while (!atomic_load(asker->over)) {
        locker_handle *held;

        if (locker_lock(asker->l, "asked", NULL, &held, NULL) != LOCKER_OK)
            break;
        usleep(1000);
        if (locker_unlock(held, NULL) == LOCKER_OK)
            asker->grants++;
        locker_handle_free(held);
    }
    return NULL;
}

static bool has_had_it(void *asker)
{
    return ((struct asker *)asker)->grants > 0;
}

/* Between our lockers a lock goes from one to the next and is never free, but for a moment now and then. */
static void a_polling_foreign_client_gets_turns(void **state)
{
    lk_env *env = *state;
    struct asker asker[4];
    atomic_bool over = false;
    start_py(env);
    for (int i = 0; i < 4; i++) {
        asker[i] = (struct asker){.l = lk_open_at(env->server, ""), .over = &over};
        assert_int_equal(pthread_create(&asker[i].thread, NULL, ask_and_ask, &asker[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        lk_require(has_had_it, &asker[i], "all should ask for it before another polls");
    py(env, "poll asked 5", "ok");
    atomic_store(&over, true);
    for (int i = 0; i < 4; i++) {
        lk_join(asker[i].thread, "one who asks and asks");
        assert_true(asker[i].grants > 5);
        lk_close_locker(asker[i].l);
    }
    assert_int_equal(lk_server_integer(env->server, "EXISTS {asked}:locker:queue"), 0);
}

/* What stands beside `b` is called `{b}`, and something. */
static void a_key_in_braces_is_another(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_handle *plain = lk_take(l, "b"), *braced = lk_take(l, "{b}");
    locker *other = lk_open_at(env->server, "");
    lk_locking waiter;
    lk_locking_start(&waiter, other, "{b}", NULL);
    lk_require_waiting(other, 1);
    lk_require_subscriber(env->server);
    lk_give(plain);
    assert_int_equal(lk_server_integer(env->server, "EXISTS b"), 0);
    lk_expect_busy(l, "{b}");
    lk_give(braced);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_give(waiter.held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ holders by hand ---- */

static void a_holder_without_a_ttl(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_info info = LOCKER_INFO_INIT;
    lk_locking waiter;
    locker_error err;
    int64_t deleted;
    lk_server_do(env->server, "SET by-hand me");
    lk_expect_busy(l, "by-hand");
    assert_ok(locker_show(l, "by-hand", &info, &err), err);
    assert_true(info.held);
    assert_string_equal(info.owner, "");
    assert_int_equal(info.remaining_ms, -1);
    locker_info_clear(&info);
    lk_locking_start(&waiter, l, "by-hand", NULL);
    lk_require_waiting(l, 1);
    assert_int_equal(lk_server_integer(env->server, "DEL by-hand"), 1);
    deleted = lk_test_now_ms();
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_timely(waiter.ended_ms - deleted, 1000 + 2 * LK_TEST_SLACK_MS);
    lk_give(waiter.held);
    lk_close_locker(l);
}

/* The time that the holder has left is known, so the waiter comes when it is over, not a second later. */
static void a_holder_whose_ttl_ends(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    int64_t began = lk_test_now_ms();
    locker_handle *held;
    lk_server_do(env->server, "SET ends me PX 300");
    held = lk_take(l, "ends");
    assert_true(lk_test_now_ms() - began >= 299);
    assert_timely(lk_test_now_ms() - began, 300 + LK_TEST_SLACK_MS);
    lk_give(held);
    lk_close_locker(l);
}

static void the_poll_is_a_parameter(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "poll=50ms");
    lk_locking waiter;
    int64_t deleted;
    lk_server_do(env->server, "SET polled me");
    lk_locking_start(&waiter, l, "polled", NULL);
    lk_require_waiting(l, 1);
    lk_require_subscriber(env->server);
    lk_server_do(env->server, "DEL polled");
    deleted = lk_test_now_ms();
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_timely(waiter.ended_ms - deleted, 50 + LK_TEST_SLACK_MS);
    lk_give(waiter.held);
    lk_close_locker(l);
}

static void a_foreign_lock_is_broken(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    locker_break_options force = LOCKER_BREAK_OPTIONS_INIT;
    force.force = true;
    lk_server_do(env->server, "SET stuck me");
    assert_ok(locker_break(l, "stuck", &force, &info, &err), err);
    assert_true(info.held);
    locker_info_clear(&info);
    lk_give(lk_take(l, "stuck"));
    lk_close_locker(l);
}

/* What is written to learn whether the server is still the master deletes no lock, whatever that is called. */
static const char *const beside[] = {"a{b}c:locker:info:", "a{b}c:locker:queue:", "a{b}c:locker:broken:"};
enum { BESIDE = sizeof beside / sizeof *beside };

static void expect_neighbours_to_stay(lk_env *env, locker_mode mode, bool renews)
{
    locker *l = lk_open_at(env->server, renews ? "ttl=1s" : "ttl=90s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *neighbours[BESIDE];
    options.mode = mode;
    for (int i = 0; i < BESIDE; i++)
        neighbours[i] = lk_take(l, beside[i]);
    locker_handle *held = lk_take_with(l, "a{b}c", &options);
    lk_server_do(env->server, "DEL a{b}c");
    if (renews)
        assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS));
    lk_give_lost(held);
    for (int i = 0; i < BESIDE; i++) {
        assert_int_equal(lk_server_integer(env->server, "EXISTS %s", beside[i]), 1);
        lk_give(neighbours[i]);
    }
    lk_close_locker(l);
}

static void a_release_of_what_is_gone_deletes_no_neighbour(void **state)
{
    expect_neighbours_to_stay(*state, LOCKER_EXCLUSIVE, false);
    expect_neighbours_to_stay(*state, LOCKER_SHARED, false);
}

static void a_renewal_of_what_is_gone_deletes_no_neighbour(void **state)
{
    expect_neighbours_to_stay(*state, LOCKER_EXCLUSIVE, true);
    expect_neighbours_to_stay(*state, LOCKER_SHARED, true);
}

static void a_break_deletes_no_neighbour(void **state)
{
    static const locker_mode modes[] = {LOCKER_EXCLUSIVE, LOCKER_SHARED};
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=90s");
    locker_error err;
    for (int i = 0; i < 2; i++) {
        locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
        options.mode = modes[i];
        locker_handle *const neighbour = lk_take(l, "a{b}c:locker:broken:");
        locker_handle *const held = lk_take_with(l, "a{b}c", &options);
        assert_ok(locker_break(l, "a{b}c", NULL, NULL, &err), err);
        lk_give_lost(held);
        lk_give(neighbour);
    }
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ the keys that scripts touch ---- */

static int start_monitor(lk_env *env)
{
    char line[16] = "";
    const int fd = lk_server_connect(env->server, LK_TEST_PATIENCE_MS);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "MONITOR\r\n", 9), 9);
    for (size_t len = 0; strchr(line, '\n') == NULL; len++) {
        assert_true(len < sizeof line - 1);
        assert_int_equal(read(fd, line + len, 1), 1);
    }
    assert_string_equal(line, "+OK\r\n");
    return fd;
}

/* Read what the monitor has seen until now; free it. */
static char *end_monitor(lk_env *env, int fd)
{
    enum { ROOM = 1 << 20 };
    char *const seen = calloc(1, ROOM);
    size_t len = 0;
    assert_non_null(seen);
    lk_server_do(env->server, "ECHO end-of-the-monitor");
    while (strstr(seen, "end-of-the-monitor") == NULL) {
        assert_true(len < ROOM - 1);
        const ssize_t got = read(fd, seen + len, ROOM - 1 - len);
        assert_true(got > 0);
        len += (size_t)got;
    }
    close(fd);
    return seen;
}

/* A lock may have each other name, so a script that writes to such a name could destroy a lock. */
static bool is_lock_or_reserved(const char *name)
{
    static const char lock[] = "a{b}c", companion[] = "a{b}c:locker:";
    static const char *const words[] = {"queue", "info", "fence"}, *const values[] = {
                                                                       "broken:", "given:", "doubt:"};
    const char *const rest = name + sizeof companion - 1;
    if (strcmp(name, lock) == 0 || strncmp(name, "locker:fence:{", 14) == 0)
        return true;
    if (strncmp(name, companion, sizeof companion - 1) != 0)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(rest, words[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (strncmp(rest, values[i], strlen(values[i])) == 0 &&
            strspn(strchr(rest, ':') + 1, "0123456789abcdef") == 32)
            return true;
    return strncmp(rest, "shared:", 7) == 0;
}

/* A line is `+TIME [0 lua] "COMMAND" "key" ...`. Return how many keys were seen. */
static int expect_reserved_keys(char *seen)
{
    int count = 0;
    for (char *line = strtok(seen, "\r\n"); line != NULL; line = strtok(NULL, "\r\n")) {
        char command[32], name[256];
        const char *const call = strstr(line, " lua] ");
        if (call == NULL || sscanf(call, " lua] \"%31[^\"]\" \"%255[^\"]\"", command, name) != 2)
            continue;
        if (strcmp(command, "PUBLISH") == 0 || strcmp(command, "PUBSUB") == 0)
            continue;
        if (!is_lock_or_reserved(name))
            test_fails("a script touches %s: %s", name, line);
        count++;
    }
    return count;
}

static bool has_waiter(void *server)
{
    return lk_server_integer(server, "ZCARD a{b}c:locker:queue") == 1;
}

/* Lock, wait, show, renew, break and release: also of locks that are gone. */
static void use_the_lock(lk_env *env, const locker_lock_options *options)
{
    locker *l = lk_open_at(env->server, "ttl=1s"), *other = lk_open_at(env->server, "ttl=90s");
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_locking waiter;
    locker_handle *held = lk_take_with(l, "a{b}c", options);
    lk_locking_start(&waiter, other, "a{b}c", options->permits > 0 ? options : NULL);
    lk_require_waiting(other, 1);
    lk_require(has_waiter, env->server, "the waiter should be in the queue");
    assert_ok(locker_show(l, "a{b}c", &info, &err), err);
    locker_info_clear(&info);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_ok(locker_break(l, "a{b}c", NULL, NULL, &err), err);
    lk_give_lost(waiter.held);
    held = lk_take_with(l, "a{b}c", options);
    lk_server_do(env->server, "DEL a{b}c");
    assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS)); /* by the renewal */
    lk_give_lost(held);
    held = lk_take_with(other, "a{b}c", options);
    lk_server_do(env->server, "DEL a{b}c");
    lk_give_lost(held);
    held = lk_take_with(other, "a{b}c", options);
    assert_ok(locker_break(l, "a{b}c", NULL, NULL, &err), err);
    lk_give_lost(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

static void scripts_touch_only_the_lock_and_reserved_names(void **state)
{
    lk_env *env = *state;
    for (int kind = 0; kind < 3; kind++) {
        locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
        options.mode = kind == 1 ? LOCKER_SHARED : LOCKER_EXCLUSIVE;
        options.permits = kind == 2;
        const int fd = start_monitor(env);
        use_the_lock(env, &options);
        char *const seen = end_monitor(env, fd);
        assert_true(expect_reserved_keys(seen) > 20);
        free(seen);
    }
}

/* ------------------------------------------------------------------ what others see ---- */

static void expect_plain_string(lk_server *server, const char *key)
{
    char value[128], kind[32];
    assert_true(lk_server_text(server, kind, sizeof kind, "TYPE %s", key));
    assert_string_equal(kind, "string");
    assert_true(lk_server_text(server, value, sizeof value, "GET %s", key));
    assert_int_equal(strlen(value), 32);
    for (const char *c = value; *c != '\0'; c++)
        assert_true(isxdigit((unsigned char)*c));
    assert_in_range(lk_server_integer(server, "PTTL %s", key), 1, 30000);
}

static void the_lock_is_a_plain_string(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, ""), *shop = lk_open_at(env->server, "namespace=shop");
    locker *plain = lk_open_at(env->server, "fencing=off");
    locker_handle *held = lk_take(l, "name"), *in_shop = lk_take(shop, "name");
    locker_handle *unfenced = lk_take(plain, "unfenced");
    expect_plain_string(env->server, "name");
    expect_plain_string(env->server, "shop:name");
    expect_plain_string(env->server, "unfenced");
    assert_int_equal(locker_handle_token(unfenced), 0);
    lk_give(unfenced);
    lk_give(in_shop);
    lk_give(held);
    lk_close_locker(plain);
    lk_close_locker(shop);
    lk_close_locker(l);
}

/* What is kept beside a lock ends by itself, but for the counter of its slot, so a million names leave no more than the slots
 * are. */
static void nothing_stays_for_ever(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, ""), *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "trace");
    lk_locking waiter;
    char script[] =
        "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do "
        "if redis.call('TTL', k) == -1 and not string.find(k, '^locker:fence:{%d+}$') then n = n + 1 end end "
        "return n";
    lk_locking_start(&waiter, rival, "trace", NULL);
    lk_require_waiting(rival, 1);
    lk_require_subscriber(env->server);
    assert_int_equal(lk_server_integer(env->server, "EVAL %s 0", script), 0);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    assert_int_equal(lk_server_integer(env->server, "EVAL %s 0", script), 0);
    lk_expect_value(env->server, "trace", NULL);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A locker's threads wait as one, and the holder's own not at all: they stand in the locker's own line. */
static void show_names_the_waiters(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, ""), *rival = lk_open_at(env->server, "owner=the-rival");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held = lk_take(l, "queue");
    locker_info info = LOCKER_INFO_INIT;
    lk_locking waiter, second, own;
    locker_error err;
    options.cancel = locker_cancel_new();
    lk_locking_start(&waiter, rival, "queue", NULL);
    lk_require_waiting(rival, 1);
    lk_locking_start(&second, rival, "queue", &options);
    lk_require_waiting(rival, 2);
    lk_locking_start(&own, l, "queue", &options);
    lk_require_waiting(l, 1);
    lk_require_subscriber(env->server);
    for (int64_t until = lk_test_now_ms() + LK_TEST_PATIENCE_MS; info.waiters != 1;) {
        locker_info_clear(&info);
        assert_ok(locker_show(l, "queue", &info, &err), err);
        assert_true(lk_test_now_ms() < until);
    }
    assert_int_equal(info.queue_len, 1);
    assert_string_equal(info.queue[0].owner, "the-rival");
    locker_info_clear(&info);
    locker_cancel_fire(options.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&second), second.err);
    assert_status(LOCKER_CANCELED, lk_locking_join(&own), own.err);
    locker_cancel_free(options.cancel);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A grant says whose it is a moment later; who looks at once waits for that. */
static void show_names_a_holder_at_once(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    char uri[64];
    snprintf(uri, sizeof uri, "redis://127.0.0.1:%d/0", env->server->port);
    env->child = lk_puppet_start(uri);
    for (int i = 0; i < 3; i++) {
        locker_info info = LOCKER_INFO_INIT;
        locker_error err;
        uint64_t token;
        char pid[16];

        assert_int_equal(lk_puppet_lock(env->child, "shown", 0, 0, true, &token), LOCKER_OK);
        lk_require_noted(env, "shown");
        assert_ok(locker_show(l, "shown", &info, &err), err);
        assert_true(info.held);
        snprintf(pid, sizeof pid, ":%d:", (int)env->child->pid);
        if (strstr(info.owner, pid) == NULL)
            test_fails("the holder is shown as '%s'", info.owner);
        assert_true(info.token == token);
        assert_true(llabs(info.since_unix_ms / 1000 - (long long)time(NULL)) < 10);
        locker_info_clear(&info);
        assert_int_equal(lk_puppet_unlock(env->child), LOCKER_OK);
    }
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(redis_py_holds_and_we_wait),
    server_test(redis_py_lets_its_lease_end),
    server_test(we_hold_and_redis_py_waits),
    server_test(a_redis_py_lock_that_took_our_place_stays),
    server_test(a_polling_foreign_client_gets_turns),
    server_test(a_holder_without_a_ttl),
    server_test(a_holder_whose_ttl_ends),
    server_test(the_poll_is_a_parameter),
    server_test(a_foreign_lock_is_broken),
    server_test(the_lock_is_a_plain_string),
    server_test(nothing_stays_for_ever),
    server_test(show_names_the_waiters),
    server_test(show_names_a_holder_at_once),
    server_test(a_key_in_braces_is_another),
    server_test(a_release_of_what_is_gone_deletes_no_neighbour),
    server_test(a_renewal_of_what_is_gone_deletes_no_neighbour),
    server_test(a_break_deletes_no_neighbour),
    server_test(scripts_touch_only_the_lock_and_reserved_names),
};

const lk_group lk_clients = {"clients", tests, sizeof tests / sizeof tests[0], NULL, NULL};
