/* claim.h: the driver's bytes of a claim: its name in the queue, and finding it by its value. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lk_atomic.h"
#include "lk_list.h"
#include "lk_table.h"
#include "net/command.h"
#include "net/shared.h"

/* ------------------------------------------------------------------ values ---- */

/* The values that say whose a lock is: 127 bits of the instance (redis.c) plus a number, as hex digits, of which the
 * first half names the instance; and numbers, read back from texts of ours. */

enum { LK_REDIS_VALUE_LEN = 32 /* hex digits of a value, and of an instance's name */ };

typedef struct {
    /* The instance's: the half that all values begin with, twice. Constant, as the next. */
    char name[LK_REDIS_VALUE_LEN + 1];
    char hex[256][2];             /* the digits of a byte */
    uint64_t low;                 /* what numbers are added to */
    atomic_uint_fast64_t counter; /* relaxed: it orders nothing */
} lk_redis_values;

/* From so many random bits. */
void lk_redis_values_init(lk_redis_values *values, const uint64_t random[2]);

/* A number that no claim had before; never 0. */
static inline uint64_t lk_redis_value_next(lk_redis_values *values)
{
    return atomic_fetch_add_explicit(&values->counter, 1, memory_order_relaxed) + 1;
}

/* Ended by a NUL. */
void lk_redis_value_text(const lk_redis_values *values, uint64_t number, char text[LK_REDIS_VALUE_LEN + 1]);
/* True if the text begins with 32 hex digits, as values and names of instances do, and then `end`. */
bool lk_redis_is_name(const char *text, char end);
/* Back from the text; false when it isn't one of this instance's values. */
bool lk_redis_value_number(const lk_redis_values *values, const char *text, uint64_t *number);

enum { LK_REDIS_DIGITS_MAX = 17 /* of a number that Lua's doubles hold, as all of ours are */ };

/* A number, and what ends it. Moves *text behind them. */
bool lk_redis_read_number(const char **text, char end, int64_t *number);
enum { LK_REDIS_MEMBER_MAX = LK_REDIS_VALUE_LEN * 2 + LOCKER_OWNER_MAX + 32 };

/* Where a renewal under way refers to a claim. Guarded by the mutex. */
typedef struct lk_redis_renewed {
    locker_claim *claim;            /* NULL: gone meanwhile */
    struct lk_redis_renewed *older; /* another renewal's of the same claim */
} lk_redis_renewed;

/* What the server holds of a claim, as far as the claim's own thread knows (DESIGN.md has the changes). */
typedef enum {
    LK_REDIS_ABSENT = 0, /* neither a lock nor, unless it is enqueued, a queue entry */
    LK_REDIS_UNKNOWN,    /* an attempt of unknown outcome may have left a lock or a queue entry */
    LK_REDIS_HELD,
    LK_REDIS_GONE /* it is being given back: no renewal and no note refers to it any more */
} lk_redis_place;

/* What messages have said since the claim's latest query was sent. */
typedef enum { LK_REDIS_NO_HINT = 0, LK_REDIS_NEAR_HEAD, LK_REDIS_DOUBTED } lk_redis_hint;

/* Used by the claim's own thread; what another thread touches is marked, and guarded by the mutex. */
typedef struct {
    locker_claim *core;  /* core's side of it */
    uint64_t number;     /* its value's, of the instance's values; 0: none yet */
    int64_t busy_sent;   /* when the last attempt answered BUSY was sent */
    uint64_t busy_fence; /* the counter of fencing numbers then: a message with no more is old; 0: any is */
    atomic_uint_fast64_t fence; /* the first number of the grant; 0: no fencing. Relaxed: HELD publishes it */
    uint64_t epoch;             /* of a shared grant or a permit: of the set that it is in (lua/sets.lua) */
    unsigned era;               /* where the lease was confirmed last (guarded once granted) */
    unsigned asks;              /* how often that server had been asked for its time then (likewise) */
    unsigned busy_era;          /* the same of the last attempt that answered BUSY, or when the claim began */
    unsigned leaps; /* how often a server's clock had leapt when the last attempt was sent (net/shared.h) */
    int64_t valid_until; /* the local deadline; once granted: as last confirmed (guarded) */
    int64_t since;       /* when it was granted; set before it stands in the list of notes */
    int64_t direct_us;   /* how long the lock had been handed on when it came to us; 0: it was free */
    atomic_uint_fast64_t
        given;              /* by message: the last fencing number; 0: none. Relaxed: it brings only itself */
    int64_t look_at;        /* when the keeper looks at the lock that it waits for; 0: not now (guarded) */
    int64_t ask_at;         /* when one that would share the lock asks again; 0: it asks now (guarded) */
    lk_table_link table;    /* of claims (guarded) */
    lk_list note;           /* in the list of those to be noted (guarded once it is there) */
    lk_redis_caller caller; /* the attempt under way (guarded) */
    lk_redis_renewed *renewals;     /* where renewals under way refer to it (guarded) */
    struct lk_redis_release *begun; /* its release was begun (release.c); NULL: it was not */
    _Atomic(lk_redis_place) place;  /* written by its own thread; HELD with release, GONE under the mutex */
    lk_redis_hint hint;             /* (guarded) */
    bool in_table;                  /* messages find it (guarded) */
    bool noted;                     /* the server was told whose grant it is (guarded) */
    bool broken;                    /* since this attempt began, when nobody knew of a grant (guarded) */
    bool enqueued;                  /* an attempt asked the server to queue it */
    bool looking;                   /* the keeper's query is in flight (guarded) */
    uint16_t slot;                  /* of the lock's name, once the claim has a value */
    uint8_t numbers;                /* how many fencing numbers a grant wants, and then has; 0: no fencing */
    uint8_t given_numbers;          /* how many the message brought (guarded) */
    uint8_t allowed;  /* so many percent of the lease are left to the server's clock (guarded once granted) */
    uint8_t confirms; /* grants that were asked for anew, because they came late */
    uint8_t passes;   /* hand-overs inside the process since the server's grant */
    uint8_t polls;    /* quick ones made, plus 1; 0: none is due (guarded) */
} lk_redis_claim;

