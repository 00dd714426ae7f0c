/* logins.c: how a server is reached and who we are to it: addresses, sockets, databases, passwords, ACLs. */
#include "redis_tests.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void lock_once(locker *l, const char *key)
{
    lk_give(lk_take(l, key));
    lk_close_locker(l);
}

static void passwords(void **state)
{
    lk_env *env = *state;
    locker_options options = LOCKER_OPTIONS_INIT;
    int port = env->server->port;
    char uri[128];
    locker_error err;
    locker *l;
    lk_server_do(env->server, "CONFIG SET requirepass open-sesame");
    assert_status(LOCKER_DENIED, lk_try_uri(&l, &err, "redis://127.0.0.1:%d", port), err);
    assert_null(l);
    assert_status(LOCKER_DENIED, lk_try_uri(&l, &err, "redis://:wr0ng-one@127.0.0.1:%d", port), err);
    assert_null(strstr(err.text, "wr0ng-one"));
    assert_ok(lk_try_uri(&l, &err, "redis://:open-sesame@127.0.0.1:%d", port), err);
    lock_once(l, "in-uri");
    snprintf(uri, sizeof uri, "redis://127.0.0.1:%d", port);
    options.password = "open-sesame";
    assert_ok(locker_open(uri, &options, &l, &err), err);
    lock_once(l, "in-options");
    setenv("LOCKER_PASSWORD", "open-sesame", 1);
    assert_ok(locker_open(uri, NULL, &l, &err), err);
    lock_once(l, "in-environment");
    setenv("LOCKER_PASSWORD", "wr0ng-one", 1);
    assert_status(LOCKER_DENIED, locker_open(uri, NULL, &l, &err), err);
    unsetenv("LOCKER_PASSWORD");
}

static int64_t connections(lk_server *server)
{
    return lk_server_integer(server, "EVAL %s 0",
                             "return tonumber(string.match(redis.call('INFO', 'stats'), "
                             "'total_connections_received:(%d+)'))");
}

/* However many try, the server is asked no more often than the back-off allows at least; and what it said
 * before is not believed when it has been asked since. */
static void tries_spare_a_server_that_refuses(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    const int64_t began = lk_test_now_ms();
    locker_handle *held = NULL;
    locker_error err;
    int64_t before;
    lk_server_do(env->server, "CONFIG SET requirepass open-sesame");
    lk_server_do(env->server, "CLIENT KILL TYPE normal");
    before = connections(env->server);
    for (int i = 0; i < 300; i++) {
        assert_status(LOCKER_DENIED, locker_try_lock(l, "tried", NULL, &held, &err), err);
        usleep(1000);
    }
    assert_true(connections(env->server) - before <= 3 + (lk_test_now_ms() - began) / 50);
    assert_status(LOCKER_DENIED, locker_lock(l, "tried", NULL, &held, &err), err); /* backs off for long */
    lk_server_do(env->server, "CONFIG SET requirepass %s", "");
    usleep(60000); /* what it said until now is older than that */
    assert_ok(locker_try_lock(l, "tried", NULL, &held, &err), err);
    lk_give(held);
    lk_close_locker(l);
}

static void write_line(const char *path, const char *line)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "%s\n", line);
    fclose(file);
}

static void a_password_file(void **state)
{
    lk_env *env = *state;
    char path[96];
    locker_error err;
    locker *l;
    lk_server_do(env->server, "CONFIG SET requirepass from-a-file");
    snprintf(path, sizeof path, "%s/password", env->server->directory);
    write_line(path, "from-a-file");
    assert_ok(lk_try_uri(&l, &err, "redis://127.0.0.1:%d?password_file=%s", env->server->port, path), err);
    lock_once(l, "in-file");
    assert_status(LOCKER_CONFIG,
                  lk_try_uri(&l, &err, "redis://127.0.0.1:%d?password_file=%s.no", env->server->port, path),
                  err);
}

