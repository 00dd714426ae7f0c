/*
 * recovery.pml: Redis loses its data: by a restart without them, by a failover to a replica without the last
 * writes, or because a client deletes them. Do holders keep their locks, and is there ever a second holder?
 *
 * The design, which the scripts in backends/redis/lua/recovery.lua carry out:
 *
 * - The data contain a mark of the server's life. Each request names the life that its client learned at the
 *   handshake. If the mark is of another life, the request only fails, and the client connects again.
 * - A client that connects and finds no mark, or that of another life, writes the mark of this life, and the
 *   time at which RECOVERY is over. Until then nothing is granted, and a release hands no lock over.
 *   RECOVERY is no shorter than any lease. So when it is over, each earlier holder has set its lock again or
 *   knows that it is lost, and all leases that the replica knew have ended.
 * - Until then, a renewal sets its lock if the lock is missing, or is not known to have a greater token. The
 *   lock is set with its token, so that a late renewal takes nothing from a later holder. The counter is
 *   raised above the token.
 * - Until then, the release of a missing lock answers OK if the deadline has not passed.
 *
 * models/README.md says which code this stands for, and what it leaves out.
 *
 * run quick: -DLATE_MOST=0
 * run full: -DLATE_MOST=1
 * run full: -DLATE_MOST=0 -DLOSSES=2
 * fault NO_MARK: a request is served whatever life the mark is of
 * fault NO_WAIT: the client that writes the mark does not begin to wait
 * fault SHORT: RECOVERY is shorter than a lease
 * fault MARK_OF_SERVER: the mark names the server and not its life: a server that is master again counts as the same life
 * fault HAND_ON: a release hands the lock over although not all holders are known
 * fault AFTER: a lock is set again after RECOVERY, too
 * fault NO_TOKEN: a lock that is set again has no token, and gives way to any holder
 * fault NO_LIFT: the counter is not raised, and the server's clock was set back
 * fault KEPT: a missing lock is lost, as without recovery
 * fault FOREIGN: a client that knows no mark takes the lock meanwhile
 * witness SET_AGAIN: a lock is set again
 * witness TAKEN_OVER: a lock is set again in place of an earlier holder's
 * witness TWICE: the data are lost again while nothing is granted
 * witness LATE: a renewal sets a lock again after its holder has given up
 * witness AGAIN: another client has the lock when RECOVERY is over
 */
#if defined(MARK_OF_SERVER) || defined(TWICE)
#define LOSSES 2
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#if defined(NO_TOKEN) || defined(TAKEN_OVER)
#define GRANTS 2
#endif
#ifndef GRANTS
#define GRANTS 2
#endif
#ifndef LATE_MOST
#define LATE_MOST 1 /* requests on connections that were given up, for each client */
#endif
#define CLIENTS 2
#define TTL(n) ((n) == 1 -> 2 : 1) /* of the two clients */
#ifdef SHORT
#define RECOVERY 1
#else
#define RECOVERY 2
#endif
#define STRANGER 3

mtype = { ACQUIRE, RENEW, RELEASE, GRANTED, BUSY, STRANGE };
mtype = { IDLE, ASKED, WAITING, HELD, LOST, LEAVING };

/* What a server has: whose the lock is (0: it is free), by which value, how much is left of its lease, and which token is told of it
 * (0: none); the counter; the mark (0: none), and how long nothing is granted. */
typedef data {
    byte owner; byte value; byte ttl; byte told; byte counter; byte mark; byte wait
}
data at;       /* of the master */
data behind;   /* of the other, as it was when it last heard of the master */
data swap;
byte life = 1; /* of the master: each restart, and each promotion, begins another */
bool second;   /* which of the two it is */
byte losses;
byte values;   /* that were given out: one for each grant */
byte above;    /* grants are to have greater tokens */

