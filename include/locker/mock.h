/* mock.h: a lock service for unit tests, in liblocker-mock. docs/testing.md is the introduction.
 *
 * A mock is one lock service in memory, with a clock of its own that a test moves by hand. The lockers that
 * are opened on it are ordinary ones: the code under test does not know. Without a script the service does
 * what a real one does: exclusion, shared locks and permits, waiters in order, leases that end unless they are renewed,
 * fencing tokens that grow, losses.
 *
 *     locker_mock *mock;
 *     locker *l;
 *
 *     locker_mock_new(NULL, &mock, NULL);
 *     locker_mock_open(mock, "shop", NULL, &l, NULL);
 *     ... code under test, with `l` ...
 *     locker_mock_advance(mock, 30000);          thirty seconds later, at once
 *     ...
 *     locker_close(l);
 *     locker_mock_free(mock);
 *
 * The clock
 * ---------
 * Nothing becomes due by itself: renewals, the ends of leases, time-outs and delays happen in
 * locker_mock_advance(), in the order of their times, and all that follows from them, callbacks of losses
 * included, has happened when it returns. At one and the same moment lockers come before the service: a
 * holder knows that its lease is over before the service gives the lock to another.
 *
 * The thread that made the mock is the test's own. A call on it that has to wait (for a lock that another
 * holds, for a delayed answer) moves the clock itself, from one event to the next, because nobody else is
 * there to do it: so a lock call of 5 s on a busy key times out at once, 5 s later by the clock. Calls on
 * other threads wait for the clock to be moved; locker_mock_await_waiters() tells when they stand there. With
 * `still_clock` all do.
 *
 * Every function here may be called from any thread, but not from inside a callback of a locker (on_lost,
 * log), where those that would wait answer LOCKER_INVALID. None of them touches a test framework: they
 * answer, the test asserts. */
#ifndef LOCKER_MOCK_H
#define LOCKER_MOCK_H

#include <locker/fault.h>
#include <locker/locker.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One lock service. Opaque. Those of one process know nothing of each other. */
typedef struct locker_mock locker_mock;

/** How the service's locks end by themselves. */
typedef enum locker_mock_leases {
    LOCKER_MOCK_LEASES_RENEWED = 0, /**< each lock has a lease that its locker renews, as with Redis */
    LOCKER_MOCK_LEASES_SESSION =
        1,                      /**< a locker's session of its ttl keeps all its locks, as with ZooKeeper */
    LOCKER_MOCK_LEASES_NONE = 2 /**< they don't, as with files */
} locker_mock_leases;

/** Options of a mock. Start from LOCKER_MOCK_OPTIONS_INIT, which is like Redis. */
typedef struct locker_mock_options {
    size_t size; /**< sizeof(locker_mock_options) */
    locker_mock_leases leases;

    /** Waiters of a locker stand in a queue of the service (LOCKER_CAP_QUEUE), as with ZooKeeper. False: each
     * locker sends one, and the others wait inside it. */
    bool queue;

    bool pass; /**< a lock may be handed over inside a locker, without the service */

    /** 0: tokens are 1, 2, 3, ... and waiters are served in order. Else tokens grow by leaps, and, without
     * `queue`, a lock that becomes free goes to any locker that waits; the same seed gives the same again. */
    uint64_t seed;

    bool still_clock;    /**< the clock is moved by locker_mock_advance() alone, whatever thread waits */
    int64_t patience_ms; /**< how long, in real time, threads may take to come to rest; 0: 10 s */
} locker_mock_options;

#define LOCKER_MOCK_OPTIONS_INIT                                                                             \
    {                                                                                                        \
        sizeof(locker_mock_options), LOCKER_MOCK_LEASES_RENEWED, false, false, 0, false, 0                   \
    }

/** Make a service; NULL: with the usual options. *out is the caller's, to be freed with locker_mock_free().
 * Errors: INVALID (options->size, an option out of range), NOMEM. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_new(const locker_mock_options *options,
                                                           locker_mock **out, locker_error *err);

/** Free it. Its lockers must be closed, and the handles of their locks freed. NULL is allowed. */
LOCKER_API void locker_mock_free(locker_mock *mock);

