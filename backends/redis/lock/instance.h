/* instance.h: an instance of the driver, and the functions that the files of this folder share. */
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

/* Fencing counters. Each hash slot has one counter, from which the grants of all locks of the slot get
 * their fencing numbers. So there are at most 16,384 counters, however many keys are ever locked, and no
 * counter needs to expire.
 *
 * A fencing number must be above the floor: the server's time (in us) at which the connection was made. A
 * counter below the floor may lack numbers that were given out earlier, because the server may have been
 * restarted or promoted since. A script then raises the counter to the present time. This is needed once
 * for each counter and connection, so the instance remembers which counters it has seen above the floor.
 * That memory is only a hint. A counter that was lost meanwhile answers with a number that is too low, and
 * the script raises it again (acquire.c). */

#define LK_REDIS_FENCE_MOST (UINT64_C(1) << 53) /* limit of fencing numbers: Lua's doubles are exact */

enum { LK_REDIS_FENCE_DIGITS = 16 /* decimal digits of a fencing number */ };

typedef struct {
    /* The floor that is passed to each script, in us. It is written before the connection's counter.
     * Relaxed: a call that reads a changing value belongs to a closed connection, and is not sent. */
    atomic_uint_least64_t least;
    /* one bit for each slot: its counter was seen above the floor; relaxed: hints */
    atomic_uint_least32_t lifted[LK_REDIS_SLOTS / 32];
} lk_redis_fences;

/* Return the floor. server_us: the server's time when the connection was made; 0: unknown, so that every
 * counter gets raised. */
static inline uint64_t lk_redis_fence_least(int64_t server_us)
{
    return server_us > 0 ? (uint64_t)server_us : LK_REDIS_FENCE_MOST;
}

/* Set the floor that scripts get from now on, and forget which counters are above it. */
void lk_redis_fences_set_least(lk_redis_fences *fences, int64_t server_us);

/* Write the floor as decimal text into `text`, and return `text`. */
const char *lk_redis_fence_least_text(const lk_redis_fences *fences, char text[LK_REDIS_FENCE_DIGITS + 1]);

/* Return true if the slot's counter is probably above the floor. */
static inline bool lk_redis_fence_is_lifted(const lk_redis_fences *fences, uint16_t slot)
{
    return (LK_READ(fences->lifted[slot / 32]) >> slot % 32 & 1) != 0;
}

/* Remember that the slot's counter is above the floor. */
static inline void lk_redis_fence_seen(lk_redis_fences *fences, uint16_t slot)
{
    /* check first: a write would evict the cache line from other processors */
    if (!lk_redis_fence_is_lifted(fences, slot))
        atomic_fetch_or_explicit(&fences->lifted[slot / 32], UINT32_C(1) << slot % 32, memory_order_relaxed);
}

/* ------------------------------------------------------------------ the server's clock ---- */

/* The server's clock. The handshake reads it, and the driver asks for the time (TIME) again now and then.
 * TIME is sent along with other commands, because a separate request would cost each grant a round trip.
 *
 * Leases end by this clock, and no message says when an operator sets it. But two answers to TIME prove
 * how much the server's clock has gained on ours. The gain is the server's time between the two answers,
 * less our own time from sending the first request to receiving the second answer. A network delay can
 * only make this difference smaller, so any gain beyond zero is real. */

/* An answer to TIME: the server's clock showed `us` at some moment from `sent` to `received` (our clock,
 * in ns). */
typedef struct {
    unsigned number; /* the request's number, from 1; 0: no sample */
    int64_t sent, received;
    int64_t us;
} lk_redis_time_sample;

/* The facts that an answer to TIME proves, compared with the previous answer. Times are in ns. */
typedef struct {
    /* the previous request's number; leases that were confirmed before it was sent are affected */
    unsigned before;
    int64_t span; /* from sending the previous request to receiving the later answer */
    /* the server's clock gained at least this much on ours during `span`, beyond clock_drift; 0: no proof
     * of a gain */
    int64_t gain;
    int64_t loss; /* the server's clock lost at least this much; 0: no proof of a loss */
    /* the part of `gain` that only makes up for an earlier loss; it counts in full for leases confirmed
     * since request `lost` */
    int64_t back;
    unsigned lost; /* number of the request before that earlier loss */
    int run;       /* lk_redis_server_time.run before this answer */
} lk_redis_time_proof;