/* each client's connection, and a request on one that was given up */
chan asks[CLIENTS + 1] = [2] of { mtype, byte, byte, byte };
chan answers[CLIENTS + 1] = [1] of { mtype, byte, byte };
chan late[CLIENTS + 1] = [1] of { mtype, byte, byte, byte };
byte speaks[CLIENTS + 1];    /* the life that it speaks with; 0: it has no connection */
mtype state[CLIENTS + 1] = IDLE;
byte value[CLIENTS + 1];
byte token[CLIENTS + 1];
byte valid[CLIENTS + 1];     /* time left until D: above 0, it is certain to hold the lock */
byte since[CLIENTS + 1];     /* since the request under way was sent */
bool renewing[CLIENTS + 1];

#ifdef MARK_OF_SERVER
#define THIS_LIFE (1 + second)
#else
#define THIS_LIFE life
#endif
#ifdef NO_MARK
#define KNOWN(whose) true
#else
#define KNOWN(whose) (at.mark == (whose))
#endif

inline check_alone() {
    assert(valid[1] == 0 || valid[2] == 0)
}

inline over(n) {
    state[n] = IDLE; valid[n] = 0; value[n] = 0; token[n] = 0; since[n] = 0; renewing[n] = 0
}

/* There is no connection any more. What was on its way gets lost, or there, and is answered to nobody. */
inline cut(n, gets_there) {
    if :: gets_there && len(asks[n]) > 0 && len(late[n]) == 0 -> asks[n]?what, whose, mine, number; late[n]!what, whose, mine, number
    :: else
    fi;
    do :: len(asks[n]) > 0 -> asks[n]?_, _, _, _ :: len(asks[n]) == 0 -> break od;
    do :: len(answers[n]) > 0 -> answers[n]?_, _, _ :: len(answers[n]) == 0 -> break od;
    renewing[n] = 0; speaks[n] = 0; since[n] = 0;
    if
    :: state[n] == ASKED -> state[n] = WAITING
    :: state[n] == LEAVING -> over(n)
    :: else
    fi;
    what = 0; whose = 0; mine = 0; number = 0
}

proctype client(byte me)
{
    mtype what;
    byte whose, mine, number;
end:
    do
    /* the handshake, and with it the mark */
    :: d_step { speaks[me] == 0 -> speaks[me] = THIS_LIFE;
        if
        :: at.mark != speaks[me] -> at.mark = speaks[me];
#ifndef NO_WAIT
            at.wait = RECOVERY
#endif
        :: else
        fi }
    :: d_step { speaks[me] > 0 && (state[me] == WAITING || (state[me] == IDLE && values < GRANTS)) &&
            len(asks[me]) == 0 && len(answers[me]) == 0 ->
        state[me] = ASKED; since[me] = 0; asks[me]!ACQUIRE, speaks[me], 0, 0 }
    :: d_step { state[me] == WAITING -> over(me) }
    :: d_step { speaks[me] > 0 && state[me] == HELD && !renewing[me] && len(asks[me]) == 0 && len(answers[me]) == 0 ->
        renewing[me] = 1; since[me] = 0; asks[me]!RENEW, speaks[me], value[me], token[me] }
    /* gives it back, or what it has lost; behind a renewal that is on its way */
    :: d_step { speaks[me] > 0 && (state[me] == HELD || state[me] == LOST) && len(asks[me]) < 2 && len(answers[me]) == 0 ->
        state[me] = LEAVING; asks[me]!RELEASE, speaks[me], value[me], token[me] }
    :: d_step { speaks[me] > 0 && len(asks[me]) + len(answers[me]) > 0 -> cut(me, false) }
    :: d_step { speaks[me] > 0 && len(asks[me]) > 0 && len(late[me]) < LATE_MOST -> cut(me, true) }
    :: d_step { len(answers[me]) > 0 -> answers[me]?what, mine, number;
        if
        :: what == STRANGE -> cut(me, false)
        :: what == GRANTED && state[me] == ASKED ->
            value[me] = mine; token[me] = number;
            valid[me] = (TTL(me) > since[me] -> TTL(me) - since[me] : 0);
            state[me] = (valid[me] > 0 -> HELD : LOST);
            since[me] = 0; check_alone()
        :: what == BUSY && state[me] == ASKED -> state[me] = WAITING; since[me] = 0
        :: what == RENEW && renewing[me] ->
            renewing[me] = 0;
            if
            :: mine == 1 && state[me] == HELD && TTL(me) > since[me] + valid[me] -> valid[me] = TTL(me) - since[me]
            /* nobody has taken it, so he keeps it */
            :: mine == 0 && state[me] == HELD -> assert(false)
            :: else
            fi;
            since[me] = 0; check_alone()
        :: what == RELEASE && state[me] == LEAVING -> over(me)
        :: else
        fi;
        what = 0; mine = 0; number = 0 }
    od
}