/* Whoever changes it writes the file and ends the connections. A file that can't be read leaves the last password. */
static void a_password_that_changes_costs_no_lock(void **state)
{
    lk_env *env = *state;
    char path[96];
    locker_error err;
    locker *l;
    snprintf(path, sizeof path, "%s/password", env->server->directory);
    write_line(path, "the-first");
    lk_server_do(env->server, "ACL SETUSER app on >the-first ~* &* +@all");
    assert_ok(
        lk_try_uri(&l, &err, "redis://app@127.0.0.1:%d?password_file=%s&ttl=1s", env->server->port, path),
        err);
    locker_handle *held = lk_take(l, "rotated");
    write_line(path, "the-second");
    lk_server_do(env->server, "ACL SETUSER app resetpass >the-second");
    lk_server_do(env->server, "CLIENT KILL USER app");
    (void)assert_unless_late(!lk_readable(locker_handle_fd(held), 1500)); /* over a lease */
    lk_give_unless_late(held);
    assert_int_equal(unlink(path), 0);
    lk_server_do(env->server, "ACL SETUSER app >the-first");
    lk_server_do(env->server, "CLIENT KILL USER app");
    lk_give(lk_take(l, "rotated"));
    lk_close_locker(l);
}

/* It is told by the open where all locks need the command, and else by the call. */
static void a_command_that_is_renamed_is_told(void **state)
{
    static const struct {
        const char *command;
        bool opens;
    } cases[] = {
        {"EVALSHA", false}, {"TIME", false}, {"ZPOPMIN", true}, {"SCRIPT", true}, {"PEXPIREAT", true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const options[] = {"--rename-command", cases[i].command, "", NULL};
        const locker_lock_options shared = {.size = sizeof shared, .wait_ms = 1000, .mode = LOCKER_SHARED};
        lk_server *const server = lk_test_redis(options);
        locker_handle *held = NULL;
        locker *l = NULL;
        locker_error err;
        const locker_status status = lk_try_uri(&l, &err, "redis://127.0.0.1:%d", server->port);
        assert_status(cases[i].opens ? LOCKER_OK : LOCKER_CONFIG, status, err);
        if (l != NULL && strcmp(cases[i].command, "PEXPIREAT") == 0)
            assert_status(LOCKER_CONFIG, locker_lock(l, "renamed", &shared, &held, &err), err);
        else if (l != NULL)
            lk_give(lk_take(l, "renamed"));
        if (err.status != LOCKER_OK)
            assert_non_null(strstr(err.text, "rename-command"));
        lk_close_locker(l);
        lk_test_free(server);
    }
}

static void an_acl_user(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    lk_server_do(env->server, "ACL SETUSER app on >s%%3cret ~* &* +@all");
    lk_server_do(env->server, "ACL SETUSER default off");
    assert_status(LOCKER_DENIED, lk_try_uri(&l, &err, "redis://127.0.0.1:%d", env->server->port), err);
    assert_status(LOCKER_DENIED, lk_try_uri(&l, &err, "redis://app:no@127.0.0.1:%d", env->server->port), err);
    assert_ok(lk_try_uri(&l, &err, "redis://app:s%%253cret@127.0.0.1:%d", env->server->port), err);
    lock_once(l, "acl");
}

/* The line of locker-uri(7) that gives a user its rights, to be freed; the page writes ~ as \(ti. */
static char *documented_rights(void)
{
    FILE *page = fopen(LK_URI_PAGE, "re");
    char *line = NULL;
    size_t size = 0;
    assert_non_null(page);
    while (getline(&line, &size, page) >= 0 && strncmp(line, "ACL SETUSER ", 12) != 0)
        ;
    fclose(page);
    assert_int_equal(strncmp(line, "ACL SETUSER ", 12), 0);
    for (char *tilde; (tilde = strstr(line, "\\(ti")) != NULL;) {
        *tilde = '~';
        memmove(tilde + 1, tilde + 4, strlen(tilde + 4) + 1);
    }
    line[strcspn(line, "\n")] = '\0';
    return line;
}

/* What the test itself does at the server is done by commands that are none of ours. */
static void use_all_rights(lk_env *env, locker *l, locker *rival)
{
    locker_lock_options brief = LOCKER_LOCK_OPTIONS_INIT;
    locker_info info = LOCKER_INFO_INIT;
    lk_locking waiter, second;
    locker_handle *held;
    locker_error err;
    brief.ttl_ms = 300;
    held = lk_take_with(l, "few", &brief);
    lk_locking_start(&waiter, rival, "few", NULL);
    lk_require_queue(env->server, "shop:few", 1);
    usleep(600000); /* is it renewed? */
    assert_ok(locker_show(l, "few", &info, &err), err);
    const int64_t waiters = info.waiters;
    if (assert_unless_late(locker_handle_state(held) == LOCKER_STATE_HELD))
        assert_int_equal(waiters, 1);
    locker_info_clear(&info);
    lk_give_unless_late(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_ok(locker_break(l, "few", NULL, &info, &err), err);
    locker_info_clear(&info);
    assert_true(lk_readable(locker_handle_fd(waiter.held), LK_TEST_PATIENCE_MS));
    locker_handle_free(waiter.held);
    lk_server_do(env->server, "GETSET shop:by-poll somebody");
    lk_locking_start(&waiter, rival, "by-poll", NULL);
    lk_locking_start(&second, l, "by-poll", NULL); /* whether it still listens, the other one's looks ask */
    lk_require_queue(env->server, "shop:by-poll", 2);
    usleep(300000);
    lk_server_do(env->server, "UNLINK shop:by-poll");
    lk_give(lk_locking_grant(&waiter));
    lk_give(lk_locking_grant(&second));
    locker_handle *none;
    lk_server_do(env->server,
                 "HSETNX shop:hash field value"); /* a try asks for the type of a key that is no string */
    assert_status(LOCKER_BUSY, locker_try_lock(l, "hash", NULL, &none, &err), err);
    lk_server_do(env->server, "UNLINK shop:hash");
    assert_ok(locker_ping(l, NULL, &err), err);
    lk_server_do(env->server, "SCRIPT FLUSH");
    lk_give(lk_take(l, "few"));
    lk_server_do(env->server, "CLIENT KILL TYPE normal");
    for (int i = 0; i < 20; i++) /* by plain commands, once nobody was found to hold it for a while */
        lk_give(lk_take(l, "few"));
}

static void use_rights_of_sharers(locker *l, locker *rival)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking waiter;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    options.permits = 2;
    locker_handle *held = lk_take_with(l, "counted", &options),
                  *second = lk_take_with(l, "counted", &options);
    lk_locking_start(&waiter, rival, "counted", &options);
    lk_require_waiting(rival, 1);
    assert_ok(locker_show(l, "counted", &info, &err), err);
    assert_int_equal(info.holders_len, 2);
    locker_info_clear(&info);
    lk_give(second);
    lk_give(lk_locking_grant(&waiter));
    assert_ok(locker_break(l, "counted", NULL, NULL, &err), err);
    assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS));
    locker_handle_free(held);
}

