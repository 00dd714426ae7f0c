/* claim.h: a claim in the Redis driver: its value, its queue entry, its state, and the table that finds it
 * by its value. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lk_atomic.h"
#include "lk_list.h"
#include "lk_table.h"
#include "net/command.h"
#include "net/shared.h"

/* ------------------------------------------------------------------ values ---- */

/* A value identifies the claim that holds a lock. It is 32 hex digits: 127 random bits of the instance
 * (redis.c) plus the claim's number. The first half names the instance. The functions below also read
 * numbers from the server's texts. */

enum { LK_REDIS_VALUE_LEN = 32 /* hex digits of a value, and of an instance's name */ };

typedef struct {
    /* the instance's name: the first half of all its values, twice; constant, as are `hex` and `low` */
    char name[LK_REDIS_VALUE_LEN + 1];
    char hex[256][2];             /* the two hex digits of each byte */
    uint64_t low;                 /* random; a claim's number is added to this */
    atomic_uint_fast64_t counter; /* the last number given out; relaxed: it orders nothing else */
} lk_redis_values;

/* Make the instance's name and `low` from 128 random bits. */
void lk_redis_values_init(lk_redis_values *values, const uint64_t random[2]);

/* Return a number that no other claim of the instance has; never 0. */
static inline uint64_t lk_redis_value_next(lk_redis_values *values)
{
    return atomic_fetch_add_explicit(&values->counter, 1, memory_order_relaxed) + 1;
}

/* Write the value with this number into `text`, with a NUL at the end. */
void lk_redis_value_text(const lk_redis_values *values, uint64_t number, char text[LK_REDIS_VALUE_LEN + 1]);
/* Return true if the text begins with 32 hex digits, as values and names of instances do, followed by
 * `end`. */
bool lk_redis_is_name(const char *text, char end);
/* Read the number of the value at the start of `text`. Return false if the value is not this instance's. */
bool lk_redis_value_number(const lk_redis_values *values, const char *text, uint64_t *number);

/* enough for numbers below 2^53, which Lua's doubles hold exactly, as all our numbers are */
enum { LK_REDIS_DIGITS_MAX = 17 };

/* Read a number that is followed by `end`, and move *text behind both. Return false if there is none. */
bool lk_redis_read_number(const char **text, char end, int64_t *number);
enum { LK_REDIS_MEMBER_MAX = LK_REDIS_VALUE_LEN * 2 + LOCKER_OWNER_MAX + 32 };

/* A reference from a renewal in flight to a claim. Guarded by the mutex. */
typedef struct lk_redis_renewed {
    locker_claim *claim;            /* NULL: the claim has ended meanwhile */
    struct lk_redis_renewed *older; /* the reference of an older renewal of the same claim */
} lk_redis_renewed;

/* The data that the server has for a claim, as far as the claim's own thread knows. DESIGN.md lists the
 * changes. */
typedef enum {
    LK_REDIS_ABSENT = 0, /* no lock; a queue entry only if `enqueued` is set */
    LK_REDIS_UNKNOWN,    /* an attempt of unknown outcome may have left a lock or a queue entry */
    LK_REDIS_HELD,
    LK_REDIS_GONE /* the lock is being released: no renewal and no note refers to the claim any more */
} lk_redis_place;

/* The latest news from messages since the keeper's last poll for the claim was sent. */
typedef enum { LK_REDIS_NO_HINT = 0, LK_REDIS_NEAR_HEAD, LK_REDIS_DOUBTED } lk_redis_hint;

/* The driver's data of a claim. The claim's own thread uses them. A member that other threads use too is
 * marked "guarded": the mutex guards it. */
typedef struct {
    locker_claim *core; /* core's part of the claim */
    uint64_t number;    /* number of the claim's value (lk_redis_values); 0: no value yet */
    int64_t busy_sent;  /* when the last BUSY attempt was sent */
    /* fencing counter at the last BUSY attempt: a hand-over message without a greater number is old; 0:
     * unknown, so every such message counts as old */
    uint64_t busy_fence;
    /* the grant's first fencing number; 0: no fencing. Relaxed: HELD publishes it */
    atomic_uint_fast64_t fence;
    /* for a shared lock or a permit: the epoch of the set that has the grant (lua/sets.lua) */
    uint64_t epoch;
    unsigned era; /* era of the server that confirmed the lease last (guarded once granted) */
    /* number of TIME requests that this server had been sent by then (guarded once granted) */
    unsigned asks;
    unsigned busy_era;   /* era at the last BUSY attempt, or when the claim began */
    unsigned leaps;      /* lk_redis_shared.leaps when the last attempt was sent */
    int64_t valid_until; /* the local deadline; once granted: of the latest confirmation (guarded) */
    int64_t since;       /* when the lock was granted; set before the claim enters the list of notes */
    int64_t note_at;     /* no note is sent before then: the slot was being migrated; else 0 (guarded) */
    /* how long the lock had been handed over from holder to holder before this grant, in us; 0: it was
     * free */
    int64_t direct_us;
    atomic_uint_fast64_t given; /* last fencing number in the hand-over message; 0: no message. Relaxed */
    int64_t look_at;            /* when the keeper next polls for this waiter; 0: no poll is due (guarded) */
    /* when a claim that shares the lock makes its next attempt; 0: an attempt is running (guarded) */
    int64_t ask_at;
    lk_table_link table;    /* link in the table of claims (guarded) */
    lk_list note;           /* link in the list of grants to note (guarded once in the list) */
    lk_redis_caller caller; /* the attempt in flight (guarded) */
    /* the references of renewals in flight to this claim, the newest first (guarded) */
    lk_redis_renewed *renewals;
    struct lk_redis_release *begun; /* the release that was begun (release.c); NULL: none */
    /* written by the claim's own thread: HELD with release order, GONE under the mutex */
    _Atomic(lk_redis_place) place;
    lk_redis_hint hint; /* (guarded) */
    bool in_table;      /* True if the table has the claim, so that messages find it (guarded). */
    bool noted;         /* True if the server has the holder's info (guarded). */
    /* True if a break's message came during this attempt, before a grant was known (guarded). */
    bool broken;
    bool enqueued; /* True if an attempt asked the server to enqueue the claim. */
    bool looking;  /* True while the keeper's poll for the claim is in flight (guarded). */
    uint16_t slot; /* hash slot of the lock's name; set together with `number` */
    /* before a grant: how many fencing numbers are wanted; after: how many the grant has; 0: no fencing */
    uint8_t numbers;
    uint8_t given_numbers; /* how many fencing numbers the hand-over message brought (guarded) */
    /* percent of the lease that `valid_until` reserves for clock drift (guarded once granted) */
    uint8_t allowed;
    uint8_t confirms; /* how many grants came so late that the attempt was repeated */
    uint8_t passes;   /* hand-overs inside the process since the server's grant */
    uint8_t polls;    /* number of quick polls made, plus 1; 0: none is due (guarded) */
} lk_redis_claim;