inline grant(n) {
    values++; at.counter++;
    at.owner = n; at.value = values; at.ttl = TTL(n); at.told = 0;
    assert(at.counter > above);
    above = at.counter
}

inline tell() {
#ifndef NO_TOKEN
    at.told = number;
#endif
#ifndef NO_LIFT
    if :: at.counter < number -> at.counter = number :: else fi;
#endif
    if :: above < number -> above = number :: else fi
}

/* A request; its answer is what, mine, number. */
inline serve(n) {
    if
    :: !KNOWN(whose) -> what = STRANGE
    :: KNOWN(whose) && what == ACQUIRE ->
        if
        :: at.wait == 0 && at.owner == 0 && values < GRANTS ->
#ifdef AGAIN
            assert(losses == 0 || values == 0);
#endif
            grant(n); what = GRANTED; mine = values; number = at.counter
        :: else -> what = BUSY
        fi
    :: KNOWN(whose) && what == RENEW ->
        if
        :: at.owner == n && at.value == mine ->
            at.ttl = TTL(n);
            if :: at.wait > 0 -> tell() :: else fi;
            mine = 1
#ifndef KEPT
#ifdef AFTER
        :: (at.owner != n || at.value != mine) && (at.owner == 0 || at.told < number) ->
#else
        :: (at.owner != n || at.value != mine) && at.wait > 0 && (at.owner == 0 || at.told < number) ->
#endif
#ifdef SET_AGAIN
            assert(state[n] != HELD || value[n] != mine);
#endif
#ifdef TAKEN_OVER
            assert(at.owner == 0 || state[n] != HELD || value[n] != mine);
#endif
#ifdef LATE
            assert(state[n] == HELD && value[n] == mine);
#endif
            at.owner = n; at.value = mine; at.ttl = TTL(n); at.told = 0;
            tell();
            mine = 1
#endif
        :: else -> mine = 0
        fi
    :: KNOWN(whose) && what == RELEASE ->
        if
        :: at.owner == n && at.value == mine ->
            if :: value[n] == mine -> valid[n] = 0 :: else fi;
            at.owner = 0; at.value = 0; at.ttl = 0; at.told = 0;
            if
#ifdef HAND_ON
            :: state[3 - n] == WAITING && values < GRANTS ->
#else
            :: at.wait == 0 && state[3 - n] == WAITING && speaks[3 - n] == whose && values < GRANTS ->
#endif
                grant(3 - n);
                state[3 - n] = HELD; value[3 - n] = values; token[3 - n] = at.counter; valid[3 - n] = TTL(3 - n);
                check_alone()
            :: else
            fi;
            mine = 1
        /* it says that it is released: so nobody else has it */
        :: (at.owner != n || at.value != mine) && at.wait > 0 && state[n] == LEAVING && value[n] == mine && valid[n] > 0 ->
            assert(valid[3 - n] == 0);
            valid[n] = 0; mine = 2
        :: else -> mine = 0
        fi
    fi
}

