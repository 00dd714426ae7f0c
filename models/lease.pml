/*
 * lease.pml: a lock in Redis is a key with a time to live. Are there ever two clients that are certain to
 * hold it?
 *
 * Each client counts its local deadline D from before it sent the request that took or renewed the lease.
 * After a hand-over, D counts from before the client sent its last attempt that found the lock busy, because
 * the hand-over came after that. Requests, answers and messages are late or lost. Clients stop for any time.
 *
 * models/README.md says which code this stands for, and what it leaves out.
 *
 * run quick: -DTICKS=3 -DGRANTS=3
 * run full: -DTICKS=2 -DGRANTS=2 -DLATE=1
 * run full: -DTICKS=4 -DGRANTS=3
 * run full: -DTICKS=5 -DGRANTS=3
 * fault RECEIVED: D counts from when the answer came
 * fault ARRIVAL: a hand-over's D counts from when its message came
 * fault OLD_MESSAGE: a message counts although its number had been given out before the lock was found busy
 * fault RENEW_XX: a renewal is a SET XX, which does not check the holder
 * fault RELEASE_DEL: a release is a DEL, which does not check the holder
 * fault NO_MARGIN: clocks run at different speeds, and D leaves no margin for that
 * witness GIVEN: a message grants the lock
 * witness RENEWED: a lease is renewed
 *
 * What a trace shows (script/prove --traces), each of one client:
 * event ASKS: sends an attempt; how long its lease is to be
 * event TAKES: its attempt is carried out, and takes the lock; the grant's number
 * event FINDS: its attempt is carried out, and finds the lock busy; the number that the counter has
 * event GRANTED: holds the lock from now on; the grant's number, and the time left until D
 * event RENEWS: sends a renewal
 * event EXTENDS: its renewal is carried out; 1 if the lock is its own, and the time since it was sent
 * event MOVES: its D is another one; the time left until that
 * event LOSES: is told that its lease is over
 * event LEAVES: sends a release
 * event FREES: its release is carried out, and was of its lock; the grant's number and the client if one is handed it
 * event KEEPS: its release is carried out, and the lock was not its own
 * event EXPIRES: its lease ends at the server
 * event ENDS: nothing of its claim is to come; another claim has its place
 *
 * The steps that a trace has to be made of, with those that it does not show:
 * step ASK_FIRST: a claim's first attempt
 * step ASK_WAITING: a waiter asks again
 * step ASK_AGAIN: an attempt without an answer is sent again
 * step TAKE: an attempt takes the lock
 * step FIND_BUSY: an attempt finds the lock busy
 * step GRANT: an answer grants the lock
 * step GRANT_GIVEN: a message grants the lock
 * step WAIT: an answer says that the lock is busy
 * step RENEW: a renewal is sent
 * step EXTEND: a renewal extends the lease
 * step EXTEND_NOT: a renewal does not find the lock
 * step MOVE: the answer to a renewal moves D
 * step LOSE_LATE: D has come
 * step LEAVE_HELD: a holder releases
 * step LEAVE_WAITING: a waiter gives up
 * step LEAVE_ASKING: a claim gives up while its attempt has no answer
 * step LEAVE_LOST: a lock that is lost is released
 * step LEAVE_AGAIN: a release without an answer is sent again
 * step FREE: a release frees the lock
 * step HAND_OVER: a release hands the lock on
 * step FREE_NOT: a release does not find the lock
 * step EXPIRE: a lease ends at the server
 * step LOSE_ANSWER: an answer is lost
 * step BE_LATE: a request is on a connection that was given up
 * step END: a claim's place is another's
 *
 * Steps that no trace has, because of what is left out (breaks), or because it is rare:
 * unbound TAKE_LATE: an attempt on a connection that was given up takes the lock
 * unbound FIND_LATE: an attempt on a connection that was given up finds the lock busy
 * unbound LOSE_TOLD: the answer to a renewal says that the lock is lost, before D
 */
