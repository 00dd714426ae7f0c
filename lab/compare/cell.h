/* cell.h: one scenario on one backend: what a scenario's function gets and uses. It hires workers, tells them
 * what to do, makes faults, notes samples, and says what was promised and found. When anything goes wrong
 * that is no finding (a worker does not answer, a server does not come back), the cell fails once, with a
 * reason, and every later call does nothing; so scenarios read as a story, and the cell is told as "not run". */
#pragma once

#include <sys/types.h>

#include "backend.h"
#include "history.h"
#include "report.h"
#include "worker.h"
#include "writer.h"

enum { LK_CREW_MAX = 8 };

typedef struct lk_cell lk_cell;

/** A worker, our side. */
typedef struct {
    lk_cell *cell;
    char name[48];
    pid_t pid;     /**< 0: it has ended */
    bool observes; /**< it looks on, by lk_observe() */
    int fd;        /**< its standard input and output */
    char line[LK_WORKER_LINE];
    size_t filled;
} lk_worker;

/** What a worker answered; see worker.h. */
typedef struct {
    locker_status status; /**< LOCKER_UNKNOWN too when there was no answer; then the cell has failed */
    locker_state state;   /**< of the worker's handle; UNLOCKED: it has none */
    uint64_t token;
    int64_t sent, received, until; /**< ns of CLOCK_BOOTTIME */
    char text[LOCKER_ERROR_TEXT_MAX];
} lk_answer;

struct lk_cell {
    lk_backend *backend;
    lk_result *result;
    const char *scenario; /**< its name */
    int run;              /**< from 1 */
    bool quick;           /**< few samples */
    int64_t ttl_ms;
    char key[80];
    char history[280]; /**< the run's file */
    lk_history_writer *writer;
    lk_worker *crew[LK_CREW_MAX];
    size_t crew_len;
    int64_t ending_ms;             /**< what the system took to end the one that was killed last */
    char *failed;                  /**< why it could not go on; NULL: it goes on. See lk_text_set(). */
    const char *limits[LK_CHECKS]; /**< the documented limit of a breach; NULL: none; "": it is ignored */
    bool harmed;                   /**< the backend has to be healed */
    bool proven;                   /**< a breach that its history shows: a slow machine is no excuse for it */
};

/* ------------------------------------------------------------------ workers ---- */

/** Start a worker and have it open the backend. */
lk_worker *lk_hire(lk_cell *cell, const char *name);

/** The same at another URI, in a network namespace (-1: ours). */
lk_worker *lk_hire_at(lk_cell *cell, const char *name, const char *uri, int netns);

