/* raft.h: one member's part in agreeing on a log, as etcd's raft does it: terms and votes, entries and their acknowledgements,
 * reads that a majority has to confirm, a leader that steps down where it hears of no majority. No time and no disk: who has it
 * ticks, and says what has been written. */
#pragma once

#include <lk_list.h>

#include "etcd.h"
#include "request.h"

/* What is agreed on. */
typedef struct {
    unsigned refs;
    int64_t term;
    lk_simetcd_kind kind;
    ProtobufCMessage *message; /* NULL with LK_SIMETCD_NOTHING */
    uint64_t id;               /* of the request, which is unique; 0: none waits */
    bool expires;              /* a lease, because its time is over */
} lk_simetcd_entry;

lk_simetcd_entry *lk_simetcd_entry_new(lk_simetcd_kind kind, ProtobufCMessage *message, uint64_t id);

/* The first has the index 1. */
typedef struct {
    lk_simetcd_entry **items;
    size_t count, room;
} lk_simetcd_log;

void lk_simetcd_log_append(lk_simetcd_log *log, lk_simetcd_entry *entry);
void lk_simetcd_log_truncate(lk_simetcd_log *log, size_t count);
void lk_simetcd_log_free(lk_simetcd_log *log);

typedef enum {
    LK_SIMETCD_PROPOSE,
    LK_SIMETCD_APPEND,
    LK_SIMETCD_APPENDED,
    LK_SIMETCD_HEARTBEAT,
    LK_SIMETCD_HEARD,
    LK_SIMETCD_VOTE,
    LK_SIMETCD_VOTED,
    LK_SIMETCD_READ,
    LK_SIMETCD_READABLE,
    LK_SIMETCD_ASK_LEADER, /* none of raft's: how much time a lease has left; context: whose request, index: the lease */
    LK_SIMETCD_LEADER_SAYS
} lk_simetcd_word;

typedef struct {
    lk_list link;
    lk_simetcd_word word;
    int from, to;
    int64_t term; /* 0: of any */
    int64_t index, log_term, commit, hint;
    bool reject;
    uint64_t context;
    lk_simetcd_log entries;
} lk_simetcd_message;

void lk_simetcd_message_free(lk_simetcd_message *message);

typedef enum { LK_SIMETCD_FOLLOWER, LK_SIMETCD_CANDIDATE, LK_SIMETCD_LEADER } lk_simetcd_role;

typedef struct {
    int64_t match, next;
    bool probes, probe_sent; /* it isn't known what that one has */
    bool active;             /* it was heard of lately */
} lk_simetcd_progress;

/* A read that a majority has to confirm. */
typedef struct {
    lk_list link;
    uint64_t context;
    int from;
    int64_t index;
    unsigned acks;
} lk_simetcd_confirm;

typedef struct {
    int id, members, election_ticks;
    uint64_t (*draw)(void *context, uint64_t below);
    void *context;

    int64_t term;
    int vote, lead; /* -1: none */
    lk_simetcd_role role;
    lk_simetcd_log log;
    int64_t commit;
    int64_t stable; /* so far it is written */
    int elapsed, timeout;
    lk_simetcd_progress others[LK_SIMETCD_MEMBERS_MAX];
    int votes[LK_SIMETCD_MEMBERS_MAX]; /* 1: for it, -1: against it */
    lk_list confirms, unready;         /* reads; of the latter: until something of this term is committed */

    lk_list messages;  /* to be sent */
    lk_list confirmed; /* own reads that are */
} lk_simetcd_raft;

/* With what it has written before. The log is the raft's then. */
void lk_simetcd_raft_init(lk_simetcd_raft *r, int64_t term, int vote, const lk_simetcd_log *log,
                          int64_t commit);
void lk_simetcd_raft_free(lk_simetcd_raft *r);
void lk_simetcd_raft_tick(lk_simetcd_raft *r);
void lk_simetcd_raft_step(lk_simetcd_raft *r, lk_simetcd_message *message);
/* False: no leader is known, and nothing was done. Else the entry is the raft's. */
bool lk_simetcd_raft_propose(lk_simetcd_raft *r, lk_simetcd_entry *entry);
/* Where a leader is known: that a read of this context is asked to be confirmed. */
void lk_simetcd_raft_read(lk_simetcd_raft *r, uint64_t context);
/* All up to that one, of that term, is written. */
void lk_simetcd_raft_written(lk_simetcd_raft *r, int64_t index, int64_t term);