#ifdef TRACE
#define CLIENTS 12
#include "trace.h"
#define TTL(N) lease[N]
#define MARGIN(N) (TTL(N) / 100 + 2000) /* as clock_drift=1 has it: us */
#define GRANTS 30000
#define LATE 8
#define ASKS 24 /* renewals, while the server stands still */
#define NOT_KNOWN 0
#define begins_lease(N) lease[N] = about
#define is_there(WAY, KIND) (WAY??[KIND, stamp]) /* renewals have a connection of their own */
#define fetch(WAY, KIND) WAY??KIND, stamp
#define is_renewal(WAY, N) (WAY??[RENEW, eval(clock[N] - left)])
#define fetch_renewal(WAY, N) WAY??RENEW, eval(clock[N] - left); stamp = clock[N] - left
#define is_number(NUMBER) (about == NUMBER || about == NOT_KNOWN)
#define is_answer(NUMBER) (about == NUMBER)
#define ANY_NUMBER eval(about)
#define told_number (about == NOT_KNOWN -> 32000 : fence) /* no message is known to be newer */
#define counts_from(N, AGO) (left <= (TTL(N) > MARGIN(N) + (AGO) -> TTL(N) - MARGIN(N) - (AGO) : 0) + 1)
#define counted(N, AGO) left
#define is_next(N) (next == N)
#define has_no_message(N) true
#define EXPIRES_AT_ONCE false /* Redis counts in ms: not before */
/* Several renewals may be under way, each with a time of its own, and one may be sent when D has just come. */
#define MANY_RENEWALS true
#define may_renew(N) (state[N] == HELD || state[N] == LOST)
#define is_renewing(N) true
#define stamp_of(N) clock[N]
#define renewal_age(N) (clock[N] - stamp)
/* What is lost or late is so before it matters: the search has less to try. */
#define sends(N) (who == N && (event == EVENT_ASKS || event == EVENT_LEAVES))
#define may_lose(N) (sends(N) || (who == N && len(answers[N]) > 1))
#define may_be_late(N, KIND) (who == N && ((event == EVENT_ASKS && KIND == ACQUIRE) || (event == EVENT_LEAVES && KIND == RELEASE)))
#define span int
#define count short
int lease[CLIENTS + 1];
int clock[CLIENTS + 1]; /* of each place's client, from any beginning */
bool alone; /* one client at most is certain to hold the lock */
#else
#ifndef TICKS
#define TICKS 3
#endif
#ifndef GRANTS
#define GRANTS 3 /* so many are made, with a number each */
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef LATE
#define LATE 0 /* of a client's requests so many at most are carried out after their connection was given up */
#endif
#define ASKS 2
#define TTL(N) TICKS
#ifdef NO_MARGIN
#define MARGIN(N) 0
#else
#define MARGIN(N) 1 /* by so much a client's clock may be slow in the time of one lease */
#endif
/* Without a trace a step needs no event, and tells nobody. */
#define shows(EVENT, N) true
#define hidden_of(N) true
#define took(STEP) skip
#define did(STEP) skip
#define begins_lease(N) skip
#define is_there(WAY, KIND) (WAY?[KIND, stamp])
#define fetch(WAY, KIND) WAY?KIND, stamp
#define is_renewal(WAY, N) is_there(WAY, RENEW)
#define fetch_renewal(WAY, N) fetch(WAY, RENEW)
#define is_number(NUMBER) true
#define is_answer(NUMBER) true
#define ANY_NUMBER number
#define told_number fence
#define is_next(N) true
#define has_no_message(N) (message[N] == 0)
#define counts_from(N, AGO) true
#define counted(N, AGO) (TTL(N) > MARGIN(N) + (AGO) -> TTL(N) - MARGIN(N) - (AGO) : 0)
#define EXPIRES_AT_ONCE true
#define MANY_RENEWALS false
#define may_renew(N) (state[N] == HELD)
#define is_renewing(N) (renewing[N])
#define stamp_of(N) 0
#define renewal_age(N) since[N]
#define may_lose(N) true
#define may_be_late(N, KIND) true
#define span byte
#define count byte
#endif

