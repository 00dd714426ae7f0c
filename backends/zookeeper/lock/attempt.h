/* attempt.h: one attempt for a claim, under way on its caller's stack: what is known of it, and its waits. */
#pragma once

#include "place.h"

typedef lk_zk_outcome (*lk_zk_wait_fn)(lk_zk_net *net, lk_zk_call *call, int64_t until);

/* What lists have shown of those who use a key. */
typedef struct {
    int rc;         /* of the latest answer that was an error */
    bool unknown;   /* one said nothing, or could not be asked for */
    bool no_parent; /* permits have no parent yet */
    bool fits;      /* one that is taken says as many permits as the claim */
    int32_t taken;  /* so many permits are */
    int32_t slot;   /* the least of ours that is free */
    int32_t ahead;  /* so many wait for one, before the claim's own place if it has one */
    /* the number of permits that a holder, or the first waiter, asked for, where it differs from the claim's; FOREIGN: a holder's node
     * does not say; 0: no difference */
    int32_t says;
    int32_t number;             /* of the first contender of another queue than the claim's */
    char first[LK_ZK_PATH_MAX]; /* ... and its path; "": nobody stands there */
    int32_t first_says;         /* ... and how many permits there are by it; 0: it wants a lock; FOREIGN */
    int64_t first_czxid;        /* ... and its age, once that was asked for; 0: it is not known */
} lk_zk_usage;

enum { LK_ZK_FOREIGN = -1 };

typedef struct {
    lk_zk *z;
    locker_claim *claim;
    lk_zk_claim *data;
    locker_error *err;
    locker_status status;  /* the answer, as far as it is known */
    lk_zk_outcome outcome; /* of the latest wait */
    int64_t until;         /* ... which ends then at the latest */
    int64_t turn_until;    /* a try for a permit waits so long for those ahead; 0: it has not met any */
    lk_zk_call call;
    const char *key;    /* the path of the key's node */
    const char *parent; /* ... and of the queue, which may be the same */
    bool has_room;      /* its requests have been let in to the connection */
    bool looked;        /* at the queue */
    bool fresh;         /* ... with all in it that anybody had been answered before */
    bool busy;          /* ... which was not empty */
    bool used_up;       /* ... and somebody has a place there with a number that orders nothing */
    int rc;             /* the latest answer to listing the queue, or to deleting the key's node */
    int checks;         /* so many have shown its place */
    lk_zk_usage usage;
} lk_zk_attempt;

/* Each step of it answers whether another one follows. */

/* Wait for an answer, for a connection, or for a moment, as `wait` does. */
static inline bool lk_zk_attempt_wait_unlocking(lk_zk_attempt *a, lk_zk_wait_fn wait) LK_REQUIRES(*a->z->net)
{
    a->outcome = wait(a->z->net, &a->call, a->until);
    return a->outcome == LK_ZK_DONE;
}

/* Give up the claim's place, if it has one. */
static inline void lk_zk_attempt_drop_locked(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    lk_zk_node *node = a->data->node;
    a->data->node = NULL;
    a->checks = 0;
    if (node != NULL)
        lk_zk_node_leave_locked(a->z, node);
}

/* ---------------------------------------------------------------- who uses the key, and how: usage.c ---- */
/* Before a place of a lock's is believed: refuse the claim (CONFIG) where the key has permits in use, of those who came
 * before. */
bool lk_zk_check_lock_unlocking(lk_zk_attempt *a, const lk_zk_node *node) LK_REQUIRES(*a->z->net);

/* Before a claim takes a place in the queue for permits: refuse it where the key is in use otherwise; and a try, where as
 * many are taken, or about to be, as there are. */
bool lk_zk_permits_look_unlocking(lk_zk_attempt *a) LK_REQUIRES(*a->z->net);
/* The first place in the queue says another number of permits than the claim. Refuse the claim, unless somebody holds a permit of the
 * claim's number: then the first place's own claim is refused. */
bool lk_zk_permits_judge_unlocking(lk_zk_attempt *a, lk_zk_node *node) LK_REQUIRES(*a->z->net);
/* A try that is not at the head: those ahead and itself may all have one, or it is refused. */
bool lk_zk_permits_try_unlocking(lk_zk_attempt *a) LK_REQUIRES(*a->z->net);
/* At the head of the queue: count what is free, and take one, or have it told when one is given back. */
bool lk_zk_permits_count_unlocking(lk_zk_attempt *a, lk_zk_node *node) LK_REQUIRES(*a->z->net);
