/* look.h: a look at a key: its queue, those who hold it, and its record. */
#pragma once

#include "place.h"

enum { LK_ZK_SHOWN_MAX = 1000 }; /* of a queue: so many are read */

/* Somebody who holds the key, or waits for it. */
typedef struct {
    struct lk_zk_look *of;
    char *name;
    const char *below; /* the key's node; NULL: right there */
    int32_t sequence;
    bool shares;
    int32_t permits, slot; /* slot: -1 of one that doesn't say, and of one that waits */
    bool there;            /* it was when it was read */
    bool holds;
    bool is_lock; /* it ends with its session, and has a name as locks and permits have */
    uint64_t czxid;
    int64_t ctime;
    char owner[LOCKER_OWNER_MAX + 1];
} lk_zk_entry;

/* A question under way; on its caller's stack. */
typedef struct lk_zk_look {
    lk_zk *z;
    lk_zk_call call;
    char parent[LK_ZK_PARENT_MAX];
    int64_t until;
    int64_t session;      /* the session that listed the queue */
    lk_zk_entry *entries; /* who has permits; then the queue, in its order */
    size_t count;
    size_t read;     /* so many of them were read */
    bool of_permits; /* the key is used with permits; during the list: has nodes for permits */
    uint64_t rival;  /* czxid of the first call for a permit: younger calls for a lock are refused. 0: none */
    uint64_t stays;  /* czxid of a first place that an earlier look has read; see is_older() */
    int32_t last;    /* greatest number of the other queue in a list after that */
    lk_zk_record record;    /* what the key's node says */
    int32_t record_version; /* of that; -1: somebody keeps something else there, or it was not read */
    int record_rc;          /* the answer to reading it */
    int rc;                 /* of the last answer that was an error */
    bool outdated;          /* all that was listed was gone when it was read, in each look */
    bool no_memory;         /* to ask for all, or to keep it: what is missing may be there */
} lk_zk_look;

void lk_zk_look_begin(lk_zk_look *i, lk_zk *z, const char *key, size_t key_len, int64_t until)
    LK_ACQUIRE(*i->z->net);
void lk_zk_look_end(lk_zk_look *i) LK_RELEASE(*i->z->net);
/* Expect the answer to a request whose context is the look, or an entry. False: it was not sent. */
bool lk_zk_look_expect_locked(lk_zk_look *i, lk_zk_request *request) LK_REQUIRES(*i->z->net);
locker_status lk_zk_look_await_unlocking(lk_zk_look *i, const char *doing, locker_error *err)
    LK_REQUIRES(*i->z->net);
/* Who holds the key; and of those who wait, the first `most`. Again where the connection was lost meanwhile, or all that were
 * read have gone, which says nothing. */
locker_status lk_zk_look_unlocking(lk_zk_look *i, size_t most, locker_error *err) LK_REQUIRES(*i->z->net);
bool lk_zk_entry_path(const lk_zk_look *i, const lk_zk_entry *e, char path[LK_ZK_PATH_MAX]);
/* Those who hold the key and whom `only` names, in info, settled. */
locker_status lk_zk_look_describe(const lk_zk_look *i, const locker_break_options *only, locker_info *info,
                                  locker_error *err);
