/* application.h: simulated processes that use the library: they take locks in all the ways there are, hold them, and give
 * them back. */
#pragma once

#include <locker/locker.h>

#include "judge.h"
#include "world/fibers.h"

enum { LK_SIM_PROCESSES_MAX = 24, LK_SIM_SLOTS_MAX = 4 };

/** How a key is used. */
typedef struct {
    bool has_modes;  /**< shared, or exclusive */
    int32_t permits; /**< one of so many; 0: it is a lock */
} lk_sim_use;

typedef struct {
    const char *uri;
    uint64_t random;                  /**< what uses are drawn from, where the driver has more than one */
    bool knows_uses;                  /**< they are drawn */
    lk_sim_use uses[LK_SIM_KEYS_MAX]; /**< of each key */
    bool is_modelled;                 /**< nothing is done that the models leave out */
    bool is_one;                      /**< all its processes are one to the service, with one clock */
    unsigned keys;
    unsigned slots;        /**< so many processes run at once */
    unsigned threads_most; /**< in each; 0: as is drawn */
    int64_t rest_ns;       /**< so long after all is well nothing is left that ends by itself */
    bool ends;             /**< its processes finish what they do, and close */
    unsigned process_count, running;
    lk_sim_process *at[LK_SIM_SLOTS_MAX];           /**< which process runs there */
    lk_sim_process processes[LK_SIM_PROCESSES_MAX]; /**< those that were killed, too */
} lk_sim_application;

/** Start a process in each slot. */
void lk_sim_application_begin(lk_sim_application *application);
/** The one in that slot, of any number; NULL: it has ended. */
lk_sim_process *lk_sim_application_process(const lk_sim_application *application, unsigned slot);
/** Kill it, and start another one in its slot. */
void lk_sim_application_kill(lk_sim_application *application, lk_sim_process *process);
/** Take each key, and give it back, in a process of its own, which says when it is done. */
void lk_sim_application_check(lk_sim_application *application, bool *is_done);