mtype = { ACQUIRE, RENEW, RELEASE, OK, BUSY };
mtype = { IDLE, ASKED, WAITING, HELD, LOST, LEAVING };

/* the server */
byte owner;                /* 0: the lock is free */
span ttl;
count fence;               /* the counter of fencing tokens */
bool queued[CLIENTS + 1];

/* each client's connection, and its subscription; one request of a kind at a time */
/* What is under way has a kind, an answer a number, and both the stamp of the request. */
chan asks[CLIENTS + 1] = [ASKS] of { mtype, span };
chan answers[CLIENTS + 1] = [ASKS] of { mtype, count, span };
chan late[CLIENTS + 1] = [LATE + 1] of { mtype, span }; /* on connections that were given up: nobody hears the answer */
count message[CLIENTS + 1]; /* the number of the hand-over that is under way; 0: none */

mtype state[CLIENTS + 1] = IDLE;
span valid[CLIENTS + 1];      /* time left until D; above 0, the client is certain to hold the lock */
span since[CLIENTS + 1];      /* since the request under way was sent */
span since_busy[CLIENTS + 1]; /* since the last attempt that was found busy was sent; TTL: long ago */
count busy_fence[CLIENTS + 1]; /* the counter as that attempt's answer told it */
bool renewing[CLIENTS + 1];
#ifndef TRACE
bool slipped;
byte spared;               /* whose clock does not see the next unit of time */
#endif

inline hand_over(n) {
    owner = n; ttl = TTL(n); fence++; queued[n] = 0
}

inline check_alone() {
#ifdef TRACE
    c_code { now.alone = trace_are_alone(now.valid, CLIENTS); };
    assert(alone)
#else
    assert(valid[1] == 0 || valid[2] == 0);
#if CLIENTS > 2
    assert(valid[1] == 0 || valid[3] == 0);
    assert(valid[2] == 0 || valid[3] == 0);
#endif
#endif
}

inline grant(n, ago) {
    state[n] = HELD;
    valid[n] = counted(n, ago);
    since[n] = 0;
    since_busy[n] = 0; busy_fence[n] = 0;
    if :: valid[n] == 0 -> state[n] = LOST :: else fi;
    check_alone()
}

/* Time passes at the server, and at a client. */
inline age_server(by) {
    if :: owner != 0 -> ttl = (ttl > by -> ttl - by : 0) :: else fi;
    if :: ttl == 0 && EXPIRES_AT_ONCE -> owner = 0 :: else fi
}
inline grow(age, most, by) {
    age = (age + by < most -> age + by : most)
}
inline age(n, by) {
    if :: valid[n] > 0 ->
        valid[n] = (valid[n] > by -> valid[n] - by : 0);
        if :: valid[n] == 0 && state[n] == HELD -> state[n] = LOST :: else fi
    :: else
    fi;
    if :: state[n] == ASKED || renewing[n] -> grow(since[n], TTL(n), by) :: else fi;
    if :: state[n] == ASKED || state[n] == WAITING -> grow(since_busy[n], TTL(n), by) :: else fi
}

#ifdef TRACE
inline passes() {
    age_server(passed[0]);
    i = 1;
    do
    :: i <= CLIENTS -> clock[i] = clock[i] + passed[i]; age(i, passed[i]); i++
    :: else -> break
    od;
    i = 0
}
/* Another claim has its place from now on. */
inline forget(n) {
    do :: len(asks[n]) > 0 -> asks[n]?what, _ :: len(asks[n]) == 0 -> break od;
    do :: len(late[n]) > 0 -> late[n]?what, _ :: len(late[n]) == 0 -> break od;
    do :: len(answers[n]) > 0 -> answers[n]?what, number, _ :: len(answers[n]) == 0 -> break od;
    state[n] = IDLE; valid[n] = 0; since[n] = 0; since_busy[n] = 0; busy_fence[n] = 0; renewing[n] = 0;
    queued[n] = 0; message[n] = 0; what = 0; number = 0
}
#endif

