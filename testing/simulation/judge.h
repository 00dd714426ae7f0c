/*
 * judge.h: what is asked after each step of a simulation: whether two hold a key by what their handles say, whether tokens
 * grew, whether unlock's answers are true. It looks into handles, because asking them would take time.
 */
#pragma once

#include <locker/locker.h>

#include "world/fibers.h"

enum { LK_SIM_KEYS_MAX = 8 };

/** From the call that takes the lock until the return of that which gives it back. */
typedef struct lk_sim_hold {
    struct lk_sim_hold *next;
    lk_sim_process *process;
    unsigned key;
    int64_t asked_at;      /**< when the call began */
    uint64_t asked_behind; /**< the greatest token of the key then */
    locker_handle *handle; /**< since it was granted */
    uint64_t token;
    bool gives;           /**< unlock was called: it shuts nobody out any more */
    uint64_t gave_behind; /**< the greatest token of the key then */
    int64_t valid_until;  /**< the true time of its deadline then */
} lk_sim_hold;

void lk_sim_judge_begin(void);
/** A call for the key begins. */
lk_sim_hold lk_sim_judge_asks(lk_sim_process *process, unsigned key);
/** It has answered OK. */
void lk_sim_judge_granted(lk_sim_hold *hold, locker_handle *handle);
/** Whoever holds it is about to unlock. */
void lk_sim_judge_gives(lk_sim_hold *hold);
/** What unlock said. */
void lk_sim_judge_unlocked(const lk_sim_hold *hold, locker_status status);
/** The service loses its data now: of what was asked for before, nothing has to be true any more. */
void lk_sim_judge_forgets(void);
/** All that is left of a process that was killed. */
void lk_sim_judge_forget(const lk_sim_process *process);
/** After each step. */
void lk_sim_judge_look(void);
unsigned lk_sim_judge_grants(void);
