/*
 * handover.pml: core's claims. A lock is granted, renewed, passed on inside the process, lost and released,
 * while calls are canceled and the locker is closed. Is every loss seen, and does every claim end exactly
 * once?
 *
 * Core's mutex (a d_step here) guards all state of a claim, and is not held inside the driver. So an
 * operation of the driver begins, events happen, and the operation ends. Events for the claim are handled
 * when the operation ends.
 *
 * models/README.md says which code this stands for, and what it leaves out.
 *
 * run quick: -DCALLERS=2 -DROUNDS=2
 * run full: -DCALLERS=3 -DROUNDS=1
 * fault DROPPED: a loss during acquire or pass is forgotten
 * fault DROPPED_ALL: the loss of all grants does not reach a grant that is inside the driver
 * fault CANCEL_IN_PASS: a canceled claim leaves the queue while the lock is passed to it
 * fault TWICE: unlocking a lost lock withdraws it, though the keeper has withdrawn it
 * fault MEETS_RENEW: unlock does not wait until a renewal has left the driver
 * fault ASKED_OVER: a grant that proves nothing is not withdrawn before it is asked for again
 * fault LEFT_BEHIND: a canceled attempt is not withdrawn
 * fault CLOSED_LATE: an attempt that ends while the locker is closed counts as a grant
 * witness PASSED: a lock is passed on
 * witness LOST_IN_PASS: a grant is lost during a pass
 * witness CLOSED: the locker is closed, and nothing is left
 */
#ifndef CALLERS
#define CALLERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

mtype = { QUEUED, CONTENDING, GRANTED, LOST, RELEASING, GONE };
mtype = { NONE, ACQUIRE, PASS, RENEW, RELEASE };

mtype phase[CALLERS] = GONE;
mtype busy_with[CALLERS] = NONE;
bool lost[CALLERS];        /* events: what came during an operation */
bool all_lost[CALLERS];
bool cancelled[CALLERS];
bool returned[CALLERS];    /* the call has answered OK: the application has a handle */
bool closing, closed;

/* the driver, and what has to hold of it */
bool seen[CALLERS];        /* it knows the claim */
bool has[CALLERS];         /* ... and has a grant for it, of which no loss was told */
bool told[CALLERS];        /* the loss of this claim's grant was told */
byte inside[CALLERS];

#define contended ((phase[0] != GONE && phase[0] != QUEUED) || (phase[1] != GONE && phase[1] != QUEUED) || third)
#if CALLERS > 2
#define third (phase[2] != GONE && phase[2] != QUEUED)
#define somebody_has (has[0] || has[1] || has[2])
#else
#define third false
#define somebody_has (has[0] || has[1])
#endif

inline enter(c, what) {
    busy_with[c] = what; inside[c]++;
    assert(inside[c] == 1) /* no two operations meet on a claim */
}

inline leave(c) {
    busy_with[c] = NONE; inside[c]--
}

/* withdraw, release, or pass as the giving side: the driver is rid of the claim. */
inline rid(c) {
    assert(seen[c]); /* once, and only of what it knew */
    seen[c] = 0; has[c] = 0; told[c] = 0
}

/* A loss that was told is never dropped. */
inline check(c) {
    assert(!(phase[c] == GRANTED && busy_with[c] == NONE && told[c]));
    assert(!(phase[c] == GRANTED && closed))
}

inline granted(c) {
#ifndef CLOSED_LATE
    assert(!closing || busy_with[c] != ACQUIRE);
#endif
    phase[c] = GRANTED;
    check(c)
}

inline clear(c) {
    lost[c] = 0; all_lost[c] = 0
}

/* svc->lease_lost for one claim, or as one of all. */
inline tell(c, all) {
    if :: has[c] -> has[c] = 0; told[c] = 1 :: else fi;
    if
    :: phase[c] == GRANTED -> phase[c] = LOST
#ifdef DROPPED_ALL
    :: phase[c] != GRANTED && all -> skip
#endif
#ifdef DROPPED
    :: phase[c] != GRANTED -> skip
#endif
    :: else ->
        if
        :: busy_with[c] == ACQUIRE || busy_with[c] == PASS || phase[c] == RELEASING ->
            if :: all -> all_lost[c] = 1 :: else -> lost[c] = 1 fi
        :: else
        fi
    fi
}

/* How the driver's acquire ended: the table of ARCHITECTURE.md. */
inline judge_acquire(c) {
    if
    :: (told[c] || has[c]) && closing ->
#ifdef CLOSED_LATE
        leave(c); granted(c)
#else
        rid(c); leave(c); phase[c] = GONE
#endif
    :: (told[c] || has[c]) && !closing && all_lost[c] ->
#ifndef ASKED_OVER
        rid(c);
#endif
        leave(c) /* and asks again */
    :: (told[c] || has[c]) && !closing && !all_lost[c] && lost[c] -> leave(c); phase[c] = LOST; returned[c] = 1
    :: (told[c] || has[c]) && !closing && !all_lost[c] && !lost[c] -> leave(c); granted(c); returned[c] = 1
    :: else -> /* BUSY: sleeps, and asks again; or has to stop */
        leave(c);
        if
        :: closing || cancelled[c] ->
#ifndef LEFT_BEHIND
            rid(c);
#endif
            phase[c] = GONE
        :: else
        fi
    fi;
    clear(c)
}

inline judge_pass(from, to, done) {
    if
    :: done && (lost[to] || all_lost[to]) ->
#ifdef LOST_IN_PASS
        assert(false);
#endif
        rid(to); leave(to); phase[to] = QUEUED
    :: done && !lost[to] && !all_lost[to] && phase[to] != GONE ->
#ifdef PASSED
        assert(false);
#endif
        leave(to); granted(to); returned[to] = 1
    :: else ->
        leave(to);
        if :: cancelled[to] || closing -> phase[to] = GONE :: else fi
    fi;
    clear(to)
}

