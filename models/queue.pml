/*
 * queue.pml: places in a queue of ZooKeeper's ephemeral sequential nodes. Who is granted the lock, alone or
 * with other readers, and does anything stay behind?
 *
 * Two lockers: the first has two claims on one key and suffers all of it, the second has one. A claim tries or
 * waits; a create is executed late, after its connection has gone, or never; watches come late; sessions end. Who waits
 * behind a waiting place of the same locker asks for no list, until that one's shows both. A place right behind one of its
 * locker that had the lock and is deleted reads only itself, behind that delete. A place that a list showed behind one other place,
 * of another locker, is first when the server says that this was deleted. That the server says so lately, and would have told
 * its own deletion before, is left out: nobody breaks a lock here.
 * The steps of a place are those of backends/zookeeper/lock/place.h: each says what is known.
 *
 * models/README.md says which code this stands for, and what it leaves out.
 *
 * run quick: -DCUTS=1
 * run quick: -DCUTS=1 -DREADERS=6
 * run full: -DCUTS=2
 * run full: -DCUTS=1 -DREADERS=3
 * run full: -DCUTS=1 -DREADERS=5
 * run full: -DCUTS=2 -DREADERS=6
 * fault TRY_QUEUED: a try that came second stays behind an unknown place, and is first when one of ours goes
 * fault HINT_GRANTS: the deletion of the predecessor is a grant, though other places may be ahead
 * fault LEFT: a place whose recovery has no answer counts as gone, and our own place behind it as first
 * fault FORGOTTEN: a name that a search did not find is forgotten
 * fault GIVEN_UP: a claim that is given up while its create is in flight is forgotten
 * fault UNSEEN_GONE: a name that a search did not find is used again as if nothing had been asked
 * fault EAGER_SWEEP: a name of ours whose create has no answer yet is swept away as if no claim had it
 * fault FOLLOWER_GRANTED: a place that no list showed, behind a place of the same locker, is first when that place has gone
 * fault SUCCEEDS_BETWEEN: a place succeeds another of its locker although a place stands in between
 * fault SUCCEEDS_WAITER: a place succeeds one of its locker that was not first
 * fault SUCCEEDS_EARLY: a place succeeds one of its locker before that one's delete is answered
 * fault SUCCEEDS_READER: a writer succeeds a reader of its locker, although another reader may be ahead of that
 * fault NEXT_OF_MORE: a place is first when its predecessor is deleted, although a list showed two ahead
 * fault NEXT_OF_OURS: the same by the delete of a place of its own locker that is sent and not executed
 * fault NEAREST_READER: a reader checks only the place right before it, and passes a writer ahead of another reader
 * fault READERS_ALONE: a writer waits for writers only
 * witness FOLLOWED: a claim that was shown by the list of another one of its locker is granted
 * witness SUCCEEDED: a claim that read only itself behind its predecessor's delete is granted
 * witness NEXT: a claim is granted by the deletion of the only place ahead, without another list
 * witness HELD_BEHIND: a claim that waited is granted
 * witness TOGETHER: two readers hold at once
 * witness LATE: a create is executed after a search did not find it
 * witness SWEPT: a late node is found and deleted
 *
 * What a trace shows (script/prove --traces), each of one name's place, so that a claim that goes on under another name has another
 * place. What servers do stands in the order of their transactions, and what a client does behind the last one of which it has read:
 * event ASKS: the client sends its create; the locker and the session
 * event CREATED: its node is created; the number
 * event REFUSED: its create is carried out, and refused
 * event ENTERS: the client reads that the node was created
 * event LISTS: the queue's list is answered to its locker; the places that it shows
 * event READS: its locker reads that
 * event GUARDS: its locker reads that the node is watched for it
 * event CHECKS: its locker reads that its node is there, behind its latest delete that was answered; whose
 * event TOLD: its locker reads that another place's node was deleted; since when nothing that this connection answered was asked for
 * event GRANTED: a caller holds the lock from now on
 * event LEAVES: a client sends a delete of its node; the locker
 * event DELETED: such a delete is carried out
 * event GONE: its locker reads that the node was deleted (1), or is not there
 * event CONNECTS: its locker reads that another connection has its session, or a new one; which
 * event VANISHES: its node is deleted as its session ends
 * event ENDS: nothing of it is to come; another name has its place
 *
 * The steps that traces have to be made of:
 * step ASK: a create is sent
 * step ASK_AGAIN: a create that was refused, as the key's node was not there, is sent again
 * step CREATE: a node is created
 * step REFUSE: a create is refused
 * step ENTER: the answer says that the node is there
 * step LIST: a list is answered
 * step PLACE_FIRST: a list shows the place, and nobody before it
 * step PLACE_BEHIND: a list shows somebody before it
 * step SWEEP: a list shows a node of a claim that is over
 * step READ: what a server said is read
 * step GUARD: a node is watched
 * step NEXT: the deletion of the only place ahead makes it the first
 * step HINT: its predecessor's deletion is told
 * step SUCCEED: a node is there behind the delete of its locker's own right ahead, so it is the first
 * step TELL_LATE: a deletion is told that says nothing of its place
 * step GRANT: a claim is granted
 * step GIVE_UP: a claim gives up before its create is answered
 * step LEAVE_HELD: a lock is released
 * step LEAVE_FIRST: a claim gives up when it is first
 * step LEAVE_BEHIND: a claim that waits gives up
 * step LEAVE_ENTERED: a claim gives up before it knows its place
 * step LEAVE_SWEPT: a node of a claim that is over is deleted
 * step LEAVE_AGAIN: a delete without an answer is sent again
 * step DELETE: a node is deleted
 * step GONE: that is known
 * step CONNECT: another connection
 * step VANISH: a session ends
 * step END: a place is another name's
 *
 * Steps that are rare:
 * unbound CREATE_LATE: a node is created whose claim is over
 * unbound ENTER_LATE: the answer to that is read
 */