#define is_still(N) (len(asks[N]) + len(answers[N]) + len(late[N]) == 0)
#define is_asking(N, KIND) (asks[N]??[KIND, stamp])
#define is_answered(N) (len(answers[N]) > 0)

/* Nothing of an attempt, or of a release, is under way any more. */
#define has_none(N, KIND) (!is_asking(N, KIND) && !is_answered(N))

proctype client(byte me)
{
    count number;
    span stamp;
    mtype what;
end:
    do
    :: d_step { state[me] == ASKED && answers[me]?[BUSY, number, stamp] && hidden_of(me) ->
        answers[me]?BUSY, number, stamp;
        state[me] = WAITING; since_busy[me] = since[me]; busy_fence[me] = number; since[me] = 0;
        number = 0; stamp = 0; did(WAIT) }
    /* a value is used by one claim only: nothing of the last one is under way, and the lock is not its own */
    :: d_step { state[me] == IDLE && fence < GRANTS && owner != me && is_still(me) && shows(ASKS, me) ->
        begins_lease(me);
        state[me] = ASKED; since[me] = 0; since_busy[me] = TTL(me); asks[me]!ACQUIRE, stamp_of(me); took(ASK_FIRST) }
    :: d_step { state[me] == WAITING && shows(ASKS, me) -> /* asks again: a poll, or a message that is not enough */
        state[me] = ASKED; since[me] = 0; asks[me]!ACQUIRE, stamp_of(me); took(ASK_WAITING) }
    /* no answer is to come: it asks again */
    :: d_step { state[me] == ASKED && has_none(me, ACQUIRE) && shows(ASKS, me) ->
        since[me] = 0; asks[me]!ACQUIRE, stamp_of(me); took(ASK_AGAIN) }
    :: d_step { state[me] == LEAVING && has_none(me, RELEASE) && shows(LEAVES, me) ->
        asks[me]!RELEASE, stamp_of(me); took(LEAVE_AGAIN) }
    /* a hand-over's message counts if its number was not given out when the lock was last found busy */
    :: d_step { message[me] != 0 && state[me] == WAITING && is_number(message[me]) && counts_from(me, since_busy[me]) &&
#ifndef OLD_MESSAGE
            message[me] > busy_fence[me] &&
#endif
            shows(GRANTED, me) ->
        message[me] = 0;
#ifdef GIVEN
        assert(false);
#endif
#ifdef ARRIVAL
        grant(me, 0);
#else
        grant(me, since_busy[me]);
#endif
        took(GRANT_GIVEN) }
    :: d_step { may_renew(me) && (MANY_RENEWALS || (!renewing[me] && len(asks[me]) == 0 && !is_answered(me))) &&
            shows(RENEWS, me) ->
        renewing[me] = 1; since[me] = 0; asks[me]!RENEW, stamp_of(me); took(RENEW) }
    /* gives it back, or gives up; nothing that a renewal answers is looked at any more */
#define LEAVE(STATE, STEP) \
    :: d_step { state[me] == STATE && !is_asking(me, RELEASE) && len(asks[me]) < ASKS && shows(LEAVES, me) -> \
        state[me] = LEAVING; valid[me] = 0; renewing[me] = 0; since[me] = 0; since_busy[me] = 0; \
        busy_fence[me] = 0; asks[me]!RELEASE, stamp_of(me); took(STEP) }
    LEAVE(HELD, LEAVE_HELD)
    LEAVE(LOST, LEAVE_LOST)
    LEAVE(WAITING, LEAVE_WAITING)
    LEAVE(ASKED, LEAVE_ASKING)
    /* ---- answers ---- */
    :: d_step { state[me] == ASKED && answers[me]?[OK, ANY_NUMBER, stamp] && counts_from(me, since[me]) && shows(GRANTED, me) ->
        answers[me]?OK, number, stamp;
#ifdef RECEIVED
        grant(me, 0);
#else
        grant(me, since[me]);
#endif
        number = 0; stamp = 0; took(GRANT) }
    :: d_step { is_renewing(me) && state[me] == HELD && answers[me]?[RENEW, 1, stamp] && shows(MOVES, me) ->
        answers[me]?RENEW, number, stamp;
#ifdef RENEWED
        assert(false);
#endif
        renewing[me] = 0; number = 0;
        if
        :: counts_from(me, renewal_age(me)) -> grant(me, renewal_age(me)); stamp = 0; took(MOVE)
        :: else -> stamp = 0 /* none of a trace's */
        fi }
    :: d_step { is_renewing(me) && state[me] == HELD && answers[me]?[RENEW, 0, stamp] && shows(LOSES, me) ->
        answers[me]?RENEW, number, stamp;
        renewing[me] = 0; number = 0; stamp = 0;
        state[me] = LOST; valid[me] = 0; took(LOSE_TOLD) }
    /* an answer is lost, or is of no interest any more */
    :: d_step { is_answered(me) && may_lose(me) ->
        answers[me]?what, number, stamp;
        if :: what == RENEW -> renewing[me] = 0 :: else fi;
        what = 0; number = 0; stamp = 0; did(LOSE_ANSWER) }
    /* a connection breaks, or is given up: a request that was on its way is lost, or late */
#define BREAK(KIND) \
    :: d_step { is_there(asks[me], KIND) && len(late[me]) < LATE && may_be_late(me, KIND) -> \
        fetch(asks[me], KIND); late[me]!KIND, stamp; stamp = 0; if :: KIND == RENEW -> renewing[me] = 0 :: else fi; did(BE_LATE) }
    BREAK(ACQUIRE)
    BREAK(RENEW)
    BREAK(RELEASE)
#ifndef TRACE
    :: d_step { len(asks[me]) > 0 ->
        asks[me]?what, stamp;
        if :: what == RENEW -> renewing[me] = 0 :: else fi;
        what = 0; stamp = 0 }
    :: d_step { len(late[me]) > 0 -> late[me]?what, stamp; what = 0; stamp = 0 }
    :: d_step { message[me] != 0 -> message[me] = 0 } /* lost, old, or for a claim that is over */
    :: d_step { state[me] == LEAVING && answers[me]?[RELEASE, number, stamp] ->
        answers[me]?RELEASE, number, stamp;
        number = 0; stamp = 0; state[me] = IDLE; message[me] = 0 }
#endif
#ifdef TRACE
    :: d_step { (state[me] == LOST || state[me] == LEAVING) && shows(LOSES, me) -> took(LOSE_LATE) }
    :: d_step { owner != me && shows(ENDS, me) -> forget(me); took(END) }
#else
    /* its clock is slow */
    :: d_step { !slipped && ttl > 0 -> slipped = 1; spared = me }
#endif
    od
}