typedef struct {
    lk_redis_shared *shared;
    int64_t drift;                 /* the parameter clock_drift, in percent; constant */
    atomic_int_least64_t ahead_us; /* the server's clock minus ours, in us; INT64_MIN: unknown; relaxed */
    atomic_int_least64_t allowed;  /* percent of a lease now reserved for drift; relaxed */
    atomic_uint asks;              /* how many TIME requests were sent; relaxed */
    bool asking;  /* True if a TIME request is in flight. The mutex guards this member and all below. */
    int64_t sent; /* when the last TIME request was sent; 0: never */
    unsigned era; /* the era of the server that gave `sample` */
    lk_redis_time_sample sample; /* the answer with which the next answer is compared */
    int64_t behind;              /* the proven loss that the clock has not made up since, in ns */
    unsigned lost;               /* number of the request before that loss */
    int run;                     /* consecutive proofs, up to 2: above 0 of gains, below 0 of losses */
} lk_redis_server_time;

void lk_redis_server_time_init(lk_redis_server_time *t, lk_redis_shared *shared, int64_t drift);
/* Record that the server's clock showed `us` at the local time `at`. */
void lk_redis_server_time_set_locked(lk_redis_server_time *t, int64_t us, int64_t at) LK_REDIS_LOCKED;
/* Record an answer to TIME from the server with this era. Return what the answer proves. */
lk_redis_time_proof lk_redis_server_time_learn_locked(lk_redis_server_time *t,
                                                      const lk_redis_time_sample *sample,
                                                      unsigned era) LK_REDIS_LOCKED;
/* Return the time of the server's clock at the local time `at`, in us; rather too early than too late. 0:
 * unknown. */
uint64_t lk_redis_server_us(const lk_redis_server_time *t, int64_t at);
enum {
    LK_REDIS_HOPS_MAX = 5, /* how many redirections a command follows */
    /* fencing numbers that a grant reserves for hand-overs inside the process */
    LK_REDIS_PASS_RESERVE = 64,
    LK_REDIS_CONTENDED = 16, /* upper limit of the counters of recent contention */
    LK_REDIS_LIFE_MAX = 2 * LK_REDIS_SERVER_ID_LEN + 32,
    LK_REDIS_UNWRITTEN_MAX = 160
};

#define LK_REDIS_AGAIN_NS (100 * LK_MS) /* delay before a retry at a server that cannot serve now */

/* Grants without a written info, and when the keeper next checks them (notes.c). */
typedef struct {
    _Atomic(lk_list *) pushed; /* new grants: pushed without the mutex, taken all at once with it */
    atomic_bool ticking; /* True if dispatch checks the grants anyway, so that a push needs no attend. */
    /* grants taken from `pushed`; guarded by the mutex, as all below */
    lk_list grants LK_GUARDED_BY(mutex);
    bool active LK_GUARDED_BY(mutex);     /* True if a grant was pushed since the last check. */
    int64_t look_at LK_GUARDED_BY(mutex); /* when the keeper checks next; 0: not set yet */
} lk_redis_notes;

/* Renewals (renew.c) that are not sent yet, and how many leases are in flight on each connection. Guarded
 * by the mutex. */
typedef struct {
    lk_list waiting;
    /* leases in flight on the command connection, and on the connection for renewals */
    size_t under_way[2];
    /* when the next renewal may be sent although a server's usual number of leases is in flight */
    int64_t next_at;
} lk_redis_renewals;

/* State of the parameter `recovery` (recovery.c). */
typedef struct {
    char *mark; /* the name of the mark's key; NULL: no recovery; constant */
    /* "recovery_ms run replication ": the server's life, as the command connection's handshake read it. */
    char life[LK_REDIS_LIFE_MAX] LK_GUARDED_BY(mutex);
    /* The server's latest error on this connection when it should write the mark. "": no error yet. After
     * an error the driver tries to write the mark again. */
    char unwritten[LK_REDIS_UNWRITTEN_MAX] LK_GUARDED_BY(mutex);
    int64_t meet_at LK_GUARDED_BY(mutex);
} lk_redis_recovery;