/* Nothing was denied, and nothing was given that was not used. */
static void the_fewest_rights_are_enough(void **state)
{
    lk_env *env = *state;
    char *rights = documented_rights(), used[16384], *rest = NULL;
    locker *l, *rival;
    locker_error err;
    lk_server_do(env->server, rights);
    lk_server_do(env->server, "CONFIG RESETSTAT");
    lk_server_do(env->server, "ACL LOG RESET");
    assert_ok(lk_try_uri(&l, &err, "redis://shop:PASSWORD@127.0.0.1:%d?namespace=shop", env->server->port),
              err);
    assert_ok(lk_try_uri(&rival, &err, "redis://shop:PASSWORD@127.0.0.1:%d?namespace=shop&poll=50ms",
                         env->server->port),
              err);
    use_all_rights(env, l, rival);
    use_rights_of_sharers(l, rival);
    lk_close_locker(rival);
    lk_close_locker(l);
    assert_int_equal(lk_server_integer(env->server, "ACL LOG"), 0);
    assert_true(lk_server_text(env->server, used, sizeof used, "INFO commandstats"));
    for (char *word = strtok_r(rights, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char stat[64];

        if (word[0] != '+')
            continue;
        snprintf(stat, sizeof stat, "cmdstat_%s:", word + 1);
        if (strstr(used, stat) == NULL)
            test_fails("%s is not needed", word);
    }
    free(rights);
}

/* Uses a locker in all ways until something is DENIED; answers whether anything was. */
static bool is_denied_somewhere(lk_env *env, const char *rule, locker_error *err)
{
    locker_lock_options options = lk_wait_options(1500);
    locker_handle *held = NULL;
    locker_status status;
    locker *l;
    status = lk_try_uri(&l, err, "redis://app:pw@127.0.0.1:%d", env->server->port);
    if (status != LOCKER_OK)
        return status == LOCKER_DENIED;
    status = locker_try_lock(l, rule, NULL, &held, err);
    if (status == LOCKER_OK) {
        locker_handle_free(held);
        lk_server_do(env->server, "SET foreign somebody");
        status = locker_lock(l, "foreign", &options, &held, err);
        locker_handle_free(held);
    }
    locker_close(l);
    return status == LOCKER_DENIED;
}

static void a_missing_right_is_denied(void **state)
{
    static const char *const rules[] = {
        "-eval -evalsha -script", "-set", "-get", "-subscribe", "resetkeys ~other:*",
        "resetchannels &other:*"};
    lk_env *env = *state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        char command[160];
        locker_error err;

        lk_server_do(env->server, "ACL SETUSER app reset on >pw ~* &* +@all");
        snprintf(command, sizeof command, "ACL SETUSER app %s", rules[i]);
        lk_server_do(env->server, command);
        if (!is_denied_somewhere(env, "denied", &err))
            test_fails("with the rule %s nothing is denied, but %s: %s", rules[i],
                       locker_status_name(err.status), err.text);
        assert_true(err.text[0] != '\0');
    }
}