proctype server()
{
    mtype what;
    byte whose, mine, number;
end:
    do
    :: d_step { len(asks[1]) > 0 && len(answers[1]) == 0 -> asks[1]?what, whose, mine, number; serve(1);
        answers[1]!what, mine, number; what = 0; whose = 0; mine = 0; number = 0 }
    :: d_step { len(asks[2]) > 0 && len(answers[2]) == 0 -> asks[2]?what, whose, mine, number; serve(2);
        answers[2]!what, mine, number; what = 0; whose = 0; mine = 0; number = 0 }
    :: d_step { len(late[1]) > 0 -> late[1]?what, whose, mine, number; serve(1); what = 0; whose = 0; mine = 0; number = 0 }
    :: d_step { len(late[2]) > 0 -> late[2]?what, whose, mine, number; serve(2); what = 0; whose = 0; mine = 0; number = 0 }
#ifdef FOREIGN
    :: d_step { losses > 0 && at.owner == 0 -> at.owner = STRANGER; at.ttl = 2; at.told = 9;
        assert(valid[1] == 0 && valid[2] == 0) }
#endif
    od
}

inline copy(from, to) {
    to.owner = from.owner; to.value = from.value; to.ttl = from.ttl; to.told = from.told; to.counter = from.counter;
    to.mark = from.mark; to.wait = from.wait
}

/* The clock of what comes may be behind, so counters say less than was given out; twice it is right, or no token could tell. */
inline forget_tokens() {
#if LOSSES > 1
    at.counter = above
#else
    above = 0
#endif
}

inline lose() {
    losses++; life++;
    forget_tokens();
    cut(1, false); cut(2, false);
    do :: len(late[1]) > 0 -> late[1]?_, _, _, _ :: len(late[1]) == 0 -> break od;
    do :: len(late[2]) > 0 -> late[2]?_, _, _, _ :: len(late[2]) == 0 -> break od;
    number = 0
}

proctype world()
{
    mtype what;
    byte whose, mine, number;
end:
    do
    /* the other has heard all by now; it is the master's replica */
    :: d_step { losses < LOSSES -> copy(at, behind) }
    :: d_step { losses < LOSSES ->
#ifdef TWICE
        assert(losses == 0 || at.wait == 0 || (valid[1] == 0 && valid[2] == 0));
#endif
        at.owner = 0; at.value = 0; at.ttl = 0; at.told = 0; at.counter = 0; at.mark = 0; at.wait = 0;
        lose() }
    /* somebody removes them: it is the same life, and all are connected still */
    :: d_step { losses < LOSSES ->
        at.owner = 0; at.value = 0; at.ttl = 0; at.told = 0; at.counter = 0; at.mark = 0; at.wait = 0;
        losses++; forget_tokens() }
    /* the other is the master; what was it before, keeps what it has until it hears of this one */
    :: d_step { losses < LOSSES -> copy(at, swap); copy(behind, at); copy(swap, behind);
        swap.owner = 0; swap.value = 0; swap.ttl = 0; swap.told = 0; swap.counter = 0; swap.mark = 0; swap.wait = 0;
        second = 1 - second;
        lose() }
    :: d_step { true ->
        if :: at.ttl > 0 -> at.ttl-- :: else fi;
        if :: at.ttl == 0 -> at.owner = 0; at.value = 0; at.told = 0 :: else fi;
        if :: at.wait > 0 -> at.wait-- :: else fi;
        if :: behind.ttl > 0 -> behind.ttl-- :: else fi;
        if :: behind.ttl == 0 -> behind.owner = 0; behind.value = 0; behind.told = 0 :: else fi;
        if :: behind.wait > 0 -> behind.wait-- :: else fi;
        number = 1;
        do
        :: number <= CLIENTS ->
            if :: valid[number] > 0 -> valid[number]-- :: else fi;
            if :: valid[number] == 0 && state[number] == HELD -> state[number] = LOST :: else fi;
            if :: (state[number] == ASKED || renewing[number]) && since[number] < 2 -> since[number]++ :: else fi;
            number++
        :: number > CLIENTS -> break
        od;
        number = 0 }
    od
}

init {
    atomic {
        at.mark = 1; behind.mark = 1; speaks[1] = 1; speaks[2] = 1;
        run server(); run world(); run client(1); run client(2)
    }
}
