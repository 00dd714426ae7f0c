/*
 * queue.pml: places in a queue of ZooKeeper's ephemeral sequential nodes. Who is granted the lock, alone or
 * with other readers, and does anything stay behind?
 *
 * Two lockers: the first has two claims on one key and suffers all of it, the second has one. A claim tries or
 * waits; a create is executed late, after its connection has gone, or never; watches come late; sessions end. Who waits
 * behind a waiting place of the same locker asks for no list, until that one's shows both.
 * The steps of a place are those of backends/zookeeper/lock/place.h: each says what is known.
 *
 * models/README.md tells which code this stands for, and what it leaves out.
 *
 * run quick: -DCUTS=1
 * run quick: -DCUTS=1 -DREADERS=6
 * run full: -DCUTS=2
 * run full: -DCUTS=1 -DREADERS=3
 * run full: -DCUTS=1 -DREADERS=5
 * run full: -DCUTS=2 -DREADERS=6
 * fault TRY_QUEUED: a try that came second stays behind an unknown one, and is first when one of ours goes
 * fault HINT_GRANTS: the predecessor's deletion is a grant, though others may be ahead
 * fault LEFT: a place whose recovery gets no answer counts as gone, and our own place behind it as first
 * fault FORGOTTEN: a name that a search did not find is forgotten
 * fault GIVEN_UP: a claim that is given up while its create is under way is forgotten
 * fault UNSEEN_GONE: a name that a search did not find is used again as if nothing had been asked
 * fault EAGER_SWEEP: a name of ours whose create has not been answered yet is swept away as nobody's
 * fault FOLLOWER_GRANTED: one that was shown by no list, behind a place of the same locker, is first when that has gone
 * fault NEAREST_READER: a reader looks at the place right before it, and passes a writer that stands before another reader
 * fault READERS_ALONE: a writer waits for writers only
 * witness FOLLOWED: a claim that was shown by the list of another one of its locker is granted
 * witness HELD_BEHIND: a claim that waited is granted
 * witness TOGETHER: two readers hold at once
 * witness LATE: a create is executed after a search did not find it
 * witness SWEPT: a late node is found and deleted
 */
#ifndef CUTS
#define CUTS 1
#endif
#define CLAIMS 3
#define NAMES 6         /* claim c has the name 2c, the first one 1 as well: when 0 is in doubt */
#define LOCKER(C) ((C) / 2)
#define BIT(N) (1 << (N))

mtype = { NOTHING, ASKED, DOUBT, ENTERED, BEHIND, FIRST, HELD, LEAVING, DONE };

/* what the leader knows */
byte place[NAMES];      /* its sequence number; 0: the node is not there */
byte last;
byte there;             /* the nodes that are there, a bit each */

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

#define NONE 0
#define SENT 1
#define ANSWERED 2
byte listing[CLAIMS];
byte listed[CLAIMS];
byte deleting[NAMES];
bool doubt[NAMES];      /* kept in mind until it is gone with proof */
bool unseen[NAMES];     /* a search did not find it */

/* Who shares, a bit for each claim. */
#ifndef READERS
#if defined(NEAREST_READER) || defined(READERS_ALONE) || defined(TOGETHER)
#define READERS 6
#else
#define READERS 0
#endif
#endif
#define reads(N) ((READERS) & BIT((N) / 2))
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

/* Another place of its locker has a list to come, or under way. */
#define ours_waits(C) ((C) < 2 && waits_for(name[C], name[1 - (C)]) && (step[1 - (C)] == BEHIND || step[1 - (C)] == ENTERED) && \
    deleting[name[1 - (C)]] == NONE)

#define belongs(N) (name[(N) / 2] == (N) && step[(N) / 2] != NOTHING && step[(N) / 2] != DONE)

/* The nearest of the list before N for which that waits. */
inline find_ahead(c, n) {
    byte i = 0;
    ahead[c] = NAMES;
    do
    :: i < NAMES ->
        if
        :: (listed[c] & BIT(i)) && place[i] < place[n] && i != n && waits_for(n, i) &&
            (ahead[c] == NAMES || place[ahead[c]] < place[i]) -> ahead[c] = i
        :: else
        fi;
        i++
    :: i == NAMES -> break
    od;
    i = 0
}

/* Names of ours in a list that belong to no claim are deleted, whatever the list was for. */
inline sweep(l, mask) {
    byte k = 0;
    do
    :: k < NAMES ->
        if
#ifdef EAGER_SWEEP
        :: (mask & BIT(k)) && LOCKER(k / 2) == l && deleting[k] == NONE &&
            (!belongs(k) || step[k / 2] == ASKED || step[k / 2] == DOUBT) -> deleting[k] = SENT
#else
        :: (mask & BIT(k)) && LOCKER(k / 2) == l && deleting[k] == NONE && !belongs(k) -> deleting[k] = SENT;
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

/* FIRST is entered here, with a list in hand that shows the node and nobody before it for whom it waits. */
inline settle(c, n) {
    follows[c] = 0;
    if
    :: may_hold(n, listed[c]) -> step[c] = FIRST; ahead[c] = NAMES
    :: else ->
        find_ahead(c, n);
        waited[c] = 1;
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
    :: c < 2 && follows[1 - c] && step[1 - c] == BEHIND && (listed[c] & BIT(name[1 - c])) ->
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
    follows[c] = 0;
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
    listing[c] = NONE; listed[c] = 0;
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
    step[c] = DONE; listing[c] = NONE; listed[c] = 0; ahead[c] = NAMES;
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
        }
    /* released, or given up */
    :: d_step { step[c] == HELD || step[c] == FIRST || step[c] == BEHIND || step[c] == ENTERED ->
        step[c] = LEAVING; ahead[c] = NAMES; listing[c] = NONE; listed[c] = 0;
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
            step[c] = BEHIND; ahead[c] = name[1 - c]; waited[c] = 1; follows[c] = 1
        :: else -> list_again(c)
        fi }

    /* ---- hints: a watch, in time or late, or the majority's answer that the node is gone ---- */
    :: d_step { step[c] == BEHIND && ahead[c] != NAMES && !(there & BIT(ahead[c])) ->
        ahead[c] = NAMES;
#ifdef HINT_GRANTS
        step[c] = FIRST
#elif defined(FOLLOWER_GRANTED)
        if :: follows[c] -> step[c] = FIRST :: else -> list_again(c) fi
#else
        list_again(c)
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
    DELETED(0)
    DELETED(1)

    /* ---- the servers ---- */
    CREATE(0)
    CREATE(1)
    DELETE(0)
    DELETE(1)
    /* the stream answers in order: a list that was sent with a create shows the node; a search goes behind
     * a sync */
    :: d_step { listing[c] == SENT && !(step[c] == ASKED && creating[name[c]]) ->
        listed[c] = there; listing[c] = ANSWERED }
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
