/*
 * redis_tests.h: tests of the Redis driver against real servers. Each test starts a server of its own
 * (lk_env, *state of a test), and may put a proxy in front of it. The group files hold the tests: restarts.c,
 * logins.c, refusals.c, replies.c, clients.c, operators.c, foreign.c, hostile.c, failovers.c, addresses.c, sentinels.c, sentinels_tls.c, grants.c, tls.c, sharing.c, recovery.c;
 * driver.c, passing.c, messages.c, clocks.c and a part of waiters.c those of the driver alone (alone.h); cluster.c, cluster_slots.c and
 * cluster_faults.c those of Redis Cluster (cluster_tests.h).
 */
#pragma once

#include <stdatomic.h>

#include "expect.h"
#include "gate.h"
#include "groups.h"
#include "holding.h"
#include "locking.h"
#include "network_driver.h"
#include "proxying.h"
#include "puppet.h"
#include "test_redis.h"
#include "test_tls.h"

/** What a test has; all of it is ended after the test, also when it failed. */
typedef struct {
    lk_server *server;
    lk_server *second;   /* NULL unless the test starts one */
    lk_proxy *proxy;     /* NULL unless the test starts one */
    lk_tls_front *front; /* NULL unless the test starts one */
    int tls_port;        /* of the server; 0 unless the test has it speak TLS */
    lk_child *child;     /* NULL unless the test starts one; set to NULL when it is ended */
} lk_env;

extern const lk_group lk_restarts, lk_logins, lk_refusals, lk_replies, lk_clients, lk_operators, lk_foreign,
    lk_hostile, lk_failovers, lk_addresses, lk_sentinels, lk_grants, lk_driver, lk_passing, lk_messages,
    lk_waiters, lk_sharing, lk_recovery, lk_clocks, lk_tls, lk_sentinels_tls, lk_cluster_well,
    lk_cluster_slots, lk_cluster_faults, lk_cluster_down;

/** Setup functions of cmocka: a server with default options, and one that writes each change to disk. */
int lk_env_plain(void **state);
int lk_env_durable(void **state);
/** A server with a proxy in front of it. */
int lk_env_proxied(void **state);
/** Teardown of all of them. */
int lk_env_end(void **state);

/** A test with a server. */
#define server_test(f)  cmocka_unit_test_setup_teardown(f, lk_env_plain, lk_env_end)
#define durable_test(f) cmocka_unit_test_setup_teardown(f, lk_env_durable, lk_env_end)
#define proxied_test(f) cmocka_unit_test_setup_teardown(f, lk_env_proxied, lk_env_end)

/** While it is not 0, what the library sends leaves in pieces of at most so many bytes, and each second time not at
 * all: there is no room. */
extern atomic_int lk_short_sends;

/** How often the library has sent in a way that may raise SIGPIPE. */
extern atomic_uint lk_loud_sends;

/** Opens a locker on the server; `query` as in "ttl=1s&poll=100ms". */
locker *lk_open_at(lk_server *server, const char *query);

/** Opens a locker through the proxy. */
locker *lk_open_through(lk_env *env, const char *query);

/** Fails the test unless the key's string at the server is this; NULL: unless there is no key. */
void lk_expect_value(lk_server *server, const char *key, const char *value);

/** Whether a holder or a waiter listens. */
bool lk_is_listened_to(void *server);

/** Waits until the server knows whose it is, and a holder listens. */
void lk_require_noted(lk_env *env, const char *key);

/** The holder is certain of the key for no longer than the server has it, whenever both were asked. */
void lk_expect_remaining(lk_server *server, const char *key, const locker_handle *held);

/** How many commands of that name the server has carried out, those of scripts among them. */
long long lk_calls_of(lk_server *server, const char *command);

/** The name of the counter of fencing numbers that the key's lock shares; a text that lasts for eight more calls. */
const char *lk_fence_key(const char *key);

/** Waits until somebody who waits has subscribed at the server, and stands in a queue. */
void lk_require_subscriber(lk_server *server);

/** Makes `replica` follow `master`, and waits until it does. */
void lk_follow(lk_server *replica, lk_server *master);

/** Waits until so many replicas confirm what the server writes: one that has just come does so a little later. */
void lk_require_confirming(lk_server *server, int count);

/** Waits until `replica` has all that `master` has now. (WAIT speaks of the writes of its own connection, not of a locker's.) */
void lk_require_replicated(lk_server *master, lk_server *replica);

/** Asks a Sentinel; the test fails when it answers an error. */
void lk_require_answer(lk_server *sentinel, const char *question);

/** Make, at a key that is free, each kind of data that liblocker does not write (foreign.c). Expect that each operation leaves the data
 * and says what they are, and that a break with force deletes only what may be a lock. */
void lk_foreign_expect_all(lk_server *server, locker *l, const char *key);

/** Expect a share to be lost by the first renewal after its lease has ended by the server's clock, while another process still shares the
 * lock. `query` is for the driver alone (alone.h). */
void lk_expect_over_share_lost(lk_server *server, const char *query);

/** Waits until the queue of the key has so many entries. */
void lk_require_queue(lk_server *server, const char *key, int64_t count);
