/* etcd.h: etcd servers, alone or as an ensemble of three (ensemble.h). Each is asked by HTTP: "/version" gets that, and
 * "/v3/kv/range {"key":"YQ=="}" posts what is behind the space to the gateway, which has keys and values in base64.
 *
 * A member of an ensemble starts again with its data only: the others know it. */
#pragma once

#include "servers/ensemble.h"

/** Heartbeats, in ms, of a server that is alone, and of three, as they are by themselves; an election's patience is ten of
 * them. Of the first a lease can have 1 s, of the others no less than 2. */
enum { LK_ETCD_TICK_MS = 20, LK_ETCD_ENSEMBLE_TICK_MS = 100 };

/** Its program: what LOCKER_TEST_ETCD in the environment names, a word for PATH or a path; else etcd. With certificates its port speaks TLS, and it is asked at another (election_port) without. */
extern const lk_server_kind lk_server_etcd;
