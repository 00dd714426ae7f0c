/* sweep.h: many trials of one thing at every moment of a cycle: what is the same for each service. Each trial is a line of JSON
 * in a ledger, together with the commit, from which an interrupted sweep goes on; without one it begins at the beginning and
 * leaves nothing. Several workers run side by side, each in a process and a network of its own. */
#pragma once

#include <locker/locker.h>

#include "child.h"

/** What came of a trial. */
typedef struct {
    bool ran;         /**< false: `text` says what came in between, and it is tried again */
    int64_t granted;  /**< when the rival had it, in ms; 0: never */
    int64_t deadline; /**< the holder's; the holder knows by `lost`. 0 when it kept the lock */
    int64_t lost;
    int64_t cut;        /**< when it was struck */
    long long at_grant; /**< what the holder had left at its grant, in ms */
    char text[200];
    bool in_vain; /**< the holder lost it though it could have renewed it */
} lk_outcome;

typedef struct {
    const char *const *sets; /**< their names, ended by NULL */
    const char *const *modes;
    size_t mode_count; /**< trial n is of mode n % mode_count */
    /** Runs a trial, in a worker, which first makes what all of its trials need. */
    lk_outcome (*run)(int set, int number);
    /** Its parameters, as members of a JSON object. */
    void (*describe)(int set, int number, char *text, size_t size);
    void (*end)(void);        /**< of a worker: what was made goes */
    const char *const *words; /**< ended by NULL: of each it is told in how many texts it is; NULL: none */
    int (*other)(int argc, char **argv); /**< a role "other"; NULL: none */
} lk_sweep;

/** What the program sweeps: --SET N for each set, --only MODE,MODE, --workers N, --ledger FILE, --commit NAME. Its role "holder",
 * with a URI, a key, and for how many ms it may wait (0 if nothing is said), opens, says so, locks when it is told to, says
 * "held LEFT WHEN", and "lost WHEN DEADLINE" once it has lost the lock, or "kept DEADLINE" when it is told again. With
 * LOCKER_SWEEP_LATE_MS in the environment it takes the lock to be its own for so long after that: two holders must be found. */
extern const lk_sweep lk_swept;

lk_outcome lk_broken_off(const char *text);
/** Whether trials of a mode are to be made. */
bool lk_sweep_wants(const char *mode);
/** Takes a lock of its own, for which it has to wait while a server recovers. */
bool lk_is_settled(locker *l, locker_error *err);
/** A child's next line, but no longer than that; NULL: none came. */
const char *lk_child_hear_within(lk_child *child, int64_t within_ms, char line[LK_LINE_MAX]);
/** As evenly over 0 to 1 as can be, however many there are. */
double lk_spread(int number, double step);