#ifdef MEETS_RENEW
#define may_leave busy_with[c] != RELEASE
#else
#define may_leave busy_with[c] == NONE
#endif
#ifdef CANCEL_IN_PASS
#define may_go true
#else
#define may_go busy_with[c] == NONE
#endif
#if CALLERS > 2
#define all_gone phase[0] == GONE && phase[1] == GONE && phase[2] == GONE
#else
#define all_gone phase[0] == GONE && phase[1] == GONE
#endif

/* pass: to the next that waits; the driver moves the grant, or refuses, and returns */
#define PASS_TO(K) \
    :: d_step { busy_with[c] == RELEASE && to == 0 && K != c && phase[K] == QUEUED && busy_with[K] == NONE && \
        !cancelled[K] && !closing -> to = K + 1; enter(K, PASS); clear(K) } \
    :: d_step { busy_with[c] == RELEASE && to == K + 1 && !done && has[c] -> \
        has[c] = 0; has[K] = 1; seen[K] = 1; done = 1 } \
    :: d_step { busy_with[c] == RELEASE && to == K + 1 && done -> \
        has[c] = 0; seen[c] = 0; told[c] = 0; judge_pass(c, K, done); \
        leave(c); phase[c] = GONE; clear(c); to = 0; done = 0 } \
    :: d_step { busy_with[c] == RELEASE && to == K + 1 && !done -> /* refused: released after all */ \
        judge_pass(c, K, done); rid(c); leave(c); phase[c] = GONE; clear(c); to = 0 }

proctype caller(byte c)
{
    byte round, to;
    bool done;
again:
    if
    :: round == ROUNDS -> goto out
    :: d_step { round < ROUNDS && !closing && phase[c] == GONE ->
        round++; phase[c] = QUEUED; cancelled[c] = 0; returned[c] = 0; clear(c) }
    :: d_step { round < ROUNDS && closing -> round = ROUNDS }
    fi;
    do
    :: round == ROUNDS && phase[c] == GONE -> break
    :: round < ROUNDS && phase[c] == GONE -> goto again
    /* its turn */
    :: d_step { phase[c] == QUEUED && busy_with[c] == NONE && !contended && !closing -> phase[c] = CONTENDING }
    :: d_step { phase[c] == QUEUED && (closing || cancelled[c]) && may_go -> phase[c] = GONE }
    :: d_step { (phase[c] == QUEUED || phase[c] == CONTENDING) && !cancelled[c] -> cancelled[c] = 1 }
    :: d_step { phase[c] == CONTENDING && busy_with[c] == NONE && !closing && !cancelled[c] ->
        assert(!has[c] && !told[c]); /* no grant is forgotten in the driver */
        enter(c, ACQUIRE); seen[c] = 1; clear(c) }
    :: d_step { phase[c] == CONTENDING && busy_with[c] == NONE && (closing || cancelled[c]) ->
        if :: seen[c] -> rid(c) :: else fi; phase[c] = GONE }
    :: d_step { busy_with[c] == ACQUIRE && !somebody_has && !told[c] -> has[c] = 1 } /* in the driver */
    :: d_step { busy_with[c] == ACQUIRE -> judge_acquire(c) }
    /* the keeper: a renewal, and what was lost is withdrawn */
    :: d_step { phase[c] == GRANTED && busy_with[c] == NONE -> enter(c, RENEW) }
    :: d_step { busy_with[c] == RENEW -> leave(c); check(c) }
    :: d_step { phase[c] == LOST && busy_with[c] == NONE && seen[c] -> rid(c) }
    /* unlock */
    :: d_step { phase[c] == LOST && busy_with[c] == NONE && returned[c] && !seen[c] ->
#ifdef TWICE
        rid(c);
#endif
        phase[c] = GONE }
    :: d_step { phase[c] == GRANTED && (returned[c] || closing) -> phase[c] = RELEASING; clear(c) }
    :: d_step { phase[c] == RELEASING && may_leave -> /* lost before release has begun: withdrawn */
        if
        :: lost[c] || all_lost[c] -> rid(c); phase[c] = GONE
        :: else -> enter(c, RELEASE)
        fi }
    :: d_step { busy_with[c] == RELEASE && to == 0 -> rid(c); leave(c); phase[c] = GONE; clear(c) }
    PASS_TO(0)
    PASS_TO(1)
#if CALLERS > 2
    PASS_TO(2)
#endif
    od;
out:
    skip
}

proctype service()
{
    byte losses;
end:
    do
    :: d_step { losses < 2 && has[0] -> losses++; tell(0, false) }
    :: d_step { losses < 2 && has[1] -> losses++; tell(1, false) }
#if CALLERS > 2
    :: d_step { losses < 2 && has[2] -> losses++; tell(2, false) }
#endif
    :: d_step { losses < 2 -> losses++; tell(0, true); tell(1, true);
#if CALLERS > 2
        tell(2, true);
#endif
        check(0); check(1) }
    od
}

proctype closer()
{
end:
    d_step { !closing -> closing = 1 }
    /* waits until nothing is in flight; what is held is released by then */
endwait:
    d_step { all_gone -> closed = 1;
#ifdef CLOSED
        assert(false);
#endif
        assert(!seen[0] && !seen[1] && !has[0] && !has[1]); /* the driver is rid of all */
#if CALLERS > 2
        assert(!seen[2] && !has[2]);
#endif
        }
}

init {
    atomic {
        run caller(0); run caller(1);
#if CALLERS > 2
        run caller(2);
#endif
        run service(); run closer()
    }
}