#ifdef TRACE
#define CLIENTS 24 /* names, with a place each, from 1 on */
#include "trace.h"
#define CLAIMS (CLIENTS + 1)
#define NAMES (CLIENTS + 1)
#define CLAIM_OF(N) (N)
#define LOCKER(C) locker[C]
#define set int
#define claims byte /* which, or none */
#define number int
#define has_other(C) false /* not by number, so all that is of one locker is looked for */
#define THREADS 2     /* so many claims has a locker at once, as run_zookeeper.c has it */
#define RECENT 50500  /* us, of true time; the driver has 50 ms by its clock */
int locker[CLAIMS];
int session[CLAIMS];
chan lists[CLAIMS] = [8] of { int }; /* that were answered to its locker and are not read yet */
bool guarded[CLAIMS];
bool known[CLAIMS];       /* one that is over: its locker has read that its node is there */
byte found[CLAIMS];       /* 1: a list has shown it when it was in doubt, and whose it is has to be asked; 2: there was another cut then */
bool was_deleted[CLAIMS]; /* its delete was carried out, and its locker knows */
int shown;
byte standing; /* so many other claims has the locker that is to ask next */
bool is_due;   /* ... and has to send a delete before */
byte stands;   /* so many are before the one that was looked at last */
#else
#ifndef CUTS
#define CUTS 1
#endif
#define CLAIMS 3
#define NAMES 6         /* claim c has the name 2c, the first one 1 as well: when 0 is in doubt */
#define CLAIM_OF(N) ((N) / 2)
#define LOCKER(C) ((C) / 2)
#define set byte
#define claims bool
#define number byte
#define has_other(C) ((C) < 2)
#define took(STEP) skip
#define did(STEP) skip
#endif
#define BIT(N) (1 << (N))

mtype = { NOTHING, ASKED, DOUBT, ENTERED, BEHIND, FIRST, HELD, LEAVING, DONE };

/* what the leader knows */
number place[NAMES];    /* its sequence number; 0: the node is not there */
number last;
set there;              /* the nodes that are there, a bit each */

/* the first locker's connection */
byte cuts;
bool over[2];           /* the session has ended, and the locker knows */

/* requests under way */
bool creating[NAMES];   /* may be executed for as long as the session lives, cut or not */
mtype step[CLAIMS] = NOTHING;
byte name[CLAIMS];      /* the one the claim goes by */
bool waits[CLAIMS];
byte ahead[CLAIMS];     /* whose deletion is watched; NAMES: nobody's */
bool waited[CLAIMS];
bool follows[CLAIMS];   /* it is behind a place of its locker, and no list has shown it */
#ifdef FOLLOWED
bool shown_too[CLAIMS];
#endif
claims right_behind[CLAIMS]; /* it is behind the other place of its locker, and nobody stands in between; TRACE: which */
bool left_first[CLAIMS];   /* it was first when it was given up */
byte reading[CLAIMS];      /* a read of its own place, behind the delete of the one ahead */
bool one_ahead[CLAIMS]; /* a list showed one place ahead of it, another locker's */
#ifdef SUCCEEDED
bool succeeded[CLAIMS];
#endif
#ifdef NEXT
bool by_event[CLAIMS];
#endif

