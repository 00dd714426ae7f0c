/* instance.h: what an instance of the driver consists of. */
#pragma once

#include "claim.h"
#include "fence.h"
#include "keys.h"
#include "net/net.h"
#include "scripts.h"
#include "server_time.h"
#include "settings.h"

enum {
    LK_REDIS_HOPS_MAX = 5,      /* how often another master is looked for before giving up */
    LK_REDIS_PASS_RESERVE = 64, /* fencing numbers of a grant that may be handed over inside the process */
    LK_REDIS_CONTENDED = 16,    /* greatest value of the counters of recent contention */
    LK_REDIS_LIFE_MAX = 2 * LK_REDIS_SERVER_ID_LEN + 32,
    LK_REDIS_UNWRITTEN_MAX = 160
};

#define LK_REDIS_AGAIN_NS (100 * LK_MS) /* a server that can't serve now is asked again then */

/* The grants that are not noted yet, and when the keeper looks after them (grant_info.c). */
typedef struct {
    _Atomic(lk_list *) pushed;            /* by next; pushed without the mutex, taken whole with it */
    atomic_bool ticking;                  /* dispatch looks after them by itself: no attend is needed */
    lk_list grants LK_GUARDED_BY(mutex);  /* guarded by the mutex, as the rest */
    bool active LK_GUARDED_BY(mutex);     /* there were grants since the last look */
    int64_t look_at LK_GUARDED_BY(mutex); /* the next look; 0: it is yet to be set */
} lk_redis_notes;

/* Renewals (renew.c): those that are not sent yet, and how many leases' are under way on each connection. Guarded by the mutex. */
typedef struct {
    lk_list waiting;
    size_t under_way[2]; /* on the command connection, on the one for renewals */
    int64_t next_at;     /* one may be sent then that would make more under way than a server should have */
} lk_redis_renewals;

/* With the parameter `recovery` (recovery.h). */
typedef struct {
    char *mark; /* the name of the key; NULL: without; constant */
    /* "recovery_ms run replication ", of the server as the command connection's handshake learned it. */
    char life[LK_REDIS_LIFE_MAX] LK_GUARDED_BY(mutex);
    /* Why the server could not write the mark, as it said last on this connection; "": it could, or has not said yet. It is asked
     * again then. */
    char unwritten[LK_REDIS_UNWRITTEN_MAX] LK_GUARDED_BY(mutex);
    int64_t meet_at LK_GUARDED_BY(mutex);
} lk_redis_recovery;

/* A server that keeps locks, or one that is a master of a cluster, and what is known of it. It lasts as long as the instance. */
typedef struct lk_redis_node {
    struct lk_redis *r;
    struct lk_redis_node *next; /* in the order in which they were met; constant, once it is there */
    lk_redis_net *net;
    lk_redis_pipeline *commands; /* its command connection */
    /* Carries renewals where it is up: where they wait for replicas, or the command connection is silent. */
    lk_redis_pipeline *renewing;
    lk_redis_server_time time;
    lk_redis_fences fences;
    lk_redis_renewals renewals;
    unsigned slots LK_GUARDED_BY(mutex); /* of a cluster: so many it has */
    bool is_named LK_GUARDED_BY(mutex);  /* ... and will have, by a map that is being read */
} lk_redis_node;

typedef struct lk_redis {
    lk_redis_shared shared; /* its mutex guards what doesn't say otherwise */
    lk_redis_settings set;
    lk_redis_node *nodes; /* at least one; constant, the others behind it come (guarded) */
    _Atomic(lk_redis_node *)
        *map; /* of a cluster: who has each slot (node.c); NULL: there is one server. Relaxed */
    const lk_redis_owner *owner; /* what its nodes' connections tell; constant */
    const char *const *script;   /* by lk_redis_script; constant */
    lk_redis_values values;
    char channel[LK_REDIS_CHANNEL_MAX]; /* constant, as the next */
    /* "" where the server would not tell. Read by lk_redis_sha() */
    char sha[LK_REDIS_SCRIPT_COUNT][LK_REDIS_HASH_LEN + 1];
    atomic_bool
        more; /* the hashes behind LK_REDIS_SCRIPTS_LOADED are known; release and acquire bring them along */
    bool more_asked LK_GUARDED_BY(mutex); /* ... are asked for */
    atomic_bool trusted; /* a release has been carried out, and nothing denied since; relaxed: a hint */
    /* Counters of recent contention, up to LK_REDIS_CONTENDED; relaxed: hints. */
    atomic_uint busy_lately; /* attempts were found busy */
    atomic_uint pass_lately; /* hand-overs in here were asked for */
    lk_redis_slots slots;
    int64_t look_at
        LK_GUARDED_BY(mutex); /* when the keeper looks at what is waited for; LOCKER_NEVER (waiters.c) */
    lk_table claims LK_GUARDED_BY(mutex);  /* claim.c */
    lk_list cleanups LK_GUARDED_BY(mutex); /* cleanup.c */
    lk_redis_notes notes;
    atomic_uint staying; /* once it is closed: what may use it still */
    lk_redis_recovery recovery;
} lk_redis;