/* He could not give it back. */
static void a_user_without_the_right_to_run_scripts_takes_no_lock(void **state)
{
    lk_env *env = *state;
    locker_handle *held = NULL;
    locker_error err;
    locker *l;
    lk_server_do(env->server, "ACL SETUSER app reset on >pw ~* &* +@all -eval -evalsha");
    assert_ok(lk_try_uri(&l, &err, "redis://app:pw@127.0.0.1:%d?fencing=off", env->server->port), err);
    assert_status(LOCKER_DENIED, locker_try_lock(l, "kept", NULL, &held, &err), err);
    lk_expect_value(env->server, "kept", NULL);
    lk_close_locker(l);
}

/* A server that hides its time can't be told from one that has lost numbers. */
static void without_the_time_nothing_is_numbered(void **state)
{
    lk_env *env = *state;
    locker_handle *held = NULL;
    locker_error err;
    locker *l;
    lk_server_do(env->server, "ACL SETUSER app on >pw ~* &* +@all -time");
    assert_ok(lk_try_uri(&l, &err, "redis://app:pw@127.0.0.1:%d", env->server->port), err);
    assert_status(LOCKER_DENIED, locker_try_lock(l, "timeless", NULL, &held, &err), err);
    lk_close_locker(l);
    assert_ok(lk_try_uri(&l, &err, "redis://app:pw@127.0.0.1:%d?fencing=off", env->server->port), err);
    assert_ok(locker_try_lock(l, "timeless", NULL, &held, &err), err);
    lk_give(held);
    lk_close_locker(l);
}

