/* fault.h: faults, which make operations of a lock service fail in tests. The mock (mock.h) and the fault driver take the
 * same faults. Applications do not need this header.
 *
 *     locker_fault down = {.op = LOCKER_OP_ACQUIRE, .key = "orders/42", .status = LOCKER_UNAVAILABLE};
 *
 * This fault makes the next attempt to take orders/42 return UNAVAILABLE. Members that are left out are zero. If `key`
 * is zero (NULL), a fault acts on any key. If `skip` and `times` are zero, a fault acts once, on the first matching
 * operation.
 *
 * Several faults make a script. For each operation, the faults are examined in the order in which they were added, until
 * a fault acts on the operation. A fault acts on an operation if all of these statements are true:
 *   - The operation and the key match the fault.
 *   - The fault has already let `skip` matching operations pass.
 *   - The fault has acted fewer than `times` times.
 *
 * So faults for the same operation act one after the other. */
#ifndef LOCKER_FAULT_H
#define LOCKER_FAULT_H

#include <locker/locker.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A request to a lock service: an operation of a driver (driver.h). */
typedef enum locker_op {
    LOCKER_OP_ANY = 0,     /**< in a fault: all operations that a fault can name */
    LOCKER_OP_ACQUIRE = 1, /**< an attempt to take a lock; a call that waits makes several attempts */
    LOCKER_OP_RELEASE = 2,
    LOCKER_OP_RENEW =
        3, /**< renewal of a lease; with sessions, the session's heartbeat, which counts once for each lock */
    LOCKER_OP_SHOW = 4,
    LOCKER_OP_BREAK = 5,
    LOCKER_OP_PING = 6,
    LOCKER_OP_PASS = 7, /**< the hand-over of a lock to the next caller of the same locker */
    LOCKER_OP_WITHDRAW =
        8 /**< the end of a claim without a result; only in records, not in faults, because a withdrawal cannot fail */
} locker_op;

/** The way in which an operation fails. */
typedef enum locker_fault_kind {
    /** If `status` is not LOCKER_OK, the service does nothing, and the operation returns `status`. If `status` is
     * LOCKER_OK, the service executes the operation, and the answer arrives after `delay_ms`, which must not be 0. */
    LOCKER_FAULT_ANSWER = 0,
    /** The request does not reach the service. The caller gets no answer. */
    LOCKER_FAULT_LOSE_REQUEST = 1,
    /** The service executes the request, but the caller gets no answer. */
    LOCKER_FAULT_LOSE_REPLY = 2,
    /** The service executes the request, and then removes the lock without a notification. The holder notices the loss at
     * the next renewal, or when the holder unlocks. Only for acquire and renew. */
    LOCKER_FAULT_LOSE_LOCK = 3,
    /** The connection breaks. Neither this operation nor later operations arrive until the locker is connected again. */
    LOCKER_FAULT_DISCONNECT = 4
} locker_fault_kind;

/** Value for a fault's `times`: the fault acts without limit. */
enum { LOCKER_FAULT_ALWAYS = -1 };

/** A fault. A function that adds a fault makes its own copy of the fault and of the key. The struct has no size member,
 * so tests can use a plain initializer. Therefore a new member changes the ABI of functions that take a fault.
 * `status` must be a status that the operation can return:
 *
 *     acquire            busy (a call that waits continues to wait), timeout (no answer in time), unavailable,
 *                        denied, invalid, config, unsupported, protocol, nomem.
 *     release            lost, unknown.
 *     renew              lost, unavailable (the lease is not extended).
 *     show, break, ping  unavailable, denied, invalid, unsupported, protocol, nomem.
 *     pass               busy (the lock is then released, not handed over).
 *     any                unavailable. With this fault, release returns unknown, and pass returns busy.
 *
 * Adding a fault with another status fails. */
typedef struct locker_fault {
    locker_op op;
    const char *key; /**< NULL: any. A ping has no key. */
    int64_t skip;    /**< number of matching operations to let through before the fault acts */
    int64_t times;   /**< how often the fault acts; 0: once; LOCKER_FAULT_ALWAYS: without limit */
    locker_fault_kind what;
    locker_status status; /**< only for LOCKER_FAULT_ANSWER */
    /** Delay of the answer in ms. If the caller stops waiting before the delay ends, the caller gets no answer. */
    int64_t delay_ms;
    /** Time in ms until core's next attempt; 0: the fault sets no time. A value above 0 needs `op` LOCKER_OP_ACQUIRE,
     * `what` LOCKER_FAULT_ANSWER, and `status` LOCKER_BUSY or LOCKER_UNAVAILABLE. */
    int64_t retry_ms;
} locker_fault;

