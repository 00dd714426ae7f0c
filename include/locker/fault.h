/* fault.h: which operations of a lock service go wrong, and how. For tests: the mock (mock.h) and the fault
 * driver take the same faults. Applications don't need it.
 *
 *     locker_fault down = {.op = LOCKER_OP_ACQUIRE, .key = "orders/42", .status = LOCKER_UNAVAILABLE};
 *
 * is "the next attempt to take orders/42 answers UNAVAILABLE". Everything that is left out is zero, and zero
 * means the usual: any key, from the first operation on, once.
 *
 * Several faults make a script. An operation is shown to the faults in the order in which they were added,
 * until one acts on it. A fault acts when operation and key fit, when it has let `skip` such operations go
 * by, and when it has not yet acted `times` times. So faults that name the same operation are a list to be
 * worked off. */
#ifndef LOCKER_FAULT_H
#define LOCKER_FAULT_H

#include <locker/locker.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What is asked of a lock service: the operations of a driver (driver.h). */
typedef enum locker_op {
    LOCKER_OP_ANY = 0,     /**< in a fault: each of those below */
    LOCKER_OP_ACQUIRE = 1, /**< one attempt to take a lock; a call that waits makes several */
    LOCKER_OP_RELEASE = 2,
    LOCKER_OP_RENEW = 3, /**< of one lease; with a session: its heartbeat, once for each lock */
    LOCKER_OP_SHOW = 4,
    LOCKER_OP_BREAK = 5,
    LOCKER_OP_PING = 6,
    LOCKER_OP_PASS = 7,    /**< a lock is handed to the next caller of the same locker */
    LOCKER_OP_WITHDRAW = 8 /**< a claim is given up. It can't fail: in records alone, not in a fault */
} locker_op;

/** How an operation goes wrong. */
typedef enum locker_fault_kind {
    /** The service does nothing and answers `status`; LOCKER_OK: nothing is wrong but the delay. */
    LOCKER_FAULT_ANSWER = 0,
    /** The service never hears of it, the caller gets no answer. */
    LOCKER_FAULT_LOSE_REQUEST = 1,
    /** The service does it, the caller gets no answer. */
    LOCKER_FAULT_LOSE_REPLY = 2,
    /** The service does it, and then the lock is taken away without a word: its holder finds out with the
     * next renewal or when it unlocks. Acquire and renew alone. */
    LOCKER_FAULT_LOSE_LOCK = 3,
    /** The connection breaks: neither this nor what comes later arrives, until it is connected again. */
    LOCKER_FAULT_DISCONNECT = 4
} locker_fault_kind;

/** For ever, as a fault's `times`. */
enum { LOCKER_FAULT_ALWAYS = -1 };

/** One fault. It has no size member, so that it can be written where it is used; a new member changes the ABI
 * of what takes it. Copied with its key when it is added. What an operation can answer as `status`:
 *
 *     acquire            busy (a call that waits goes on waiting), timeout (no answer while there was time),
 *                        unavailable, denied, invalid, config, unsupported, protocol, nomem
 *     release            lost, unknown
 *     renew              lost, unavailable (the lease is not extended)
 *     show, break, ping  unavailable, denied, invalid, unsupported, protocol, nomem
 *     pass               busy (the lock is released instead)
 *     any                unavailable: release answers unknown then, and pass busy
 *
 * Others are refused when the fault is added. */
typedef struct locker_fault {
    locker_op op;
    const char *key; /**< NULL: any. A ping has none. */
    int64_t skip;    /**< let so many operations that fit go by first */
    int64_t times;   /**< act so often; 0: once; LOCKER_FAULT_ALWAYS: for ever */
    locker_fault_kind what;
    locker_status status; /**< with LOCKER_FAULT_ANSWER */
    int64_t delay_ms;     /**< the answer takes so long; longer than the caller waits: it gets none */
    int64_t retry_ms; /**< acquire answering busy or unavailable: "try again in so long"; 0: it doesn't say */
} locker_fault;

/* ------------------------------------------------------------------ the fault driver ----
 * `fault+SCHEME:...` opens the driver of SCHEME with a script before it, given by the parameters `fault` (the
 * text, in the form of locker_mock_script() in mock.h) and `fault_file` (a file of it, one fault a line):
 *
 *     fault+redis://localhost?fault=acquire:orders/42,times=2,unavailable
 *
 * What is not in the script is the real service's. Time is real too. What a fault means there:
 *
 *     lose-reply     the service has done it; a lock call's grant is given back in the background as soon as
 *                    the call gives up
 *     lose-request   a release is made up for in the background when the caller has his UNKNOWN
 *     lost           (release, renew) the lock is given back, so another can have it
 *     lose-lock      the lock is broken at the service, and of several that hold the key no other. One that tells holders of
 *                    it, tells.
 *     disconnect     until locker_fault_reconnect(). What is given back meanwhile is given back nevertheless.
 *     busy           no service wakes the call, so it tries again after `retry_ms`, or 50 ms
 *     renew          of a driver that renews by a session: each confirmation of the lease that arrives
 *
 * These functions are in liblocker when it was built with LOCKER_FAULT, which a build without tests has not,
 * unless it is asked to; then `fault+...` is refused like any unknown scheme. They may be called from any
 * thread while the locker is open, callbacks included, and don't block. INVALID: opened without `fault+`. */

struct locker_driver;

#if LOCKER_HAS_FAULT
/** Add a fault to the script of a locker. Errors: INVALID (it says what is wrong with the fault), NOMEM. */
LOCKER_API locker_status locker_fault_on(locker *l, const locker_fault *fault, locker_error *err);

/** Add faults that are written as text; all or none. Errors: INVALID (it names the wrong word), NOMEM. */
LOCKER_API locker_status locker_fault_script(locker *l, const char *text, locker_error *err);

/** Forget all faults, used or not. OK, INVALID. */
LOCKER_API locker_status locker_fault_forget(locker *l);

/** Connect the locker again after a disconnect. OK, INVALID. */
LOCKER_API locker_status locker_fault_reconnect(locker *l);

/** On how many operations faults have acted; -1: the locker was not opened with `fault+`. */
LOCKER_API int64_t locker_fault_acted(locker *l);

/** Writes one line for each fault that has not acted, or not as often as it says, into text[size] (cut at the
 * size), and answers how many there are; 0, and an empty text: none. */
LOCKER_API size_t locker_fault_verify(locker *l, char *text, size_t size);

/** The table of a driver (driver.h) with a script before it, for locker_open_driver(); its schemes are the
 * other one's behind `fault+`. `inner` must outlive the process; the answer does. The same driver gets the
 * same table. NULL: out of memory, a table of another ABI or without name, schemes, params or semantics, or
 * another driver with one of its schemes has a table already. May be called from any thread. */
LOCKER_API const struct locker_driver *locker_fault_over(const struct locker_driver *inner);

#endif /* LOCKER_HAS_FAULT */

#ifdef __cplusplus
}
#endif
#endif
