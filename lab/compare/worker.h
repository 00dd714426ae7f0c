/* worker.h: what locker compare and its workers agree on. A worker is this program run again with
 * LK_WORKER_OPTION; its standard input and output are one socket on which it is told, line by line,
 * what to do, and answers each line with one. worker.c is its side, crew.c ours.
 *
 *   setup RUN TTL_MS HISTORY BACKEND SCENARIO NAME   "ok"; text fields are one word each
 *   open URI                                         "ok", or "error TEXT"
 *   as alone|shared|permit PERMITS                   "ok": how it asks from now on; at first, alone. PERMITS: how many
 *                                                    there are, of permit alone
 *   lock|try KEY WAIT_MS RENEW                       ANSWER: take it, without renewal when RENEW is 0
 *   wait KEY WAIT_MS RENEW                           "waiting" once it stands in the queue, then ANSWER
 *   unlock                                           ANSWER
 *   state                                            ANSWER: what the handle says of itself now
 *   lost MS                                          ANSWER when the notice of the loss came, or after MS
 *   write STORE                                      ANSWER: to the guarded store, with our token
 *   job try|lock KEY FILE WORK_MS                    ANSWER of the lock; raises the number in a file, slowly
 *   cycle KEY AT UNTIL COUNT HOLD_US REST_US TOLD WATCH FILE
 *       lock, hold, unlock, rest, from AT to UNTIL and COUNT times at most: ANSWER of the last. With WATCH 1
 *       it looks each ms whether it stands in the queue. The times are in FILE, as lk_cycle; the history is
 *       told of the first TOLD.
 *   look KEY EVERY_MS                                ask the service who holds it until the next line: "ok"
 *   break KEY                                        ANSWER
 *
 * ANSWER is "STATUS STATE TOKEN SENT RECEIVED UNTIL [TEXT]": numbers of locker_status and locker_state, the
 * fencing token, ns of CLOCK_BOOTTIME before and after the call, the local deadline (0: none). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LK_WORKER_LINE = 2048 };

/** The only argument of a worker. */
#define LK_WORKER_OPTION "--worker"

/** What a worker does until its input ends. Returns the exit code. */
int lk_worker_main(void);

/** One turn of `cycle`, as it stands in its file. Times in ns of CLOCK_BOOTTIME. */
typedef struct {
    int64_t asked, got; /**< lock: before and after the call */
    int64_t queued; /**< when it was seen to stand in the queue; 0: it was not seen, or never stood there */
    int64_t gave, given; /**< unlock: before and after */
    int64_t until;       /**< the deadline at `got`; 0: none */
    uint64_t token;
    int32_t locked, unlocked; /**< locker_status of both */
    int64_t process;
    int64_t handle; /**< the number of this turn's lock in the history */
    int32_t slot;   /**< of a permit; else -1 */
    bool shared;    /**< it asked to share the key */
} lk_cycle;
