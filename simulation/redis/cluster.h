/*
 * cluster.h: servers that are nodes of a Redis Cluster. What a node knows of the others it is told by the caller, as their
 * gossip would: each by itself, so that two may know different things for a while. A slot begins and ends to move by CLUSTER
 * SETSLOT, as on a real one; lk_sr_migrate() carries its keys. A node's replication is the caller's (replication.h).
 */
#pragma once

#include "server.h"

typedef struct {
    const char *id;   /**< 40 letters */
    const char *host; /**< where clients are told to reach it */
    int port;
    int master; /**< whose replica it is; -1: it is a master */
} lk_sr_node;

typedef struct {
    const lk_sr_node *nodes; /**< all are copied */
    size_t count;
    size_t myself; /**< which of them the server is */
    /** A message that the other nodes are to hear, or those alone that have the same slots; called in the midst of other
     * calls. NULL: they are not told. */
    void (*tells)(void *context, lk_sr_text channel, lk_sr_text message, bool shard);
    void *context;
} lk_sr_cluster_setup;

/** The server is a node now; no slot is anybody's. */
void lk_sr_cluster_join(lk_sr_server *server, const lk_sr_cluster_setup *setup);

/** It hears that these slots are that node's; -1: nobody's. One that it imports stays as it is. */
void lk_sr_cluster_assign(lk_sr_server *server, unsigned first, unsigned last, int node);

/** It hears that a replica has taken its master's place, and has all of its slots. */
void lk_sr_cluster_replace(lk_sr_server *server, int master, int replica);

/** It finds that the cluster is down, or up again. */
void lk_sr_cluster_set_down(lk_sr_server *server, bool down);

/** Whose the slot is, as far as it knows; -1: nobody's. */
int lk_sr_cluster_owner(const lk_sr_server *server, unsigned slot);

/** What another node tells arrives. */
void lk_sr_cluster_hear(lk_sr_server *server, lk_sr_text channel, lk_sr_text message, bool shard);

typedef enum {
    LK_SR_MIGRATED,
    LK_SR_NOT_THERE, /**< there is none, or its time is over */
    LK_SR_BUSY_KEY   /**< the other one has it, too: both keep theirs */
} lk_sr_migration;

/** As MIGRATE on `from`, whose clients are not served meanwhile: at once. */
lk_sr_migration lk_sr_migrate(lk_sr_server *from, lk_sr_server *to, lk_sr_text name);
