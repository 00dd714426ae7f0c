/* place.h: a place in a key's queue, which is a key of ours there, or the permit that it became: what is known of it, and who is
 * told. */
#pragma once

#include "record.h"
#include "txn.h"

/* What is known. What leads from one to another stands in ask.c; what ends it, in ending.c and place.c. */
typedef enum {
    LK_ETCD_NOTHING, /* it isn't there, as far as is known; or what would make it there had no answer */
    LK_ETCD_ENTERED, /* it is there; who is ahead isn't known, or was, and may have gone */
    LK_ETCD_BEHIND, /* it is there, and so was somebody ahead, whose end is watched; or no permit was free, likewise */
    LK_ETCD_FIRST,  /* it is there, and nobody was ahead; of permits: its permit is there */
    LK_ETCD_TAKEN,  /* of a try: somebody has the lock, so it isn't there */
    LK_ETCD_OTHER,  /* the key is in use as `other` says, so it isn't there */
    LK_ETCD_FAILED, /* refused: `error` says why */
    LK_ETCD_GONE    /* it was there, and isn't any more */
} lk_etcd_step;

/* What the request under way is, or was. */
typedef enum {
    LK_ETCD_ENTER, /* make the place, if it isn't there, and see who is ahead; of a try: if nobody is */
    LK_ETCD_LOOK,  /* see whether it is still there, and who is ahead */
    LK_ETCD_CHECK, /* see whether it and the one ahead are still there: the server reads two keys, not the queue */
    LK_ETCD_COUNT, /* of a try for a permit, which needs no place: see which are free */
    LK_ETCD_TAKE   /* make the permit of that slot, if it isn't there; the place goes for it */
} lk_etcd_asked;

/* A watch, and whose it is. */
typedef struct {
    lk_etcd_watcher watcher;
    lk_etcd_place *place;
} lk_etcd_eye;

/* What the keys of places are on; its life is in lease.h. */
struct lk_etcd_lease {
    lk_list link;   /* in lk_etcd.leases */
    lk_list places; /* on it */
    int64_t ttl_ns; /* what was asked for, but for a part of a second; the servers may have given more: */
    int64_t given_ns;
    int64_t id;   /* 0: it has not been granted yet */
    int64_t sent; /* when it was asked for */
    bool asking;  /* its request is under way */
    bool dead;    /* the servers don't know it, or won't soon */
    bool
        tainted; /* a key may come to be on it of which nobody wants to know: it is revoked once nothing else is on it */
    bool revoking; /* that is under way */
    bool ending; /* ... or was, perhaps without an answer: nothing is put to it, and nothing granted on it */
    unsigned requests; /* that refer to it */
};

/* When the servers will have ended it by themselves, but for elections, which may give it more. */
static inline int64_t lk_etcd_lease_over(const lk_etcd_lease *lease)
{
    return lk_time_after(lease->sent, 2 * lease->given_ns);
}

/* Until when a claim has what is on it: the servers' clocks may run up to a hundredth faster. */
static inline int64_t lk_etcd_lease_until(const lk_etcd_lease *lease)
{
    return lk_time_after(lease->sent, lease->ttl_ns - lease->ttl_ns / 100);
}