/* The lock of another client has the value of a shared lock. That costs the renewal of our locks nothing. */
static void a_renewal_needs_no_rights_of_shared_locks(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    lk_server_do(env->server, "ACL SETUSER app on >pw ~* &* +@all -pexpireat -hset -hget -hdel -zscore");
    assert_ok(lk_try_uri(&l, &err, "redis://app:pw@127.0.0.1:%d?ttl=1s", env->server->port), err);
    locker_handle *const overwritten = lk_take(l, "overwritten"), *const kept = lk_take(l, "kept");
    lk_server_do(env->server, "SET overwritten S1700000000000000 PX 60000");
    assert_true(lk_readable(locker_handle_fd(overwritten), LK_TEST_PATIENCE_MS));
    lk_give_lost(overwritten);
    assert_false(lk_readable(locker_handle_fd(kept), 1500)); /* longer than a lease */
    lk_give(kept);
    lk_close_locker(l);
}

static void a_right_that_is_taken_away_is_denied(void **state)
{
    lk_env *env = *state;
    locker_handle *held = NULL;
    locker_error err;
    locker *l;
    lk_server_do(env->server, "ACL SETUSER app on >pw ~* &* +@all");
    assert_ok(lk_try_uri(&l, &err, "redis://app:pw@127.0.0.1:%d", env->server->port), err);
    lk_give(lk_take(l, "rights"));
    held = lk_take(l, "rights");
    lk_server_do(env->server, "ACL SETUSER app -@scripting");
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    assert_non_null(strstr(err.text, "eval"));
    locker_handle_free(held);
    held = NULL;
    /* what can't be given back is not taken */
    assert_status(LOCKER_DENIED, locker_try_lock(l, "other-rights", NULL, &held, &err), err);
    assert_null(held);
    lk_server_do(env->server, "ACL SETUSER app +@scripting");
    lk_give(lk_take(l, "other-rights"));
    lk_close_locker(l);
}

/* A user with few rights is told too. */
static void a_cluster_is_refused(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "redis://127.0.0.1:%d", env->server->port), err);
    assert_non_null(strstr(err.text, "write redis+cluster://"));
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "valkey://127.0.0.1:%d", env->server->port), err);
    assert_non_null(strstr(err.text, "write valkey+cluster://"));
    lk_server_do(env->server, "ACL SETUSER app on >pw ~* &* +@all -info -hello -cluster -role");
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "redis://app:pw@127.0.0.1:%d", env->server->port), err);
}

static int start_cluster(void **state)
{
    static const char *const options[] = {"--cluster-enabled", "yes", NULL};
    lk_env *env = calloc(1, sizeof *env);
    if (env == NULL)
        return -1;
    *state = env;
    env->server = lk_test_redis(options);
    return 0;
}

static void databases(void **state)
{
    lk_env *env = *state;
    int port = env->server->port;
    locker_handle *held;
    locker_error err;
    locker *l;
    assert_ok(lk_try_uri(&l, &err, "redis://127.0.0.1:%d/3", port), err);
    held = lk_take(l, "in-three");
    assert_int_equal(lk_server_integer(env->server, "EXISTS in-three"), 0);
    lk_server_do(env->server, "SELECT 3");
    assert_int_equal(lk_server_integer(env->server, "EXISTS in-three"), 1);
    lk_give(held);
    lk_close_locker(l);
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "redis://127.0.0.1:%d/99", port), err);
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "redis://127.0.0.1:%d/three", port), err);
}

static void a_unix_socket(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    locker_handle *held;
    assert_ok(lk_try_uri(&l, &err, "redis+unix://%s/socket?db=2", env->server->directory), err);
    held = lk_take(l, "by-socket");
    lk_server_do(env->server, "SELECT 2");
    assert_int_equal(lk_server_integer(env->server, "EXISTS by-socket"), 1);
    lk_give(held);
    lk_close_locker(l);
    assert_status(LOCKER_UNAVAILABLE, lk_try_uri(&l, &err, "redis+unix://%s/no", env->server->directory),
                  err);
    assert_int_not_equal(err.os_error, 0);
}

