/* place.h: a place: the key that a claim has in a lock's queue, or the permit that this key became.
 *
 * `step` says what the servers hold of the place, as far as the driver knows. Three kinds of requests change the key: the question
 * (`ask`), the move to another lease (`move`) and the delete (`removal`). Each is in flight at most once, and each has a state of its
 * own, because a request without an answer may be carried out later. `want` and `claim` say what we want. DESIGN.md has the table of
 * changes. */
#pragma once

#include "record.h"
#include "txn.h"

/* What the servers hold of a place, as far as the driver knows. Only lk_etcd_place_step() changes it. */
typedef enum {
    LK_ETCD_NOTHING, /* no key, as far as is known: `ask` says if an unanswered request may make one */
    LK_ETCD_ENTERED, /* the key; which key is ahead is not known, or may have changed */
    LK_ETCD_BEHIND, /* the key, and a key ahead, which is watched; of permits also: no slot is free, and all are watched */
    LK_ETCD_FIRST,  /* the key, and no key ahead; of permits: the key of the permit */
    LK_ETCD_TAKEN,  /* no key: a try has found that another claim has the lock */
    LK_ETCD_OTHER,  /* no key: the lock is in use as `other` says */
    LK_ETCD_FAILED, /* the servers refused a request: `error` says why */
    LK_ETCD_GONE,   /* the key was there, and is there no more */
    LK_ETCD_STEPS
} lk_etcd_step;

/* What the question asks or asked. */
typedef enum {
    LK_ETCD_ENTER, /* make the key, unless it is there, and read which key is ahead; a try makes it only if no key is */
    LK_ETCD_LOOK,  /* read the key, and which key is ahead */
    LK_ETCD_CHECK, /* read the key and the predecessor's: the server reads two keys and not the queue */
    LK_ETCD_COUNT, /* of a try for a permit, which has no key in the queue: read which slots are free */
    LK_ETCD_TAKE   /* make the permit of that slot, unless it is there; the key in the queue goes */
} lk_etcd_asked;

/* How a request stands. */
typedef enum {
    LK_ETCD_FLIGHT_IDLE, /* none is in flight, and the results of all are known */
    LK_ETCD_FLIGHT_SENT, /* one is in flight */
    LK_ETCD_FLIGHT_LOST, /* none is in flight; one had no answer, and may have been or may be carried out */
    LK_ETCD_FLIGHT_REPEATED, /* one is in flight; one before it had no answer */
    LK_ETCD_FLIGHT_DONE,     /* of the delete: the servers carried it out */
    LK_ETCD_FLIGHT_REFUSED   /* of the delete: the servers refuse it */
} lk_etcd_flight;

static inline bool lk_etcd_in_flight(lk_etcd_flight flight)
{
    return flight == LK_ETCD_FLIGHT_SENT || flight == LK_ETCD_FLIGHT_REPEATED;
}

/* Return true if a request without an answer may be carried out yet, or may have been. */
static inline bool lk_etcd_may_come(lk_etcd_flight flight)
{
    return flight == LK_ETCD_FLIGHT_LOST || flight == LK_ETCD_FLIGHT_REPEATED;
}

static inline void lk_etcd_flight_sent(lk_etcd_flight *flight)
{
    *flight = lk_etcd_may_come(*flight) ? LK_ETCD_FLIGHT_REPEATED : LK_ETCD_FLIGHT_SENT;
}

/* The request in flight has ended. `lost`: without an answer. */
static inline void lk_etcd_flight_ended(lk_etcd_flight *flight, bool lost)
{
    *flight = lost || lk_etcd_may_come(*flight) ? LK_ETCD_FLIGHT_LOST : LK_ETCD_FLIGHT_IDLE;
}

/* Nothing comes any more of the requests that had no answer. */
static inline void lk_etcd_flight_settled(lk_etcd_flight *flight)
{
    if (lk_etcd_may_come(*flight))
        *flight = lk_etcd_in_flight(*flight) ? LK_ETCD_FLIGHT_SENT : LK_ETCD_FLIGHT_IDLE;
}

/* What the claim wants. */
typedef enum {
    LK_ETCD_WAIT,
    LK_ETCD_TRY,       /* the lock at once, or nothing */
    LK_ETCD_TRY_BESIDE /* a permit at once: there are more free ones than claims that wait */
} lk_etcd_want;

/* First requests of a key's places go one after the other (ask.c). */
typedef enum {
    LK_ETCD_NO_LINE,
    LK_ETCD_IN_LINE, /* it waits in `line` */
    LK_ETCD_LET_IN   /* it is the one of `line` that may ask */
} lk_etcd_admission;

