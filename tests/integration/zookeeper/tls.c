/* tls.c: TLS, with a client library that has it and stunnel before the server. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zk_tests.h"

/* One server serves all tests of the group; each begins with it and stunnel running. */
static lk_server *server;
static lk_server *terminator;

static int begin_group(void **state)
{
    (void)state;
    if (!lk_client_has("zookeeper_init_ssl"))
        test_fails("the client library has no TLS; build one with %s, and put it into LD_LIBRARY_PATH",
                   "script/zookeeper-client");
    server = lk_test_zookeeper(LK_LOGIN_NONE);
    terminator = lk_test_stunnel(server->port);
    return 0;
}

static int end_group(void **state)
{
    (void)state;
    lk_test_free(terminator);
    lk_test_free(server);
    return 0;
}

static int tls_env(void **state)
{
    lk_env *env;
    if (lk_env_empty(state) != 0)
        return -1;
    env = *state;
    if (terminator->pid == 0)
        lk_test_launch(terminator, true);
    env->tls = terminator;
    env->zk = server;
    env->client = lk_zkc_open(server);
    return 0;
}

/* What is shared stays. */
static int tls_end(void **state)
{
    lk_env *env = *state;
    lk_server_thaw(env->zk);
    lk_server_thaw(terminator);
    env->zk = NULL;
    return lk_env_end(state);
}

#define tls_test(f) cmocka_unit_test_setup_teardown(f, tls_env, tls_end)

/* The parameters of the test's client. */
static const char *ours(const lk_env *env)
{
    static char text[400];
    lk_stunnel_parameters(env->tls, "ca", "client", text, sizeof text);
    return text;
}

static locker *open_tls(const lk_env *env, const char *rest)
{
    return lk_open_uri("zookeeper://127.0.0.1:%d/shop?%s%s", env->tls->port, ours(env), rest);
}