/* A server that keeps locks: the only one, or one master of a cluster. It lasts as long as the instance. */
typedef struct lk_redis_node {
    struct lk_redis *r;
    struct lk_redis_node *next; /* nodes in the order in which they were found; constant once set */
    lk_redis_net *net;
    lk_redis_pipeline *commands; /* the command connection */
    /* The connection for renewals. It is up if renewals wait for replicas, or if the command connection is
     * silent. */
    lk_redis_pipeline *renewing;
    lk_redis_server_time time;
    lk_redis_fences fences;
    lk_redis_renewals renewals;
    unsigned slots LK_GUARDED_BY(mutex); /* in a cluster: how many slots the server has */
    bool is_named LK_GUARDED_BY(mutex);  /* True while a new map is read which gives slots to this server. */
} lk_redis_node;

typedef struct lk_redis {
    lk_redis_shared shared; /* its mutex guards every member without another note */
    lk_redis_settings set;
    lk_redis_node *nodes; /* at least one; the first is constant, and the mutex guards the list behind it */
    /* in a cluster: the node of each slot (node.c); NULL: there is one server. Relaxed */
    _Atomic(lk_redis_node *) *map;
    const lk_redis_owner *owner; /* callbacks of the nodes' connections; constant */
    const char *const *script;   /* the scripts' texts, by lk_redis_script; constant */
    lk_redis_values values;
    char channel[LK_REDIS_CHANNEL_MAX]; /* the instance's channel; constant, as `sha` is */
    /* the scripts' hashes; "": the server did not return one. Read them with lk_redis_sha(). */
    char sha[LK_REDIS_SCRIPT_COUNT][LK_REDIS_HASH_LEN + 1];
    /* True if the hashes behind LK_REDIS_SCRIPTS_LOADED are known. Release/acquire publishes the hashes
     * too. */
    atomic_bool more;
    bool more_asked LK_GUARDED_BY(mutex); /* True if a request for these hashes was sent. */
    /* True if a release's script has run, and the server has refused no later release. Relaxed: a hint */
    atomic_bool trusted;
    /* Counters of recent contention, up to LK_REDIS_CONTENDED; relaxed: hints. */
    atomic_uint busy_lately; /* BUSY attempts */
    atomic_uint pass_lately; /* requests to hand a lock over inside the process */
    lk_redis_slots slots;
    /* when the keeper next polls for waiters; LOCKER_NEVER: no poll is due (waiters.c) */
    int64_t look_at LK_GUARDED_BY(mutex);
    lk_table claims LK_GUARDED_BY(mutex);  /* claim.c */
    lk_list cleanups LK_GUARDED_BY(mutex); /* release.c */
    lk_redis_notes notes;
    atomic_uint staying; /* after close: number of users that may still use the instance */
    lk_redis_recovery recovery;
} lk_redis;

/* Make the keeper call dispatch at once. This is needed even while another thread runs dispatch, because
 * that thread may have checked for work already. */
static inline void lk_redis_attend(lk_redis *r)
{
    r->shared.svc->attend(r->shared.svc);
}

/* Return a script's hash; "": unknown. */
static inline const char *lk_redis_sha(const lk_redis *r, lk_redis_script which)
{
    return which < LK_REDIS_SCRIPTS_LOADED || atomic_load_explicit(&r->more, memory_order_acquire)
               ? r->sha[which]
               : "";
}

/* Return the server that has the slot. */
static inline lk_redis_node *lk_redis_node_of(const lk_redis *r, uint16_t slot)
{
    return r->map == NULL ? r->nodes : LK_READ(r->map[slot]);
}

/* Return the server that has the slot, for a call. The call ends as REMAPPED if the map of slots changes
 * before it is sent. */
static inline lk_redis_node *lk_redis_node_for(const lk_redis *r, uint16_t slot, lk_redis_call *call)
{
    call->map = r->map != NULL ? atomic_load_explicit(&r->shared.maps, memory_order_acquire) : 0;
    return lk_redis_node_of(r, slot);
}

/* Make the names of the keys of a lock in this slot. Return false if memory ran out. */
static inline bool lk_redis_keys_in(lk_redis *r, lk_redis_keys *keys, const char *key, size_t key_len,
                                    uint16_t slot)
{
    return lk_redis_keys_init(keys, &r->set.prefix, key, key_len, lk_redis_slot_tag(&r->slots, slot));
}