/** Open a locker on the service, as one host of several: `owner` is its label, NULL the usual one, and stands
 * before the label in `options`, whose other members count as for locker_open(). *out is the caller's, to be
 * closed with locker_close(). Errors: as locker_open(); UNAVAILABLE while all are disconnected. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_open(locker_mock *mock, const char *owner,
                                                            const locker_options *options, locker **out,
                                                            locker_error *err);

/* ------------------------------------------------------------------ the clock ---- */
/** The time now, in ms. It begins at 1,000,000. */
LOCKER_API int64_t locker_mock_now_ms(const locker_mock *mock);

/** Move the clock on by `ms`; 0: let what is due now come to rest. When it returns all that is due has
 * happened: the lockers' own threads rest, and so does every call that had waited for a lock, or has returned
 * to its caller. (What that caller does next on its thread is its own affair.) Blocks until then. Returns OK;
 * TIMEOUT when the threads did not come to rest in `patience_ms` of real time, a callback that blocks for
 * one, and the clock stands where that was; INVALID (ms is negative, called inside a callback). */
LOCKER_API locker_status locker_mock_advance(locker_mock *mock, int64_t ms);

/** Wait until exactly `count` calls stand waiting for `key` (NULL: any), all lockers counted: for the lock,
 * or for a delayed answer about it. The clock doesn't move. Returns OK; TIMEOUT after `patience_ms` of real
 * time; INVALID (called inside a callback). */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_await_waiters(locker_mock *mock, const char *key,
                                                                     size_t count);

/** How many calls stand so now. */
LOCKER_API size_t locker_mock_waiters(const locker_mock *mock, const char *key);

/** As locker_mock_await_waiters(), for `count` operations or more of this kind on `key` (NULL: any) in the records. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_await_calls(locker_mock *mock, locker_op op,
                                                                   const char *key, size_t count);

/* ------------------------------------------------------------------ what goes wrong ---- */
/** Add a fault to the script. See fault.h. Errors: INVALID (it says what is wrong with the fault), NOMEM. */
LOCKER_API locker_status locker_mock_on(locker_mock *mock, const locker_fault *fault, locker_error *err);

/** Add faults that are written as text, divided by semicolons:
 *
 *     OP[:KEY] [skip=N] [times=N|always] [delay=TIME] [retry=TIME]
 *              [STATUS|lose-request|lose-reply|lose-lock|disconnect]
 *
 * Blanks or commas divide the words; a TIME is a duration as for locker_parse_duration(): 500ms, 2s.
 * Examples: "acquire:orders/42 times=2 unavailable", "renew,always,lose-reply;release,delay=50ms". All or
 * none are added. Errors: INVALID (it names the word that is wrong), NOMEM. */
LOCKER_API locker_status locker_mock_script(locker_mock *mock, const char *text, locker_error *err);

/** Forget all faults, used or not. */
LOCKER_API void locker_mock_forget(locker_mock *mock);

/** The lock on `key` is lost now: it is free, and its holder is told; of several that share it or have permits, all are.
 * (locker_break() takes it from one of them.) OK; INVALID when nobody holds it. */
LOCKER_API locker_status locker_mock_lose(locker_mock *mock, const char *key);

/** All locks are lost now, those of `l` (its session is gone) or, with NULL, everybody's. */
LOCKER_API void locker_mock_lose_all(locker_mock *mock, const locker *l);

/** Cut a locker off from the service, or all with NULL: operations are answered at once with UNAVAILABLE
 * (unlocking: UNKNOWN), leases are not renewed and states are SUSPECT, until locker_mock_reconnect(). The
 * service knows nothing of it (a call that waits, waits on, and one that waits for ever does so until it is
 * connected again): it keeps the locks until their leases end, or for ever. What a locker wanted to give back
 * meanwhile is given back when it is connected again. */