/** Send a line, and hear nothing yet. */
void lk_tell(lk_worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Hear the next answer; the cell fails when none comes in time. */
lk_answer lk_hear(lk_worker *worker);

/** Both. */
lk_answer lk_ask(lk_worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Have a worker ask so from now on: for the key alone (as at first), to share it, or for one of so many permits. */
void lk_ask_alone(lk_worker *worker);
void lk_ask_shared(lk_worker *worker);
void lk_ask_permit(lk_worker *worker, int permits);

/** Hear a line that must be this word; the cell fails on any other. */
void lk_expect(lk_worker *worker, const char *word);

/** Take the lock; the cell fails unless it is held then. */
lk_answer lk_compare_take(lk_worker *worker);

/** Have a worker wait for the lock, and come back when it stands in the queue. The answer is heard later. */
void lk_stand_in_line(lk_worker *worker);

/** Wait until the holder of an answered grant knows more than before `since` (ns): a renewal that was sent
 * later has been confirmed, or the lock is lost. Answers its state. */
lk_answer lk_await_news(lk_worker *holder, const lk_answer *grant, int64_t since);

/** A worker that notes every few ms what the service says about the key, until the cell ends. */
lk_worker *lk_observe(lk_cell *cell, const char *uri, int netns);

/** kill -9, with its line in the history; the process is dead then. Answers the time just before. */
int64_t lk_kill(lk_worker *worker);

/** SIGSTOP, and wait until it has stopped; SIGCONT. */
void lk_compare_freeze(lk_worker *worker);
void lk_compare_thaw(lk_worker *worker);

/** End all workers, and wait for them. Called by the cell's end too. */
void lk_dismiss_all(lk_cell *cell);

/** Turns of lock and unlock, of several workers. */
typedef struct {
    lk_cycle *turns; /**< in the order of grants; those that got the lock alone. Free them. */
    size_t len;
    int64_t begin, end; /**< from when to when they were asked to cycle */
} lk_cycles;

/** What lk_cycle_all() asks of each worker. */
typedef struct {
    int64_t for_ms;           /**< how long */
    int64_t count;            /**< how many turns at most */
    int64_t hold_us, rest_us; /**< how long the lock is held, and how long it is rested after unlocking */
    int64_t told;             /**< how many turns of each the history is told of */
    bool own_keys;            /**< each worker has a key of its own */
    bool watched; /**< each worker notes from when on it certainly stands in the queue, for a look each ms */
} lk_pace;

/** Have all workers of the cell that live and don't look on cycle at once, and gather their turns. */
lk_cycles lk_cycle_all(lk_cell *cell, const lk_pace *pace);

/** How many held at one moment, at most; of those who share the key, or of the others. */
size_t lk_cycles_at_once(const lk_cycles *all, bool shared);

/** The longest that one of them waited and held, in ms; likewise. */
double lk_cycles_longest_wait(const lk_cycles *all, bool shared);
double lk_cycles_longest_hold(const lk_cycles *all, bool shared);
/** The longest from one grant to the next, whoever's, in ms. */
double lk_cycles_longest_lull(const lk_cycles *all);

/* ------------------------------------------------------------------ what happens ---- */

/** The history says that a fault begins or ends; answers the time. Kinds: kill, stop, restart,
 * partition... */
int64_t lk_compare_fault(lk_cell *cell, bool begins, const char *kind, const char *what);

/** Sleep, unless the cell has failed. */
void lk_rest(const lk_cell *cell, int64_t ms);

/** How long the service keeps the lock of an answered grant for a holder that is gone, in ms; 0: no lease. */
int64_t lk_lease_ms(const lk_cell *cell, const lk_answer *grant);

/** How long after its holder's kill at most a lock is free: what the system took to end the holder, its lease, and
 * what a server's tick and a busy machine add. */
int64_t lk_free_ms(const lk_cell *cell, const lk_answer *grant);

/** The cell can't go on, and this is why. */
void lk_fail(lk_cell *cell, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The cell has failed. */
bool lk_failed(const lk_cell *cell);

/* ------------------------------------------------------------------ what is found ---- */

/** Say what is promised here. */
void lk_promise(lk_cell *cell, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The promise was broken; this is how. */
void lk_broken(lk_cell *cell, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** What happened is a documented limit, and this is it. */
void lk_exception(lk_cell *cell, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** What breaks this check is within the documented limit that these words name. */
void lk_allow(lk_cell *cell, lk_check check, const char *what);

/** This check says nothing here: what it would find is done on purpose. */
void lk_ignore(lk_cell *cell, lk_check check);

/** Note a sample. */
void lk_measure(lk_cell *cell, const char *name, const char *unit, double value);

/** Say the headline, after all runs. */
void lk_figure(lk_result *result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Words for samples: "5" when all are equal, else "3 to 5"; "-" for none. */
const char *lk_range_words(const lk_result *result, const char *name, char *out, size_t size);

/** Whether no sample of that name is 0. */
bool lk_every(const lk_result *result, const char *name);

/** The samples of that name; NULL: there are none. */
const lk_measured *lk_measured_of(const lk_result *result, const char *name);

/** Words for a time in ms: "40 us", "0.12 ms", "48 ms", "1.30 s". */
const char *lk_ms_words(double ms, char *out, size_t size);

/** When a run's workers have ended: what its history shows, by the checks that every lock service has to
 * pass. It is kept in the result as a trace. */
void lk_judge(lk_cell *cell);