#define NONE 0
#define SENT 1
#define ANSWERED 2
byte listing[CLAIMS];
set listed[CLAIMS];
byte deleting[NAMES];
bool doubt[NAMES];      /* kept in mind until it is gone with proof */
bool unseen[NAMES];     /* a search did not find it */

/* Who shares, a bit for each claim. */
#ifndef READERS
#if defined(NEAREST_READER) || defined(READERS_ALONE) || defined(TOGETHER)
#define READERS 6
#elif defined(SUCCEEDS_READER)
#define READERS 5
#else
#define READERS 0
#endif
#endif
#define reads(N) ((READERS) & BIT(CLAIM_OF(N)))
/* Whether name N waits for name M, which stands before it. */
#ifdef READERS_ALONE
#define waits_for(N, M) (!reads(M))
#else
#define waits_for(N, M) (!reads(M) || !reads(N))
#endif
#ifdef NEAREST_READER
#define is_before(M, N) (place[M] < place[N] && (!reads(N) || place[M] + 1 == place[N]))
#else
#define is_before(M, N) (place[M] < place[N])
#endif
#ifdef TRACE
/* By the look that find_ahead() has just had, as there are too many names for these to be written out. */
#define may_hold(N, MASK) (((MASK) & BIT(N)) && stands == 0)
#define is_next(C, N) (stands == 1 && LOCKER(ahead[C]) != LOCKER(C))
#define look(C, N) find_ahead(C, N)
#define find(C, N) skip
#define one_stands stands++
#define none_stands stands = 0
#else
#define look(C, N) skip
#define find(C, N) find_ahead(C, N)
#define one_stands skip
#define none_stands skip
#define may_hold(N, MASK) ( \
    ((MASK) & BIT(N)) && \
    !(((MASK) & BIT(0)) && is_before(0, N) && waits_for(N, 0) && N != 0) && \
    !(((MASK) & BIT(1)) && is_before(1, N) && waits_for(N, 1) && N != 1) && \
    !(((MASK) & BIT(2)) && is_before(2, N) && waits_for(N, 2) && N != 2) && \
    !(((MASK) & BIT(3)) && is_before(3, N) && waits_for(N, 3) && N != 3) && \
    !(((MASK) & BIT(4)) && is_before(4, N) && waits_for(N, 4) && N != 4) && \
    !(((MASK) & BIT(5)) && is_before(5, N) && waits_for(N, 5) && N != 5))
/* What has to be so of whoever is granted, whatever he believes. */
#define is_in_the_way(M, N) ((there & BIT(M)) && place[M] < place[N] && M != N && (!reads(M) || !reads(N)))
#define is_good(N) ((there & BIT(N)) && !is_in_the_way(0, N) && !is_in_the_way(1, N) && !is_in_the_way(2, N) && \
    !is_in_the_way(3, N) && !is_in_the_way(4, N) && !is_in_the_way(5, N))
#endif

/* Another place of its locker has a list to come, or under way. */
#define ours_waits(C) (has_other(C) && waits_for(name[C], name[1 - (C)]) && (step[1 - (C)] == BEHIND || step[1 - (C)] == ENTERED) && \
    deleting[name[1 - (C)]] == NONE)

/* The other place of its locker, right ahead, had the lock, and its delete was sent and is not executed yet. */
#define succeeds(C) ((C) < 2 && step[C] == BEHIND && right_behind[C] && ahead[C] == name[1 - (C)] && was_alone(1 - (C)) && \
    deleting[ahead[C]] == SENT)
#ifdef SUCCEEDS_WAITER
#define was_alone(C) (!reads(name[C]))
#elif defined(SUCCEEDS_READER)
#define was_alone(C) (left_first[C])
#else
#define was_alone(C) (left_first[C] && !reads(name[C]))
#endif
#ifdef SUCCEEDS_EARLY
#define deleted(N) true
#else
#define deleted(N) (deleting[N] == NONE)
#endif

#define belongs(N) (name[CLAIM_OF(N)] == (N) && step[CLAIM_OF(N)] != NOTHING && step[CLAIM_OF(N)] != DONE)

/* The nearest of the list before N for which that waits. */
inline find_ahead(c, n) {
    byte m = 0;
    ahead[c] = NAMES; none_stands;
    do
    :: m < NAMES ->
        if
        :: (listed[c] & BIT(m)) && place[m] < place[n] && m != n && waits_for(n, m) ->
            one_stands;
            if :: ahead[c] == NAMES || place[ahead[c]] < place[m] -> ahead[c] = m :: else fi
        :: else
        fi;
        m++
    :: m == NAMES -> break
    od;
    m = 0
}