struct lk_etcd_place {
    lk_list link;      /* in its lease's places */
    lk_list more;      /* in lk_etcd.left, or .granted, or in none */
    int64_t behind;    /* what `ahead` is on: the revision at which that was created; 0: permits */
    int64_t behind_at; /* ... which was there at this revision, the latest that is known */
    int64_t told_from; /* ... and its deletion after this one is told; 0: that isn't known yet */
    lk_list turn;      /* in lk_etcd.asks, in those that wait in its line, or in none */
    lk_line *line; /* it waits in that, or has been let in, until its first request is answered; or NULL */
    int64_t reads; /* keys of its queue that a server reads for the request under way, as far as is known */
    lk_etcd_eye ahead;       /* on who is ahead */
    lk_etcd_eye own;         /* on itself, once it has been held for a while */
    locker_claim *claim;     /* whose it is; NULL: nobody's, to be deleted */
    lk_etcd_call *call;      /* who waits for the answer; NULL: nobody */
    lk_etcd_lease *lease;    /* which its key is on, or will be when it comes to be there */
    uint64_t number;         /* in its id */
    lk_etcd_lease *asked_on; /* which the request under way puts it to */
    int64_t created;    /* the revision of its creation: the fencing token; 0: it isn't known to be there */
    int64_t modified;   /* that of its latest change */
    int64_t seen;       /* when the latest request was sent that has shown it FIRST */
    int64_t granted_at; /* 0: it isn't granted */
    int64_t cap;        /* LOST then at the latest, of a lock that isn't renewed; else LOCKER_NEVER */
    int64_t left_until; /* of one that was left: it is tried to be deleted until then */
    locker_error error; /* of FAILED */
    int32_t permits;    /* it wants one of so many; 0: a lock */
    int32_t slot;       /* the one that it has, or has asked for; -1 */
    int32_t other;      /* so many permits the key is in use with; 0: as a lock */
    locker_mode mode;
    lk_etcd_step step;
    lk_etcd_asked asked;
    unsigned requests; /* that refer to it */
    bool tries;        /* it is not there if it can't have the lock at once */
    bool beside;       /* ... and there is room for it beside those who wait for permits */
    bool asking;       /* the request that makes its next step known is under way */
    bool let_in;       /* ... or, of the first one, may be */
    bool unanswered;   /* the latest had no answer: another one is put off for a moment */
    uint64_t prover;   /* the member whose read proves something; 0: none */
    bool proves;       /* what the request under way shows, or showed, is of no time before it was sent */
    bool
        unproven; /* a read that doesn't prove has shown it FIRST, or gone: it is to be looked at by one that does */
    bool doubt;         /* one that would make it there had no answer */
    bool moving;        /* a request that puts it to another lease is under way */
    bool may_move;      /* one had no answer, and may be done as long as its key is as it was then */
    bool unsure;        /* which lease it is on isn't known: it is put to another */
    bool retell;        /* its record is to be written anew */
    bool freed;         /* it was deleted by us, with proof */
    bool maybe_deleted; /* a delete had no answer */
    bool deleting;      /* a delete is under way */
    bool stays;         /* one was refused */
    bool enrolled;      /* the claim waits: wake it when there is something to be done */
    bool waited;        /* somebody was ahead */
    bool watched;       /* `own` has been asked for, or the place itself */
    bool unseen;        /* ... that is to be next, as a watch tells nothing from its latest change on */
    bool told;          /* the time of its grant is in its record */
    bool spent; /* its name may come to be there once more, or may be there still: no other place gets it */
    char record[LK_ETCD_RECORD_MAX];
    ProtobufCBinaryData key;         /* of its place in the queue; of its permit, once it has that */
    ProtobufCBinaryData predecessor; /* the key ahead, created at `behind`; empty: it has to look for that */
    char id[LK_ETCD_ID_LEN + 1];
    char id_end[LK_ETCD_ID_LEN + 2]; /* greater than all records that begin with it */
    char base[];                     /* and behind its end, the text of the key, and of the predecessor's */
};

/* NULL: no memory. */
lk_etcd_place *lk_etcd_place_new_locked(lk_etcd *e, locker_claim *claim, const lk_etcd_key *base,
                                        lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* That is its key from now on. */
void lk_etcd_place_name(lk_etcd_place *place, const lk_etcd_key *key);
/* Set the predecessor's key; NULL: it isn't known. A name that is longer than any of ours is not kept. */
void lk_etcd_place_follow(lk_etcd_place *place, const ProtobufCBinaryData *key);
/* True if nobody is ahead of the place once its predecessor is gone: that was ours, and nobody was ahead of it. */
bool lk_etcd_place_is_second_locked(lk_etcd *e, const lk_etcd_place *place) LK_REQUIRES(*e->net);
/* One request less refers to it; freed, when it was the last, and nobody needs the place. */
void lk_etcd_place_unref_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Its key is on that lease, as changed at that revision. */
void lk_etcd_place_on_lease_locked(lk_etcd *e, lk_etcd_place *place, lk_etcd_lease *lease, int64_t modified)
    LK_REQUIRES(*e->net);
/* An answer shows its key as it is. */
void lk_etcd_place_is_locked(lk_etcd *e, lk_etcd_place *place, const LkEtcdPb__KeyValue *kv)
    LK_REQUIRES(*e->net);
/* Its key is what it made, by its revision, and of a permit, whose key's name is not its own, by its record: revisions come again
 * where servers have lost their data. */
bool lk_etcd_place_owns(const lk_etcd_place *place, const LkEtcdPb__KeyValue *kv);
/* An answer of now to a read of its key, as no late read: it is so, or gone. */
void lk_etcd_place_shown_locked(lk_etcd *e, lk_etcd_place *place, const LkEtcdPb__Ranged *ranged)
    LK_REQUIRES(*e->net);
/* It isn't there any more, as somebody says who knows. */
void lk_etcd_place_vanish_locked(lk_etcd *e, lk_etcd_place *place, const char *why) LK_REQUIRES(*e->net);
/* It asks for nothing, and stands in no line, but for a request under way. */
void lk_etcd_place_rest_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Whoever waits for it has to look at it. */
void lk_etcd_place_tell_locked(lk_etcd *e, const lk_etcd_place *place) LK_REQUIRES(*e->net);
