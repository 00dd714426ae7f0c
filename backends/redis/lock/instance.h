/* instance.h: what an instance of the driver consists of, and what the files of this folder offer to each other. */
#pragma once

#include <lk_error.h>

#include "claim.h"
#include "keys.h"
#include "lk_atomic.h"
#include "net/command.h"
#include "net/net.h"
#include "net/pipeline.h"
#include "scripts.h"
#include "settings.h"

/* ------------------------------------------------------------------ fencing counters ---- */

/* What the numbers of grants are made from: a counter for each hash slot, which all locks of the slot share. So
 * however many keys are ever locked, there are no more than 16,384 counters, and none of them has to expire.
 *
 * A counter of numbers has to be above the server's time when the connection was made. One that is not may lack numbers
 * that were given out before: the server may have been restarted or made master since. It is lifted to that time, which
 * takes a script, once for each counter and connection. So it is remembered which were seen to be above it. That is a hint
 * and no more: a counter that was lost meanwhile answers with a number that is too low, and is lifted (acquire.c). */

#define LK_REDIS_FENCE_MOST (UINT64_C(1) << 53) /* numbers stay below it: Lua's doubles hold them exactly */

enum { LK_REDIS_FENCE_DIGITS = 16 /* of the numbers */ };

typedef struct {
    /* What a counter has to be above, for every script. Written before the connection's count is; relaxed: one that is read
     * while it changes is for a connection that is gone, and not sent. */
    atomic_uint_least64_t least;
    atomic_uint_least32_t lifted[LK_REDIS_SLOTS / 32]; /* a bit for each slot's; relaxed: hints */
} lk_redis_fences;

/* `server_us`: that time; 0: it is not known, and all are lifted. */
static inline uint64_t lk_redis_fence_least(int64_t server_us)
{
    return server_us > 0 ? (uint64_t)server_us : LK_REDIS_FENCE_MOST;
}

/* Scripts are told that time from now on, and no counter is known to be above it. */
void lk_redis_fences_set_least(lk_redis_fences *fences, int64_t server_us);

/* Put it as the text for scripts into `text`, and return that. */
const char *lk_redis_fence_least_text(const lk_redis_fences *fences, char text[LK_REDIS_FENCE_DIGITS + 1]);

/* Whether the slot's counter is likely to be above that time. */
static inline bool lk_redis_fence_is_lifted(const lk_redis_fences *fences, uint16_t slot)
{
    return (LK_READ(fences->lifted[slot / 32]) >> slot % 32 & 1) != 0;
}

/* It is. */
static inline void lk_redis_fence_seen(lk_redis_fences *fences, uint16_t slot)
{
    /* a write would take the line from other processors' caches */
    if (!lk_redis_fence_is_lifted(fences, slot))
        atomic_fetch_or_explicit(&fences->lifted[slot / 32], UINT32_C(1) << slot % 32, memory_order_relaxed);
}

/* ------------------------------------------------------------------ the server's clock ---- */

/* The server's clock. Its time is known from the handshake and asked for again now and then, along with other commands:
 * to ask for it alone would cost each grant a round trip.
 *
 * It is the clock by which leases end, and nobody says when it is set. But two answers prove what it has gained on ours: the server's
 * time between them, less ours from the sending of the first request to the receipt of the second answer. No delay of the network can
 * be the reason for more than that. */

/* One answer: the server's clock showed `us` at some moment from `sent` to `received`. */
typedef struct {
    unsigned number; /* of the request, from 1 on; 0: there is none */
    int64_t sent, received;
    int64_t us;
} lk_redis_time_sample;

/* What an answer proves beside the one before. */
typedef struct {
    /* the number of the request before: a lease that was confirmed before that was sent is concerned */
    unsigned before;
    int64_t span; /* from when that was sent to the receipt of the later one */
    /* the server's clock has gained so much on ours in that, beyond clock_drift; 0: none is proved */
    int64_t gain;
    int64_t loss; /* ... or is behind, likewise */
    /* so much of the gain is what it had lost before, but for leases confirmed since `lost` was sent */
    int64_t back;
    unsigned lost; /* the number of a request */
    int run;       /* what the answers before proved: lk_redis_server_time.run */
} lk_redis_time_proof;