/* Whether name N waits for name M of the list. */
#define counts(M, N, MASK) (((MASK) & BIT(M)) && place[M] < place[N] && M != N && waits_for(N, M))
#define ahead_of(N, MASK) (counts(0, N, MASK) + counts(1, N, MASK) + counts(2, N, MASK) + counts(3, N, MASK) + \
    counts(4, N, MASK) + counts(5, N, MASK))
#ifdef TRACE
#elif defined(NEXT_OF_MORE)
#define is_next(C, N) (LOCKER(ahead[C] / 2) != LOCKER(C))
#elif defined(NEXT_OF_OURS)
#define is_next(C, N) (ahead_of(N, listed[C]) == 1)
#else
#define is_next(C, N) (ahead_of(N, listed[C]) == 1 && LOCKER(ahead[C] / 2) != LOCKER(C))
#endif
/* The places of its own locker are told of a delete when that is sent. */
#ifdef NEXT_OF_OURS
#define told_gone(N) (!(there & BIT(N)) || deleting[N] == SENT)
#else
#define told_gone(N) (!(there & BIT(N)))
#endif

/* The server's word of a deletion is enough, if it is recent. */
#define comes_next(C) (step[C] == BEHIND && ahead[C] != NAMES && one_ahead[C] && told_gone(ahead[C]))

#ifdef TRACE
/* The delete is seen when it is sent. */
#define is_swept(N) (!belongs(N) && step[N] != NOTHING && !known[N])
#define sweeps(N) known[N] = 1; did(SWEEP)
#else
#define is_swept(N) (!belongs(N))
#define sweeps(N) deleting[N] = SENT
#endif
/* Names of ours in a list that belong to no claim are deleted, whatever the list was for. */
inline sweep(l, mask) {
    byte k = 0;
    do
    :: k < NAMES ->
        if
#ifdef EAGER_SWEEP
        :: (mask & BIT(k)) && LOCKER(CLAIM_OF(k)) == l && deleting[k] == NONE &&
            (!belongs(k) || step[k / 2] == ASKED || step[k / 2] == DOUBT) -> deleting[k] = SENT
#else
        :: (mask & BIT(k)) && LOCKER(CLAIM_OF(k)) == l && deleting[k] == NONE && is_swept(k) -> sweeps(k);
#ifdef SWEPT
            assert(!unseen[k]);
#endif
#endif
        :: else
        fi;
        k++
    :: k == NAMES -> break
    od;
    k = 0
}

#ifdef TRACE
#define set_right_behind(C) right_behind[C] = (LOCKER(ahead[C]) == LOCKER(C) && deleting[ahead[C]] == NONE -> ahead[C] : 0)
#else
#define set_right_behind(C) right_behind[C] = has_other(C) && ahead[C] == name[1 - (C)] && deleting[ahead[C]] == NONE
#endif

/* FIRST is entered here, with a list in hand that shows the node and nobody before it for whom it waits. */
inline settle(c, n) {
    follows[c] = 0; right_behind[c] = 0; one_ahead[c] = 0;
    look(c, n);
    if
    :: may_hold(n, listed[c]) -> step[c] = FIRST; ahead[c] = NAMES; did(PLACE_FIRST)
    :: else ->
        find(c, n);
        waited[c] = 1; did(PLACE_BEHIND);
        set_right_behind(c);
        one_ahead[c] = is_next(c, n);
        if
#ifdef TRY_QUEUED
        :: !waits[c] -> step[c] = BEHIND; ahead[c] = NAMES
#else
        :: !waits[c] -> step[c] = LEAVING; deleting[n] = SENT
#endif
        :: else -> step[c] = BEHIND
        fi
    fi
}

/* Whoever of its locker follows is placed by the same list. */
inline settle_follower(c) {
    if
    :: has_other(c) && follows[1 - c] && step[1 - c] == BEHIND && (listed[c] & BIT(name[1 - c])) ->
        listed[1 - c] = listed[c];
        settle((1 - c), name[1 - c]);
        listed[1 - c] = 0;
#ifdef FOLLOWED
        shown_too[1 - c] = 1
#endif
    :: else
    fi
}

inline list_again(c) {
    follows[c] = 0; right_behind[c] = 0; one_ahead[c] = 0;
    step[c] = ENTERED;
    if :: listing[c] == NONE -> listing[c] = SENT :: else fi
}

