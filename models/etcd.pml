/*
 * etcd.pml: a lock in etcd is the oldest of the keys below its name, each on a lease. Until when may its holder believe
 * that the key is there?
 *
 * No lease is ever kept alive: now and then a new one is granted, all keys are put again with it, and the old one
 * ends, or is revoked (rotation). D is the lease's that the key is proven to be on: TTL from before that was asked for. One
 * locker with some claims on one key, whose requests are carried out late, more than once, or never, and whose answers are late or
 * lost; it does nothing for any time. Others come and go, and have the lock whenever their key is the oldest. The leader ends what
 * has expired by its clock; one who has been deposed goes on, and ends by the new one what had expired by its own.
 *
 * models/README.md tells which code this stands for, and what it leaves out.
 *
 * run quick: -DTTL=2 -DGENS=3
 * run full: -DTTL=3 -DGENS=2 -DELECTIONS=1
 * run full: -DTTL=2 -DGENS=2 -DCLAIMS=2 -DOTHERS=0
 * run full: -DTTL=3 -DWAY_A -DOLD_IS_SILENT
 * fault KEEP_ALIVE: one lease is kept alive, each answer proven by a request that the majority orders; the deposed leader did not hear of it
 * fault BACKWARDS: a key is put again guarded by its create revision alone: late, this takes it back to an older lease
 * fault FROM_ANSWER: D counts from when the answer came that there is a lease
 * fault FROM_PUT: D counts from when the key was put
 * fault REVOKE_BETWEEN: a lease is revoked that no key is known to be on, though a put to it had no answer
 * fault DOOMED: a place is found on a lease whose end has been asked for, and is granted before it is on another
 * fault EARLY_REVOKE: the old lease is revoked before all keys are on the new one
 * fault REVOKE_RELEASING: the old lease is revoked while a release has no answer
 * fault RESURRECTS: a key is put again whether it is there or not
 * fault NAMED: a place that was found on an older lease has the D of the one that was named last
 * fault THERE: a key that is there is taken for one that is on the new lease
 * fault HINT_GRANTS: the deletion of the place ahead is a grant, though others may be ahead
 * fault GIVEN_UP: a place whose create has no answer is given up and not deleted
 * fault KEEPS_ANOTHER: a place is deleted only if it has the create revision that is known; one that was created twice stays behind
 * fault UNPROVEN: a lease is kept alive, and any answer to that is believed; the deposed leader ends nothing
 * witness ROTATED: a holder has its key on a third lease
 * witness WAITED: a claim that waited is granted, on a newer lease than it began with
 * witness DEPOSED: a deposed leader ends a lease that the new one would not end yet
 * witness GHOST: a create is carried out after its place was deleted
 */
#ifdef KEEP_ALIVE
#define WAY_A
#endif
#ifdef UNPROVEN
#define WAY_A
#define OLD_IS_SILENT
#endif
#if defined(HINT_GRANTS) && !defined(CLAIMS)
#define CLAIMS 2
#define GENS 2
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef CLAIMS
#define CLAIMS 1
#endif
#ifdef WAY_A
#define GENS 1
#endif
#ifndef GENS
#define GENS 3
#endif
#ifndef ELECTIONS
#if defined(WAY_A) || defined(DEPOSED)
#define ELECTIONS 1
#else
#define ELECTIONS 0
#endif
#endif
#ifndef OTHERS
#define OTHERS 1
#endif
#define OTHER CLAIMS    /* who comes and goes, as a place */
#define BIT(N) (1 << (N))

mtype = { NOTHING, ASKED, BEHIND, HELD, RELEASING, LEAVING, DONE };

/* what the majority has agreed on; leases have the numbers 1, 2, 3 in the order in which they were asked for */
byte leases;            /* those that there are, a bit each */
byte key[CLAIMS];       /* the lease of the claim's place; 0: that isn't there */
byte rev[CLAIMS];       /* how often it has been created: its create revision */
byte pos[CLAIMS + 1];   /* where it stands, the oldest at 1; 0: nowhere */