typedef struct {
    lk_redis_shared *shared;
    int64_t drift;                 /* clock_drift, in percent; constant */
    atomic_int_least64_t ahead_us; /* the server's clock less ours; INT64_MIN: unknown; relaxed */
    atomic_int_least64_t allowed;  /* in percent: what leases allow for now, `drift` or more; relaxed */
    atomic_uint asks;              /* how often it was asked for; relaxed */
    bool asking;                   /* an answer is to come. Guarded by the mutex, as all below */
    int64_t sent;                  /* when it was asked for last; 0: never */
    unsigned era;                  /* of the server that `sample` is of */
    lk_redis_time_sample sample;   /* the one from which on is measured */
    int64_t behind;                /* what it lost, as was proved, and has not gained since */
    unsigned lost;                 /* the number of the request before that */
    int run;                       /* proofs in a row, 2 at most: of a gain, or, less than 0, of a loss */
} lk_redis_server_time;

void lk_redis_server_time_init(lk_redis_server_time *t, lk_redis_shared *shared, int64_t drift);
/* It was `us` at the local time `at`. */
void lk_redis_server_time_set_locked(lk_redis_server_time *t, int64_t us, int64_t at) LK_REDIS_LOCKED;
/* Take an answer, of the server of that era. Answer what it proves. */
lk_redis_time_proof lk_redis_server_time_learn_locked(lk_redis_server_time *t,
                                                      const lk_redis_time_sample *sample,
                                                      unsigned era) LK_REDIS_LOCKED;
/* What the server's clock shows at the local time `at`, in us: a little less rather than more. 0: unknown. */
uint64_t lk_redis_server_us(const lk_redis_server_time *t, int64_t at);
enum {
    LK_REDIS_HOPS_MAX = 5,      /* how often another master is looked for before giving up */
    LK_REDIS_PASS_RESERVE = 64, /* fencing numbers of a grant that may be handed over inside the process */
    LK_REDIS_CONTENDED = 16,    /* greatest value of the counters of recent contention */
    LK_REDIS_LIFE_MAX = 2 * LK_REDIS_SERVER_ID_LEN + 32,
    LK_REDIS_UNWRITTEN_MAX = 160
};

#define LK_REDIS_AGAIN_NS (100 * LK_MS) /* a server that can't serve now is asked again then */

/* The grants that are not noted yet, and when the keeper looks after them (notes.c). */
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

/* With the parameter `recovery` (recovery.c). */
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
    /* of a cluster: who has each slot (node.c); NULL: there is one server. Relaxed */
    _Atomic(lk_redis_node *) *map;
    const lk_redis_owner *owner; /* what its nodes' connections tell; constant */
    const char *const *script;   /* by lk_redis_script; constant */
    lk_redis_values values;
    char channel[LK_REDIS_CHANNEL_MAX]; /* constant, as the next */
    /* "" where the server would not tell. Read by lk_redis_sha() */
    char sha[LK_REDIS_SCRIPT_COUNT][LK_REDIS_HASH_LEN + 1];
    /* the hashes behind LK_REDIS_SCRIPTS_LOADED are known; release and acquire bring them along */
    atomic_bool more;
    bool more_asked LK_GUARDED_BY(mutex); /* ... are asked for */
    atomic_bool trusted; /* a release has been carried out, and nothing denied since; relaxed: a hint */
    /* Counters of recent contention, up to LK_REDIS_CONTENDED; relaxed: hints. */
    atomic_uint busy_lately; /* attempts were found busy */
    atomic_uint pass_lately; /* hand-overs in here were asked for */
    lk_redis_slots slots;
    /* when the keeper looks at what is waited for; LOCKER_NEVER (waiters.c) */
    int64_t look_at LK_GUARDED_BY(mutex);
    lk_table claims LK_GUARDED_BY(mutex);  /* claim.c */
    lk_list cleanups LK_GUARDED_BY(mutex); /* release.c */
    lk_redis_notes notes;
    atomic_uint staying; /* once it is closed: what may use it still */
    lk_redis_recovery recovery;
} lk_redis;

/* Have the keeper's next turn come at once. Another thread may be inside dispatch, and have looked already. */
static inline void lk_redis_attend(lk_redis *r)
{
    r->shared.svc->attend(r->shared.svc);
}

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

/* ------------------------------------------------------------------ scripts ---- */

/* True for an array of so many numbers. */
bool lk_redis_is_numbers(const redisReply *reply, size_t count);
/* Start a call with the lock, its queue and its counter, and a fourth key (NULL: none), by EVALSHA where the hash is known; the
 * mark of `recovery` stands behind them. */
void lk_redis_script_begin(const lk_redis *r, lk_redis_command *a, lk_redis_script which, lk_redis_keys *keys,
                           const char *fourth);
