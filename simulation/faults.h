/*
 * faults.h: what a service brings to a run (run.c): how it begins and ends, and the faults that it alone has. Those of
 * processes, and of the ways between them and the service, are the run's.
 *
 * Faults are drawn from random numbers of their own, all that there is to choose at once, whether they are made or not. So
 * when one is left out, the others stay what they were.
 */
#pragma once

#include "judge.h"
#include "run.h"
#include "world/network.h"

typedef struct {
    unsigned number;
    unsigned kind; /**< any number, as the next two: for the one who makes it to choose by */
    unsigned slot;
    uint64_t detail;
    int64_t span_ns; /**< how long it lasts, if it lasts */
} lk_sim_fault;

typedef struct {
    bool
        is_inside; /**< it is in the processes themselves: nothing goes wrong, and none of the next but the first two is called */
    unsigned modelled_threads; /**< so many has a process at most where the run is modelled; 0: one */
    /** It listens from now on. Answers the URI, which lasts until the end. `random`: what it draws for itself, by
     * lk_sim_draw_from(). `bounds`: all zero. */
    const char *(*begin)(uint64_t *random, lk_sim_bounds *bounds);
    void (*end)(void);
    /** Its servers, from 0; NULL past the last. The ways to them may be clogged. */
    lk_sim_service *(*server)(unsigned place);
    /** Make the fault that this one is. False: it is so already, and nothing was made. */
    bool (*make)(const lk_sim_fault *fault);
    /** No more faults come: what goes on by itself is to come to its end. NULL: there is nothing. */
    void (*settle)(void);
    /** When nobody uses it any more: what was left behind at it; NULL: nothing. */
    const char *(*left)(void);
} lk_sim_faulty;

/** The fault is made now, and is over at once. */
void lk_sim_fault_strikes(const lk_sim_fault *fault, const char *what);
/** It is made now, and `heal` ends it when its time is over. */
void lk_sim_fault_lasts(const lk_sim_fault *fault, const char *what, void (*heal)(void *context),
                        void *context);

void lk_sim_run_with(const lk_sim_faulty *service, const lk_sim_plan *plan, FILE *trace,
                     lk_sim_result *result);