/* what leaders keep to themselves: the time until a lease has expired */
byte left[GENS + 1];
byte old_left[GENS + 1];
byte old_has;           /* leases that the deposed leader knows */
bool deposed;

/* the locker */
byte newest;            /* the lease that is named in requests */
bool granting;          /* the next one has been asked for */
bool granted;           /* and is there, or has been */
byte age[GENS + 1];     /* since it was asked for, at most TTL */
byte revoking;          /* leases whose end has been asked for, and has not come */
byte doomed;            /* ... or has */
mtype step[CLAIMS] = NOTHING;
byte mine[CLAIMS];      /* the lease that its place is proven to be on; ASKED: the last that was named */
byte token[CLAIMS];     /* its create revision */
byte valid[CLAIMS];     /* time until D: above 0, the claim is certain to hold the lock */

/* what is on its way */
byte creating[CLAIMS];  /* by the lease that each names, a bit each */
byte moving[CLAIMS];    /* puts from one lease to another, a bit each */
byte reply[CLAIMS];     /* to a create or a range: FIRST or AFTER, and the lease of the place */
byte reply_rev[CLAIMS];
byte told[CLAIMS];      /* to a put: the lease that the place is on; GONE */
#define FIRST 16
#define AFTER 32
#define GONE 8
#define MOVE(FROM, TO) BIT((FROM) + (TO) - 3) /* 1 to 2, 1 to 3, 2 to 3 */

#ifdef WAY_A
byte kept;              /* who answered the last request to keep the lease alive; 0: nobody */
bool keeping;
byte kept_age;
#endif
#ifdef HINT_GRANTS
byte ahead[CLAIMS];     /* whose deletion is watched, and 1 */
bool hint[CLAIMS];
#endif

inline check(c) {
    assert(valid[c] == 0 || (key[c] != 0 && pos[c] == 1 && rev[c] == token[c]))
}
inline check_all() {
    check(0)
#if CLAIMS > 1
    ; check(1)
#endif
}

inline enqueue(n) {
    i = 0; last = 0;
    do
    :: i <= CLAIMS -> if :: pos[i] > last -> last = pos[i] :: else fi; i++
    :: else -> break
    od;
    pos[n] = last + 1; i = 0; last = 0
}
inline dequeue(n) {
    i = 0;
    do
    :: i <= CLAIMS -> if :: pos[i] > pos[n] -> pos[i]-- :: else fi; i++
    :: else -> break
    od;
    pos[n] = 0; i = 0;
#ifdef HINT_GRANTS
    do
    :: i < CLAIMS -> if :: ahead[i] == n + 1 -> hint[i] = 1; ahead[i] = 0 :: else fi; i++
    :: else -> break
    od;
    i = 0;
#endif
}
inline remove(c) {
    dequeue(c); key[c] = 0
}
/* A lease ends, and so does what is on it; what still names it will be refused. */
inline end_lease(g) {
    leases = leases & ~BIT(g); left[g] = 0; old_left[g] = 0; old_has = old_has & ~BIT(g);
    j = 0;
    do
    :: j < CLAIMS ->
        if :: key[j] == g -> remove(j) :: else fi;
        creating[j] = creating[j] & ~BIT(g);
        if
        :: g == 2 -> moving[j] = moving[j] & ~MOVE(1, 2)
        :: g == 3 -> moving[j] = moving[j] & ~(MOVE(1, 3) | MOVE(2, 3))
        :: else
        fi;
        j++
    :: else -> break
    od;
    j = 0;
    check_all()
}

inline answer_where(c) {
    reply[c] = (pos[c] == 1 -> FIRST : AFTER) + key[c];
    reply_rev[c] = rev[c];
#ifdef HINT_GRANTS
    hint[c] = 0; i = 0; ahead[c] = 0;
    do
    :: i <= CLAIMS -> if :: pos[i] + 1 == pos[c] && pos[i] != 0 -> ahead[c] = i + 1 :: else fi; i++
    :: else -> break
    od;
    i = 0
#endif
}