/* The claim's name may come into being later: it is kept in mind. */
inline keep_in_mind(n) {
    doubt[n] = 1
}

/* It is not there and won't be: with proof only. */
inline gone(n) {
    assert(!(there & BIT(n)) && !creating[n]);
    doubt[n] = 0; deleting[n] = NONE; unseen[n] = 0
}

inline cut_claim(c) {
    listing[c] = NONE; listed[c] = 0; reading[c] = NONE; one_ahead[c] = 0;
#ifdef LEFT
    if
    :: step[c] == ENTERED && c < 2 && step[1 - c] == BEHIND && ahead[1 - c] == name[c] -> step[1 - c] = FIRST
    :: else
    fi;
#endif
    if
    :: step[c] == ASKED -> step[c] = DOUBT
    :: step[c] == ENTERED -> listing[c] = SENT /* asked again by the next connection */
    :: else
    fi
}

inline forget_name(n) {
    there = there & ~BIT(n); creating[n] = 0; deleting[n] = NONE; doubt[n] = 0; unseen[n] = 0; place[n] = 0
}

/* A delete without an answer is sent again. */
inline again(n) {
    if :: deleting[n] == ANSWERED -> deleting[n] = SENT :: else fi
}

inline end_claim(c) {
    step[c] = DONE; listing[c] = NONE; listed[c] = 0; ahead[c] = NAMES; reading[c] = NONE; right_behind[c] = 0; one_ahead[c] = 0;
    forget_name(2 * c); forget_name(2 * c + 1)
}

inline ask(c) {
    step[c] = ASKED; creating[name[c]] = 1;
    if :: waits[c] && ours_waits(c) -> skip :: else -> listing[c] = SENT fi
}

#define DELETED(K) \
    :: d_step { deleting[2 * c + K] == ANSWERED -> \
        gone(2 * c + K);\
        if :: name[c] == 2 * c + K && step[c] == LEAVING -> step[c] = DONE :: else fi }

#define CREATE(K) \
    :: d_step { creating[2 * c + K] -> \
        creating[2 * c + K] = 0; last++; place[2 * c + K] = last; there = there | BIT(2 * c + K); \
        /* somebody has it in mind */ \
        assert(belongs(2 * c + K) || doubt[2 * c + K]); \
        LATE_CHECK(2 * c + K) \
        }
#ifdef LATE
#define LATE_CHECK(N) assert(!unseen[N]);
#else
#define LATE_CHECK(N)
#endif

#define DELETE(K) \
    :: d_step { deleting[2 * c + K] == SENT -> \
        there = there & ~BIT(2 * c + K);         deleting[2 * c + K] = ANSWERED }

#ifdef TRACE
/* ---- a trace: the same places, with what was seen in place of what may be ---- */
/* A locker that asks for a place has no more claims than its process has threads. What it knows to be there of others it has had
 * deleted; what is only not known not to be there it keeps in mind. */
