/*
 * zk_tests.h: tests of the ZooKeeper driver against real servers. Each test starts what it needs (lk_env,
 * *state of a test), and may put a proxy in front of it. The group files hold the tests: basics.c, busy.c,
 * losses.c, replies.c, places.c, crashes.c, cost.c, grant_time.c, sharing.c, tls.c, sasl.c on one server; ensemble.c and
 * cut.c on three; interop.c with other clients.
 */
#pragma once

#include "expect.h"
#include "gate.h"
#include "groups.h"
#include "holding.h"
#include "locking.h"
#include "network_driver.h"
#include "proxying.h"
#include "puppet.h"
#include "stunnel.h"
#include "test_servers.h"
#include "zkclient.h"

/** The most lockers and child processes of a test. */
enum { LK_ENV_LOCKERS = 16, LK_ENV_CHILDREN = 16 };

/** What a test has; all of it is ended after the test, also when it failed. */
typedef struct {
    lk_server *zk;      /* a server alone; NULL unless there is one */
    pid_t zk_pid;       /* its, as the test got it; 0 unless another test may have it after */
    lk_server *members; /* the group's ensemble; NULL unless there is one */
    lk_server *tls;     /* the group's TLS in front of zk; NULL unless there is one */
    lk_proxy *proxy;    /* NULL unless there is one */
    lk_zkc *client;     /* a second client of zk; NULL unless there is one */
    lk_child *children[LK_ENV_CHILDREN]; /* NULL where there is none; set to NULL when one is ended */
} lk_env;

extern const lk_group lk_basics, lk_busy, lk_losses, lk_replies, lk_crashes, lk_ensemble, lk_cut, lk_interop,
    lk_cost, lk_grant_time, lk_places, lk_tls, lk_sasl, lk_sharing, lk_unsent;

/** Setup and teardown of a group whose tests share an ensemble; the second form for a setup of one's own. */
int lk_group_ensemble(void **state);
void lk_group_ensemble_at(int sync_limit, const lk_place *places);
int lk_group_end(void **state);

/** Whether the client library that the test runs with has this function. */
bool lk_client_has(const char *function);

/** Setup functions of cmocka: a server without a node and a second client; the same with a proxy; the group's ensemble;
 * nothing. */
int lk_env_server(void **state);
int lk_env_proxied(void **state);
int lk_env_ensemble(void **state);
int lk_env_empty(void **state);
/** Teardown of all of them; the group's ensemble is made whole for the next test. */
int lk_env_end(void **state);

#define server_test(f)   cmocka_unit_test_setup_teardown(f, lk_env_server, lk_env_end)
#define proxied_test(f)  cmocka_unit_test_setup_teardown(f, lk_env_proxied, lk_env_end)
#define ensemble_test(f) cmocka_unit_test_setup_teardown(f, lk_env_ensemble, lk_env_end)
#define empty_test(f)    cmocka_unit_test_setup_teardown(f, lk_env_empty, lk_env_end)

/** Opens a URI in printf's form; fails the test when it can't. */
locker *lk_open_uri(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Opens a locker on the server, or through the proxy; `rest` is what comes after the port: "/shop?ttl=2s".
 */
locker *lk_open_at(const lk_server *zk, const char *rest);
locker *lk_open_through(lk_env *env, const char *rest);

/** Starts a puppet that the environment ends. */
lk_child *lk_env_puppet(lk_env *env, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Has the environment end the child after the test; answers it. */
lk_child *lk_env_keep(lk_env *env, lk_child *child);

/** Kills a child of the environment. */
void lk_env_kill(lk_env *env, lk_child *child);

/** Waits until the key's node tells of the grant with that token. */
void lk_require_since(lk_zkc *client, const char *parent, uint64_t token);

/** The session that owns the nth node of a queue. */
int64_t lk_session_of(lk_zkc *client, const char *parent, size_t nth);