/* The server's scripts, of whose lock it is and who waits: it serves one request after the other. WAY is where the request of N
 * comes from; ANSWER puts an answer there that N may hear. NEXT is who is handed the lock if it is handed on: somebody who waits
 * and is heard. */
#ifdef RENEW_XX
#define is_owner_to_renew(N) (owner != 0)
#else
#define is_owner_to_renew(N) (owner == N)
#endif
#ifdef RELEASE_DEL
#define is_owner_to_release(N) (owner != 0)
#else
#define is_owner_to_release(N) (owner == N)
#endif
#define nobody_hears(N, WHAT, NUMBER) stamp = 0
#define answer(N, WHAT, NUMBER) answers[N]!WHAT, NUMBER, stamp; stamp = 0
#define may_answer(N) (len(answers[N]) < ASKS)
#define may_serve(N, WAY, KIND) (is_there(WAY[N], KIND) && may_answer(N))

#define SERVE(N, WAY, ANSWER, TOOK, FOUND) \
    :: d_step { may_serve(N, WAY, ACQUIRE) && (owner == 0 || owner == N) && fence < GRANTS && is_number(fence + 1) && \
            shows(TAKES, N) -> \
        fetch(WAY[N], ACQUIRE); hand_over(N); ANSWER(N, OK, fence); took(TOOK) } \
    /* also of a lock that nobody has: it is left free for other clients */ \
    :: d_step { may_serve(N, WAY, ACQUIRE) && (owner != N || fence == GRANTS) && is_number(fence) && shows(FINDS, N) -> \
        fetch(WAY[N], ACQUIRE); queued[N] = (owner != N); ANSWER(N, BUSY, told_number); took(FOUND) } \
    :: d_step { is_renewal(WAY[N], N) && may_answer(N) && is_owner_to_renew(N) && is_answer(1) && shows(EXTENDS, N) -> \
        fetch_renewal(WAY[N], N); owner = N; ttl = TTL(N); ANSWER(N, RENEW, 1); took(EXTEND) } \
    :: d_step { is_renewal(WAY[N], N) && may_answer(N) && !is_owner_to_renew(N) && is_answer(0) && shows(EXTENDS, N) -> \
        fetch_renewal(WAY[N], N); ANSWER(N, RENEW, 0); took(EXTEND_NOT) } \
    :: d_step { may_serve(N, WAY, RELEASE) && is_owner_to_release(N) && is_next(0) && shows(FREES, N) -> \
        fetch(WAY[N], RELEASE); queued[N] = 0; owner = 0; ttl = 0; ANSWER(N, RELEASE, 0); took(FREE) } \
    :: d_step { may_serve(N, WAY, RELEASE) && !is_owner_to_release(N) && shows(KEEPS, N) -> \
        fetch(WAY[N], RELEASE); queued[N] = 0; ANSWER(N, RELEASE, 0); took(FREE_NOT) }
