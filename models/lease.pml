/*
 * lease.pml: a lock in Redis is a key with a time to live. Are there ever two who are certain to hold it?
 *
 * Each client counts its local deadline D from before the request that took or renewed the lease was sent; for
 * a lease that a release handed over, from before its last attempt that was found busy was sent, because the
 * hand-over came after that. Requests, answers and messages are late or lost; clients stop for any time.
 *
 * models/README.md tells which code this stands for, and what it leaves out.
 *
 * run quick: -DTICKS=3 -DGRANTS=3
 * run full: -DTICKS=4 -DGRANTS=3
 * run full: -DTICKS=5 -DGRANTS=3
 * fault RECEIVED: D counts from when the answer came
 * fault ARRIVAL: a hand-over's D counts from when its message came
 * fault OLD_MESSAGE: a message is taken although its number had been given out when the lock was found busy
 * fault RENEW_XX: a renewal is a SET XX, which does not look whose the lock is
 * fault RELEASE_DEL: a release is a DEL, which does not look whose the lock is
 * fault NO_MARGIN: clocks run at different speeds, and nothing is left for that
 * witness GIVEN: a message grants the lock
 * witness RENEWED: a lease is renewed
 */
#ifndef TICKS
#define TICKS 3
#endif
#ifndef GRANTS
#define GRANTS 3 /* so many are made, with a number each */
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#define TTL TICKS
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 1 /* by so much a client's clock may be slow in the time of one lease */
#endif

mtype = { ACQUIRE, RENEW, RELEASE, OK, BUSY };
mtype = { IDLE, ASKED, WAITING, HELD, LOST, LEAVING };

/* the server */
byte owner;                /* 0: the lock is free */
byte ttl;
byte fence;                /* the counter of fencing tokens */
bool queued[CLIENTS + 1];

/* each client's connection, and its subscription; one request of a kind at a time */
chan asks[CLIENTS + 1] = [2] of { mtype };
chan answers[CLIENTS + 1] = [2] of { mtype, byte };
byte message[CLIENTS + 1]; /* the number of the hand-over that is under way; 0: none */

mtype state[CLIENTS + 1] = IDLE;
byte valid[CLIENTS + 1];      /* time left until D; above 0, the client is certain to hold the lock */
byte since[CLIENTS + 1];      /* since the request under way was sent */
byte since_busy[CLIENTS + 1]; /* since the last attempt that was found busy was sent; TTL: long ago */
byte busy_fence[CLIENTS + 1]; /* the counter as that attempt's answer told it */
bool renewing[CLIENTS + 1];
bool slipped;
byte spared;               /* whose clock does not see the next unit of time */

inline hand_over(n) {
    owner = n; ttl = TTL; fence++; queued[n] = 0
}

inline check_alone() {
    assert(valid[1] == 0 || valid[2] == 0);
#if CLIENTS > 2
    assert(valid[1] == 0 || valid[3] == 0);
    assert(valid[2] == 0 || valid[3] == 0);
#endif
}

inline grant(n, ago) {
    state[n] = HELD;
    valid[n] = (TTL > MARGIN + ago -> TTL - MARGIN - ago : 0);
    since[n] = 0;
    since_busy[n] = 0; busy_fence[n] = 0;
    if :: valid[n] == 0 -> state[n] = LOST :: else fi;
    check_alone()
}

inline age(n) {
    if :: valid[n] > 0 ->
        valid[n]--;
        if :: valid[n] == 0 && state[n] == HELD -> state[n] = LOST :: else fi
    :: else
    fi;
    if :: (state[n] == ASKED || renewing[n]) && since[n] < TTL -> since[n]++ :: else fi;
    if :: (state[n] == ASKED || state[n] == WAITING) && since_busy[n] < TTL -> since_busy[n]++ :: else fi
}