inline over(c) {
    step[c] = DONE; valid[c] = 0; mine[c] = 0; token[c] = 0; reply[c] = 0; reply_rev[c] = 0; told[c] = 0; moving[c] = 0;
    assert(key[c] == 0)
}
inline leave(c) {
    step[c] = LEAVING; valid[c] = 0; reply[c] = 0; reply_rev[c] = 0; told[c] = 0
}
/* The claim's D is that of its lease. */
inline count(c) {
    valid[c] = TTL - age[mine[c]];
    if :: valid[c] == 0 -> leave(c) :: else fi;
    check(c)
}

#ifdef DOOMED
#define may_count(G) true
#else
#define may_count(G) !(doomed & BIT(G))
#endif

proctype contender(byte me)
{
    byte i, j, last;
end:
    do
    /* ---- the locker's steps ---- */
    :: d_step { step[me] == NOTHING && newest != 0 ->
        step[me] = ASKED; mine[me] = newest; creating[me] = BIT(newest) }
    :: d_step { step[me] == ASKED && !(creating[me] & BIT(newest)) && (leases & BIT(newest)) -> /* again */
        creating[me] = creating[me] | BIT(newest); mine[me] = newest }
    :: d_step { reply[me] != 0 && (step[me] == ASKED || (step[me] == BEHIND && reply_rev[me] == token[me])) ->
        if
        :: step[me] == ASKED -> token[me] = reply_rev[me]; mine[me] = reply[me] & 7;
        :: step[me] == BEHIND && (reply[me] & 7) > mine[me] -> mine[me] = reply[me] & 7
        :: else
        fi;
        if
        :: (reply[me] & FIRST) && may_count(mine[me]) ->
#ifdef WAITED
            assert(step[me] != BEHIND || mine[me] == 1);
#endif
            step[me] = HELD; reply[me] = 0; reply_rev[me] = 0;
#ifdef NAMED
            mine[me] = newest;
#endif
            count(me)
        :: else -> step[me] = BEHIND; reply[me] = 0; reply_rev[me] = 0
        fi }
#ifdef HINT_GRANTS
    :: d_step { step[me] == BEHIND && hint[me] -> hint[me] = 0; step[me] = HELD; count(me) }
#endif
    /* the place is put on the newest lease */
    :: d_step { (step[me] == BEHIND || step[me] == HELD) && mine[me] < newest && (leases & BIT(newest)) &&
            !(moving[me] & MOVE(mine[me], newest)) ->
        moving[me] = moving[me] | MOVE(mine[me], newest) }
    :: d_step { told[me] != 0 ->
        if
        :: told[me] == GONE && (step[me] == BEHIND || step[me] == HELD) -> leave(me)
        :: told[me] != GONE && (step[me] == BEHIND || step[me] == HELD) && told[me] > mine[me] ->
            mine[me] = told[me]; told[me] = 0;
            if
            :: step[me] == HELD ->
#ifdef ROTATED
                assert(mine[me] < 3);
#endif
#ifdef FROM_PUT
                valid[me] = TTL; check(me)
#else
                count(me)
#endif
            :: else
            fi
        :: else -> told[me] = 0
        fi }
    :: d_step { step[me] == HELD -> step[me] = RELEASING; told[me] = 0; reply[me] = 0; reply_rev[me] = 0 }
#ifdef GIVEN_UP
    :: d_step { step[me] == ASKED -> over(me) }
#else
    :: d_step { step[me] == ASKED -> leave(me); token[me] = 0 }
#endif
    :: d_step { step[me] == BEHIND -> leave(me) }
    /* ---- carried out by the majority ---- */
#define CREATE(G) \
    :: d_step { creating[me] & BIT(G) -> \
        creating[me] = creating[me] & ~BIT(G); \
        if :: key[me] == 0 -> key[me] = G; rev[me]++; enqueue(me); came_late() :: else fi; \
        if :: step[me] == ASKED -> answer_where(me) :: else fi }
#ifdef GHOST
#define came_late() assert(step[me] != DONE)
#else
#define came_late() skip
#endif
    CREATE(1)
#if GENS > 1
    CREATE(2)
#endif
#if GENS > 2
    CREATE(3)
#endif
    /* somebody who waits looks again */
    :: d_step { step[me] == BEHIND && reply[me] == 0 && told[me] == 0 ->
        if
        :: key[me] != 0 && rev[me] == token[me] && (pos[me] == 1 || key[me] > mine[me]) -> answer_where(me)
        :: key[me] != 0 && rev[me] == token[me] && pos[me] != 1 && key[me] <= mine[me]
        :: else -> told[me] = GONE
        fi }
    /* a put, with its answer */
#if defined(RESURRECTS)
#define moves(FROM) (key[me] == 0 || (key[me] == FROM && rev[me] == token[me]))
#elif defined(BACKWARDS)
#define moves(FROM) (key[me] != 0 && rev[me] == token[me])
#else
#define moves(FROM) (key[me] == FROM && rev[me] == token[me])
#endif
#ifdef THERE
#define found(TO) TO
#else
#define found(TO) key[me]
#endif
#define PUT(FROM, TO) \
    :: d_step { moving[me] & MOVE(FROM, TO) -> \
        moving[me] = moving[me] & ~MOVE(FROM, TO); \
        if \
        :: moves(FROM) && (leases & BIT(TO)) -> \
            if :: key[me] == 0 -> rev[me]++; enqueue(me) :: else fi; \
            key[me] = TO; told[me] = TO \
        :: !moves(FROM) && key[me] != 0 && rev[me] == token[me] -> told[me] = found(TO) \
        :: !moves(FROM) && !(key[me] != 0 && rev[me] == token[me]) -> told[me] = GONE \
        :: else \
        fi; \
        if :: (step[me] == BEHIND || step[me] == HELD) && told[me] > mine[me] :: else -> told[me] = 0 fi }
#if GENS > 1
    PUT(1, 2)
#endif
#if GENS > 2
    PUT(1, 3)
    PUT(2, 3)
#endif
    /* a release, or a deletion, which is asked until there is an answer */
    :: d_step { step[me] == RELEASING || step[me] == LEAVING ->
#ifdef KEEPS_ANOTHER
        if :: key[me] != 0 && (token[me] == 0 || rev[me] == token[me]) -> remove(me) :: else fi;
#else
        if :: key[me] != 0 -> remove(me) :: else fi;
#endif
        over(me); check_all() }
    od
}