/* A script's hash; "": it is not known. */
static inline const char *lk_redis_sha(const lk_redis *r, lk_redis_script which)
{
    return which < LK_REDIS_SCRIPTS_LOADED || atomic_load_explicit(&r->more, memory_order_acquire)
               ? r->sha[which]
               : "";
}

/* Who keeps the locks of a slot. */
static inline lk_redis_node *lk_redis_node_of(const lk_redis *r, uint16_t slot)
{
    return r->map == NULL ? r->nodes : LK_READ(r->map[slot]);
}

/* The same for a call, which ends when another may have them before it could be sent. */
static inline lk_redis_node *lk_redis_node_for(const lk_redis *r, uint16_t slot, lk_redis_call *call)
{
    call->map = r->map != NULL ? atomic_load_explicit(&r->shared.maps, memory_order_acquire) : 0;
    return lk_redis_node_of(r, slot);
}

/* The names of the keys of a lock in that slot. False: no memory. */
static inline bool lk_redis_keys_in(lk_redis *r, lk_redis_keys *keys, const char *key, size_t key_len,
                                    uint16_t slot)
{
    return lk_redis_keys_init(keys, &r->set.prefix, key, key_len, lk_redis_slot_tag(&r->slots, slot));
}

/* Those of a key, and of a claim that has a value. */
static inline bool lk_redis_keys_of(lk_redis *r, lk_redis_keys *keys, const char *key, size_t key_len)
{
    return lk_redis_keys_in(r, keys, key, key_len, lk_redis_slot_of(&r->slots, &r->set.prefix, key, key_len));
}

static inline bool lk_redis_keys_of_claim(lk_redis *r, lk_redis_keys *keys, const locker_claim *claim)
{
    return lk_redis_keys_in(r, keys, claim->key, claim->key_len, lk_redis_claim_of(claim)->slot);
}

/* Count up by `by`, and down by one. Two threads that count at once may lose a step, which does no harm to a hint. */
static inline void lk_redis_lately_raise(atomic_uint *lately, unsigned by)
{
    const unsigned value = LK_READ(*lately) + by;
    LK_WRITE(*lately, value < LK_REDIS_CONTENDED ? value : LK_REDIS_CONTENDED);
}

static inline void lk_redis_lately_lower(atomic_uint *lately)
{
    const unsigned value = LK_READ(*lately);
    if (value > 0)
        LK_WRITE(*lately, value - 1);
}

locker_status lk_redis_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_redis_interrupt(void *self, locker_claim *claim);
void lk_redis_withdraw(void *self, locker_claim *claim);
void lk_redis_begin_release(void *self, locker_claim *const *grants, size_t count);
locker_status lk_redis_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_redis_pass(void *self, locker_claim *from, locker_claim *to);
void lk_redis_renew(void *self, locker_claim *const *grants, size_t count);
/* All leases of which others know whose they are, at once, of a server that has all keys; the keeper pumps. */
void lk_redis_renew_noted_locked(lk_redis_node *node) LK_REDIS_LOCKED;
/* One lease, likewise. */
void lk_redis_renew_now_locked(lk_redis *r, locker_claim *grant) LK_REDIS_LOCKED;
/* Submit what waits; answers when it wants to be called again. The caller pumps. */
int64_t lk_redis_renewals_run_locked(lk_redis_node *node, int64_t now) LK_REDIS_LOCKED;
/* Of an instance that nothing else uses any more. */
void lk_redis_renewals_free(lk_redis_node *node) LK_UNCHECKED;
locker_status lk_redis_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                            locker_error *err);
locker_status lk_redis_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                             int64_t until, locker_info *broken, locker_error *err);
locker_status lk_redis_ping(void *self, int64_t until, locker_error *err);

/* What is told to an owner (net.h) that is an lk_redis_node. */
void lk_redis_on_up_locked(void *self, int64_t server_us, int64_t at) LK_REDIS_LOCKED;
void lk_redis_on_subscribed_locked(void *self, const uint32_t *slots) LK_REDIS_LOCKED;
void lk_redis_on_message_locked(void *self, const redisReply *text) LK_REDIS_LOCKED;
