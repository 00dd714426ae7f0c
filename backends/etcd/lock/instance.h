/* instance.h: what the files of this floor share. The floor knows keys, places in queues, leases and
 * claims. Below it is net.h: one connection to etcd. `script/circles --order backends/etcd/lock` prints
 * the order of the files.
 *
 * The connection's mutex (lk_etcd_enter) guards all that changes. */
#pragma once

#include "lk_line.h"
#include "lk_time.h"
#include "net/net.h"

enum {
    LK_ETCD_ROOT_MAX = 512,      /* encoded path and namespace */
    LK_ETCD_KEY_MAX = 1400,      /* the same with an encoded key and a place's name */
    LK_ETCD_ID_LEN = 32,         /* hexadecimal digits of a place's id */
    LK_ETCD_PERMITS_MAX = 10000, /* of a key; all taken permits are listed in one answer */
    LK_ETCD_BATCH = 125,         /* places in one transaction: a server takes 128 operations by default */
    LK_ETCD_TTL_MAX_S =
        300, /* for a longer time, etcd stores the rest of a lease's time, and a new leader counts from there */
    LK_ETCD_CROWDS = 64,
    LK_ETCD_FIRST_KEPT = 256,   /* a successor asks soon after its predecessor's delete */
    LK_ETCD_GIVEN_MAX_S = 3600, /* a longer time in a server's answer is not believed */
};

typedef struct lk_etcd_place lk_etcd_place;
typedef struct lk_etcd_lease lk_etcd_lease;

/* The driver's bytes of a claim. */
typedef struct {
    lk_etcd_place *place; /* NULL: none */
    lk_etcd_call *call;   /* the attempt in flight, for interrupt */
    bool interrupted;     /* no further attempt is made for the claim */
} lk_etcd_claim;

/* A place that was FIRST and is being deleted. */
typedef struct {
    int64_t created; /* 0: none */
    uint64_t number; /* the number in its id */
} lk_etcd_first;

struct lk_etcd {
    const locker_services *svc;
    lk_etcd_net *net;
    char root[LK_ETCD_ROOT_MAX]; /* the beginning of all keys: "", or "a/b/" */
    uint64_t id;                 /* the locker's random id */
    int64_t cleanup_ns;

    uint64_t last_name; /* the greatest number that a place's name has got */
    uint64_t *names;    /* numbers of earlier names that are free again */
    size_t names_len, names_room;
    lk_list leases;       /* all leases, the newest first */
    unsigned times;       /* how many different times the leases have */
    lk_list left;         /* places without a claim, which are to be deleted */
    lk_list granted;      /* places with a grant, the latest first */
    lk_etcd_call *closer; /* the call that waits until nothing is left; NULL: none */
    int64_t
        watch_at; /* when a granted place wants a watch on its key or its record written; LOCKER_NEVER: none does */
    int64_t retry_at;     /* when unanswered or refused requests are repeated */
    bool remake;          /* some key is to be written again, even to the lease that it is on */
    int64_t grant_at;     /* no lease is requested before then: a request was refused */
    bool renewal_refused; /* a refused renewal was logged */
    unsigned refusals;    /* useless answers in a row of a member that is up */
    unsigned deletes;     /* deletes in flight */
    unsigned moves;       /* requests in flight that move keys */
    lk_list asks;         /* places whose question waits until servers have read other long queues */
    lk_table lines; /* of lk_line, by the key's hash: places whose first request waits for another place's */
    bool line_stands;               /* the place that was let in has left its line: let the next one in */
    int64_t reading;                /* number of keys of queues that servers read now, as far as is known */
    int64_t crowds[LK_ETCD_CROWDS]; /* lengths of queues, by the key's hash */
    lk_etcd_first first[LK_ETCD_FIRST_KEPT]; /* each at index `revision % LK_ETCD_FIRST_KEPT` */
    size_t batch;                            /* number of places that one transaction moves */
};

static inline int64_t lk_etcd_now_of(const lk_etcd *e)
{
    return e->svc->clock->now(e->svc->clock->context);
}

/* Return the entry for the key with this create revision. */
static inline lk_etcd_first *lk_etcd_first_at(lk_etcd *e, int64_t revision)
{
    return &e->first[(uint64_t)revision % LK_ETCD_FIRST_KEPT];
}

/* Return true while unanswered or refused requests are not repeated yet. */
static inline bool lk_etcd_pauses(const lk_etcd *e, int64_t now)
{
    return e->retry_at != LOCKER_NEVER && now < e->retry_at;
}

extern const lk_etcd_owner lk_etcd_connection_events;

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
int64_t lk_etcd_dispatch(void *self);