static inline bool lk_redis_keys_of_claim(lk_redis *r, lk_redis_keys *keys, const locker_claim *claim)
{
    return lk_redis_keys_in(r, keys, claim->key, claim->key_len, lk_redis_claim_of(claim)->slot);
}

/* Raise a counter of recent contention by `by`, up to LK_REDIS_CONTENDED; the other function lowers it by
 * 1. Two threads that count at once may lose a step, which does no harm to a hint. */
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
/* Renew, at once, the leases of all noted grants, at a server that has all keys. The keeper pumps. */
void lk_redis_renew_noted_locked(lk_redis_node *node) LK_REDIS_LOCKED;
/* Renew one lease at once. The keeper pumps. */
void lk_redis_renew_now_locked(lk_redis *r, locker_claim *grant) LK_REDIS_LOCKED;
/* Submit the renewals that wait, as far as the server has room. Return when to call again. The caller
 * pumps. */
int64_t lk_redis_renewals_run_locked(lk_redis_node *node, int64_t now) LK_REDIS_LOCKED;
/* Free the renewals that wait. The instance must have no other user. */
void lk_redis_renewals_free(lk_redis_node *node) LK_UNCHECKED;
locker_status lk_redis_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                            locker_error *err);
locker_status lk_redis_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                             int64_t until, locker_info *broken, locker_error *err);
locker_status lk_redis_ping(void *self, int64_t until, locker_error *err);

/* Callbacks of a connection's owner (net.h), which is an lk_redis_node. */
void lk_redis_on_up_locked(void *self, int64_t server_us, int64_t at) LK_REDIS_LOCKED;
void lk_redis_on_subscribed_locked(void *self, const uint32_t *slots) LK_REDIS_LOCKED;
void lk_redis_on_message_locked(void *self, const redisReply *text) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ scripts ---- */

/* Return true if the reply is an array of `count` integers. */
bool lk_redis_is_numbers(const redisReply *reply, size_t count);
/* Begin a script's command with the keys: the lock, its queue, the counter, a fourth key (NULL: none), and
 * with `recovery` the mark. Use EVALSHA if the hash is known, else EVAL. */
void lk_redis_script_begin(const lk_redis *r, lk_redis_command *a, lk_redis_script which, lk_redis_keys *keys,
                           const char *fourth);
/* Ask the server once for the hashes of the scripts that no handshake loads. Until the answer, these
 * scripts are sent as texts. */
void lk_redis_scripts_want(lk_redis *r);
/* Turn the command into an EVAL with the script's text. */
void lk_redis_script_spell_out(const lk_redis *r, lk_redis_command *a, lk_redis_script which);
/* Run a script and wait for its answer, like lk_redis_ask(). Adds the last arguments: the counter's floor
 * and, with `recovery`, the server's life. Sends the text if the server does not know the script
 * (NOSCRIPT). */
lk_redis_outcome lk_redis_ask_script(lk_redis_node *node, lk_redis_call *call, lk_redis_script which,
                                     lk_redis_command *a, locker_error *err);

/* ------------------------------------------------------------------ commands over many locks ---- */

/* Commands over the locks of many claims. Each command has one or two keys for each lock. Its bytes are
 * written directly into the output buffer, because with many leases this work is most of the cost of
 * renewing them. */

/* bytes of a command without its script's text and without its claims */
enum { LK_REDIS_BATCH_BYTES = 128 };

/* Return the most bytes that a claim adds to a command: its lock, a companion key, its value and a number. */
static inline size_t lk_redis_batch_room(const lk_redis *r, const locker_claim *claim)
{
    const size_t lock_len = r->set.prefix.len + claim->key_len;
    return 2 * lock_len + LK_REDIS_COMPANION_MORE + LK_REDIS_VALUE_LEN +
           (size_t)4 * (LK_REDIS_NUMBER_MAX + 5);
}

/* Write the beginning of a script's command, up to the number of its keys. `whole`: the script's text, not
 * its hash. `more`: number of arguments behind the keys. Return the end. */
char *lk_redis_batch_begin(char *out, const char *script, bool whole, size_t keys, size_t more);
/* Write the names of a claim's lock and of one companion key as arguments. Return the end. */
char *lk_redis_batch_keys(lk_redis *r, const locker_claim *claim, lk_redis_companion which, char *out);

