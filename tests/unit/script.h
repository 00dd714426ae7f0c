/*
 * script.h: a driver whose answers the test writes, and a clock that the test moves. Every test of core runs
 * over it.
 */
#ifndef LK_TEST_SCRIPT_H
#define LK_TEST_SCRIPT_H

#include <locker/driver.h>

#include "expect.h"
#include "gate.h"

enum { SCRIPT_ANSWERS = 64, SCRIPT_CLAIMS = 512 };

/** One answer of acquire. */
struct script_answer {
    locker_status status;
    int64_t retry_in_ms; /**< 0: retry_at stays 0 */
    int64_t lease_ms;    /**< with OK: valid_until from now; 0: the claim's ttl; -1: no lease */
    int64_t takes_ms;    /**< the clock moves on so much while the reply travels */
};

struct script {
    pthread_mutex_t mutex; /**< guards all below but the gates and the clock */
    _Atomic int64_t now;   /**< ns; the clock */
    const locker_services *svc;
    struct script_answer answers[SCRIPT_ANSWERS]; /**< taken in order; when all are taken, `usual` answers */
    size_t answer_count, answers_taken;
    struct script_answer usual;
    locker_status release_status; /**< what release answers */
    locker_status
        pass_status;       /**< what pass answers; the script's table offers pass only if `passes` was set */
    bool hold_attempts;    /**< attempts wait inside acquire until interrupted, or `go` opens */
    struct lk_gate inside; /**< opened by each attempt that waits there */
    struct lk_gate go;
    struct lk_gate renewed;              /**< opened once for each call of renew */
    struct lk_gate withdrew;             /**< opened once for each withdrawal */
    locker_claim *claims[SCRIPT_CLAIMS]; /**< claims that the driver has, in the order in which they came */
    size_t claim_count;
    bool interrupted;
    unsigned attempts, released, withdrawn, passed, interrupts, renew_calls, renew_grants;
    unsigned in_flight, in_flight_max;
    uint64_t token;
    char seen_config[512]; /**< what open was given, as text */
};

enum { SCRIPT_QUEUES = 1, SCRIPT_PASSES = 2, SCRIPT_NO_LEASES = 4 };

/** Make a script and a locker on it. */
struct script *script_open(unsigned flags, locker **l);

/** Close the locker (NULL: it is closed already), check that each claim that the driver ever had was ended
 * exactly once, and free the script. */
void script_close(struct script *s, locker *l);

/** The table alone, for opening with options of one's own; the script answers for the next open. */
const locker_driver *script_driver(struct script *s, unsigned flags);
struct script *script_new(void);
const locker_clock *script_clock(struct script *s);

/** The next attempt's answer. */
void script_answer(struct script *s, struct script_answer answer);
/** What every attempt answers from now on that has no answer of its own. */
void script_usual(struct script *s, struct script_answer answer);

/** Move the clock on. What is due happens soon after on the keeper: await its effect. */
void script_advance(struct script *s, int64_t ms);
int64_t script_now(struct script *s);

/** The claim number i that the driver has now, waiting for it to come. */
locker_claim *script_claim(struct script *s, size_t i);
/** Wait until so many attempts have been answered. */
void script_await_attempts(struct script *s, unsigned attempts);
/** Wake the claim up. */
void script_wake(struct script *s, locker_claim *claim);
/** Confirm the lease until so long from now. */
void script_extend(struct script *s, locker_claim *claim, int64_t ms);

#endif
