/* instance.h: what the files of this floor share, which knows keys, places in queues, leases and claims. Below it is net.h: one
 * connection to etcd. `script/circles --order backends/etcd/lock` prints the order of the files.
 *
 * What changes is guarded by the connection's mutex (lk_etcd_enter). */
#pragma once

#include "lk_line.h"
#include "lk_time.h"
#include "net/net.h"

enum {
    LK_ETCD_ROOT_MAX = 512,      /* path and namespace, encoded */
    LK_ETCD_KEY_MAX = 1400,      /* ... with a key and a name behind it */
    LK_ETCD_ID_LEN = 32,         /* of a place's name, in hexadecimal */
    LK_ETCD_PERMITS_MAX = 10000, /* of a key: those that are taken are listed all at once */
    LK_ETCD_BATCH =
        125, /* places in one transaction: a server takes 128 operations, unless it is told otherwise */
    LK_ETCD_TTL_MAX_S =
        300, /* with more, etcd writes what is left of a lease down, and a new leader goes on from there */
    LK_ETCD_CROWDS = 64,
    LK_ETCD_FIRST_KEPT = 256,   /* a successor asks soon after its predecessor was deleted */
    LK_ETCD_GIVEN_MAX_S = 3600, /* a server that gives a lease for longer isn't believed */
};

typedef struct lk_etcd_place lk_etcd_place;
typedef struct lk_etcd_lease lk_etcd_lease;

/* The driver's bytes of a claim. */
typedef struct {
    lk_etcd_place *place; /* NULL: none */
    lk_etcd_call *call;   /* the attempt under way, for interrupt */
    bool interrupted;     /* no attempt is made for it any more */
} lk_etcd_claim;

/* A place that nobody was ahead of, and that is being deleted. */
typedef struct {
    int64_t created; /* 0: none */
    uint64_t number; /* in its id */
} lk_etcd_first;

struct lk_etcd {
    const locker_services *svc;
    lk_etcd_net *net;
    char root[LK_ETCD_ROOT_MAX]; /* what all keys begin with: "", or "a/b/" */
    uint64_t id;                 /* of this locker: random */
    int64_t cleanup_ns;

    uint64_t last_name; /* the latest number that was given to a place for its name */
    uint64_t *names;    /* numbers of before, which are free */
    size_t names_len, names_room;
    lk_list leases;       /* the newest first */
    unsigned times;       /* that these have, each counted once */
    lk_list left;         /* places without a claim, which are to be deleted */
    lk_list granted;      /* places that have what they want, the latest first */
    lk_etcd_call *closer; /* waits until nothing is left; NULL: nobody */
    int64_t
        watch_at; /* one of the granted wants a watch on itself, or its time written; LOCKER_NEVER: none does */
    int64_t retry_at;     /* what had no answer, or was refused, is asked again then */
    bool remake;          /* a key is to be put anew, on whichever lease it is */
    int64_t grant_at;     /* no new lease is asked for before then: one was refused */
    bool renewal_refused; /* that was told */
    unsigned refusals;    /* answers in a row which say nothing, of a member that is up */
    unsigned deletes;     /* of places, under way */
    unsigned moves;       /* requests under way that put places to another lease */
    lk_list asks;         /* places whose request waits until servers have read long queues for others */
    lk_table lines;   /* lk_line, by their keys' hash: places whose first request waits for that of others */
    bool line_stands; /* one was left by who had been let in: the next is let in */
    int64_t reading;  /* keys of queues that servers read now, as far as is known */
    int64_t crowds[LK_ETCD_CROWDS];          /* how long queues were, by their keys' hash */
    lk_etcd_first first[LK_ETCD_FIRST_KEPT]; /* each at the remainder of its revision */
    size_t batch;                            /* how many places are put to a new lease in one transaction */
};

static inline int64_t lk_etcd_now_of(const lk_etcd *e)
{
    return e->svc->clock->now(e->svc->clock->context);
}

/* Where that is kept of the key that was created at this revision. */
static inline lk_etcd_first *lk_etcd_first_at(lk_etcd *e, int64_t revision)
{
    return &e->first[(uint64_t)revision % LK_ETCD_FIRST_KEPT];
}

/* What had no answer, or was refused, is not asked again yet. */
static inline bool lk_etcd_pauses(const lk_etcd *e, int64_t now)
{
    return e->retry_at != LOCKER_NEVER && now < e->retry_at;
}

locker_status lk_etcd_check_key(void *self, const char *key, size_t key_len, locker_error *err);
locker_status lk_etcd_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_etcd_interrupt(void *self, locker_claim *claim);
void lk_etcd_withdraw(void *self, locker_claim *claim);
void lk_etcd_begin_release(void *self, locker_claim *const *grants, size_t count);
locker_status lk_etcd_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_etcd_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err);
locker_status lk_etcd_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err);
locker_status lk_etcd_ping(void *self, int64_t until, locker_error *err);