/* Whoever wrote valkey:// is told of Valkey, and what to write begins so. */
static void valkey_is_called_by_its_name(void **state)
{
    static const struct {
        locker_status status;
        const char *uri, *words;
    } cases[] = {
        {LOCKER_DENIED, "valkey://127.0.0.1:%d", "Valkey at 127.0.0.1"},
        {LOCKER_CONFIG, "valkey://127.0.0.1:%d/three", "write valkey://host"},
        {LOCKER_CONFIG, "valkey://u@127.0.0.1:%d", "write valkey://:PASSWORD"},
        {LOCKER_CONFIG, "valkey://127.0.0.1:%d/?tls_ca=/x", "needs the scheme valkeys"},
        {LOCKER_CONFIG, "valkey://127.0.0.1:%d/?sentinel_user=x", "needs the scheme valkey+sentinel"},
        {LOCKER_CONFIG, "valkey+sentinel://127.0.0.1:%d", "write valkey+sentinel://"},
        {LOCKER_CONFIG, "valkey+unix:?db=%d", "write valkey+unix:///run/valkey/"},
        {LOCKER_CONFIG, "valkey+unix://run/%d.sock", "three slashes, valkey+unix:///run/valkey/"},
    };
    lk_env *env = *state;
    locker_error err;
    locker *l;
    assert_ok(lk_try_uri(&l, &err, "valkey://127.0.0.1:%d/3", env->server->port), err);
    locker_handle *held = lk_take(l, "of-valkey");
    lk_server_do(env->server, "SELECT 3");
    assert_int_equal(lk_server_integer(env->server, "EXISTS of-valkey"), 1);
    lk_give(held);
    lk_close_locker(l);
    assert_ok(lk_try_uri(&l, &err, "valkey+unix://%s/socket", env->server->directory), err);
    lk_close_locker(l);
    assert_status(LOCKER_CONFIG,
                  lk_try_uri(&l, &err, "valkey+sentinel://127.0.0.1:%d/name", env->server->port), err);
    assert_non_null(strstr(err.text, "itself with valkey://"));
    lk_server_do(env->server, "CONFIG SET requirepass sesame");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_status(cases[i].status, lk_try_uri(&l, &err, cases[i].uri, env->server->port), err);
        if (strstr(err.text, cases[i].words) == NULL)
            test_fails("'%s' has no '%s'", err.text, cases[i].words);
    }
    lk_server_kill(env->server);
    assert_status(LOCKER_UNAVAILABLE, lk_try_uri(&l, &err, "valkey://127.0.0.1:%d", env->server->port), err);
    assert_non_null(strstr(err.text, "cannot reach Valkey at"));
}

static void no_server_listens(void **state)
{
    int64_t began = lk_test_now_ms();
    locker_error err;
    locker *l;
    (void)state;
    assert_status(LOCKER_UNAVAILABLE, lk_try_uri(&l, &err, "redis://127.0.0.1:%d", lk_free_port()), err);
    assert_status(LOCKER_UNAVAILABLE, lk_try_uri(&l, &err, "redis://no-such-host.invalid"), err);
    assert_non_null(strstr(err.text, "no-such-host.invalid"));
    assert_timely(lk_test_now_ms() - began, 10000);
}

/* A server that takes connections and says nothing, or something that is no reply. */
struct stranger {
    int listener;
    const char *greeting; /* NULL: says nothing */
    pthread_t thread;
};

