/* place.h: a place: the key that a claim has in a lock's queue, or the permit that this key became.
 *
 * `step` says what the servers hold of the place, as far as the driver knows. Three kinds of requests change the key: the question
 * (`ask`), the move to another lease (`move`) and the delete (`removal`). Each is in flight at most once, and each has a state of its
 * own, because a request without an answer may be carried out later. `want` and `claim` say what we want. DESIGN.md has the table of
 * changes. */
#pragma once

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
    LK_ETCD_FLIGHT_REPEATED,    /* one is in flight; one before it had no answer */
    LK_ETCD_FLIGHT_DONE,        /* of the delete: the servers carried it out */
    LK_ETCD_FLIGHT_REFUSED,     /* of the delete: the servers refuse it */
    LK_ETCD_FLIGHT_LOST_REFUSED /* of the delete: the servers refuse it; one before it had no answer */
} lk_etcd_flight;

static inline bool lk_etcd_in_flight(lk_etcd_flight flight)
{
    return flight == LK_ETCD_FLIGHT_SENT || flight == LK_ETCD_FLIGHT_REPEATED;
}

/* Return true if a request without an answer may be carried out yet, or may have been. */
static inline bool lk_etcd_may_come(lk_etcd_flight flight)
{
    return flight == LK_ETCD_FLIGHT_LOST || flight == LK_ETCD_FLIGHT_REPEATED ||
           flight == LK_ETCD_FLIGHT_LOST_REFUSED;
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

/* A watch, and the place that it is for. */
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

/* A lease that keys of places are on. lease.c has its life. */
struct lk_etcd_lease {
    lk_list link;   /* in lk_etcd.leases */
    lk_list places; /* that are on it */
    int64_t
        ttl_ns; /* the time that was asked for, up to a part of a second; the servers may have given more: */
    int64_t given_ns;
    int64_t id;   /* 0: it has not been granted yet */
    int64_t sent; /* when it was asked for */
    lk_etcd_lease_state state;
    bool
        tainted; /* a key may come to be on it that no claim wants: it is revoked once nothing else is on it */
    unsigned requests; /* requests in flight that name it */
};

/* Return true if wanted keys may be put on the lease: it is granted or will be, and is not being revoked. */
static inline bool lk_etcd_lease_lasts(const lk_etcd_lease *lease)
{
    return lease->state <= LK_ETCD_LIVE;
}

/* Return the time at which the servers will have ended the lease by themselves. An election may prolong
 * it. */
static inline int64_t lk_etcd_lease_over(const lk_etcd_lease *lease)
{
    return lk_time_after(lease->sent, 2 * lease->given_ns);
}

/* Return the time until which a claim has what is on the lease. The servers' clocks may run 1 % faster
 * than ours. */
static inline int64_t lk_etcd_lease_until(const lk_etcd_lease *lease)
{
    return lk_time_after(lease->sent, lease->ttl_ns - lease->ttl_ns / 100);
}

struct lk_etcd_place {
    lk_list link;   /* in its lease's places */
    lk_list more;   /* in lk_etcd.left or .granted; or in no list */
    int64_t behind; /* the create revision of the key that `ahead` watches; 0: `ahead` watches the permits */
    int64_t
        behind_at; /* the latest revision at which that key is known to have existed; 0: no key was ever ahead */
    int64_t told_from; /* `ahead` reports deletions after this revision; 0: not known yet */
    lk_list turn;      /* in lk_etcd.asks, or in the waiting list of `line`; or in no list */
    lk_line *line;     /* as `admission` says, until its first request is answered; or NULL */
    int64_t reads;     /* number of keys that a server reads for the question in flight, as far as is known */
    lk_etcd_eye ahead; /* the watch on the key ahead */
    lk_etcd_eye own;   /* the watch on its own key, once it has been held for a while */
    locker_claim *claim;     /* the claim that it belongs to; NULL: none, and it is to be deleted */
    lk_etcd_call *call;      /* the call that waits for an answer; NULL: none */
    lk_etcd_lease *lease;    /* the lease that its key is on, or will be on */
    uint64_t number;         /* the number in its id */
    lk_etcd_lease *asked_on; /* the lease that the question in flight names */
    int64_t created;         /* the key's create revision, which is the fencing token; 0: no key is known */
    int64_t modified;        /* the revision of the key's latest change */
    int64_t seen;            /* when the latest request was sent that has shown it as FIRST */
    int64_t granted_at;      /* when the claim got the grant; 0: it has none */
    int64_t cap;             /* the latest deadline of a lock without renewal; else LOCKER_NEVER */
    int64_t left_until;      /* for a place without a claim: the driver tries until then to delete it */
    locker_error error;      /* why it is FAILED */
    int32_t permits;         /* the number of permits of which it wants one; 0: it wants a lock */
    int32_t slot;            /* the slot of the permit that it has or asks for; -1: none */
    int32_t other; /* the number of permits with which others use the key; 0: others use it as a lock */
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
    unsigned requests; /* requests in flight that refer to it */
    uint64_t prover;   /* the member whose answer to the question proves what is so now; 0: none */
    bool unanswered;   /* the latest request had no answer: the next one is put off for a moment */
    bool
        unproven; /* a read that proves nothing has shown it FIRST, or gone: the next question has to prove that */
    bool unsure;   /* which lease the key is on is not known: it is put to another one */
    bool enrolled; /* the claim waits in core, and is woken when the attempt can go on */
    bool
        spent; /* an unanswered request may make a key of this name again, or the key may still exist: no other place gets the name */
    char record[LK_ETCD_RECORD_MAX];
    ProtobufCBinaryData key;         /* the key in the queue; once it has a permit, the permit's key */
    ProtobufCBinaryData predecessor; /* the key ahead, whose create revision is `behind`; empty: not known */
    char id[LK_ETCD_ID_LEN + 1];
    char id_end[LK_ETCD_ID_LEN + 2]; /* a text that is greater than all records that begin with the id */
    char base[]; /* the text of BASE; behind its end the texts of `key` and `predecessor` */
};

/* Change the step. place.c has the steps that may follow each step. */
void lk_etcd_place_step(lk_etcd_place *place, lk_etcd_step to);
/* Make a place on that lease. Return NULL without memory. */
lk_etcd_place *lk_etcd_place_new_locked(lk_etcd *e, locker_claim *claim, const lk_etcd_key *base,
                                        lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* Set the name of the place's key. */
void lk_etcd_place_name(lk_etcd_place *place, const lk_etcd_key *key);
/* Set the predecessor's key. NULL: it is not known. A name that is longer than all of ours is not kept. */
void lk_etcd_place_follow(lk_etcd_place *place, const ProtobufCBinaryData *key);
/* Return true if no key is ahead of the place once its predecessor is deleted: the predecessor is ours,
 * and no key was ahead of it. */
bool lk_etcd_place_is_second_locked(lk_etcd *e, const lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Remove a request's reference. Free the place if it was the last one and the place is of no more use. */
void lk_etcd_place_unref_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Record that the place's key is on that lease, by a change at the revision `modified`. */
void lk_etcd_place_on_lease_locked(lk_etcd *e, lk_etcd_place *place, lk_etcd_lease *lease, int64_t modified)
    LK_REQUIRES(*e->net);
/* Record what an answer shows of the place's key. */
void lk_etcd_place_is_locked(lk_etcd *e, lk_etcd_place *place, const LkEtcdPb__KeyValue *kv)
    LK_REQUIRES(*e->net);
/* Return true if the key is the one that the place made. Create revisions repeat if servers lose their
 * data. So the record of a permit must contain our id too, as the permit's name does not. */
bool lk_etcd_place_owns(const lk_etcd_place *place, const LkEtcdPb__KeyValue *kv);
/* Record what an ordered answer shows of the place's key: how it is, or that it has gone. */
void lk_etcd_place_shown_locked(lk_etcd *e, lk_etcd_place *place, const LkEtcdPb__Ranged *ranged)
    LK_REQUIRES(*e->net);
/* Record that the place's key has gone, and that this is proven. */
void lk_etcd_place_vanish_locked(lk_etcd *e, lk_etcd_place *place, const char *why) LK_REQUIRES(*e->net);
/* Take the place out of its line and out of all waiting lists. A request in flight goes on. */
void lk_etcd_place_rest_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Wake the call or the claim that waits for the place. */
void lk_etcd_place_tell_locked(lk_etcd *e, const lk_etcd_place *place) LK_REQUIRES(*e->net);

/* ---------------------------------------------------------------- the question: ask.c ---- */
/* Send the place's next question, in its turn. Return false if it was not sent. */
bool lk_etcd_place_ask_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* The watch on the key ahead exists. It reports what happens after this revision. */
void lk_etcd_place_watched_locked(lk_etcd *e, lk_etcd_place *place, int64_t revision) LK_REQUIRES(*e->net);
/* Let places in whose line stands still. */
void lk_etcd_lines_look_after_locked(lk_etcd *e) LK_REQUIRES(*e->net);

/* ---------------------------------------------------------------- its end: ending.c ---- */
/* Separate the place from its claim. Its key is deleted in the background. */
void lk_etcd_place_leave_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Send the delete, if it is needed and none is in flight. */
void lk_etcd_place_delete_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Send deletes of places without a claim. Return when to call again. */
int64_t lk_etcd_places_left_locked(lk_etcd *e, int64_t now) LK_REQUIRES(*e->net);

/* ---------------------------------------------------------------- held places: held.c ---- */
/* The claim has got the grant. From now on, the end of the key is reported. */
void lk_etcd_place_granted_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* The watch on the place's own key has ended, but the key may exist. */
void lk_etcd_place_unwatched_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Watch held places, and have their records written. Return when to call again. */
int64_t lk_etcd_places_look_after_locked(lk_etcd *e, int64_t now) LK_REQUIRES(*e->net);

/* ---------------------------------------------------------------- leases: lease.c ----
 * No lease is kept alive. When a third of its time is over, the driver requests the next lease, and moves all keys to it. A server
 * counts a lease's time from when it learns of the lease, which is after the request was sent. So a key exists at least until the time
 * of the lease request plus the lease's time, even for a server that wrongly believes to be the leader. A KeepAlive's answer proves
 * less: DESIGN.md. The model is models/etcd.pml. */
/* Return a lease for the claim's place (NULL: it has none yet). With id 0 the lease is being requested, and its places are woken
 * when the answer comes. NULL: no memory. */
lk_etcd_lease *lk_etcd_lease_for_locked(lk_etcd *e, const locker_claim *claim, const lk_etcd_place *place)
    LK_REQUIRES(*e->net);
/* Have the keeper move what is on the lease in time. */
void lk_etcd_lease_used_locked(lk_etcd *e, const lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* An unanswered request may put a key on the lease. */
void lk_etcd_lease_taint_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* Have the keeper look again if tainted leases can be revoked. */
void lk_etcd_leases_settle_locked(lk_etcd *e) LK_REQUIRES(*e->net);
/* The servers do not know the lease. */
void lk_etcd_lease_dead_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* Return the newest lease of that time; NULL: there is none. */
lk_etcd_lease *lk_etcd_lease_newest_locked(const lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net);
/* Request another lease of that time. NULL: no memory. */
lk_etcd_lease *lk_etcd_lease_new_locked(lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net);
/* Request the lease, if it is WANTED. */
void lk_etcd_lease_ask_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* Log why held keys cannot be moved: the servers have refused a lease or a move. */
void lk_etcd_renewal_refused_locked(lk_etcd *e, const lk_etcd_reply *reply) LK_REQUIRES(*e->net);
/* Return when the next lease is to be requested. */
int64_t lk_etcd_lease_next(const lk_etcd_lease *lease);
/* Have the servers end the lease, unless that is in flight. */
void lk_etcd_lease_revoke_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
void lk_etcd_lease_free_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* Revoke all leases, when the locker closes. The answers free them. */
void lk_etcd_leases_revoke_locked(lk_etcd *e) LK_REQUIRES(*e->net);
/* Return true if a lease is not revoked yet. */
bool lk_etcd_leases_left_locked(const lk_etcd *e) LK_REQUIRES(*e->net);
/* Free all leases and the places on them. The connection has ended. */
void lk_etcd_leases_free(lk_etcd *e);
/* Request the next leases, move keys to them, and end leases without keys (renew.c). Return when to call again. */
int64_t lk_etcd_leases_look_after_locked(lk_etcd *e, int64_t now) LK_REQUIRES(*e->net);
