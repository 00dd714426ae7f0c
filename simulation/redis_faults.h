/*
 * redis_faults.h: what a run with one Redis server and a run with a Redis Cluster share: the faults of a server, of clocks and of
 * hand-overs, and the URI. Keys end by the servers' wall clocks, and TIME tells those; server_clock.h says what that excuses.
 */
#pragma once

#include "redis_service.h"
#include "run.h"

#define LK_SIM_REDIS_BACK_OFF_NS INT64_C(3000000000) /* the driver's greatest, and the time to connect */
#define LK_SIM_REDIS_LEASE_NS    INT64_C(3200000000) /* the longest, and a little */

/* ------------------------------------------------------------------ the service ---- */

/** How the lockers use the service. */
typedef struct {
    const char *address; /**< what the URI begins with, up to its options */
    unsigned polls;      /**< 2 or 3: between so many intervals of poll a run chooses */
    unsigned drift;      /**< clock_drift, in percent */
    bool has_tokens;     /**< fencing is on */
    bool confirms;       /**< a replica confirms grants */
    bool recovers;       /**< holders keep their locks over a loss of data */
} lk_sim_redis_use;

/** Begin a run, with what the judge expects of any Redis. */
void lk_sim_redis_faults_begin(lk_sim_bounds *bounds);
/** Draw the rest of the URI, which lasts until the end, and its bounds. */
const char *lk_sim_redis_draw_uri(const lk_sim_redis_use *use, uint64_t *random, lk_sim_bounds *bounds);

/* ------------------------------------------------------------------ a server ---- */

/** Each makes the fault, or returns false because it is so already. */
bool lk_sim_redis_is_silent(const lk_sim_fault *fault, lk_sim_redis *redis);
bool lk_sim_redis_is_away(const lk_sim_fault *fault, lk_sim_redis *redis, void (*is_back)(void *redis));
bool lk_sim_redis_has_no_memory(const lk_sim_fault *fault, lk_sim_redis *redis);
/** The replica hears nothing of its master. */
bool lk_sim_redis_lags(const lk_sim_fault *fault, lk_sim_redis *master);

/* ------------------------------------------------------------------ a hand-over ---- */

/** The fault is kept until a lock is handed over. False: another one is kept. */
bool lk_sim_redis_waits_for_a_hand_over(const lk_sim_fault *fault);
/** The kept fault, whose time has come: the message of the hand-over may be late, then. NULL: none is kept. */
lk_sim_fault *lk_sim_redis_handed_over(lk_sim_connection *connection);

/* ------------------------------------------------------------------ clocks ---- */

typedef struct {
    bool are_set;   /**< they step and slew */
    bool go_back;   /**< ... also back */
    bool differ;    /**< a fault may set those of replicas alone */
    unsigned drift; /**< the lockers' clock_drift, in percent */
    /** Whether they may be set now. */
    bool (*may_set)(void);
    /** Set them forward by so much, or back: all of them, or only those of replicas. */
    void (*set)(int64_t by_ns, bool all);
} lk_sim_redis_clocks;

/** A run begins, with such clocks. */
void lk_sim_redis_clocks_begin(const lk_sim_redis_clocks *clocks);

/** By up to 10 ms, 200 ms, a lease, or some minutes; or for a while by up to 8 % too fast, or too slow. False: not now. */
bool lk_sim_redis_clocks_move(const lk_sim_fault *given);

/** Clocks run evenly from now on, and no fault waits for a hand-over. */
void lk_sim_redis_faults_settle(void);