static void locks_are_taken_and_handed_on(void **state)
{
    lk_env *env = *state;
    locker *l = open_tls(env, ""), *rival = open_tls(env, ""), *plain = lk_open_at(env->zk, "/shop");
    locker_handle *held = lk_take(l, "tls");
    lk_locking waiter;
    lk_expect_busy(rival, "tls");
    lk_expect_busy(plain, "tls");
    lk_locking_start(&waiter, rival, "tls", NULL);
    lk_zkc_require_count(env->client, "/shop/tls", 2);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_expect_busy(l, "tls");
    lk_give(waiter.held);
    lk_close_locker(plain);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A login by digest goes through TLS. */
static void a_user_logs_in_by_digest(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_uri("zookeeper://me:sesame@127.0.0.1:%d/shop?%s", env->tls->port, ours(env));
    locker *other = lk_open_uri("zookeeper://you:sesame@127.0.0.1:%d/shop?%s", env->tls->port, ours(env));
    locker_handle *held = lk_take(l, "mine"), *none = NULL;
    locker_error err;
    assert_status(LOCKER_DENIED, locker_try_lock(other, "mine", NULL, &none, &err), err);
    lk_give(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what is refused ---- */

/* Why is said once an attempt to connect has come to its end, which takes longer on a busy machine. */
static void refused(const lk_env *env, locker_status wanted, int port, const char *parameters,
                    const char *words)
{
    enum { SECONDS_MAX = 32 };
    locker_error err;
    locker *l;
    (void)env;
    for (int seconds = 2;; seconds *= 2) {
        assert_status(wanted,
                      lk_try_uri(&l, &err, "zookeeper://127.0.0.1:%d/?connect_timeout=%ds&%s", port, seconds,
                                 parameters),
                      err);
        if (strstr(err.text, words) != NULL)
            return;
        if (seconds == SECONDS_MAX)
            test_fails("'%s' should have said '%s'", err.text, words);
    }
}

static void write_file(const lk_env *env, const char *name, const char *text)
{
    char path[128];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", env->tls->directory, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void wrong_files_are_named(void **state)
{
    lk_env *env = *state;
    const int port = env->tls->port;
    const char *directory = env->tls->directory;
    char text[480];
    refused(env, LOCKER_CONFIG, port, "tls=on", "needs tls_ca");
    snprintf(text, sizeof text, "tls=on&tls_ca=%s/ca.crt", directory);
    refused(env, LOCKER_CONFIG, port, text, "needs tls_cert");
    snprintf(text, sizeof text, "tls=on&tls_ca=%s/ca.crt&tls_cert=%s/client.crt", directory, directory);
    refused(env, LOCKER_CONFIG, port, text, "needs tls_key");
    lk_stunnel_parameters(env->tls, "nowhere", "client", text, sizeof text);
    refused(env, LOCKER_CONFIG, port, text, "nowhere.crt': No such file");
    lk_stunnel_parameters(env->tls, "ca", "nobody", text, sizeof text);
    refused(env, LOCKER_CONFIG, port, text, "tls_cert");
    snprintf(text, sizeof text, "tls=on&tls_ca=%s", directory);
    refused(env, LOCKER_CONFIG, port, text, "it is not a regular file");
    lk_stunnel_parameters(env->tls, "a%2Cb", "client", text, sizeof text);
    refused(env, LOCKER_CONFIG, port, text, "','");
    snprintf(text, sizeof text, "%s&sasl=digest-md5", ours(env));
    refused(env, LOCKER_UNSUPPORTED, port, text, "together");
    /* what can be read, but is not what it should be */
    write_file(env, "words.crt", "these are words\n");
    lk_stunnel_parameters(env->tls, "words", "client", text, sizeof text);
    refused(env, LOCKER_CONFIG, port, text, "cannot set up TLS");
    snprintf(text, sizeof text, "tls=on&tls_ca=%s/ca.crt&tls_cert=%s/client.crt&tls_key=%s/other.key",
             directory, directory, directory);
    refused(env, LOCKER_CONFIG, port, text, "cannot set up TLS: key values mismatch");
}

static void give_mode(const lk_env *env, const char *name, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", env->tls->directory, name);
    assert_int_equal(chmod(path, mode), 0);
}

static void files_that_others_can_use_are_refused(void **state)
{
    lk_env *env = *state;
    give_mode(env, "client.key", 0604);
    refused(env, LOCKER_CONFIG, env->tls->port, ours(env), "it is open to every user of this machine");
    give_mode(env, "client.key", 0600);
    give_mode(env, "ca.crt", 0646);
    refused(env, LOCKER_CONFIG, env->tls->port, ours(env), "every user can write to it");
    give_mode(env, "ca.crt", 0644);
}

static void an_untrusted_peer_is_refused(void **state)
{
    lk_env *env = *state;
    char text[480];
    lk_stunnel_parameters(env->tls, "other-ca", "client", text, sizeof text);
    refused(env, LOCKER_UNAVAILABLE, env->tls->port, text, "certificate verify failed");
    lk_stunnel_parameters(env->tls, "ca", "other", text, sizeof text);
    refused(env, LOCKER_UNAVAILABLE, env->tls->port, text, "the servers trust tls_cert");
    refused(env, LOCKER_UNAVAILABLE, env->zk->port, ours(env),
            "cannot connect to ZooKeeper"); /* speaks none */
    refused(env, LOCKER_UNAVAILABLE, lk_free_port(), ours(env), "Connection refused");
    lk_close_locker(open_tls(env, ""));
}

/* The limit that the manual tells: the system's authorities count besides tls_ca, and SSL_CERT_FILE says
 * whose those are. */
static void the_systems_authorities_are_trusted_too(void **state)
{
    lk_env *env = *state;
    const char *before = getenv("SSL_CERT_FILE");
    char text[480], path[128], kept[256];
    snprintf(kept, sizeof kept, "%s", before != NULL ? before : "");
    snprintf(path, sizeof path, "%s/ca.crt", env->tls->directory);
    snprintf(text, sizeof text, "tls=on&tls_ca=%s/other-ca.crt&tls_cert=%s/client.crt&tls_key=%s/client.key",
             env->tls->directory, env->tls->directory, env->tls->directory);
    assert_int_equal(setenv("SSL_CERT_FILE", path, 1), 0);
    lk_close_locker(lk_open_uri("zookeeper://127.0.0.1:%d/shop?%s", env->tls->port, text));
    assert_int_equal(setenv("SSL_CERT_FILE", "/dev/null", 1), 0);
    refused(env, LOCKER_UNAVAILABLE, env->tls->port, text, "certificate verify failed");
    if (before != NULL)
        assert_int_equal(setenv("SSL_CERT_FILE", kept, 1), 0);
    else
        unsetenv("SSL_CERT_FILE");
}

/* ------------------------------------------------------------------ connections that go ---- */

/* A socket that takes connections and never says a word. */
static int silence(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 64), 0);
    return fd;
}

static void a_lost_connection_loses_no_lock(void **state)
{
    lk_env *env = *state;
    locker *l = open_tls(env, "&ttl=20s");
    locker_handle *held = lk_take(l, "kept");
    for (int i = 0; i < 3; i++) {
        lk_server_kill(env->tls);
        lk_require_state(held, LOCKER_STATE_SUSPECT);
        lk_test_launch(env->tls, true);
        lk_require_state(held, LOCKER_STATE_HELD);
        lk_give(lk_take(l, "another"));
    }
    lk_give(held);
    lk_close_locker(l);
}

/* The server takes connections and never answers the handshake: nobody waits for it. */
static void a_silent_server_delays_no_call(void **state)
{
    enum { SESSION_MS = 4000 };
    static lk_gate gate;
    lk_env *env = *state;
    locker *l = open_tls(env, "&ttl=4s");
    const locker_lock_options options = lk_wait_options(300);
    locker_handle *held, *none = NULL;
    locker_error err;
    int64_t cut, began;
    int fd;
    lk_gate_init(&gate);
    held = lk_take_with_gate(l, "silent", &gate);
    lk_server_kill(env->tls);
    cut = lk_test_now_ms();
    fd = silence(env->tls->port);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    while (locker_handle_state(held) != LOCKER_STATE_LOST) {
        began = lk_test_now_ms();
        assert_int_not_equal(locker_lock(l, "other", &options, &none, &err), LOCKER_OK);
        assert_timely(lk_test_now_ms() - began, 300 + LK_TEST_SLACK_MS);
    }
    lk_gate_await(&gate, 1, "the loss should be told");
    assert_timely(lk_test_now_ms() - cut,
                  SESSION_MS + LK_TEST_SLACK_MS); /* the last touch was before the cut */
    close(fd);
    lk_test_launch(env->tls, true);
    lk_give(lk_take(l, "silent"));
    lk_give_lost(held);
    /* and opening and closing have their ends too */
    lk_server_kill(env->tls);
    fd = silence(env->tls->port);
    refused(env, LOCKER_UNAVAILABLE, env->tls->port, ours(env), "cannot connect to ZooKeeper");
    began = lk_test_now_ms();
    lk_close_locker(l);
    assert_timely(lk_test_now_ms() - began, 2000 + LK_TEST_SLACK_MS); /* cleanup_timeout */
    close(fd);
    lk_gate_destroy(&gate);
}

/* One of several servers is silent: the next one is asked in time. */
static void a_silent_server_is_left_for_the_next(void **state)
{
    lk_env *env = *state;
    const int port = lk_free_port(), fd = silence(port);
    for (int i = 0; i < 4; i++) { /* they are asked in any order */
        locker *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=4s&connect_timeout=10s&%s",
                                port, env->tls->port, ours(env));

        lk_give(lk_take(l, "next"));
        lk_close_locker(l);
    }
    close(fd);
}

/* The library's handshake waits by select, which takes no greater descriptor. */
static void too_many_open_descriptors_are_reported(void **state)
{
    enum { MANY = 1100 };
    lk_env *env = *state;
    struct rlimit limit;
    int first = dup(0), last = first;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2 * MANY) {
        limit.rlim_cur = 2 * MANY;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    while (last < MANY)
        last = dup(0);
    refused(env, LOCKER_UNAVAILABLE, env->tls->port, ours(env), "descriptors open");
    while (last >= first)
        close(last--);
    lk_close_locker(open_tls(env, ""));
}

static volatile sig_atomic_t piped;

static void on_pipe(int number)
{
    (void)number;
    piped = 1;
}

/* OpenSSL writes without MSG_NOSIGNAL; the application hears nothing of it. */
static void a_broken_connection_raises_no_sigpipe(void **state)
{
    lk_env *env = *state;
    struct sigaction before, action = {.sa_handler = on_pipe};
    locker *l = open_tls(env, "&cleanup_timeout=200ms");
    sigaction(SIGPIPE, &action, &before);
    lk_give(lk_take(l, "piped"));
    lk_test_freeze(env->zk);
    (void)locker_close(
        l); /* the server doesn't answer, so the connection is cut, and then the library writes */
    lk_server_thaw(env->zk);
    sigaction(SIGPIPE, &before, NULL);
    assert_int_equal(piped, 0);
}

/* ------------------------------------------------------------------ load ---- */

enum { THREADS = 64, CYCLES = 40 };

struct worker {
    locker *l;
    pthread_t thread;
    int number, done;
    atomic_uint *done_by_all;
    int64_t slowest_ms; /* of one cycle */
};

/* Half of them have a key of their own, the others share four. */
static void *work(void *context)
{
    struct worker *worker = context;
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    char key[32];
    snprintf(key, sizeof key, worker->number % 2 == 0 ? "own-%d" : "shared-%d",
             worker->number % 2 == 0 ? worker->number : worker->number / 2 % 4);
    for (int i = 0; i < CYCLES; i++) {
        const int64_t began = lk_test_now_ms();
        locker_handle *held = NULL;

        if (locker_lock(worker->l, key, &options, &held, NULL) == LOCKER_OK &&
            locker_unlock(held, NULL) == LOCKER_OK)
            worker->done++;
        locker_handle_free(held);
        atomic_fetch_add(worker->done_by_all, 1);
        if (lk_test_now_ms() - began > worker->slowest_ms)
            worker->slowest_ms = lk_test_now_ms() - began;
    }
    return NULL;
}

static void many_threads_share_a_connection(void **state)
{
    static struct worker workers[THREADS];
    static atomic_uint done;
    lk_env *env = *state;
    locker *l = open_tls(env, "&ttl=60s");
    int64_t slowest = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.l = l, .number = i, .done_by_all = &done};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        lk_join_worker(workers[i].thread, &done, "they lock and unlock");
        assert_int_equal(workers[i].done, CYCLES);
        if (workers[i].slowest_ms > slowest)
            slowest = workers[i].slowest_ms;
    }
    print_message("the slowest cycle took %lld ms\n", (long long)slowest);
    assert_true(slowest < 10000);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ two answers in one record ---- */

