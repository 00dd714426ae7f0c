/*
 * redis_clocks.h: the wall clocks of a run's Redis servers, by which keys end and which TIME tells: they step, and slew. What that
 * excuses is the judge's (server_clock.h).
 */
#pragma once

#include "run.h"

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

/** They run evenly from now on. */
void lk_sim_redis_clocks_settle(void);