static void *greet(void *argument)
{
    struct stranger *stranger = argument;
    int client;
    while ((client = accept4(stranger->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (send(client, stranger->greeting, strlen(stranger->greeting), MSG_NOSIGNAL) > 0)
            shutdown(client, SHUT_WR);
        close(client);
    }
    return NULL;
}

/* `login`: "USER:PASSWORD@", or "". */
static void open_at_a_stranger(const char *login, const char *greeting, locker_status wanted,
                               locker_error *err)
{
    struct stranger stranger = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                                .greeting = greeting};
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int64_t began = lk_test_now_ms();
    locker *l;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(stranger.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(stranger.listener, 4), 0);
    assert_int_equal(getsockname(stranger.listener, (struct sockaddr *)&address, &size), 0);
    if (greeting != NULL)
        assert_int_equal(pthread_create(&stranger.thread, NULL, greet, &stranger), 0);
    assert_status(wanted,
                  lk_try_uri(&l, err, "redis://%s127.0.0.1:%d?connect_timeout=400ms&command_timeout=400ms",
                             login, ntohs(address.sin_port)),
                  (*err));
    assert_null(l);
    assert_timely(lk_test_now_ms() - began, 5000);
    shutdown(stranger.listener, SHUT_RDWR);
    if (greeting != NULL)
        lk_join(stranger.thread, "a stranger's server");
    close(stranger.listener);
}

static void a_server_that_says_nothing(void **state)
{
    locker_error err;
    (void)state;
    open_at_a_stranger("", NULL, LOCKER_UNAVAILABLE, &err);
}

static void a_server_that_is_no_redis(void **state)
{
    locker_error err;
    (void)state;
    open_at_a_stranger("", "HTTP/1.1 400 Bad Request\r\n\r\n", LOCKER_PROTOCOL, &err);
}

/* It repeats what it was sent: the text quotes its answer, and not the password in it. */
static void a_server_that_repeats_the_password(void **state)
{
    static const char *const codes[] = {"ERR", "LOADING", "NOPERM", "WRONGPASS"};
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        char answer[128];
        locker_error err;

        snprintf(answer, sizeof answer, "-%s unknown command 'AUTH', with args: 'u' 'sesame' 'sesame'\r\n",
                 codes[i]);
        open_at_a_stranger("u:sesame@", answer, LOCKER_UNAVAILABLE, &err);
        assert_non_null(strstr(err.text, "unknown command"));
        assert_null(strstr(err.text, "sesame"));
    }
}

#ifndef LK_TEST_TLS
static void a_build_without_tls_says_so(void **state)
{
    locker_error err;
    locker *l;
    (void)state;
    assert_status(LOCKER_UNSUPPORTED, lk_try_uri(&l, &err, "rediss://127.0.0.1"), err);
    assert_non_null(strstr(err.text, "libssl-dev"));
}
#endif

static const struct CMUnitTest tests[] = {
    server_test(passwords),
    server_test(tries_spare_a_server_that_refuses),
    server_test(a_password_file),
    server_test(a_password_that_changes_costs_no_lock),
    cmocka_unit_test(a_command_that_is_renamed_is_told),
    server_test(an_acl_user),
    server_test(the_fewest_rights_are_enough),
    server_test(a_missing_right_is_denied),
    server_test(a_user_without_the_right_to_run_scripts_takes_no_lock),
    server_test(without_the_time_nothing_is_numbered),
    server_test(a_renewal_needs_no_rights_of_shared_locks),
    server_test(a_right_that_is_taken_away_is_denied),
    cmocka_unit_test_setup_teardown(a_cluster_is_refused, start_cluster, lk_env_end),
    server_test(databases),
    server_test(a_unix_socket),
    server_test(valkey_is_called_by_its_name),
    cmocka_unit_test(no_server_listens),
    cmocka_unit_test(a_server_that_says_nothing),
    cmocka_unit_test(a_server_that_is_no_redis),
    cmocka_unit_test(a_server_that_repeats_the_password),
#ifndef LK_TEST_TLS
    cmocka_unit_test(a_build_without_tls_says_so),
#endif
};

const lk_group lk_logins = {"logins", tests, sizeof tests / sizeof tests[0], NULL, NULL};