/* The bytes that wait to be read on connections of this machine from or to a port. */
static unsigned unread(int port, bool at_port)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    unsigned local, remote, bytes, sum = 0;
    char line[512];
    for (size_t i = 0; i < 2; i++) {
        FILE *table = fopen(tables[i], "re");

        while (table != NULL && fgets(line, sizeof line, table) != NULL)
            if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%x %*x %*x:%x", &local, &remote, &bytes) == 3 &&
                (at_port ? local : remote) == (unsigned)port)
                sum += bytes;
        if (table != NULL)
            fclose(table);
    }
    return sum;
}

struct arrival {
    int port;
    bool at_port;
    unsigned more_than;
};

static bool has_arrived(void *context)
{
    const struct arrival *arrival = context;
    return unread(arrival->port, arrival->at_port) > arrival->more_than;
}

struct pinger {
    locker *l;
    pthread_t thread;
    locker_status status;
    int64_t ended_ms;
};

static void *ping(void *context)
{
    struct pinger *pinger = context;
    pinger->status = locker_ping(pinger->l, NULL, NULL);
    pinger->ended_ms = lk_test_now_ms();
    return NULL;
}

/* What OpenSSL has decrypted and nobody has read yet is not seen by poll: an answer left there would come
 * with the next ping, a third of the session time-out later. So have the answers to two callers come
 * together. */