/* ------------------------------------------------------------------ the fault driver ----
 * `fault+SCHEME:...` opens the driver of SCHEME. For each operation, the script of faults acts first, and the driver
 * afterwards. The parameter `fault_file` names a file with the script, one fault on each line. The parameter `fault`
 * contains the script itself, in the form of locker_mock_script() (mock.h):
 *
 *     fault+redis://localhost?fault=acquire:orders/42,times=2,unavailable
 *
 * Operations without a fault go to the real service, and time is real. With this driver, faults have these effects:
 *
 *     lose-reply     The service executes the request. If the request grants a lock, the lock is released in the
 *                    background when the lock call gives up or makes another attempt.
 *     lose-request   A release returns UNKNOWN, and is then sent in the background.
 *     lost           (release, renew) The driver releases the lock, so another client can take the lock.
 *     lose-lock      The driver breaks this lock at the service, but no other lock on the key. A service that notifies
 *                    holders of a break also notifies this holder.
 *     disconnect     The fault lasts until locker_fault_reconnect(). If the locker releases a lock before the reconnect,
 *                    the lock is nevertheless released at the service.
 *     busy           The service does not wake the call. The call makes another attempt after `retry_ms`. If `retry_ms`
 *                    is 0, the call makes another attempt after 50 ms.
 *     renew          With a driver that keeps a session alive, each arriving confirmation of a lease counts as a
 *                    renewal.
 *
 * These functions are in liblocker if it was built with LOCKER_FAULT, which is the default only for builds with tests.
 * Without LOCKER_FAULT, `fault+...` is refused as an unknown scheme. Any thread may call these functions while the locker
 * is open, also in a callback. These functions do not block. If the locker was opened without `fault+`, functions with
 * the return type locker_status return INVALID. */

struct locker_driver;

#if LOCKER_HAS_FAULT
/** Add a fault to the script of a locker.
 *
 * Returns:
 *   - OK: the fault was added.
 *   - INVALID: the fault is wrong, or the locker was opened without `fault+`. The text of `err` says why.
 *   - NOMEM. */
LOCKER_API locker_status locker_fault_on(locker *l, const locker_fault *fault, locker_error *err);

/** Add faults that are written as text. Adds all faults or none.
 *
 * Returns:
 *   - OK: the faults were added.
 *   - INVALID: a word is wrong (the text of `err` names the word), or the locker was opened without `fault+`.
 *   - NOMEM. */
LOCKER_API locker_status locker_fault_script(locker *l, const char *text, locker_error *err);

/** Remove all faults, used or not. Returns OK or INVALID. */
LOCKER_API locker_status locker_fault_forget(locker *l);

/** Connect the locker again after a disconnect. Returns OK or INVALID. */
LOCKER_API locker_status locker_fault_reconnect(locker *l);

/** Return the number of operations on which faults have acted; -1: the locker was opened without `fault+`. */
LOCKER_API int64_t locker_fault_acted(locker *l);

/** Return the number of unfinished faults. A fault is unfinished if it has acted less often than `times` says. A fault
 * with LOCKER_FAULT_ALWAYS is unfinished if it has never acted. Writes a line for each unfinished fault into text[size].
 * A text that is too long is cut. If all faults are finished, the text is empty. */
LOCKER_API size_t locker_fault_verify(locker *l, char *text, size_t size);

/** Return the table of a fault driver that stands before the driver `inner`. The table is for locker_open_driver()
 * (driver.h). The table has the schemes of `inner`, each with `fault+` before it. The table exists until the process
 * ends. So `inner` must also exist until the process ends. Each call with the same `inner` returns the same table. Any
 * thread may call this function.
 *
 * Returns NULL in these cases:
 *   - Memory ran out.
 *   - `inner` has another ABI, or lacks a name, schemes, params or semantics.
 *   - `inner` is a decorator, or has more than 16 schemes or 30 parameters.
 *   - Another driver with the same scheme already has a table from this function. */
LOCKER_API const struct locker_driver *locker_fault_over(const struct locker_driver *inner);

#endif /* LOCKER_HAS_FAULT */

#ifdef __cplusplus
}
#endif
#endif
