/*
 * replication.h: a replica is another server that is fed what its master writes. The caller carries it, both ways: as
 * late as he likes, in order, and whole units, because a replica drops the half of a script's effects. What a replica
 * hears it does not hand on to replicas of its own.
 *
 *     lk_sr_follow(replica, host, port);                   REPLICAOF: it is a replica, and still has no link
 *     lk_sr_link *link = lk_sr_attach(master, replica);    a full synchronisation; from here on it lags
 *     lk_sr_apply(replica, lk_sr_link_unit(link));         one unit arrives
 *     lk_sr_link_taken(link);
 *     lk_sr_acknowledge(link, lk_sr_offset(replica));      ... and its master hears of it: WAIT
 *     lk_sr_promote(replica);                              REPLICAOF NO ONE
 */
#pragma once

#include "server.h"

/** A master's side of a replica. */
typedef struct lk_sr_link lk_sr_link;

/** It is a replica of that address: it writes nothing by itself any more. Blocked clients are told so. */
void lk_sr_follow(lk_sr_server *replica, const char *host, int port);

/** It has all of the master's data and its replication id, and is sent what the master writes from now on. */
lk_sr_link *lk_sr_attach(lk_sr_server *master, lk_sr_server *replica);

/** The next unit that has not been taken; empty: there is none. */
lk_sr_text lk_sr_link_unit(const lk_sr_link *link);
void lk_sr_link_taken(lk_sr_link *link);

/** A unit arrives at the replica. */
void lk_sr_apply(lk_sr_server *replica, lk_sr_text unit);

/** How far a server's data are, in bytes of its replication. */
int64_t lk_sr_offset(const lk_sr_server *server);

/** The master hears how far the replica is. */
void lk_sr_acknowledge(lk_sr_link *link, int64_t offset);

/** The link is cut: the master counts it no more, and what was not taken is lost. A server that is freed or
 * restarted, or becomes a replica, does so with its links by itself. */
void lk_sr_detach(lk_sr_link *link);

/** A replica's side of the cut. */
void lk_sr_lose_master(lk_sr_server *replica);

/** It is a master, with another replication id. */
void lk_sr_promote(lk_sr_server *replica);