#define stands_by(K) (step[K] != NOTHING && step[K] != LEAVING && step[K] != DONE)
inline passes() {
    i = 1; standing = 0; is_due = 0;
    do
    :: i < NAMES && event == EVENT_ASKS ->
        if
        :: i != who && LOCKER(i) == about && session[i] == left ->
            if :: stands_by(i) -> standing++ :: else fi;
            if :: known[i] && deleting[i] == NONE -> is_due = 1 :: else fi
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* A list places all of its locker's that it shows. */
inline place_all(c, mask) {
    byte k = 1;
    do
    :: k < NAMES ->
        if
        :: LOCKER(k) == LOCKER(c) && (mask & BIT(k)) &&
            (step[k] == ASKED || step[k] == DOUBT || step[k] == ENTERED || step[k] == BEHIND) ->
            if :: step[k] == DOUBT -> found[k] = 1 :: step[k] != DOUBT && k == c -> found[k] = 0 :: else fi;
            listed[k] = mask; settle(k, k); listed[k] = 0
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

/* All of its locker's that wait for a place are told that it is gone. The server has a watch on their own places too, so these are
 * there still, and its word is recent. */
inline tell(c, other) {
    byte k = 1; bool any = 0;
    do
    :: k < NAMES ->
        if
        :: LOCKER(k) == LOCKER(c) && step[k] == BEHIND && ahead[k] == other ->
            any = 1;
            if
            :: comes_next(k) && guarded[k] && left <= RECENT -> step[k] = FIRST; did(NEXT)
            :: else -> step[k] = ENTERED; did(HINT)
            fi;
            ahead[k] = NAMES; one_ahead[k] = 0
        :: else
        fi;
        k++
    :: else -> break
    od;
    if :: any -> any = 0 :: else -> did(TELL_LATE) fi;
    k = 0
}

/* What is guarded the client library has watched by the next connection, too. */
inline connect(c) {
    byte k = 1;
    do
    :: k < NAMES ->
        if
        :: LOCKER(k) == LOCKER(c) && session[k] == left ->
            if :: found[k] == 1 -> found[k] = 2 :: else fi;
            if :: step[k] == ASKED -> step[k] = DOUBT :: else fi
        :: LOCKER(k) == LOCKER(c) && session[k] != left && step[k] != LEAVING && step[k] != NOTHING ->
            step[k] = DONE; ahead[k] = NAMES; one_ahead[k] = 0; keep_in_mind(k) /* it will end with its session */
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

#define may_leave(C) (deleting[C] == NONE && about == LOCKER(C))
#define LEAVE(STEP, TOOK) \
    :: d_step { step[c] == STEP && may_leave(c) && shows(LEAVES, c) -> \
        left_first[c] = step[c] == HELD || step[c] == FIRST; \
        step[c] = LEAVING; ahead[c] = NAMES; one_ahead[c] = 0; deleting[c] = SENT; took(TOOK) }
/* Nobody stands in between: by a list, or by the numbers. */
#define follows_upon(C, N) (right_behind[C] == N || place[N] + 1 == place[C])

proctype claim(byte c)
{
    byte n = c; /* its name */
end:
    do
    /* ---- the claim's own steps ---- */
    :: d_step { step[c] == NOTHING && standing < THREADS && !is_due && shows(ASKS, c) ->
        locker[c] = about; session[c] = left; waits[c] = 1; ask(c); took(ASK) }
    /* gives up before the answer, or goes on under another name: its locker asks for another place */
    :: d_step { (step[c] == ASKED || step[c] == DOUBT || (found[c] == 2 && stands_by(c))) && event == EVENT_ASKS &&
            about == LOCKER(c) && left == session[c] && who != c && standing >= THREADS ->
        step[c] = DONE; ahead[c] = NAMES; one_ahead[c] = 0; keep_in_mind(c); standing--; did(GIVE_UP) }
    :: d_step { step[c] == ASKED && !creating[c] && !(there & BIT(c)) && about == LOCKER(c) && shows(ASKS, c) ->
        ask(c); took(ASK_AGAIN) }
    :: d_step { step[c] == FIRST && deleting[c] == NONE && shows(GRANTED, c) ->
        listed[c] = there; find_ahead(c, n); listed[c] = 0; ahead[c] = NAMES;
        assert((there & BIT(c)) && stands == 0); /* who is granted is the least there is */
        step[c] = HELD; took(GRANT) }
    LEAVE(HELD, LEAVE_HELD)
    LEAVE(FIRST, LEAVE_FIRST)
    LEAVE(BEHIND, LEAVE_BEHIND)
    LEAVE(ENTERED, LEAVE_ENTERED)
    :: d_step { step[c] == DONE && known[c] && may_leave(c) && shows(LEAVES, c) -> deleting[c] = SENT; took(LEAVE_SWEPT) }
    :: d_step { (deleting[c] != NONE || (step[c] == DONE && !creating[c] && !(there & BIT(c)))) && about == LOCKER(c) &&
            shows(LEAVES, c) ->
        took(LEAVE_AGAIN) }

    /* ---- what its locker reads ---- */
    :: d_step { step[c] == ASKED && (there & BIT(c)) && shows(ENTERS, c) -> step[c] = ENTERED; took(ENTER) }
    :: d_step { step[c] == DONE && doubt[c] && shows(ENTERS, c) -> known[c] = 1; took(ENTER_LATE) }
    :: d_step { len(lists[c]) > 0 && shows(READS, c) ->
        lists[c]?listed[c];
        sweep(LOCKER(c), listed[c]);
        shown = listed[c]; place_all(c, shown); shown = 0;
        listed[c] = 0; took(READ) }
    :: d_step { (there & BIT(c)) && shows(GUARDS, c) -> guarded[c] = 1; took(GUARD) }
    :: d_step { next < NAMES && told_gone(next) && shows(TOLD, c) -> tell(c, next); took(READ) }
    /* behind the delete of the place right ahead */
    :: d_step { (step[c] == BEHIND || step[c] == ENTERED) && next < NAMES && LOCKER(c) == LOCKER(next) && follows_upon(c, next) &&
            was_alone(next) && deleted(next) && was_deleted[next] && (there & BIT(c)) && shows(CHECKS, c) ->
        step[c] = FIRST; ahead[c] = NAMES; one_ahead[c] = 0; took(SUCCEED) }
    :: d_step { shows(CHECKS, c) -> took(READ) }
    :: d_step { deleting[c] == ANSWERED && shows(GONE, c) ->
        gone(c); known[c] = 0; was_deleted[c] = about;
        if :: step[c] == LEAVING -> step[c] = DONE :: else fi;
        took(GONE) }
    :: d_step { deleting[c] == NONE && step[c] == DONE && shows(GONE, c) -> gone(c); took(GONE) }
    :: d_step { shows(CONNECTS, c) -> connect(c); took(CONNECT) }

    /* ---- the servers ---- */
    :: d_step { creating[c] && about > last && shows(CREATED, c) ->
        creating[c] = 0; last = about; place[c] = last; there = there | BIT(c);
        assert(belongs(c) || doubt[c]); /* somebody has it in mind */
        if :: !belongs(c) -> did(CREATE_LATE) :: else fi;
        took(CREATE) }
    :: d_step { creating[c] && shows(REFUSED, c) -> creating[c] = 0; took(REFUSE) }
    :: d_step { deleting[c] == SENT && shows(DELETED, c) ->
        there = there & ~BIT(c); deleting[c] = ANSWERED; took(DELETE) }
    :: d_step { about == there && shows(LISTS, c) -> lists[c]!there; took(LIST) }
    :: d_step { (there & BIT(c)) && shows(VANISHES, c) ->
        step[c] = DONE; ahead[c] = NAMES; one_ahead[c] = 0; known[c] = 0; forget_name(c); took(VANISH) }
    :: d_step { !(there & BIT(c)) && shows(ENDS, c) ->
        do :: len(lists[c]) > 0 -> lists[c]?listed[c] :: len(lists[c]) == 0 -> break od;
        forget_name(c);
        step[c] = NOTHING; ahead[c] = NAMES; one_ahead[c] = 0; waited[c] = 0; listed[c] = 0; listing[c] = NONE;
        locker[c] = 0; session[c] = 0; guarded[c] = 0; known[c] = 0; found[c] = 0; was_deleted[c] = 0; left_first[c] = 0; right_behind[c] = 0;
        took(END) }
    od
}

init {
    byte c = 1;
    atomic {
        begins_trace();
        do
        :: c < CLAIMS -> name[c] = c; ahead[c] = NAMES; run claim(c); c++
        :: else -> break
        od
    }
}
#else
proctype claim(byte c)
{
    byte n;
end:
    do
    /* ---- the claim's own steps ---- */
    :: d_step { step[c] == NOTHING && !over[LOCKER(c)] -> waits[c] = 1; ask(c) }
    :: d_step { step[c] == NOTHING && !over[LOCKER(c)] && c == 1 -> waits[c] = 0; ask(c) }
    :: d_step { step[c] == DOUBT && listing[c] == NONE -> listing[c] = SENT }
    :: d_step { step[c] == FIRST && deleting[name[c]] == NONE ->
        assert(is_good(name[c])); /* who is granted is the least there is, or reads and only readers are before it */
        step[c] = HELD;
#ifdef TOGETHER
        assert((step[0] == HELD) + (step[1] == HELD) + (step[2] == HELD) < 2);
#endif
#ifdef HELD_BEHIND
        assert(!waited[c])
#endif
#ifdef FOLLOWED
        assert(!shown_too[c])
#endif
#ifdef SUCCEEDED
        assert(!succeeded[c])
#endif
#ifdef NEXT
        assert(!by_event[c])
#endif
        }
    /* released, or given up */
    :: d_step { step[c] == HELD || step[c] == FIRST || step[c] == BEHIND || step[c] == ENTERED ->
        left_first[c] = step[c] == HELD || step[c] == FIRST;
        step[c] = LEAVING; ahead[c] = NAMES; listing[c] = NONE; listed[c] = 0; reading[c] = NONE; right_behind[c] = 0; one_ahead[c] = 0;
        if :: deleting[name[c]] == NONE -> deleting[name[c]] = SENT :: else fi }
    :: d_step { step[c] == ASKED || step[c] == DOUBT ->
        step[c] = DONE; listing[c] = NONE; listed[c] = 0;
#ifndef GIVEN_UP
        keep_in_mind(name[c])
#endif
        }

    /* created, without a list */
    :: d_step { step[c] == ASKED && listing[c] == NONE && !creating[name[c]] && (there & BIT(name[c])) ->
        if
        :: ours_waits(c) && place[name[1 - c]] < place[name[c]] ->
            step[c] = BEHIND; ahead[c] = name[1 - c]; waited[c] = 1; follows[c] = 1;
#ifdef SUCCEEDS_BETWEEN
            right_behind[c] = 1
#else
            right_behind[c] = place[name[1 - c]] + 1 == place[name[c]]
#endif
        :: else -> list_again(c)
        fi }

    /* its predecessor's delete is sent, and the read behind it */
    :: d_step { succeeds(c) -> follows[c] = 0; one_ahead[c] = 0; right_behind[c] = 0; step[c] = ENTERED; reading[c] = SENT }

    /* ---- hints: a watch, in time or late, or the majority's answer that the node is gone ---- */
    :: d_step { step[c] == BEHIND && ahead[c] != NAMES && told_gone(ahead[c]) ->
        ahead[c] = NAMES;
#ifdef HINT_GRANTS
        step[c] = FIRST
#elif defined(FOLLOWER_GRANTED)
        if :: follows[c] -> step[c] = FIRST :: else -> list_again(c) fi
#else
        list_again(c)
#endif
        }
    /* the same, if the server's word is recent */
    :: d_step { comes_next(c) ->
        ahead[c] = NAMES; one_ahead[c] = 0; step[c] = FIRST;
#ifdef NEXT
        by_event[c] = 1
#endif
        }
#ifdef TRY_QUEUED
    :: d_step { step[c] == BEHIND && ahead[c] == NAMES && c < 2 && step[1 - c] == DONE -> step[c] = FIRST }
#endif

    /* ---- answers ---- */
    :: d_step { listing[c] == ANSWERED ->
        n = name[c];
        listing[c] = NONE;
        sweep(LOCKER(c), listed[c]);
        if
        :: step[c] == BEHIND || step[c] == FIRST || step[c] == HELD -> skip
        :: (step[c] == ASKED || step[c] == DOUBT || step[c] == ENTERED) && (listed[c] & BIT(n)) -> settle(c, n)
        :: step[c] == DOUBT && !(listed[c] & BIT(n)) ->
            unseen[n] = 1;
#ifdef UNSEEN_GONE
            gone(n);
#elif !defined(FORGOTTEN)
            keep_in_mind(n);
#endif
            if
            :: n == 0 -> step[c] = NOTHING; name[c] = n + 1 /* it goes on under another name */
            :: else -> step[c] = DONE
            fi
        :: (step[c] == ENTERED || step[c] == ASKED) && !(listed[c] & BIT(n)) ->
            gone(n); step[c] = DONE /* deleted by somebody else */
        :: else
        fi;
        settle_follower(c);
        listed[c] = 0; n = 0 }
    :: d_step { reading[c] == ANSWERED && deleted(ahead[c]) ->
        reading[c] = NONE; ahead[c] = NAMES; step[c] = FIRST;
#ifdef SUCCEEDED
        succeeded[c] = 1
#endif
        }
    DELETED(0)
    DELETED(1)

    /* ---- the servers ---- */
    CREATE(0)
    CREATE(1)
    DELETE(0)
    DELETE(1)
    /* the stream answers in order: a list that was sent with a create shows the node; a search goes behind
     * a check, which the leader orders */
    :: d_step { listing[c] == SENT && !(step[c] == ASKED && creating[name[c]]) ->
        listed[c] = there; listing[c] = ANSWERED }
#ifdef SUCCEEDS_EARLY
    :: d_step { reading[c] == SENT && (there & BIT(name[c])) -> reading[c] = ANSWERED }
#else
    :: d_step { reading[c] == SENT && deleting[ahead[c]] != SENT && (there & BIT(name[c])) -> reading[c] = ANSWERED }
#endif
    od
}

proctype connection(byte l)
{
end:
    do
    :: d_step { cuts < CUTS && !over[l] ->
        cuts++;
        cut_claim(0); cut_claim(1); again(0); again(1); again(2) }
    /* names in doubt are looked for as long as the session lives; that the driver stops after sixteen session time-outs is left out */
    :: d_step { !over[l] && doubt[0] + doubt[1] + doubt[2] > 0 -> sweep(l, there) }
    :: d_step { !over[l] && cuts > 0 -> over[l] = 1; end_claim(0); end_claim(1) }
    od
}

init {
    byte c;
    atomic {
        name[0] = 0; name[1] = 2; name[2] = 4;
        ahead[0] = NAMES; ahead[1] = NAMES; ahead[2] = NAMES;
        run claim(0); run claim(1); run claim(2);
        run connection(0)
    }
}
#endif