/* The watch on a place's own key, once it has been held for a while. */
typedef enum {
    LK_ETCD_UNWATCHED,
    LK_ETCD_WATCHED, /* `own` is there or asked for */
    LK_ETCD_UNSEEN, /* the servers have forgotten what a watch would have to tell: the key is to be read first */
    LK_ETCD_READING_OWN /* that is in flight */
} lk_etcd_guard;

/* Whether the key's record says since when the lock is held. */
typedef enum {
    LK_ETCD_NOTED,
    LK_ETCD_NOTE_LATER, /* the record is wrong, and is written if the lock is held for long */
    LK_ETCD_NOTE_NOW    /* the next move writes the record */
} lk_etcd_note;

#define LK_ETCD_ANY_MEMBER UINT64_MAX

/* A watch, and whose it is. */
typedef struct {
    lk_etcd_watcher watcher;
    lk_etcd_place *place;
} lk_etcd_eye;

/* How a lease stands. */
typedef enum {
    LK_ETCD_WANTED,      /* it is to be asked for */
    LK_ETCD_ASKED_FOR,   /* that is in flight */
    LK_ETCD_LIVE,        /* the servers have granted it */
    LK_ETCD_REVOKING,    /* its revocation is in flight: nothing is put to it, and nothing granted on it */
    LK_ETCD_REVOKE_LOST, /* the same, but the revocation had no answer */
    LK_ETCD_DEAD         /* the servers don't know it, or refused to grant it */
} lk_etcd_lease_state;

/* What the keys of places are on; its life is in lease.h. */
struct lk_etcd_lease {
    lk_list link;   /* in lk_etcd.leases */
    lk_list places; /* on it */
    int64_t ttl_ns; /* what was asked for, but for a part of a second; the servers may have given more: */
    int64_t given_ns;
    int64_t id;   /* 0: it has not been granted yet */
    int64_t sent; /* when it was asked for */
    lk_etcd_lease_state state;
    bool
        tainted; /* a key may come to be on it that no claim wants: it is revoked once nothing else is on it */
    unsigned requests; /* that refer to it */
};

/* Return true if the lease can have what is wanted: it is granted or will be, and is not being revoked. */
static inline bool lk_etcd_lease_lasts(const lk_etcd_lease *lease)
{
    return lease->state <= LK_ETCD_LIVE;
}

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
    lk_list link;   /* in its lease's places */
    lk_list more;   /* in lk_etcd.left, or .granted, or in none */
    int64_t behind; /* what `ahead` is on: the revision at which that was created; 0: permits */
    int64_t
        behind_at; /* ... which was there at this revision, the latest that is known; 0: no key was ever ahead */
    int64_t told_from; /* ... and its deletion after this one is told; 0: that isn't known yet */
    lk_list turn;      /* in lk_etcd.asks, in those that wait in its line, or in none */
    lk_line *line;     /* as `admission` says, until its first request is answered; or NULL */
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
    lk_etcd_want want;
    lk_etcd_flight ask;     /* the question that makes the next step known; LOST only if it may make a key */
    lk_etcd_asked asked;    /* what it asks, or asked */
    lk_etcd_flight move;    /* to another lease; LOST as long as the key is as it was then */
    lk_etcd_flight removal; /* the delete */
    lk_etcd_admission admission;
    lk_etcd_guard guard;
    lk_etcd_note note;
    unsigned requests; /* that refer to it */
    uint64_t prover;   /* the member whose answer to the question proves what is so now; 0: none */
    bool unanswered;   /* the latest request had no answer: the next one is put off for a moment */
    bool
        unproven; /* a read that proves nothing has shown it FIRST, or gone: the next question has to prove that */
    bool unsure;   /* which lease the key is on is not known: it is put to another one */
    bool enrolled; /* the claim waits: wake it when there is something to be done */
    bool spent; /* its name may come to be there once more, or may be there still: no other place gets it */
    char record[LK_ETCD_RECORD_MAX];
    ProtobufCBinaryData key;         /* of its place in the queue; of its permit, once it has that */
    ProtobufCBinaryData predecessor; /* the key ahead, created at `behind`; empty: it has to look for that */
    char id[LK_ETCD_ID_LEN + 1];
    char id_end[LK_ETCD_ID_LEN + 2]; /* greater than all records that begin with it */
    char base[];                     /* and behind its end, the text of the key, and of the predecessor's */
};

/* Go to the next step (place.c has those that exist). */
void lk_etcd_place_step(lk_etcd_place *place, lk_etcd_step to);
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