/* Have the server tell the hashes of those scripts that no handshake loads, once; until it has, they are sent whole. */
void lk_redis_scripts_want(lk_redis *r);
/* Make it one by EVAL, with the text. */
void lk_redis_script_spell_out(const lk_redis *r, lk_redis_command *a, lk_redis_script which);
/* As lk_redis_ask(), with what the script has to know of the counter (instance.h), and the server's life (recovery.c), at the end;
 * deals with NOSCRIPT. */
lk_redis_outcome lk_redis_ask_script(lk_redis_node *node, lk_redis_call *call, lk_redis_script which,
                                     lk_redis_command *a, locker_error *err);

/* ------------------------------------------------------------------ commands over many locks ---- */

/* Commands over the locks of many claims. Each has a key or two for a lock, so it is written straight into its bytes:
 * with many leases this is most of what keeping them costs. */

enum { LK_REDIS_BATCH_BYTES = 128 /* a command's own, without its script's text */ };

/* The most that a claim takes of one: its lock, a companion, its value and a number. */
static inline size_t lk_redis_batch_room(const lk_redis *r, const locker_claim *claim)
{
    const size_t lock_len = r->set.prefix.len + claim->key_len;
    return 2 * lock_len + LK_REDIS_COMPANION_MORE + LK_REDIS_VALUE_LEN +
           (size_t)4 * (LK_REDIS_NUMBER_MAX + 5);
}

/* The beginning of a script's command, as far as the number of its keys; `more`: the arguments behind the keys. */
char *lk_redis_batch_begin(char *out, const char *script, bool whole, size_t keys, size_t more);
/* A claim's lock, and that companion of it behind it, as arguments. */
char *lk_redis_batch_keys(lk_redis *r, const locker_claim *claim, lk_redis_companion which, char *out);

/* ------------------------------------------------------------------ servers ---- */

/* Room for the map of a cluster, all of whose slots are the first server's until more is known. False: no memory. */
bool lk_redis_nodes_init(lk_redis *r) LK_UNCHECKED;
/* One more; `peer`: its address; NULL: the configuration's. NULL: errno says why. */
lk_redis_node *lk_redis_node_new(lk_redis *r, const char *peer) LK_REDIS_LOCKED;

/* What is told to an owner (net.h) of a cluster's node, and asked of it. */
void lk_redis_on_map_locked(void *self, const lk_redis_map *map) LK_REDIS_LOCKED;
size_t lk_redis_peers_locked(void *self, char (*peer)[LK_REDIS_PEER_MAX], size_t max) LK_REDIS_LOCKED;
const char *lk_redis_channel_of(void *self, uint16_t slot, char *name);
uint16_t lk_redis_slot_of_channel(void *self, const char *channel, size_t len);

/* What a server answered about who has its locks is followed: another master, as it says or as is found out; or, of a cluster
 * that is down, who has which slots is asked for. What is none of these changes nothing. */
void lk_redis_heed_locked(lk_redis_node *node, uint16_t slot, const redisReply *reply) LK_REDIS_LOCKED;
void lk_redis_heed(lk_redis_node *node, uint16_t slot, const redisReply *reply);
/* The server of a cluster at an address that another named. NULL: it can't be made. */
lk_redis_node *lk_redis_node_at_locked(lk_redis *r, const char *peer) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ migrating slots ---- */

/* Renewal and release of an exclusive lock in a hash slot that migrates, key by key, from one server of a Cluster to
 * another. The servers refuse a command of several keys while the source has some and the target has others (TRYAGAIN, ASK).
 * A command of one key finds its key. If the source answers that the key has gone (ASK), the driver asks the target behind
 * ASKING. It never does so without that answer: the command could create a second key of the same name at the target.
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#ask-redirection
 *
 * A migration may take minutes, and leases do not last so long. So a holder's requests, each a script elsewhere, are sent as
 * one command for each key here. Attempts, queries and breaks are answered UNAVAILABLE until the slot has migrated. A release
 * hands the lock to no waiter and notifies none: the waiters try again when they are subscribed at the target. */

/* As lk_redis_ask(), for one command of one key in that slot. ANSWERED also if the redirections do not end. */
lk_redis_outcome lk_redis_migrating_ask(lk_redis *r, uint16_t slot, lk_redis_call *call,
                                        const lk_redis_command *a, locker_error *err);

