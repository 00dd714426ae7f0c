/* state.h: what an ensemble and its servers are made of; shared by the files that stand below. */
#pragma once

#include "call.h"
#include "prepare.h"
#include "touches.h"
#include "tracker.h"
#include "tree.h"

enum { LK_SIMZK_MS = 1000000 }; /* ns */

/* Owners of sessions: a leader's own clients; each connection of a follower has a number above it. */
enum { LK_SIMZK_OWN = 1 };

typedef enum { LK_SIMZK_LOOKING, LK_SIMZK_FOLLOWING, LK_SIMZK_LEADING } lk_simzk_role;

/* Whom a server wants for leader. */
typedef struct {
    int leader;
    int64_t zxid, epoch; /* of the leader's history */
    int64_t round;
    lk_simzk_role role; /* of who says so */
} lk_simzk_vote;

/* Of all servers' votes that one has been told. */
typedef struct {
    bool told[LK_SIMZK_SERVERS_MAX];
    lk_simzk_vote votes[LK_SIMZK_SERVERS_MAX];
} lk_simzk_ballot;

typedef struct {
    int64_t round;
    lk_simzk_vote vote;
    lk_simzk_ballot looking, decided; /* of those who look for a leader too, and of those who have one */
    int64_t final_ms; /* when a majority's vote counts, if none better comes; INT64_MAX: there is none */
    int64_t again_ms, interval_ms; /* when votes are sent again */
} lk_simzk_election;

/* What the leader knows of a follower. */
typedef struct {
    uint64_t connection;    /* 0: none */
    bool epoch_told;        /* it has been told the new epoch */
    bool answered;          /* ... and has said what it has */
    bool epoch_acked, told; /* it has accepted that; it has been sent the history */
    bool synced;            /* it has that */
    int64_t epoch, zxid;    /* of its history */
    int64_t heard_ms, tick_deadline;
    int64_t asked_zxid, asked_ms; /* the proposal that it has to acknowledge; ms 0: none */
    int64_t next_zxid, next_ms;   /* the last one behind that */
} lk_simzk_follower;

typedef struct {
    lk_list link;
    lk_simzk_txn *txn;
    unsigned acks; /* a bit for each server */
} lk_simzk_proposal;

/* A sync, which a follower is to be told of, or waits for. */
typedef struct {
    lk_list link;
    int from;            /* the leader's: whose */
    uint64_t connection; /* likewise */
    int64_t zxid;        /* likewise: when that is committed */
    int64_t session;     /* a follower's: of the request */
    int32_t xid;
} lk_simzk_sync;

typedef enum { LK_SIMZK_DISCOVERING, LK_SIMZK_SYNCHRONIZING, LK_SIMZK_BROADCASTING } lk_simzk_phase;

typedef struct {
    lk_simzk_phase phase;
    int64_t epoch, zxid; /* of its own history, when it began */
    int64_t until_ms;    /* before it broadcasts: it has time until then */
    int64_t half_tick_ms, container_ms;
    int64_t ticks;
    bool half;
    bool decided; /* the epoch */
    lk_simzk_follower followers[LK_SIMZK_SERVERS_MAX];
    lk_list proposals; /* not committed, in order */
    lk_list syncs;
    int64_t committed;
    lk_simzk_preparation preparation;
} lk_simzk_leading;

typedef struct {
    int leader;
    uint64_t connection;
    bool accepted; /* the leader answers */
    bool synced;   /* it has the leader's history */
    int64_t heard_ms, again_ms;
    int tries;
    lk_simzk_history pending; /* proposed, not committed */
    size_t committed;         /* of them */
    lk_list syncs;
    lk_simzk_touches touches;
} lk_simzk_following;

typedef struct {
    lk_simzk *z;
    int id;
    bool running, stopped;
    bool serves;
    bool has_inputs; /* a connection may have some that can be read */
    lk_simzk_role role;
    bool resigns; /* it has to look for a leader anew */
    lk_simzk_tree tree;
    lk_simzk_watches watches;
    lk_list connections;
    lk_list waiting; /* calls: for a commit, and those of the same sessions behind; in their order */
    lk_simzk_tracker tracker;
    /* on disk */
    lk_simzk_history log;
    int64_t accepted_epoch, current_epoch;

    lk_simzk_election election;
    lk_simzk_leading leading;
    lk_simzk_following following;
} lk_simzk_server;

struct lk_simzk {
    lk_simzk_setup setup;
    int64_t now;
    uint64_t serial;
    lk_simzk_server servers[LK_SIMZK_SERVERS_MAX];
    lk_list links[LK_SIMZK_CHANNELS][LK_SIMZK_SERVERS_MAX][LK_SIMZK_SERVERS_MAX];
    size_t counts[LK_SIMZK_CHANNELS][LK_SIMZK_SERVERS_MAX][LK_SIMZK_SERVERS_MAX];
};

static inline bool lk_simzk_is_alone(const lk_simzk_server *s)
{
    return s->z->setup.servers == 1;
}

static inline bool lk_simzk_is_majority(const lk_simzk *z, int count)
{
    return 2 * count > z->setup.servers;
}

/* ------------------------------------------------------------------ clients.c ---- */

/* The server closes it; its watches are gone. */
void lk_simzk_hang_up(lk_simzk_server *s, lk_simzk_connection *c);
/* All of that session, but for one; `but` NULL: all. */
void lk_simzk_hang_up_session(lk_simzk_server *s, int64_t session, const lk_simzk_connection *but);
void lk_simzk_hang_up_all(lk_simzk_server *s);
/* What tells a client that its session is there, or not any more. */
void lk_simzk_welcome(lk_simzk_server *s, lk_simzk_connection *c, bool valid);
/* By what a client proves that a session is its own. */
uint64_t lk_simzk_password(int64_t session);

/* ------------------------------------------------------------------ clocks.c ---- */

/* ms of that server's clock. */
int64_t lk_simzk_clock_ms(const lk_simzk_server *s);
/* When its clock has that time; INT64_MAX stays. */
int64_t lk_simzk_clock_when(const lk_simzk_server *s, int64_t ms);

/* ------------------------------------------------------------------ final.c ---- */

/* Frees the call. */
void lk_simzk_final(lk_simzk_server *s, lk_simzk_call *call);

/* ------------------------------------------------------------------ serve.c ---- */

/* What a client has sent that isn't read yet. */
typedef struct {
    lk_list link; /* in lk_simzk_connection.inputs */
    lk_simzk_body *body;
} lk_simzk_input;

/* Read whatever can be. */
void lk_simzk_serve(lk_simzk_server *s);