static inline lk_redis_claim *lk_redis_claim_of(const locker_claim *claim)
{
    return claim->data;
}

/* The functions below make each change of `place`. */
static inline void lk_redis_claim_held(lk_redis_claim *data)
{
    atomic_store_explicit(&data->place, LK_REDIS_HELD, memory_order_release);
}

static inline void lk_redis_claim_unknown(lk_redis_claim *data)
{
    LK_WRITE(data->place, LK_REDIS_UNKNOWN);
}

static inline void lk_redis_claim_gone_locked(lk_redis_claim *data) LK_REDIS_LOCKED
{
    LK_WRITE(data->place, LK_REDIS_GONE);
}

/* Return true if the claim was granted (and perhaps is being released). A thread that reads this too early
 * wakes the claim once for nothing. */
static inline bool lk_redis_claim_is_granted(const lk_redis_claim *data)
{
    return atomic_load_explicit(&data->place, memory_order_acquire) >= LK_REDIS_HELD;
}

/* Return true if the claim was granted and is not being released. */
static inline bool lk_redis_claim_is_held(const lk_redis_claim *data)
{
    return atomic_load_explicit(&data->place, memory_order_acquire) == LK_REDIS_HELD;
}

/* Return how long the lock has been handed over from holder to holder without becoming free, at the time
 * when this claim releases it, in us; 0: this claim found it free. */
static inline int64_t lk_redis_claim_direct_us(const lk_redis_claim *data, int64_t now)
{
    return data->direct_us > 0 ? data->direct_us + (now - data->since) / LK_US : 0;
}

/* Make the renewals in flight of `from` refer to `to` instead; NULL: to no claim. */
void lk_redis_claim_renewals_to_locked(lk_redis_claim *from, locker_claim *to) LK_REDIS_LOCKED;

/* Write a claim's entry in the lock's queue:
 *   - "instance value ttl_ms numbers owner" for a lock, with a 0 before the numbers
 *   - "Sinstance value ttl_ms 0 told owner" for a shared lock
 *   - "Pinstance value ttl_ms permits told owner" for a permit
 *
 * `told` is 3 if the holder gets to know its fencing number, else 2. The 0, 2 and 3 mark a waiter that
 * answers if another client doubts that the waiter is alive (lua/prelude.lua). Waiters of earlier releases
 * do not answer. Their entries have no 0, and 1 or 0 for `told`. */
void lk_redis_member_text(const char *instance, const locker_claim *claim, const char *value,
                          char out[LK_REDIS_MEMBER_MAX]);

/* The table of claims, in which messages find their claims. A claim that asks the server to enqueue it is
 * in the table from before the request until the claim ends. A grant is in the table from when it is
 * noted. So a hand-over message whose value is not in the table belongs to an ended claim. If memory runs
 * out, a claim stays out of the table: it is not enqueued, and polls. */
void lk_redis_claims_add_locked(lk_table *claims, lk_redis_claim *data) LK_REDIS_LOCKED;
void lk_redis_claims_remove_locked(lk_table *claims, lk_redis_claim *data) LK_REDIS_LOCKED;
/* Return the claim whose value has this number; NULL: the table does not have it. */
lk_redis_claim *lk_redis_claims_find_locked(const lk_table *claims, uint64_t number) LK_REDIS_LOCKED;
/* Return the claim after `data` (NULL: the first claim), in any order, or NULL at the end. */
lk_redis_claim *lk_redis_claims_after_locked(const lk_table *claims,
                                             const lk_redis_claim *data) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ markers of shared locks ---- */

/* A marker is the value of a lock that several claims hold at once (lua/sets.lua). */

enum { LK_REDIS_MARKER_MAX = 2 * LK_REDIS_NUMBER_MAX + 2 };

/* Write the marker of the set that has the grant. */
void lk_redis_marker_text(const locker_claim *grant, char out[LK_REDIS_MARKER_MAX]);

/* The parts of a marker. lk_redis_marker_read() returns false if `value` is not a marker. */
typedef struct {
    uint64_t epoch;
    int32_t permits; /* number of permits; 0: a shared lock */
} lk_redis_marker;
bool lk_redis_marker_read(const char *value, lk_redis_marker *marker);