static void decrypted_answers_are_read_at_once(void **state)
{
    enum { COUNT = 2, SOON_MS = 6000, MORE_THAN_ONE_ANSWER = 30 };
    static struct pinger pingers[COUNT];
    lk_env *env = *state;
    locker *l = open_tls(env, "&ttl=60s&command_timeout=20s");
    struct arrival arrival = {env->zk->port, true, 0};
    int64_t began;
    lk_test_freeze(env->zk);
    for (int i = 0; i < COUNT; i++) {
        arrival.more_than = unread(env->zk->port, true);
        pingers[i].l = l;
        assert_int_equal(pthread_create(&pingers[i].thread, NULL, ping, &pingers[i]), 0);
        lk_require(has_arrived, &arrival, "the request should reach the server");
    }
    lk_test_freeze(env->tls); /* else it might still read */
    lk_server_thaw(env->zk);
    arrival = (struct arrival){env->zk->port, false, MORE_THAN_ONE_ANSWER};
    lk_require(has_arrived, &arrival, "the answers should reach stunnel");
    began = lk_test_now_ms();
    lk_server_thaw(env->tls);
    for (int i = 0; i < COUNT; i++) {
        lk_join(pingers[i].thread, "a ping");
        assert_int_equal(pingers[i].status, LOCKER_OK);
        assert_timely(pingers[i].ended_ms - began, SOON_MS);
    }
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what somebody changes on the way ---- */

static size_t record_length(const char *bytes, size_t count)
{
    const size_t length = count < 5 ? 0 : 5 + ((size_t)(uint8_t)bytes[3] << 8 | (uint8_t)bytes[4]);
    return length <= count ? length : 0;
}

static bool is_a_record(const lk_message *record, const char *kind)
{
    (void)record;
    (void)kind;
    return true;
}

static int64_t is_any(const lk_message *record)
{
    (void)record;
    return 0;
}

static const char forged_record[5 + 32] = "\x17\x03\x03\x00\x20 of no key that anybody has";
static const lk_protocol records = {record_length, is_a_record, is_any, forged_record, sizeof forged_record};

/* It is as good as closed: the client connects again, and its session and locks live on. */
static void a_forged_record_ends_a_connection(void **state)
{
    enum { SOON_MS = 10000 };
    lk_env *env = *state;
    env->proxy = lk_proxy_begin(&records, env->tls->port);
    locker *l = lk_open_uri("zookeeper://127.0.0.1:%d/shop?%s&ttl=60s&command_timeout=20s",
                            lk_proxy_port(env->proxy), ours(env));
    locker_handle *held = lk_take(l, "forged");
    locker_error err;
    locker_status status = LOCKER_OK;
    int64_t began = 0;
    /* It may strike what the keeper asks for. */
    for (int tries = 0; status == LOCKER_OK && tries < 5; tries++) {
        lk_proxy_harm(env->proxy, LK_PROXY_GARBAGE, "", 1, 0);
        began = lk_test_now_ms();
        status = locker_ping(l, NULL, &err);
        assert_int_equal(lk_proxy_harmed(env->proxy), tries + 1);
    }
    assert_status(LOCKER_UNAVAILABLE, status, err);
    lk_give(lk_take(l, "next"));
    assert_timely(lk_test_now_ms() - began, SOON_MS);
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    tls_test(locks_are_taken_and_handed_on),
    tls_test(a_user_logs_in_by_digest),
    tls_test(wrong_files_are_named),
    tls_test(files_that_others_can_use_are_refused),
    tls_test(an_untrusted_peer_is_refused),
    tls_test(the_systems_authorities_are_trusted_too),
    tls_test(a_lost_connection_loses_no_lock),
    tls_test(a_silent_server_delays_no_call),
    tls_test(a_silent_server_is_left_for_the_next),
    tls_test(too_many_open_descriptors_are_reported),
    tls_test(a_broken_connection_raises_no_sigpipe),
    tls_test(many_threads_share_a_connection),
    tls_test(decrypted_answers_are_read_at_once),
    tls_test(a_forged_record_ends_a_connection),
};

const lk_group lk_tls = {"tls", tests, sizeof tests / sizeof tests[0], begin_group, end_group};
