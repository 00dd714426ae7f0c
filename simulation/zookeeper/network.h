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