/* ------------------------------------------------------------------ servers ---- */

/* In a cluster, create the map of slots; at first, all slots belong to the first server. Return false if
 * memory ran out. */
bool lk_redis_nodes_init(lk_redis *r) LK_UNCHECKED;
/* Create a node and append it to the list. `peer`: its address; NULL: the configuration's. Return NULL on
 * failure, with errno set. */
lk_redis_node *lk_redis_node_new(lk_redis *r, const char *peer) LK_REDIS_LOCKED;

/* Callbacks of a connection's owner (net.h) in a cluster. */
void lk_redis_on_map_locked(void *self, const lk_redis_map *map) LK_REDIS_LOCKED;
size_t lk_redis_peers_locked(void *self, char (*peer)[LK_REDIS_PEER_MAX], size_t max) LK_REDIS_LOCKED;
const char *lk_redis_channel_of(void *self, uint16_t slot, char *name);
uint16_t lk_redis_slot_of_channel(void *self, const char *channel, size_t len);

/* Follow a reply that says which server has the slot: look for the new master, or move the slot to another
 * server. If the cluster is down, ask for the map of slots. All other replies are ignored. */
void lk_redis_heed_locked(lk_redis_node *node, uint16_t slot, const redisReply *reply) LK_REDIS_LOCKED;
void lk_redis_heed(lk_redis_node *node, uint16_t slot, const redisReply *reply);
/* Return the cluster's node for an address that a server named; create it if needed. NULL: it cannot be
 * created. */
lk_redis_node *lk_redis_node_at_locked(lk_redis *r, const char *peer) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ migrating slots ---- */

/* Renew and release an exclusive lock while its hash slot is being migrated from one server of a Cluster
 * to another. The slot's keys move one by one. The servers refuse a command of several keys while the
 * source has some of them and the target has others (TRYAGAIN, ASK). A command of one key works. If the
 * source answers ASK, the key is at the target, and the driver sends ASKING and the command to the target.
 * The driver never does so without this answer, because the command could create a second key of the same
 * name at the target.
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#ask-redirection
 *
 * A migration may take minutes, which is longer than a lease. So a holder's renewal or release, elsewhere
 * one script, is here a command for each key. Attempts, queries and breaks are answered UNAVAILABLE until
 * the migration is over. A release hands the lock to no waiter, but
 * notifies the first waiter to make another attempt. */

/* Send a command of one key of this slot, follow its redirections, and wait for the answer, like
 * lk_redis_ask(). The outcome is ANSWERED also if the redirections do not end. */
lk_redis_outcome lk_redis_migrating_ask(lk_redis *r, uint16_t slot, lk_redis_call *call,
                                        const lk_redis_command *a, locker_error *err);

/* Send the command without waiting for the answer. `done` (NULL: none) gets the answer, and the connection
 * on which it came. The answer is NULL if none came. `done` may be called before this function returns. */
typedef void (*lk_redis_migrating_done)(void *context, redisReply *reply, lk_redis_pipeline *on);
void lk_redis_migrating_submit_locked(lk_redis *r, uint16_t slot, const lk_redis_command *a,
                                      lk_redis_migrating_done done, void *context) LK_REDIS_LOCKED;
/* The lock was released: notify the first waiter of its queue to try. If that waiter has ended, the next waiter's poll finds the
 * lock free. */
void lk_redis_migrating_call_first_locked(lk_redis *r, uint16_t slot, lk_redis_keys *keys) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ a clock that gains ---- */

/* Return the local deadline of a lease at this server. `sent`: when its request was sent. The deadline
 * allows for clock drift as Redlock does:
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ */
static inline int64_t lk_redis_valid_until(const lk_redis_node *node, int64_t sent, int64_t ttl_ns)
{
    return sent + ttl_ns - ttl_ns / 100 * LK_READ(node->time.allowed) - 2 * LK_MS;
}

/* Record, for a lease that the server has just confirmed, the drift that its deadline allows for and the
 * latest TIME request. */
static inline void lk_redis_clock_note(const lk_redis_node *node, lk_redis_claim *data)
{
    data->allowed = (uint8_t)LK_READ(node->time.allowed);
    data->asks = LK_READ(node->time.asks);
}

/* Have core renew a grant at once if a server's clock was seen to leap after the grant was requested. Call
 * this for a grant that has just entered the table. */
