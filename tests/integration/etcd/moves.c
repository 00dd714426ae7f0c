/* moves.c: servers that move: their hosts' names get other addresses, or their first ones. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etcd_tests.h"

/* ------------------------------------------------------------------ names ---- */

/* Two hosts, and where they are; NULL: nobody knows. */
static struct {
    const char *const name;
    _Atomic(const char *) address;
} hosts[] = {{"one.test", NULL}, {"other.test", NULL}};
enum { ONE, OTHER, HOSTS };

static void move(int host, const char *address)
{
    atomic_store(&hosts[host].address, address);
}

/* While it is so, whoever resolves one of those names tells that he has come, waits to go on, and tells that he goes. */
static atomic_bool resolver_hangs, went_on;
static lk_gate came, go_on, gone;

typedef int resolve(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* Of the whole program, exported to the libraries that it loads (CMakeLists.txt), instead of the C library's. */
__attribute__((visibility("default"))) int getaddrinfo(const char *restrict name,
                                                       const char *restrict service,
                                                       const struct addrinfo *restrict hints,
                                                       struct addrinfo **restrict found)
{
    resolve *real;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    for (int i = 0; i < HOSTS; i++) {
        if (strcmp(name, hosts[i].name) != 0)
            continue;
        if (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0)
            return EAI_NONAME;
        const bool hangs = atomic_load(&resolver_hangs);
        if (hangs) {
            lk_gate_open(&came, 1);
            (void)lk_gate_pass(&go_on);
            atomic_store(&went_on, true);
        }
        name = atomic_load(&hosts[i].address);
        const int rc = name != NULL ? real(name, service, hints, found) : EAI_NONAME;
        if (hangs)
            lk_gate_open(&gone, 1);
        return rc;
    }
    return real(name, service, hints, found);
}

/* ------------------------------------------------------------------ the server ---- */

#define HERE  "127.0.0.1"
#define THERE "127.0.0.2"

/* Again at an address, with what it had. */
static void come_back(lk_env *env, const char *address)
{
    strcpy(env->etcd->place.address, address);
    lk_test_launch(env->etcd, true);
}

/* What takes connections, and says nothing. */
static int listen_silently(const char *where, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(inet_pton(AF_INET, where, &address.sin_addr), 1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static locker *open_one(const lk_env *env, const char *rest)
{
    locker *l;
    locker_error err;
    move(ONE, HERE);
    assert_ok(lk_try_uri(&l, &err, "etcd://one.test:%d%s", env->etcd->port, rest), err);
    return l;
}

static locker *open_both(const lk_env *env)
{
    const int port = env->etcd->port;
    locker *l;
    locker_error err;
    assert_ok(lk_try_uri(&l, &err, "etcd://one.test:%d,other.test:%d/shop?ttl=60s", port, port), err);
    return l;
}

/* ------------------------------------------------------------------ tests ---- */

static void a_lock_is_kept_when_the_server_moves(void **state)
{
    lk_env *env = *state;
    locker *l = open_one(env, "/shop?ttl=15s");
    locker_handle *held = lk_take(l, "kept");
    lk_server_kill(env->etcd);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    move(ONE, THERE);
    come_back(env, THERE);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_expect_busy(l, "kept");
    lk_require_renewal(l);
    lk_give(held);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_close_locker(l);
}

/* ... and not for longer than its lease. Who waits meanwhile is served there. */
static void a_lock_is_lost_when_the_server_moves_for_long(void **state)
{
    lk_env *env = *state;
    locker *l = open_one(env, "/shop?ttl=3s");
    locker_handle *held = lk_take(l, "late");
    lk_locking waiter;
    lk_server_kill(env->etcd);
    lk_require_lost_by(held, lk_test_now_ms() + 3000);
    move(ONE, THERE);
    lk_locking_start(&waiter, l, "late", NULL);
    come_back(env, THERE);
    lk_give(lk_locking_grant(&waiter));
    lk_give_lost(held);
    lk_close_locker(l);
}

/* What is silent there now would be given all the time for a connection. */
static void an_attempt_at_the_old_address_is_over(void **state)
{
    lk_env *env = *state;
    locker *l = open_one(env, "/shop?ttl=300s&connect_timeout=300s");
    locker_handle *held = lk_take(l, "kept");
    lk_server_kill(env->etcd);
    const int silent = listen_silently(HERE, env->etcd->port), client = accept(silent, NULL, NULL);
    assert_true(client >= 0);
    move(ONE, THERE);
    come_back(env, THERE);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
    close(client);
    close(silent);
}

static void a_host_that_is_unknown_at_first(void **state)
{
    lk_env *env = *state;
    move(ONE, HERE);
    move(OTHER, NULL);
    locker *l = open_both(env);
    locker_handle *held = lk_take(l, "kept");
    lk_server_kill(env->etcd);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    move(OTHER, THERE);
    come_back(env, THERE);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* One whose name isn't known any more is where it was, while others are found elsewhere. */
static void a_host_that_is_unknown_later(void **state)
{
    lk_env *env = *state;
    move(ONE, HERE);
    move(OTHER, "127.0.0.3");
    locker *l = open_both(env);
    locker_handle *held = lk_take(l, "kept");
    move(ONE, NULL);
    move(OTHER, THERE); /* where nobody is */
    atomic_store(&resolver_hangs, true);
    lk_server_kill(env->etcd);
    lk_gate_await(&came, 1, "the names should be resolved again");
    atomic_store(&resolver_hangs, false);
    lk_gate_open(&go_on, 1);
    lk_gate_await(&gone, 1, "the name should be resolved");
    come_back(env, HERE);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* What was found when no address had answered is of no use any more when the server has served since: it is where it was. */
static void addresses_of_long_ago(void **state)
{
    lk_env *env = *state;
    locker *l = open_one(env, "/shop?ttl=300s&connect_timeout=300s");
    locker_handle *held = lk_take(l, "kept");
    const int silent = listen_silently(THERE, env->etcd->port);
    atomic_store(&resolver_hangs, true);
    lk_server_kill(env->etcd);
    lk_gate_await(&came, 1, "the name should be resolved again");
    atomic_store(&resolver_hangs, false);
    come_back(env, HERE);
    lk_require_state(held, LOCKER_STATE_HELD);
    move(ONE, THERE);
    lk_gate_open(&go_on, 1);
    lk_gate_await(&gone, 1, "the name should be resolved");
    lk_await_time(lk_test_now_ms() + 200);
    move(ONE, HERE);
    lk_give(lk_take(l, "served"));
    lk_server_kill(env->etcd);
    come_back(env, HERE);
    lk_give(lk_take(l, "served"));
    lk_give(held);
    lk_close_locker(l);
    close(silent);
}

static int with_slow_logins(void **state)
{
    static const char *const options[] = {LK_TEST_ETCD_FAST, "--bcrypt-cost=12", NULL},
                             *const lines[] = {"role add root", "user add root:root-1",
                                               "user grant-role root root", "auth enable"};
    if (lk_env_with(state, options) != 0)
        return -1;
    lk_env *env = *state;
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        lk_etcdctl_do(env->etcd, "%s", lines[i]);
    return 0;
}

/* Whoever answers there is one of them, and may only take his time with a login: names may have other addresses each time. */
static void a_login_that_takes_its_time(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    move(ONE, HERE);
    assert_ok(lk_try_uri(&l, &err, "etcd://root:root-1@one.test:%d/shop?ttl=60s&connect_timeout=60s",
                         lk_proxy_port(env->proxy)),
              err);
    locker_handle *held = lk_take(l, "kept");
    atomic_store(&resolver_hangs, true);
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_gate_await(&came, 1, "the name should be resolved again");
    atomic_store(&resolver_hangs, false);
    const lk_passed others = lk_proxy_passed(env->proxy, ""); /* of no kind that has a name: a login */
    lk_proxy_refuse(env->proxy, false);
    lk_proxy_await_passed(others, 1);
    lk_proxy_hold(env->proxy, false, true);
    move(ONE, THERE); /* where nobody is */
    lk_gate_open(&go_on, 1);
    lk_gate_await(&gone, 1, "the name should be resolved");
    lk_await_time(lk_test_now_ms() + 200);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

static void hosts_that_cannot_be_resolved(void **state)
{
    locker *l;
    locker_error err;
    (void)state;
    move(ONE, NULL);
    move(OTHER, NULL);
    assert_status(LOCKER_UNAVAILABLE, lk_try_uri(&l, &err, "etcd://one.test,other.test/shop"), err);
    assert_non_null(strstr(err.text, "cannot resolve the host"));
    assert_null(l);
}

/* A resolver that hangs holds up neither calls nor a close. */
static void a_resolver_that_hangs(void **state)
{
    lk_env *env = *state;
    locker *l = open_one(env, "/shop?ttl=60s");
    locker_handle *none = NULL;
    locker_error err;
    atomic_store(&went_on, false);
    atomic_store(&resolver_hangs, true);
    lk_server_kill(env->etcd);
    lk_gate_await(&came, 1, "the name should be resolved again");
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "hung", NULL, &none, &err), err);
    come_back(env, HERE);
    lk_give(lk_take(l, "hung"));
    lk_close_locker(l);
    assert_false(atomic_load(&went_on));
    atomic_store(&resolver_hangs, false);
    lk_gate_open(&go_on, 1);
    lk_gate_await(&gone, 1, "the resolver should go on");
}

static int set_up_gates(void **state)
{
    (void)state;
    lk_gate_init(&came);
    lk_gate_init(&go_on);
    lk_gate_init(&gone);
    return 0;
}

static const struct CMUnitTest tests[] = {
    server_test(a_lock_is_kept_when_the_server_moves),
    server_test(a_lock_is_lost_when_the_server_moves_for_long),
    server_test(an_attempt_at_the_old_address_is_over),
    server_test(a_host_that_is_unknown_at_first),
    server_test(a_host_that_is_unknown_later),
    server_test(addresses_of_long_ago),
    cmocka_unit_test_setup_teardown(a_login_that_takes_its_time, with_slow_logins, lk_env_end),
    cmocka_unit_test(hosts_that_cannot_be_resolved),
    server_test(a_resolver_that_hangs),
};

const lk_group lk_moves = {"moves", tests, sizeof tests / sizeof tests[0], set_up_gates, NULL};