static inline lk_redis_claim *lk_redis_claim_of(const locker_claim *claim)
{
    return claim->data;
}

/* Each change of `place`. */
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

/* True if it was granted. A thread that reads this too early wakes the claim once too often. */
static inline bool lk_redis_claim_is_granted(const lk_redis_claim *data)
{
    return atomic_load_explicit(&data->place, memory_order_acquire) >= LK_REDIS_HELD;
}

/* True if it was granted and is not being given back. */
static inline bool lk_redis_claim_is_held(const lk_redis_claim *data)
{
    return atomic_load_explicit(&data->place, memory_order_acquire) == LK_REDIS_HELD;
}

/* For how long the lock has been handed on, without being free, when the claim gives it back: us. */
static inline int64_t lk_redis_claim_direct_us(const lk_redis_claim *data, int64_t now)
{
    return data->direct_us > 0 ? data->direct_us + (now - data->since) / LK_US : 0;
}

/* Renewals under way tell of another claim from now on; NULL: of none. */
void lk_redis_claim_renewals_to_locked(lk_redis_claim *from, locker_claim *to) LK_REDIS_LOCKED;

/* The name of a claim in a lock's queue: "instance value ttl_ms numbers owner", with a 0 before the numbers. Of one that shares the lock
 * "Sinstance value ttl_ms 0 told owner", and of one that wants a permit "Pinstance value ttl_ms permits told owner"; `told` is 3 if it is told its
 * number, and else 2. The 0, 2 and 3 mark a waiter that answers when another doubts that it lives (lua/prelude.lua). Earlier releases
 * don't answer; they write no 0, and 1 or 0 for `told`. */
void lk_redis_member_text(const char *instance, const locker_claim *claim, const char *value,
                          char out[LK_REDIS_MEMBER_MAX]);

/* The table of claims, for messages. Those that asked the server to queue them are in it, from before they ask until they
 * end, and grants from when they are noted; so a message that hands a lock to a value which is not in it is for a claim
 * that has ended. Where there is no memory a claim does not get there: it is not queued, and polls. */
void lk_redis_claims_add_locked(lk_table *claims, lk_redis_claim *data) LK_REDIS_LOCKED;
void lk_redis_claims_remove_locked(lk_table *claims, lk_redis_claim *data) LK_REDIS_LOCKED;
/* By the number of its value; NULL: it is not there. */
lk_redis_claim *lk_redis_claims_find_locked(const lk_table *claims, uint64_t number) LK_REDIS_LOCKED;
/* The next one, in any order; NULL: the first, and that there is none. */
lk_redis_claim *lk_redis_claims_after_locked(const lk_table *claims,
                                             const lk_redis_claim *data) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ markers of shared locks ---- */

/* What the key of a lock says that several hold (lua/sets.lua). */

enum { LK_REDIS_MARKER_MAX = 2 * LK_REDIS_NUMBER_MAX + 2 };

/* What the lock's key says of the set that the grant is in. */
void lk_redis_marker_text(const locker_claim *grant, char out[LK_REDIS_MARKER_MAX]);

/* What `value` of a lock's key says. False: it is no marker. */
typedef struct {
    uint64_t epoch;
    int32_t permits; /* 0: it is shared */
} lk_redis_marker;
bool lk_redis_marker_read(const char *value, lk_redis_marker *marker);