#define HAND_ON(N, WAY, ANSWER, NEXT) \
    :: d_step { may_serve(N, WAY, RELEASE) && is_owner_to_release(N) && queued[NEXT] && has_no_message(NEXT) && fence < GRANTS && \
            is_number(fence + 1) && is_next(NEXT) && shows(FREES, N) -> \
        fetch(WAY[N], RELEASE); queued[N] = 0; hand_over(NEXT); message[NEXT] = fence; ANSWER(N, RELEASE, 0); took(HAND_OVER) }


proctype server()
{
    span stamp;
end:
    do
#ifdef TRACE
    SERVE(who, asks, answer, TAKE, FIND_BUSY)
    SERVE(who, late, nobody_hears, TAKE_LATE, FIND_LATE)
    HAND_ON(who, asks, answer, next)
    HAND_ON(who, late, nobody_hears, next)
    :: d_step { owner != 0 && ttl == 0 && shows(EXPIRES, owner) -> owner = 0; took(EXPIRE) }
#else
#define SERVE_BOTH(N) \
    SERVE(N, asks, answer, TAKE, FIND_BUSY) \
    SERVE(N, late, nobody_hears, TAKE_LATE, FIND_LATE)
#define HAND_ON_BOTH(N, NEXT) \
    HAND_ON(N, asks, answer, NEXT) \
    HAND_ON(N, late, nobody_hears, NEXT)
    SERVE_BOTH(1)
    HAND_ON_BOTH(1, 2)
    SERVE_BOTH(2)
    HAND_ON_BOTH(2, 1)
#if CLIENTS > 2
    SERVE_BOTH(3)
    HAND_ON_BOTH(1, 3)
    HAND_ON_BOTH(2, 3)
    HAND_ON_BOTH(3, 1)
    HAND_ON_BOTH(3, 2)
#endif
#endif
    od
}

#ifndef TRACE
proctype time()
{
    byte n;
end:
    do
    :: d_step { true ->
        age_server(1);
        n = 1;
        do
        :: n <= CLIENTS -> if :: n != spared -> age(n, 1) :: else fi; n++
        :: n > CLIENTS -> break
        od;
        n = 0; spared = 0 }
    od
}
#endif

init {
#ifdef TRACE
    byte n = 1;
    atomic {
        begins_trace();
        do
        :: n <= CLIENTS -> run client(n); n++
        :: n > CLIENTS -> break
        od;
        run server() /* the search tries its steps first: what is lost or late is looked for last */
    }
#else
    atomic {
        run server(); run time();
        run client(1); run client(2);
#if CLIENTS > 2
        run client(3);
#endif
    }
#endif
}
