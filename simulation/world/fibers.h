/*
 * fibers.h: simulated threads, and the time that they see. All run on one thread of the system's, one at a time; who goes
 * on is drawn from the seed, so the same seed gives the same run. No time passes but by what is simulated.
 *
 * A simulated process is a set of fibers with a clock of its own and a name. It may be stopped: its fibers don't go on,
 * though what they wait for comes. Nothing here is thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Times are ns, true ones since the beginning; a process' own clock differs. Never: INT64_MAX. */
typedef struct {
    const char *host;
    int pid;
    int64_t ahead_ns; /**< of its clock, at the beginning */
    int64_t rate_ppm; /**< how much faster its clock runs, in millionths */
    bool stopped;
    bool dead;            /**< its fibers never go on */
    int64_t changed_at;   /**< when it was stopped, or went on, lately */
    int64_t stood_ns;     /**< for how long it was stopped, before that */
    int64_t connected_at; /**< when it lately got a connection */
    int64_t
        given_up_at; /**< when it lately closed a connection that no service had answered; 0: never, or that service has answered
                             another since */
    const void *given_up; /**< ... that service */
} lk_sim_process;

typedef struct lk_sim_fiber lk_sim_fiber;

/** Begin anew, at time 0. A trace may be NULL. */
void lk_sim_begin(uint64_t seed, FILE *trace);
/** Free all fibers, whatever they were doing. */
void lk_sim_end(void);

/** Memory that is zeroed and to be freed; aborts when there is none. */
void *lk_sim_alloc(size_t size);

/** A number below `below`, which isn't 0. */
uint64_t lk_sim_draw(uint64_t below);
/** The same, of random numbers of one's own. */
uint64_t lk_sim_draw_from(uint64_t *random, uint64_t below);
/** Whether what has this chance, in millionths, comes true. */
bool lk_sim_chance(unsigned ppm);

int64_t lk_sim_now(void);
/** What the process' clock shows at a true time, and the first true time at which it shows that. */
int64_t lk_sim_local(const lk_sim_process *process, int64_t at);
int64_t lk_sim_true(const lk_sim_process *process, int64_t local);

void lk_sim_process_stop(lk_sim_process *process);
void lk_sim_process_go_on(lk_sim_process *process);
/** The time for which it has not stood still. */
int64_t lk_sim_ran(const lk_sim_process *process);

/** How often a fiber went on, or an event came. */
uint64_t lk_sim_steps(void);
/** Whether there is a trace, so that what is dear to say is not said for nothing. */
bool lk_sim_is_traced(void);
/** A line of the trace, with the time before it. */
void lk_sim_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

lk_sim_fiber *lk_sim_spawn(lk_sim_process *process, void *(*run)(void *), void *argument);
/** The one that runs; NULL: an event does. */
lk_sim_fiber *lk_sim_self(void);
lk_sim_process *lk_sim_process_of(const lk_sim_fiber *fiber);
/** Whether its function has returned; then *result (NULL allowed) is what it returned. */
bool lk_sim_is_over(const lk_sim_fiber *fiber, void **result);

/** Have `event` called at a true time, outside of all fibers. */
void lk_sim_at(int64_t at, void (*event)(void *context), void *context);

/** A moment in which another fiber may go on, of some ns. Called by all that stands for a system call. */
void lk_sim_pause(void);
/** Wait until something is told to those that wait for `on`, or the true time. False: the time. */
bool lk_sim_wait(const void *on, int64_t until);
/** Tell one, drawn, or all who wait for it. */
void lk_sim_wake_one(const void *on);
void lk_sim_wake_all(const void *on);
void lk_sim_wake(lk_sim_fiber *fiber);

typedef enum {
    LK_SIM_DONE,  /**< what was to be reached */
    LK_SIM_LATE,  /**< not by the true time `until` */
    LK_SIM_STUCK, /**< nobody can go on, and nothing is to come */
} lk_sim_outcome;

/** Run until `is_done` says so, which is asked after each step. `judge` (NULL: none) is asked after those of fibers. */
lk_sim_outcome lk_sim_run(bool (*is_done)(void *context), void (*judge)(void *context), void *context,
                          int64_t until);