proctype client(byte me)
{
    mtype what;
    byte number;
end:
    do
    :: d_step { state[me] == IDLE && fence < GRANTS ->
        state[me] = ASKED; since[me] = 0; since_busy[me] = TTL; asks[me]!ACQUIRE }
    :: d_step { state[me] == WAITING -> /* asks again: a poll, or a message that is not enough */
        state[me] = ASKED; since[me] = 0; asks[me]!ACQUIRE }
    /* a hand-over's message counts if its number was not given out when the lock was last found busy */
    :: d_step { message[me] != 0 && state[me] == WAITING ->
        number = message[me]; message[me] = 0;
        if
#ifdef OLD_MESSAGE
        :: true ->
#else
        :: number > busy_fence[me] ->
#endif
#ifdef GIVEN
            assert(false);
#endif
#ifdef ARRIVAL
            grant(me, 0)
#else
            grant(me, since_busy[me])
#endif
        :: else
        fi;
        number = 0 }
    :: d_step { message[me] != 0 -> message[me] = 0 } /* lost, or for a claim that is over */
    :: d_step { state[me] == HELD && !renewing[me] && len(asks[me]) == 0 && len(answers[me]) == 0 ->
        renewing[me] = 1; since[me] = 0; asks[me]!RENEW }
    /* gives it back, or gives up; nothing that a renewal answers is looked at any more */
    :: d_step { (state[me] == HELD || state[me] == LOST || state[me] == WAITING) && len(asks[me]) < 2 ->
        state[me] = LEAVING; valid[me] = 0; renewing[me] = 0; since[me] = 0; since_busy[me] = 0;
        busy_fence[me] = 0; asks[me]!RELEASE }
    :: d_step { len(answers[me]) > 0 -> answers[me]?what, number;
        if
        :: state[me] == ASKED && what == OK ->
#ifdef RECEIVED
            grant(me, 0)
#else
            grant(me, since[me])
#endif
        :: state[me] == ASKED && what == BUSY ->
            state[me] = WAITING; since_busy[me] = since[me]; busy_fence[me] = number; since[me] = 0
        :: renewing[me] && what == RENEW ->
#ifdef RENEWED
            assert(false);
#endif
            renewing[me] = 0;
            if
            :: number == 1 && state[me] == HELD -> grant(me, since[me])
            :: number == 0 && state[me] == HELD -> state[me] = LOST; valid[me] = 0
            :: else
            fi
        :: state[me] == LEAVING && what == RELEASE -> state[me] = IDLE; message[me] = 0
        :: else
        fi;
        what = 0; number = 0 }
    /* the connection breaks: what was on its way is lost, and asked again where an answer is wanted */
    :: d_step { len(asks[me]) + len(answers[me]) > 0 ->
        do :: len(asks[me]) > 0 -> asks[me]?_ :: len(asks[me]) == 0 -> break od;
        do :: len(answers[me]) > 0 -> answers[me]?_, _ :: len(answers[me]) == 0 -> break od;
        renewing[me] = 0;
        if
        :: state[me] == ASKED -> since[me] = 0; asks[me]!ACQUIRE
        :: state[me] == LEAVING -> asks[me]!RELEASE
        :: else
        fi }
    /* its clock is slow */
    :: d_step { !slipped && ttl > 0 -> slipped = 1; spared = me }
    od
}


/* The server's scripts: it serves one request after the other. `next` is who is handed the lock if it is handed
 * on: somebody who waits and is heard; 0: nobody. */
inline serve() {
            asks[n]?what;
            if
            :: what == ACQUIRE ->
                if
                :: (owner == 0 || owner == n) && fence < GRANTS -> hand_over(n); answers[n]!OK, fence
                :: (owner == 0 || owner == n) && fence == GRANTS -> answers[n]!BUSY, fence
                :: else -> queued[n] = 1; answers[n]!BUSY, fence
                fi
            :: what == RENEW ->
                if
    #ifdef RENEW_XX
                :: owner != 0 -> owner = n; ttl = TTL; answers[n]!RENEW, 1
    #else
                :: owner == n -> ttl = TTL; answers[n]!RENEW, 1
    #endif
                :: else -> answers[n]!RENEW, 0
                fi
            :: what == RELEASE ->
                queued[n] = 0;
                if
    #ifdef RELEASE_DEL
                :: owner != 0 ->
    #else
                :: owner == n ->
    #endif
                    owner = 0; ttl = 0;
                    if :: next != 0 -> hand_over(next); message[next] = fence :: else fi
                :: else
                fi;
                answers[n]!RELEASE, 0
            fi;
    n = 0; next = 0; what = 0
}

#define REQUEST(N, NEXT) \
    :: d_step { len(asks[N]) > 0 && len(answers[N]) < 2 && \
        (NEXT == 0 || (asks[N]?[RELEASE] && queued[NEXT] && message[NEXT] == 0 && fence < GRANTS)) -> \
        n = N; next = NEXT; serve() }

proctype server()
{
    mtype what;
    byte n, next;
end:
    do
    REQUEST(1, 0)
    REQUEST(1, 2)
    REQUEST(2, 0)
    REQUEST(2, 1)
#if CLIENTS > 2
    REQUEST(1, 3)
    REQUEST(2, 3)
    REQUEST(3, 0)
    REQUEST(3, 1)
    REQUEST(3, 2)
#endif
    od
}

proctype time()
{
    byte n;
end:
    do
    :: d_step { true ->
        if :: owner != 0 -> ttl-- :: else fi;
        if :: ttl == 0 -> owner = 0 :: else fi;
        n = 1;
        do
        :: n <= CLIENTS -> if :: n != spared -> age(n) :: else fi; n++
        :: n > CLIENTS -> break
        od;
        n = 0; spared = 0 }
    od
}

init {
    atomic {
        run server(); run time();
        run client(1); run client(2);
#if CLIENTS > 2
        run client(3);
#endif
    }
}