void lk_redis_clock_look_back_locked(lk_redis *r, lk_redis_claim *data) LK_REDIS_LOCKED;

/* Ask for the server's time behind other commands on the same connection, at most once a second. */
void lk_redis_clock_ask_locked(lk_redis_node *node, lk_redis_pipeline *on, int64_t now) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ notes ---- */

/* The info of a grant: "value since_ms token instance owner". lk_redis_info_text() returns `info`. */
enum { LK_REDIS_INFO_MAX = 2 * LK_REDIS_VALUE_LEN + LOCKER_OWNER_MAX + 64 };
const char *lk_redis_info_text(lk_redis *r, const lk_redis_claim *data, char info[LK_REDIS_INFO_MAX]);
/* Add a grant to the list of grants to note. data->since must be set before. Works with or without the
 * mutex. */
void lk_redis_note_grant(lk_redis *r, lk_redis_claim *data);
/* Mark a grant as noted: the server has its info, or gets it next. Enter the claim in the table, so that a
 * break's message finds it, and subscribe. `now`: subscribe before the keeper's next turn. */
void lk_redis_noted_locked(lk_redis *r, lk_redis_claim *data, bool now) LK_REDIS_LOCKED;
/* Remove an ended grant from the list: its info is not written any more. */
void lk_redis_note_forget_locked(lk_redis *r, lk_redis_claim *data) LK_REDIS_LOCKED;
/* Submit the notes that are due. Return when to call again. The caller pumps. */
int64_t lk_redis_notes_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;
/* Submit all notes, due or not. The caller pumps. */
void lk_redis_notes_flush_locked(lk_redis *r) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ cleanup ---- */

/* The kind of a release: a lock without an info; a lock with an info, which is deleted too; a place in the
 * set of a shared lock or of permits. */
typedef enum { LK_REDIS_UNNOTED, LK_REDIS_NOTED, LK_REDIS_SHARING } lk_redis_given_back;

/* Release a lock with this value in the background, and remove the queue entry of `queued` (NULL: none).
 * Takes over the keys, also if memory runs out. The caller pumps. */
void lk_redis_cleanup_start_locked(lk_redis *r, lk_redis_keys *keys, uint16_t slot, uint64_t value,
                                   lk_redis_given_back what, const locker_claim *queued) LK_REDIS_LOCKED;
/* Send the releases that are due. Return when to call again. */
int64_t lk_redis_cleanups_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;
/* Free the releases. The instance must have no other user. */
void lk_redis_cleanups_free(lk_redis *r) LK_UNCHECKED;

/* ------------------------------------------------------------------ waiters ---- */

/* Polling for waiters: the keeper asks whether a waiter's lock has become free without a message. */

/* The state of a lock for which a claim waits. */
typedef struct {
    int64_t left_ms; /* rest of the holder's lease, in ms; below 0: it never ends */
    int64_t rank;    /* number of entries before the claim's in the queue; below 0: the claim has no entry */
    int64_t count;   /* number of entries in the queue */
} lk_redis_standing;

/* Return how long the server keeps a queue after the latest poll of one of its waiters, in ns. */
static inline int64_t lk_redis_queue_ns(const lk_redis *r)
{
    return lk_time_later(3 * r->set.poll_ns, 60 * LK_S);
}

/* Return how long a waiter with this standing waits until its next poll, in ns. */
int64_t lk_redis_wait_locked(lk_redis *r, const lk_redis_claim *data,
                             const lk_redis_standing *standing) LK_REDIS_LOCKED;
/* Let the keeper poll for a claim that is in the queue and in the table, until the claim's next attempt.
 * Return when that attempt is due, even if all messages are lost. */
int64_t lk_redis_look_after_locked(lk_redis *r, lk_redis_claim *data,
                                   const lk_redis_standing *standing) LK_REDIS_LOCKED;
/* Poll for a claim earlier: it is now near the head of the queue. `at_once`: poll now, because another
 * client doubts that the claim is alive. */
void lk_redis_look_soon_locked(lk_redis *r, lk_redis_claim *data, bool at_once) LK_REDIS_LOCKED;
/* Submit the polls that are due. Return when to call again. The caller pumps. */
int64_t lk_redis_looks_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ recovery ---- */