/* While nobody has anything to lose, nothing else need happen but that late requests are carried out. */
#if CLAIMS > 1
#define busy (step[0] != DONE || step[1] != DONE)
#else
#define busy (step[0] != DONE)
#endif

proctype lease()
{
    byte i, j, last;
end:
    do
    :: d_step { busy && newest < GENS && !granting -> granting = 1; age[newest + 1] = 0 }
    :: d_step { granting && !granted -> granted = 1; leases = leases | BIT(newest + 1); left[newest + 1] = TTL }
    :: d_step { granting && granted ->
        granting = 0; granted = 0; newest++;
#ifdef FROM_ANSWER
        age[newest] = 0
#endif
        }
#ifndef WAY_A
    /* An old one is revoked when no place that somebody counts on can be on it: none is on it or on an older one, from which a
     * put without an answer may have taken it there; nor is one being created or released. A place that is being created with a
     * newer one may be found on it by then: it is put to another before it is granted. */
#define counts(c) (step[c] == BEHIND || step[c] == HELD || step[c] == ASKED || step[c] == RELEASING)
#ifdef EARLY_REVOKE
#define needs(c, g) (step[c] == ASKED && mine[c] == g)
#elif defined(REVOKE_BETWEEN)
#define needs(c, g) (counts(c) && mine[c] == g)
#elif defined(REVOKE_RELEASING)
#define needs(c, g) (counts(c) && step[c] != RELEASING && mine[c] <= g)
#else
#define needs(c, g) (counts(c) && mine[c] <= g)
#endif
#if CLAIMS > 1
#define needed(g) (needs(0, g) || needs(1, g))
#else
#define needed(g) needs(0, g)
#endif
#define REVOKE(G) \
    :: d_step { busy && newest > G && !needed(G) && !(revoking & BIT(G)) && (leases & BIT(G)) -> \
        revoking = revoking | BIT(G); doomed = doomed | BIT(G) } \
    :: d_step { revoking & BIT(G) -> revoking = revoking & ~BIT(G); if :: leases & BIT(G) -> end_lease(G) :: else fi }
#if GENS > 1
    REVOKE(1)
#endif
#if GENS > 2
    REVOKE(2)
#endif
#else
    /* the other way: one lease, kept alive */
    :: d_step { newest == 1 && !keeping && kept == 0 -> keeping = 1; kept_age = 0 }
    :: d_step { keeping && (leases & BIT(1)) && left[1] > 0 -> keeping = 0; left[1] = TTL; kept = 1 + deposed }
    :: d_step { keeping && (old_has & BIT(1)) && old_left[1] > 0 -> keeping = 0; old_left[1] = TTL; kept = 1 }
    :: d_step { keeping || kept != 0 -> keeping = 0; kept = 0; kept_age = 0 } /* lost */
    :: d_step { kept != 0 && (leases & BIT(1)) -> /* the second request is carried out, with its answer */
        if
#ifdef UNPROVEN
        :: true ->
#else
        :: kept == 1 + deposed ->
#endif
            if :: kept_age < age[1] -> age[1] = kept_age :: else fi;
            if :: step[0] == HELD -> count(0) :: else fi
        :: else
        fi;
        kept = 0; kept_age = 0 }
#endif
    /* ---- leaders ---- */
#ifdef OLD_IS_SILENT
#define old_ends(G) false
#else
#define old_ends(G) ((old_has & BIT(G)) && old_left[G] == 0)
#endif
#define EXPIRE(G) \
    :: d_step { (leases & BIT(G)) && left[G] == 0 -> end_lease(G) } \
    :: d_step { old_ends(G) -> ends_by_old(G); end_lease(G) }
#ifdef DEPOSED
#define ends_by_old(G) assert(left[G] == 0)
#else
#define ends_by_old(G) skip
#endif
    EXPIRE(1)
#if GENS > 1
    EXPIRE(2)
#endif
#if GENS > 2
    EXPIRE(3)
#endif
    :: d_step { busy && !deposed && ELECTIONS ->
        deposed = 1; i = 1;
        do
        :: i <= GENS ->
            if
            :: leases & BIT(i) ->
                old_left[i] = left[i]; old_has = old_has | BIT(i); left[i] = TTL
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0 }
    /* ---- others ---- */
    :: d_step { OTHERS && busy && pos[OTHER] == 0 && newest != 0 -> enqueue(OTHER) }
    :: d_step { pos[OTHER] != 0 -> dequeue(OTHER) }
    od
}

proctype time()
{
    byte i;
end:
    do
    :: d_step { busy && (newest != 0 || granting) ->
        i = 1;
        do
        :: i <= GENS ->
            if :: i <= newest + granting && age[i] < TTL -> age[i]++ :: else fi;
            if :: left[i] > 0 -> left[i]-- :: else fi;
            if :: old_left[i] > 0 -> old_left[i]-- :: else fi;
            i++
        :: else -> break
        od;
#ifdef WAY_A
        if :: (keeping || kept != 0) && kept_age < TTL -> kept_age++ :: else fi;
#endif
        i = 0;
        do
        :: i < CLAIMS ->
            if
            :: valid[i] > 0 ->
                valid[i]--;
                if :: valid[i] == 0 -> leave(i) :: else fi
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0 }
    od
}

init {
    atomic {
        run contender(0);
#if CLAIMS > 1
        run contender(1);
#endif
        run lease(); run time()
    }
}
