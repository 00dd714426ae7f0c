/* application.h: simulated processes that use the library: they take locks in all the ways there are, hold them, and give
 * them back. */
#pragma once

#include <locker/locker.h>

#include "world/fibers.h"

enum { LK_SIM_PROCESSES_MAX = 24 };

typedef struct lk_sim_application {
    const char *uri;
    unsigned keys;
    bool ends; /**< its processes finish what they do, and close */
    unsigned process_count, running;
    lk_sim_process processes[LK_SIM_PROCESSES_MAX]; /**< those that were killed, too */
} lk_sim_application;

/** Start a process. NULL: there were too many. */
lk_sim_process *lk_sim_application_start(lk_sim_application *application);
/** One that runs, drawn; NULL: there is none. */
lk_sim_process *lk_sim_application_draw(lk_sim_application *application);
void lk_sim_application_kill(lk_sim_application *application, lk_sim_process *process);
/** Take each key, and give it back, in a process of its own, which says when it is done. */
void lk_sim_application_check(lk_sim_application *application, bool *is_done);