/* Recovery keeps locks over a loss of the server's data. Data are lost by a restart without them, by
 * FLUSHALL, or by a failover to a replica that lacks the latest writes. The parameter `recovery` turns
 * this on. It is a time, at least as long as every lease, and must be the same for all clients.
 *
 * Beside the locks stands a mark, the key `namespace:locker:recovery`. The mark names the server that the
 * data belong to, by its life: its run id and replication id, which the handshake of each connection
 * reads. Each script gets the life of the server that its connection leads to, and does nothing unless the
 * mark names this life. A client that connects, and finds no mark or another life in it, writes a new
 * mark. The mark also has the time at which the recovery period ends. Until then no lock is granted, and
 * the holders set their locks again by their renewals (lua/recovery.lua).
 *
 * Why this is enough: a holder whose deadline is in the future held the lock when the data were lost,
 * because no other client was granted the lock before that deadline. The holder renews before the
 * deadline, or is LOST. The deadline is at most `recovery` after the loss. */

/* Make the name of the mark, before the instance connects. Return false if memory ran out. */
bool lk_redis_recovery_init(lk_redis *r);
void lk_redis_recovery_clear(lk_redis *r);

/* On a new command connection, send the server's life ahead of all other commands, so that the server can
 * check the mark. */
void lk_redis_recovery_meet_locked(lk_redis *r) LK_REDIS_LOCKED;
/* Check the mark and wait for the answer, when a locker is opened. Return OK or the error. */
locker_status lk_redis_recovery_check(lk_redis *r, locker_error *err);

/* Return true if the reply says that the mark is missing, after the server could not write it. Another
 * connection would not help. So this function asks the server on this connection to write the mark, at
 * most every 100 ms. */
bool lk_redis_recovery_is_unwritten_locked(lk_redis *r, const redisReply *reply) LK_REDIS_LOCKED;

/* Return OK, or CONFIG if a lease of this length is longer than `recovery`. */
locker_status lk_redis_recovery_check_ttl(const lk_redis *r, int64_t ttl_ns, locker_error *err);

/* Return OK, or the error if the reply refuses a grant because of `recovery`:
 *   - UNAVAILABLE: the recovery period lasts, or the mark is missing and cannot be written
 *   - CONFIG: other clients have another `recovery`
 *
 * *left_ms (NULL: ignored): when to try again, in ms; 0: a retry does not help. Call without the mutex. */
locker_status lk_redis_recovery_refuses(lk_redis *r, const redisReply *reply, int64_t *left_ms,
                                        locker_error *err);

/* ------------------------------------------------------------------ renewals with recovery ---- */

/* Return the most bytes that a claim adds to the command. */
size_t lk_redis_recovery_room(const lk_redis *r, const locker_claim *claim);
/* Write the command that extends these leases, and sets the locks again that the server lost. Return its
 * end. */
char *lk_redis_recovery_put_locked(lk_redis *r, const lk_redis_renewed *slots, size_t count,
                                   const char *script, bool whole, char *out) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ foreign data ---- */

/* Foreign data: a lock's key may hold another client's lock, or an application's data. */

/* Return true if data of this type (as TYPE names it) are never a lock. False for a string, for a hash (it
 * may be Redisson's lock), for `none`, and for "" (the user may not run TYPE). */
bool lk_redis_is_data(const char *type);
/* Return CONFIG with the text that the key `lock` holds data of this type. */
locker_status lk_redis_refuse_data(const char *type, const char *lock, locker_error *err);
/* Return BUSY with the text that the key `lock` holds a hash. */
locker_status lk_redis_hash_is_busy(const char *lock, locker_error *err);

/* Return true if liblocker may have written this value of a lock. left_ms: the rest of its lease; below 0:
 * it never ends. */
bool lk_redis_value_is_ours(const char *value, int64_t left_ms);
/* Check whether a break may delete the key `lock`. `type`: the type of data that are no string;
 * NULL: the key holds the string `value`. Returns
 *   - OK: the break may delete it
 *   - CONFIG: it may be no lock of ours, and `only` does not force the break
 *   - DENIED: it is no string, and the user may not run TYPE, so it may be an application's data */
locker_status lk_redis_check_force(const char *type, const char *value, int64_t left_ms,
                                   const locker_break_options *only, const char *lock, locker_error *err);
