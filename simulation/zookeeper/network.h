/* network.h: what waits between servers, for disks, and to be applied. */
#pragma once

#include "state.h"

typedef enum {
    LK_SIMZK_VOTE,
    /* from a follower */
    LK_SIMZK_FOLLOWERINFO, /* epoch: the last accepted */
    LK_SIMZK_ACKEPOCH,     /* epoch, zxid: of its history; epoch -1: it had accepted that one before */
    LK_SIMZK_ACK,          /* of the proposal `zxid`; of the history, when no sequence number is in it */
    LK_SIMZK_REQUEST,      /* call */
    LK_SIMZK_REVALIDATE,   /* session, timeout_ms; the answer: valid */
    LK_SIMZK_TOUCHED,      /* the answer to a PING */
    /* from a leader */
    LK_SIMZK_LEADERINFO, /* epoch */
    LK_SIMZK_HISTORY,    /* all up to zxid stays, and then comes `history` */
    LK_SIMZK_NEWLEADER,
    LK_SIMZK_UPTODATE,
    LK_SIMZK_PROPOSAL,
    LK_SIMZK_COMMIT,
    LK_SIMZK_SYNCED,
    LK_SIMZK_PINGED,
    /* from either */
    LK_SIMZK_BYE, /* the connection is closed */
    /* in one server */
    LK_SIMZK_WRITTEN,  /* txn is on the disk, then; call: of a server that is alone, which goes on then */
    LK_SIMZK_COMMITTED /* txn; NULL: a sync, session and xid say whose */
} lk_simzk_message_kind;

typedef struct {
    lk_list link;
    lk_simzk_message_kind kind;
    uint64_t connection; /* between leader and follower: the number that the latter gave it */
    int64_t zxid, epoch, session;
    int32_t timeout_ms, xid;
    bool valid;
    lk_simzk_vote vote;
    lk_simzk_call *call;
    lk_simzk_txn *txn;
    lk_simzk_history history;
    lk_simzk_touches touches;
} lk_simzk_message;

/* A copy of the message begins to wait; what it points to is the network's then. */
void lk_simzk_post(lk_simzk *z, lk_simzk_link link, const lk_simzk_message *message);
/* The first of the link; NULL: nothing waits. */
lk_simzk_message *lk_simzk_fetch(lk_simzk *z, lk_simzk_link link);
void lk_simzk_message_free(lk_simzk_message *message);
/* All that waits in a link is lost. */
void lk_simzk_drop(lk_simzk *z, lk_simzk_link link);
/* All that waits in a server, or is on its way to it or from it. */
void lk_simzk_drop_all(lk_simzk *z, int server);

/* ------------------------------------------------------------------ commit.c ---- */

void lk_simzk_commit_submit(lk_simzk_server *s, lk_simzk_call *call);
/* A transaction or a follower's sync is committed: that begins to wait until it is applied. */
void lk_simzk_commit_txn(lk_simzk_server *s, lk_simzk_txn *txn);
void lk_simzk_commit_sync(lk_simzk_server *s, int64_t session, int32_t xid);
/* ... and is. */
void lk_simzk_commit_apply(lk_simzk_server *s, const lk_simzk_message *message);

/* ------------------------------------------------------------------ election.c ---- */

/* Begin to look. */
void lk_simzk_elect(lk_simzk_server *s);
/* Any server gets votes, of whatever role. */
void lk_simzk_elect_receive(lk_simzk_server *s, int from, const lk_simzk_vote *vote);
/* Of one that looks: whatever is due by its clock; when that is next. */
void lk_simzk_elect_tick(lk_simzk_server *s);
int64_t lk_simzk_elect_due(const lk_simzk_server *s);
/* Whom it has found; -1: nobody yet. */
int lk_simzk_elected(const lk_simzk_server *s);

/* ------------------------------------------------------------------ follower.c ---- */

void lk_simzk_follow(lk_simzk_server *s, int leader);
void lk_simzk_follow_end(lk_simzk_server *s);
void lk_simzk_follow_receive(lk_simzk_server *s, lk_simzk_message *message);
void lk_simzk_follow_written(lk_simzk_server *s, const lk_simzk_message *message);
/* A request of one of its clients. */
void lk_simzk_follow_request(lk_simzk_server *s, lk_simzk_call *call);
/* A client comes back with a session: the leader says whether there is one. */
void lk_simzk_follow_revalidate(lk_simzk_server *s, const lk_simzk_connection *c);
void lk_simzk_follow_tick(lk_simzk_server *s);
int64_t lk_simzk_follow_due(const lk_simzk_server *s);

/* ------------------------------------------------------------------ leader.c ---- */

void lk_simzk_lead(lk_simzk_server *s);
/* Frees what that takes. */
void lk_simzk_lead_end(lk_simzk_server *s);
void lk_simzk_lead_receive(lk_simzk_server *s, int from, lk_simzk_message *message);
/* The connection with a follower is broken. */
void lk_simzk_lead_lost(lk_simzk_server *s, int follower);
/* What waited for its own disk is on it. */
void lk_simzk_lead_written(lk_simzk_server *s, lk_simzk_message *message);
/* A request of one of its own clients, or of its own. */
void lk_simzk_lead_request(lk_simzk_server *s, lk_simzk_call *call);
/* Whatever is due by its clock; when that is next. */
void lk_simzk_lead_tick(lk_simzk_server *s);
int64_t lk_simzk_lead_due(const lk_simzk_server *s);

/* ------------------------------------------------------------------ server.c ---- */

/* With what is on its disk. */
void lk_simzk_server_start(lk_simzk_server *s);
/* written: what waits for its disk gets there. */
void lk_simzk_server_crash(lk_simzk_server *s, bool written);
/* Frees what it has. */
void lk_simzk_server_end(lk_simzk_server *s);
void lk_simzk_server_receive(lk_simzk_server *s, lk_simzk_link link, lk_simzk_message *message);
/* The connection with another one is broken. */
void lk_simzk_server_cut(lk_simzk_server *s, int from);
/* When something is due; and do it. */
int64_t lk_simzk_server_due(const lk_simzk_server *s);
void lk_simzk_server_tick(lk_simzk_server *s);
/* After anything else: what follows from it. */
void lk_simzk_server_settle(lk_simzk_server *s);