/* Send the command without waiting. `done` (NULL: none) is called with the answer (NULL: there is none; also from inside this call)
 * and with the connection on which it came. */
typedef void (*lk_redis_migrating_done)(void *context, redisReply *reply, lk_redis_pipeline *on);
void lk_redis_migrating_submit_locked(lk_redis *r, uint16_t slot, const lk_redis_command *a,
                                      lk_redis_migrating_done done, void *context) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ a clock that gains ---- */

/* The local deadline of a lease that this server has, whose request was sent then (Redlock's allowance for clock drift:
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks/). */
static inline int64_t lk_redis_valid_until(const lk_redis_node *node, int64_t sent, int64_t ttl_ns)
{
    return sent + ttl_ns - ttl_ns / 100 * LK_READ(node->time.allowed) - 2 * LK_MS;
}

/* The server has just confirmed the lease. */
static inline void lk_redis_clock_note(const lk_redis_node *node, lk_redis_claim *data)
{
    data->allowed = (uint8_t)LK_READ(node->time.allowed);
    data->asks = LK_READ(node->time.asks);
}

/* Doubt a grant that is only now among the claims, if a server's clock was seen to leap since it was asked for. */
void lk_redis_clock_look_back_locked(lk_redis *r, lk_redis_claim *data) LK_REDIS_LOCKED;

/* Ask for the server's time, if it was not lately, behind other commands on the same connection. */
void lk_redis_clock_ask_locked(lk_redis_node *node, lk_redis_pipeline *on, int64_t now) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ notes ---- */

/* What is told of a grant: "value since_ms token instance owner"; answers `info`. */
enum { LK_REDIS_INFO_MAX = 2 * LK_REDIS_VALUE_LEN + LOCKER_OWNER_MAX + 64 };
const char *lk_redis_info_text(lk_redis *r, const lk_redis_claim *data, char info[LK_REDIS_INFO_MAX]);
/* A claim was granted; data->since is set. With the mutex or without. */
void lk_redis_note_grant(lk_redis *r, lk_redis_claim *data);
/* The server knows whose grant it is, or is about to: messages of a break find it. `now`: subscribe before the keeper's next turn. */
void lk_redis_noted_locked(lk_redis *r, lk_redis_claim *data, bool now) LK_REDIS_LOCKED;
/* It is gone: no note is sent for it any more. */
void lk_redis_note_forget_locked(lk_redis *r, lk_redis_claim *data) LK_REDIS_LOCKED;
/* Submit what is due; answers when it wants to be called again. The caller pumps. */
int64_t lk_redis_notes_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;
/* Submit all that is there. The caller pumps. */
void lk_redis_notes_flush_locked(lk_redis *r) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ cleanup ---- */

/* What is given back: a lock; one whose info the server was told, which goes too; a place among those who share it. */
typedef enum { LK_REDIS_UNNOTED, LK_REDIS_NOTED, LK_REDIS_SHARING } lk_redis_given_back;

/* The lock that has that value, and the place in the queue of `queued` (NULL: none), are wanted by
 * nobody here any more. Takes the keys over, also when memory runs out. The caller pumps. */
void lk_redis_cleanup_start_locked(lk_redis *r, lk_redis_keys *keys, uint16_t slot, uint64_t value,
                                   lk_redis_given_back what, const locker_claim *queued) LK_REDIS_LOCKED;
/* Send what is due; answers when there is more to do. */
int64_t lk_redis_cleanups_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;
/* Of an instance that nothing else uses any more. */
void lk_redis_cleanups_free(lk_redis *r) LK_UNCHECKED;

/* ------------------------------------------------------------------ waiters ---- */

/* Looking after those that wait: whether their locks have become free without a message. */

/* How it stands with a lock that a claim waits for. */
typedef struct {
    int64_t left_ms; /* the holder's lease; below 0: it has no end */
    int64_t rank;    /* so many stand before the claim in the queue */
    int64_t count;   /* so many stand there */
} lk_redis_standing;

/* For how long a queue is kept since the latest look of one of its first. */
static inline int64_t lk_redis_queue_ns(const lk_redis *r)
{
    return lk_time_later(3 * r->set.poll_ns, 60 * LK_S);
}

/* How long until who stands so looks again. */
int64_t lk_redis_wait_locked(lk_redis *r, const lk_redis_claim *data,
                             const lk_redis_standing *standing) LK_REDIS_LOCKED;
/* Have the keeper look at the lock of a claim that stands in the queue, and in the table, until its next attempt. Answers when
 * that is due, whatever was lost. */
