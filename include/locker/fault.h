/* fault.h: faults, which make operations of a lock service fail in tests. The mock (mock.h) and the fault driver take the
 * same faults. Applications do not need this header.
 *
 *     locker_fault down = {.op = LOCKER_OP_ACQUIRE, .key = "orders/42", .status = LOCKER_UNAVAILABLE};
 *
 * means "the next attempt to take orders/42 returns UNAVAILABLE". Members that are left out are zero, and zero means the
 * usual: any key, from the first operation on, once.
 *
 * Several faults make a script. Each operation goes through the faults in the order of their addition, until a fault acts on
 * it. A fault acts if the operation and the key match, `skip` such operations have passed it, and it has acted fewer than
 * `times` times. So faults for the same operation act in turn, as a list. */
#ifndef LOCKER_FAULT_H
#define LOCKER_FAULT_H

#include <locker/locker.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A request to a lock service: the operations of a driver (driver.h). */
typedef enum locker_op {
    LOCKER_OP_ANY = 0,     /**< in a fault: each operation that a fault can name */
    LOCKER_OP_ACQUIRE = 1, /**< an attempt to take a lock; a call that waits makes several */
    LOCKER_OP_RELEASE = 2,
    LOCKER_OP_RENEW = 3, /**< the renewal of a lease; with a session: its heartbeat, once for each lock */
    LOCKER_OP_SHOW = 4,
    LOCKER_OP_BREAK = 5,
    LOCKER_OP_PING = 6,
    LOCKER_OP_PASS = 7, /**< the hand-over of a lock to the next caller of the same locker */
    LOCKER_OP_WITHDRAW =
        8 /**< the end of a claim without a result. Cannot fail: only in records, not in a fault. */
} locker_op;

/** The way in which an operation fails. */
typedef enum locker_fault_kind {
    /** The service does nothing and returns `status`. LOCKER_OK: the operation succeeds after the delay. */
    LOCKER_FAULT_ANSWER = 0,
    /** The request does not reach the service. The caller gets no answer. */
    LOCKER_FAULT_LOSE_REQUEST = 1,
    /** The service executes the request, but the caller gets no answer. */
    LOCKER_FAULT_LOSE_REPLY = 2,
    /** The service executes the request, and then removes the lock without a notification. The holder finds out at the next
     * renewal, or when it unlocks. Only for acquire and renew. */
    LOCKER_FAULT_LOSE_LOCK = 3,
    /** The connection breaks. Neither this operation nor later operations arrive until the locker is connected again. */
    LOCKER_FAULT_DISCONNECT = 4
} locker_fault_kind;

/** Without limit, as a fault's `times`. */
enum { LOCKER_FAULT_ALWAYS = -1 };

/** A fault. Copied with its key when it is added. Has no size member, so that a test can write it in place. A new member
 * therefore changes the ABI of the functions that take it. Statuses that an operation can return as `status`:
 *
 *     acquire            busy (a call that waits continues to wait), timeout (no answer in time), unavailable,
 *                        denied, invalid, config, unsupported, protocol, nomem.
 *     release            lost, unknown.
 *     renew              lost, unavailable (the lease is not extended).
 *     show, break, ping  unavailable, denied, invalid, unsupported, protocol, nomem.
 *     pass               busy (the lock is released instead).
 *     any                unavailable. Then release returns unknown, and pass returns busy.
 *
 * Adding a fault with another status fails. */
typedef struct locker_fault {
    locker_op op;
    const char *key; /**< NULL: any. A ping has no key. */
    int64_t skip;    /**< number of matching operations that pass first */
    int64_t times;   /**< number of times to act; 0: once; LOCKER_FAULT_ALWAYS: without limit */
    locker_fault_kind what;
    locker_status status; /**< only for LOCKER_FAULT_ANSWER */
    /** Delay of the answer in ms. If it is longer than the caller waits, the caller gets no answer. */
    int64_t delay_ms;
    /** Time in ms until core's next attempt, for acquire that returns busy or unavailable; 0: not given. */
    int64_t retry_ms;
} locker_fault;

/* ------------------------------------------------------------------ the fault driver ----
 * `fault+SCHEME:...` opens the driver of SCHEME with a script before it. The parameter `fault` has the script's text, in the
 * form of locker_mock_script() (mock.h). `fault_file` names a file of such text, with a fault on each line:
 *
 *     fault+redis://localhost?fault=acquire:orders/42,times=2,unavailable
 *
 * Operations without a fault go to the real service. Time is real, too. Meaning of the faults:
 *
 *     lose-reply     The service has executed the request. A lock call that gives up, or attempts again, gives the grant
 *                    back in the background.
 *     lose-request   The caller of a release gets UNKNOWN. The release is then sent in the background.
 *     lost           (release, renew) The driver gives the lock back, so another client can take it.
 *     lose-lock      The driver breaks the lock at the service, but no other lock on the key. If the service notifies
 *                    holders of a break, it does so here.
 *     disconnect     Lasts until locker_fault_reconnect(). A lock that is given back before that is released at the service
 *                    all the same.
 *     busy           The service does not wake the call. The call tries again after `retry_ms`, or 50 ms.
 *     renew          With a driver that renews by a session: each confirmation of the lease that arrives.
 *
 * These functions are in liblocker if it was built with LOCKER_FAULT. That is the default for builds with tests only. Without
 * it, `fault+...` is refused as an unknown scheme. Any thread may call these functions while the locker is open, also in a
 * callback. They do not block. Those with a status return INVALID if the locker was opened without `fault+`. */

struct locker_driver;

#if LOCKER_HAS_FAULT
/** Add a fault to the script of a locker. Returns OK, INVALID (also if the fault is wrong: the text says why) or NOMEM. */
LOCKER_API locker_status locker_fault_on(locker *l, const locker_fault *fault, locker_error *err);

/** Add faults that are written as text: all or none. Returns OK, INVALID (also if a word is wrong: the text names it) or
 * NOMEM. */
LOCKER_API locker_status locker_fault_script(locker *l, const char *text, locker_error *err);

/** Remove all faults, used or not. Returns OK or INVALID. */
LOCKER_API locker_status locker_fault_forget(locker *l);

/** Connect the locker again after a disconnect. Returns OK or INVALID. */
LOCKER_API locker_status locker_fault_reconnect(locker *l);

/** Return the number of operations on which faults have acted; -1: the locker was opened without `fault+`. */
LOCKER_API int64_t locker_fault_acted(locker *l);

/** Return the number of faults that have not acted, or fewer times than their `times`. Writes a line for each into text[size],
 * cut at the size; the text is empty if there are none. */
LOCKER_API size_t locker_fault_verify(locker *l, char *text, size_t size);

/** Return the table of a driver (driver.h) with a script before it, for locker_open_driver(). Its schemes are those of `inner`
 * after `fault+`. `inner` must outlive the process, and so does the table. The same driver gets the same table. Any thread.
 *
 * NULL:
 *   - out of memory.
 *   - `inner` has another ABI, or lacks a name, schemes, params or semantics.
 *   - `inner` is a decorator, or has more than 16 schemes or 30 parameters.
 *   - another driver with the same scheme has a table already. */
LOCKER_API const struct locker_driver *locker_fault_over(const struct locker_driver *inner);

#endif /* LOCKER_HAS_FAULT */

#ifdef __cplusplus
}
#endif
#endif
