/* addresses.c: the way back to the server that a locker was connected to, whatever becomes of names and of other hosts. */
#include "redis_tests.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ------------------------------------------------------------------ a resolver ---- */

/* The library's calls of getaddrinfo() (CMakeLists.txt): two.test has the addresses 127.0.0.2 and 127.0.0.1; moving.test has
 * 127.0.0.1, or does not resolve, or does not until `go_on` is passed. */
int __real_getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);
int __wrap_getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);

enum resolver { RESOLVES, FAILS, HANGS };
static _Atomic enum resolver resolver;
static lk_gate go_on;

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    const bool is_two = strcmp(host, "two.test") == 0;
    if (!is_two && strcmp(host, "moving.test") != 0)
        return __real_getaddrinfo(host, service, hints, found);
    if (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0)
        return EAI_NONAME;
    if (!is_two && resolver == HANGS)
        (void)lk_gate_pass(&go_on);
    if (!is_two)
        return resolver == RESOLVES ? __real_getaddrinfo("127.0.0.1", service, hints, found) : EAI_AGAIN;
    const int rc = __real_getaddrinfo("127.0.0.2", service, hints, found);
    return rc != 0 ? rc : __real_getaddrinfo("127.0.0.1", service, hints, &(*found)->ai_next);
}

static void cut_off(lk_server *server)
{
    lk_server_do(server, "CLIENT KILL TYPE normal");
}

static void expect_kept(locker *l, locker_handle *held)
{
    locker_error err;
    assert_ok(locker_ping(l, NULL, &err), err); /* over a new connection */
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

static void a_name_that_does_not_resolve_costs_no_lock(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    atomic_store(&resolver, RESOLVES);
    assert_ok(lk_try_uri(&l, &err, "redis://moving.test:%d/0", env->server->port), err);
    locker_handle *const held = lk_take(l, "kept");
    atomic_store(&resolver, FAILS);
    cut_off(env->server);
    expect_kept(l, held);
}

static void a_resolver_that_hangs_costs_no_lock(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    lk_gate_init(&go_on);
    atomic_store(&resolver, RESOLVES);
    assert_ok(lk_try_uri(&l, &err, "redis://moving.test:%d/0", env->server->port), err);
    locker_handle *const held = lk_take(l, "kept");
    atomic_store(&resolver, HANGS);
    cut_off(env->server);
    expect_kept(l, held);
    lk_gate_open(&go_on, 100); /* however many threads are left behind */
}

/* Only the same life of the server is gone back to without its name: another machine may have its address by now. */
static void a_restarted_server_is_not_used_if_its_name_does_not_resolve(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    atomic_store(&resolver, RESOLVES);
    assert_ok(lk_try_uri(&l, &err, "redis://moving.test:%d/0?command_timeout=500ms", env->server->port), err);
    atomic_store(&resolver, FAILS);
    lk_server_kill(env->server);
    assert_true(lk_server_launch(env->server, true) && lk_server_await(env->server));
    assert_status(LOCKER_UNAVAILABLE, locker_ping(l, NULL, &err), err);
    assert_non_null(strstr(err.text, "moving.test"));
    atomic_store(&resolver, RESOLVES);
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_give_unless_late(lk_take_with(l, "again", &options));
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ other addresses and hosts ---- */

/* At 127.0.0.2: takes so many connections, and says nothing. */
static int listen_silently(int port, int backlog)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &address.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

static void an_address_without_an_answer_is_not_waited_for(void **state)
{
    enum { FILLED = 3 };
    lk_env *env = *state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)env->server->port)};
    locker *l;
    locker_error err;
    int filler[FILLED];
    const int deaf = listen_silently(env->server->port, 0);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &address.sin_addr), 1);
    for (int i = 0; i < FILLED; i++) { /* the kernel drops what comes when its queue is full */
        filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(filler[i], (struct sockaddr *)&address, sizeof address);
    }
    const int64_t began = lk_test_now_ms();
    assert_ok(lk_try_uri(&l, &err, "redis://two.test:%d/0?connect_timeout=2m", env->server->port), err);
    assert_true(lk_test_now_ms() - began < LK_TEST_PATIENCE_MS);
    lk_close_locker(l);
    for (int i = 0; i < FILLED; i++)
        close(filler[i]);
    close(deaf);
}

/* A server that has come to an earlier address, and says nothing, is not asked before the one that served. */
static void the_address_that_served_is_asked_first(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    assert_ok(lk_try_uri(&l, &err, "redis://two.test:%d/0?connect_timeout=2m", env->server->port), err);
    locker_handle *const held = lk_take(l, "kept");
    const int silent = listen_silently(env->server->port, 8);
    cut_off(env->server);
    expect_kept(l, held);
    close(silent);
}

static void hosts_that_hang_before_the_one_that_served_cost_no_lock(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    const int first = lk_free_port(), second = lk_free_port();
    assert_ok(lk_try_uri(&l, &err, "redis://127.0.0.2:%d,127.0.0.2:%d,127.0.0.1:%d/0?connect_timeout=2m",
                         first, second, env->server->port),
              err);
    locker_handle *const held = lk_take(l, "kept");
    const int silent[] = {listen_silently(first, 8), listen_silently(second, 8)};
    cut_off(env->server);
    expect_kept(l, held);
    close(silent[0]);
    close(silent[1]);
}

/* An old master must not keep those who were connected to it from the new one that stands before it. */
static void hosts_before_the_one_that_served_are_asked(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    env->second = lk_test_redis(NULL);
    lk_server_kill(env->second);
    assert_ok(
        lk_try_uri(&l, &err, "redis://127.0.0.1:%d,127.0.0.1:%d/0", env->second->port, env->server->port),
        err);
    lk_give(lk_take(l, "old"));
    assert_true(lk_server_launch(env->second, true) && lk_server_await(env->second));
    cut_off(env->server);
    assert_ok(locker_ping(l, NULL, &err), err);
    locker_handle *const held = lk_take(l, "new");
    assert_int_equal(lk_server_integer(env->second, "EXISTS new"), 1);
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(a_name_that_does_not_resolve_costs_no_lock),
    server_test(a_resolver_that_hangs_costs_no_lock),
    durable_test(a_restarted_server_is_not_used_if_its_name_does_not_resolve),
    server_test(an_address_without_an_answer_is_not_waited_for),
    server_test(the_address_that_served_is_asked_first),
    server_test(hosts_that_hang_before_the_one_that_served_cost_no_lock),
    server_test(hosts_before_the_one_that_served_are_asked),
};

const lk_group lk_addresses = {"addresses", tests, sizeof tests / sizeof tests[0], NULL, NULL};
