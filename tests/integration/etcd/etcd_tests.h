/*
 * etcd_tests.h: tests of the etcd driver against real servers. Each test has a server of its own (lk_env, *state of a test). The
 * group files hold the tests: cost.c, crowd.c, leases.c, line.c, losses.c, moves.c, replies.c, slow.c, strangers.c, streams.c, users.c, watches.c; interop.c with etcdctl's locks.
 */
#pragma once

#include "etcdctl.h"
#include "expect.h"
#include "gate.h"
#include "groups.h"
#include "holding.h"
#include "locking.h"
#include "network_driver.h"
#include "proxying.h"
#include "test_servers.h"

enum { LK_ENV_CHILDREN = 16 };

/** What a test has; all of it is ended after the test, also when it failed. */
typedef struct {
    lk_server *etcd;
    lk_proxy *proxy;                     /* NULL unless there is one */
    lk_child *children[LK_ENV_CHILDREN]; /* NULL where there is none */
} lk_env;

extern const lk_group lk_cost, lk_crowd, lk_interop, lk_leases, lk_lined_up, lk_losses, lk_moves, lk_replies,
    lk_slow, lk_strangers, lk_streams, lk_tls, lk_users, lk_watches;

/** Setup of cmocka: an empty server. lk_env_with() is for a setup of one's own, with the server's options. */
int lk_env_server(void **state);
int lk_env_with(void **state, const char *const *options);
int lk_env_end(void **state);

/** ... with a proxy in front of it. */
int lk_env_proxied(void **state);

#define server_test(f)  cmocka_unit_test_setup_teardown(f, lk_env_server, lk_env_end)
#define proxied_test(f) cmocka_unit_test_setup_teardown(f, lk_env_proxied, lk_env_end)

/** Has the environment end the child after the test; answers it. */
lk_child *lk_env_keep(lk_env *env, lk_child *child);

/** The environment forgets a child, which has ended or is about to be ended; answers it. */
lk_child *lk_env_release(lk_env *env, lk_child *child);

/** Opens a locker on the server; `rest` is what comes after the port: "/shop?ttl=2s". */
locker *lk_open_at(const lk_server *etcd, const char *rest);

/** Opens a locker at 127.0.0.1:port that logs by this function, from INFO on. */
locker *lk_open_logged(int port, const char *rest, locker_log_fn log);

/** Opens a locker that reaches the server through the proxy. */
locker *lk_open_proxied(const lk_env *env, const char *rest);

/** Has a locker put all that it has to another lease, now: something that was asked for on the one that there is may yet come to be
 * there. The proxy answers that itself. */
void lk_have_it_move(const lk_env *env, locker *l);

/** Waits until that time of lk_test_now_ms(). */
void lk_await_time(int64_t at_ms);

/** Has the server do what a request wants that the proxy has kept from it; waits for the answer. */
void lk_do_withheld(const lk_env *env);