int64_t lk_redis_look_after_locked(lk_redis *r, lk_redis_claim *data,
                                   const lk_redis_standing *standing) LK_REDIS_LOCKED;
/* It has come to stand among the first; `at_once`: another doubts whether it lives. */
void lk_redis_look_soon_locked(lk_redis *r, lk_redis_claim *data, bool at_once) LK_REDIS_LOCKED;
/* Submit what is due; answers when it wants to be called again. The caller pumps. */
int64_t lk_redis_looks_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ recovery ---- */

/* Keeping locks over a loss of the server's data: a restart without them, a failover to a replica that lacks the
 * last, FLUSHALL. On by the parameter `recovery`, a time that is not shorter than any lease and the same for all clients.
 *
 * Beside the locks stands a mark, `namespace:locker:recovery`, of the life of the server that its data are known to be of: its
 * run and replication ids, as the handshake of a connection learned them. Each script is told the life that its connection is to,
 * and does nothing unless the mark names it. Whoever connects, and finds none or another's, writes it, together with the time at
 * which `recovery` will be over: until then nothing is granted, and the holders, whose leases can't last for longer, set
 * their locks again by their renewals (lua/recovery.lua). That is enough: a holder whose deadline lies ahead held the lock when the
 * data were lost, because no other client was granted it before that deadline. The holder renews before the deadline, or is LOST, and
 * the deadline is at most `recovery` after the loss. */

/* Fill in what the instance needs of it; before it connects. False: no memory. */
bool lk_redis_recovery_init(lk_redis *r);
void lk_redis_recovery_clear(lk_redis *r);

/* A command connection is up: the server's life is made known there ahead of all other commands. */
void lk_redis_recovery_meet_locked(lk_redis *r) LK_REDIS_LOCKED;
/* The same for open, which says what is wrong. */
locker_status lk_redis_recovery_check(lk_redis *r, locker_error *err);

/* Whether the reply says that the mark is not there, where the server was asked to write it and could not: another connection would
 * not help, so it is asked again on this one, now and then. */
bool lk_redis_recovery_is_unwritten_locked(lk_redis *r, const redisReply *reply) LK_REDIS_LOCKED;

/* OK, or CONFIG: a lease so long would outlast it. */
locker_status lk_redis_recovery_check_ttl(const lk_redis *r, int64_t ttl_ns, locker_error *err);

/* Return OK, or an error if the reply says that nothing is granted yet, that the mark is missing and cannot be written, or that other
 * clients have another `recovery`. *left_ms (NULL: ignored): when to ask again; 0: it does not pass. Without the mutex. */
locker_status lk_redis_recovery_refuses(lk_redis *r, const redisReply *reply, int64_t *left_ms,
                                        locker_error *err);

/* ------------------------------------------------------------------ renewals with recovery ---- */

/* Return the most bytes that a claim takes of the command. */
size_t lk_redis_recovery_room(const lk_redis *r, const locker_claim *claim);
/* Put the command that extends these leases, and sets the locks again where the server lost them. Return its end. */
char *lk_redis_recovery_put_locked(lk_redis *r, const lk_redis_renewed *slots, size_t count,
                                   const char *script, bool whole, char *out) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ foreign data ---- */

/* What may be at a lock's key that liblocker did not write: another client's lock, or an application's data. */

/* True if data of this type (as TYPE names it) are never a lock. A string is one, a hash may be Redisson's, and `none` and "" (the
 * user may not run TYPE) say nothing. */
bool lk_redis_is_data(const char *type);
/* Return CONFIG: `lock`, the name of a lock's key, holds data of that type. */
locker_status lk_redis_refuse_data(const char *type, const char *lock, locker_error *err);
/* Return BUSY with a text that says that `lock` holds a hash. */
locker_status lk_redis_hash_is_busy(const char *lock, locker_error *err);

/* True if liblocker may have written this value of a lock's key, whose lease lasts `left_ms` (below 0: for ever). */
bool lk_redis_value_is_ours(const char *value, int64_t left_ms);
/* Check whether what is at `lock` may be deleted: OK, or an error.
 * CONFIG: it is not known to be a lock, and `only` does not say force.
 * DENIED: it is no string, and the user may not run TYPE, so it may be an application's data.
 * `type`: of what is no string; NULL: it is the string `value`. */
locker_status lk_redis_check_force(const char *type, const char *value, int64_t left_ms,
                                   const locker_break_options *only, const char *lock, locker_error *err);
