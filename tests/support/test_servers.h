/*
 * test_servers.h: servers of a test's own (servers/server.h), on the heap, with short ticks and no waiting
 * for disks. What the library of servers reports as an error fails the test here, with the server's log. Call
 * this from the test's main thread: a server dies with the thread that started it.
 */
#pragma once

#include "servers/etcd.h"
#include "servers/port.h"
#include "servers/zookeeper.h"

/** Fails the test with the server's error, unless it is `good`. */
void lk_test_need(lk_server *server, bool good);

/** Starts a ZooKeeper server and waits until it serves. */
lk_server *lk_test_zookeeper(lk_server_login login);

/** Options with which an etcd server waits for no disk (what is written lasts through kill -9), nor long for a password's hash. */
#define LK_TEST_ETCD_FAST "--unsafe-no-fsync", "--bcrypt-cost=4"

/** Starts an etcd server with these options (static text, ended by NULL; NULL: LK_TEST_ETCD_FAST), and waits until it serves. */
lk_server *lk_test_etcd(const char *const *options);

/** Starts it again after lk_server_kill(), and waits until it serves. keep_data false: with an empty
 * directory. */
void lk_test_launch(lk_server *server, bool keep_data);

/** Has a ZooKeeper server that was killed listen at all addresses of this machine, those of IPv6 too. */
void lk_test_listen_everywhere(lk_server *server);

/** SIGSTOP, and wait until it has stopped. */
void lk_test_freeze(lk_server *server);

/** Stops it, removes its directory, frees it. NULL is allowed. */
void lk_test_free(lk_server *server);

/** Starts an ensemble of ZooKeeper and waits until each member serves; the answer is an array. `places` has one for each
 * member, or is NULL: all are here; tick_ms and sync_limit as in lk_server_setup. */
lk_server *lk_test_ensemble(int tick_ms, int sync_limit, const lk_place *places);

/** The same with etcd servers; options as for one alone. */
lk_server *lk_test_etcd_ensemble(const char *const *options, const lk_place *places);

/** Lets all members serve again, whatever a test did to them. */
void lk_test_ensemble_heal(lk_server *members);

/** Stops all of them, removes their directories, frees the array. NULL is allowed. */
void lk_test_ensemble_free(lk_server *members);

/** The member that leads; the nth, from 0, that follows. They wait for one. */
lk_server *lk_test_leader(lk_server *members);
lk_server *lk_test_follower(lk_server *members, int nth);

/** Waits until each member of an ensemble of ZooKeeper has applied what the leader has applied by now; something must have been written
 * since the leader was elected. */
void lk_test_require_in_step(lk_server *members);