LOCKER_API void locker_mock_disconnect(locker_mock *mock, const locker *l);

/** Connect a locker again, or all with NULL. Overdue renewals are made at once. */
LOCKER_API void locker_mock_reconnect(locker_mock *mock, const locker *l);

/** A foreign client, `owner`, which is no locker of this test, takes the lock: for `ttl_ms`, 0: until it leaves.
 * *token (NULL allowed) gets the fencing token. OK; BUSY when it is held; INVALID; NOMEM. */
LOCKER_API locker_status locker_mock_take(locker_mock *mock, const char *key, const char *owner,
                                          int64_t ttl_ms, uint64_t *token);

/** The same, shared or with one of so many permits, as in locker_lock_options. It doesn't wait: BUSY also when all permits are
 * taken, or when a reader would go past a writer that waits; CONFIG when the key is in use in another way. */
LOCKER_API locker_status locker_mock_take_as(locker_mock *mock, const char *key, const char *owner,
                                             locker_mode mode, int32_t permits, int64_t ttl_ms,
                                             uint64_t *token);

/** The one that took it leaves it; of several, the one that came first. OK; INVALID when no foreign client holds it. */
LOCKER_API locker_status locker_mock_leave(locker_mock *mock, const char *key);

/** Wake those who wait for `key` (NULL: any): they ask again, as after a message that means nothing. */
LOCKER_API void locker_mock_wake(locker_mock *mock, const char *key);

/* ------------------------------------------------------------------ what has happened ---- */
/** One operation that the service was asked for. */
typedef struct locker_mock_call {
    locker_op op;
    const char *key;   /**< NULL: none (ping) */
    const char *owner; /**< who asked: the holder's label, or the locker's */
    uint64_t token;    /**< of the lock that it was about or that it gave; 0: none */
    int64_t at_ms;     /**< when it was asked, by the clock */
    int64_t took_ms;   /**< until it was answered */

    /** The answer. BUSY from an attempt: the lock was held. Renew: OK, LOST, or UNAVAILABLE, not extended. */
    locker_status status;

    bool scripted;   /**< a fault acted on it */
    size_t together; /**< how many leases were renewed in one go with it, itself included; else 1 */
} locker_mock_call;

/** The index-th operation, from 0, in the order in which they were answered; false past the last. The texts
 * belong to the mock and live as long as it. */
LOCKER_API bool locker_mock_call_at(const locker_mock *mock, size_t index, locker_mock_call *call);

/** How many operations of this kind (LOCKER_OP_ANY: all) on `key` (NULL: any) were answered. */
LOCKER_API size_t locker_mock_count(const locker_mock *mock, locker_op op, const char *key);

/** Whether anybody holds the lock at the service, and, `owner` and `token` (NULL allowed) tell, who; of several, the one
 * with the least token. */
LOCKER_API bool locker_mock_held(const locker_mock *mock, const char *key, char owner[LOCKER_OWNER_MAX + 1],
                                 uint64_t *token);

/** The index-th, from 0, of those who hold the lock at the service, the least token first; false past the last. `owner`,
 * `token` and `slot` (NULL allowed) tell who it is; *slot is -1 but for a permit. Readers of a locker that ride on one grant
 * are one. */
LOCKER_API bool locker_mock_holder_at(const locker_mock *mock, const char *key, size_t index,
                                      char owner[LOCKER_OWNER_MAX + 1], uint64_t *token, int32_t *slot);

/** What a test should not leave behind: locks that lockers still hold, calls that still wait, faults that
 * have not acted, or not as often as they say, and time-outs of this interface. Writes one line for each into
 * text[size] and answers how many there are; 0, and an empty text: none. */
LOCKER_API size_t locker_mock_verify(const locker_mock *mock, char *text, size_t size);

/** The name of an operation in lower case ("acquire", ...); "invalid operation" for others. Static text. */
LOCKER_API const char *locker_mock_op_name(locker_op op);

#ifdef __cplusplus
}
#endif
#endif
