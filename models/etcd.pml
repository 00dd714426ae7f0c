/*
 * etcd.pml: a lock in etcd is the oldest of the keys below its name, and each key is on a lease. Until when
 * may a holder believe that its key exists?
 *
 * No lease is kept alive. From time to time a new lease is granted, all keys are put on it, and the old
 * lease ends or is revoked (rotation). D belongs to the lease that the key is proven to be on: TTL from
 * before this lease was requested. One locker has some claims on one key. Its requests are carried out late,
 * more than once or never, and answers are late or lost. It stops for any time. Other clients come and go,
 * and hold the lock whenever their key is the oldest. The leader ends expired leases by its clock. A deposed
 * leader goes on, and has the new leader end what had expired by its own clock.
 *
 * models/README.md says which code this stands for, and what it leaves out. The servers are as in etcd 3.4.23: lease/lessor.go
 * (Grant, Renew, Promote, findExpiredLeases), EtcdServer.LeaseRevoke. The run with WAY_A and OLD_IS_SILENT shows that keeping a lease
 * alive would be right if a deposed leader ended nothing.
 *
 * run quick: -DTTL=2 -DGENS=3
 * run quick: -DTTL=2 -DGENS=1 -DBREAKS
 * run full: -DTTL=2 -DGENS=2 -DBREAKS
 * run full: -DTTL=3 -DGENS=2 -DELECTIONS=1
 * run full: -DTTL=2 -DGENS=2 -DCLAIMS=2 -DOTHERS=0
 * run full: -DTTL=3 -DWAY_A -DOLD_IS_SILENT
 * fault KEEP_ALIVE: one lease is kept alive, and a request that the majority orders proves each answer; the deposed leader did not learn of it
 * fault BACKWARDS: a put is guarded by the create revision alone: a late put takes the key back to an older lease
 * fault FROM_ANSWER: D counts from the answer to the lease request
 * fault FROM_PUT: D counts from the put
 * fault REVOKE_BETWEEN: a lease is revoked that no key is known to be on, though a put to it had no answer
 * fault DOOMED: a place on a lease whose revocation was sent is granted before it is on another lease
 * fault EARLY_REVOKE: the old lease is revoked before all keys are on the new one
 * fault REVOKE_RELEASING: the old lease is revoked while a release has no answer
 * fault RESURRECTS: a put makes the key again if it is missing
 * fault NAMED: a place that was found on an older lease has the D of the lease that was named last
 * fault THERE: a key that exists counts as being on the new lease
 * fault HINT_GRANTS: the deletion of the place ahead is a grant, though other places may be ahead
 * fault GIVEN_UP: a place whose create has no answer is given up and not deleted
 * fault KEEPS_ANOTHER: a place is deleted only with the known create revision: a place that was created twice stays
 * fault TRUSTS_READS: a read at a member that was stopped grants a place after it was broken
 * fault UNPROVEN: a lease is kept alive, and each answer counts; the deposed leader ends nothing
 * witness ROTATED: a holder has its key on a third lease
 * witness WAITED: a claim that waited is granted, on a newer lease than it began with
 * witness DEPOSED: a deposed leader ends a lease that the new one would not end yet
 * witness STALE: a member that was stopped shows a broken place as first
 * witness GHOST: a create is carried out after its place was deleted
 *
 * What a trace shows (script/prove --traces), each of one lease, or of one claim: a place's name, from one use of it to the next.
 * event WANTS: the lease is asked for
 * event LEASED: it is there; the time that it has, by the fastest of the members' clocks
 * event REVOKES: its locker asks for its end
 * event REVOKED: that is carried out
 * event EXPIRES: a leader has it end
 * event ASKS: sends a create; the lease that it names, and for how long its caller asks for the lock
 * event ENTERS: its create is carried out; the lease that it names, and 1 if it has made the place
 * event LOOKS: a look at its place is carried out
 * event GRANTED: holds the lock from now on; which of its creates has made the place, and the time left until D
 * event PUTS: sends a put; the lease that it names
 * event MOVES: its put is carried out; the lease that the place is on now, and after which change of the place the put may be
 * event STAYS: its put is carried out, and does nothing; the same
 * event RENEWED: its D is another one; 1 if its caller has it renewed, and the time left until D
 * event LOSES: is told that its lock is lost
 * event LEAVES: gives the lock back, or gives up; 0 where nobody waits for that, as its locker is closed
 * event FREES: its delete is carried out; 1 if the place that is gone was its own
 * event KEEPS: its delete is carried out, and finds no place
 * event GOES: its place has ended with its lease
 * event LASTS: the lease is there at the end
 * event ENDS: nothing of it is to come; another claim or lease has its number
 *
 * The steps that a trace has to be made of, with those that it does not show:
 * step WANT: a lease is asked for
 * step LEASE: it is granted
 * step REVOKE: a lease's end is asked for
 * step END_REVOKED: a lease is revoked
 * step END_EXPIRED: a lease ends by itself
 * step ASK_FIRST: a claim's first create
 * step ASK_AGAIN: a create that had no answer is sent again
 * step CREATE: a create is carried out
 * step MAKE: it makes the place
 * step FIND: it finds the place
 * step LOOK: somebody who waits looks again
 * step WAIT: an answer is no grant
 * step GRANT: an answer grants the lock
 * step PUT: a put is sent
 * step CARRY_OUT: a put is carried out
 * step MOVE_IT: it puts the place to another lease
 * step LEAVE_IT: it does nothing
 * step HEAR: the answer to a put says on which lease the place is
 * step RENEW: it moves D
 * step LOSE: D has come
 * step LEAVE_HELD: a holder releases
 * step LEAVE_WAITING: a waiter gives up
 * step LEAVE_ASKING: a claim gives up while its create has no answer
 * step LEAVE_LOST: a lock that is lost is released
 * step DELETE: a delete is carried out
 * step FREE: it deletes the place
 * step FREE_NOT: it finds none
 * step GO: a place ends with its lease
 * step END: nothing more comes of a claim or a lease
 *
 * Steps that a trace seldom has:
 * unbound HEAR_LATE: a caller has a lock, or has D moved, when its place has been put to another lease since
 * unbound LEAVE_CLOSED: a locker is closed with a lock
 * unbound LOOK_LATE: a look of who waits no more is carried out
 */
#ifdef TRACE
#define CLIENTS 180
#include "trace.h"
#define CLAIMS CLIENTS
#define GENS CLIENTS
#define PLACES (CLIENTS + 1)
#endif
#ifdef KEEP_ALIVE
#define WAY_A
#endif
#ifdef UNPROVEN
#define WAY_A
#define OLD_IS_SILENT
#endif
#if defined(TRUSTS_READS) || defined(STALE)
#define BREAKS
#define GENS 1
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

#ifdef TRACE
/* Claims and leases have numbers of one kind. Each lease is known by its own; its age says which is the newer one. */
#define set(NAME) bool NAME[PLACES]
#define has(SET, G) SET[G]
#define add_to(SET, G) SET[G] = 1
#define take_from(SET, G) SET[G] = 0
#define span int
#define wide short
#define FIRST 256
#define AFTER 512
#define IN_REPLY 255
#define GONE 254
#define newest next
#define LONG_AGO 1000000000 /* the age of 0, which stands for leases that are no more */
#define is_newer(G, THAN) (age[G] < age[THAN])
#define is_news(TOLD, MINE) (TOLD == GONE || is_newer(TOLD, MINE))
#define wants_lease (!leases[who])
#define WANTED who
#define begins_granting granting[who] = 1
#define is_granting granting[who]
#define granted_time left
#define may_revoke(G) true
#define wanted(c) ttl[c] = about
#define may_ask_again(c) true
#define may_put(c) ((step[c] == BEHIND || step[c] == HELD || is_leaving(c)) && has_heard(c)) /* a release may have no answer */
#define is_release (about == 1)
#define may_look(c) has_heard(c)
/* What is sent is counted; it is not told what is lost. Of puts the lease that the latest names is kept. */
#define sends_create(c, BEFORE) creating[c] = BEFORE + 1
#define has_create(c, G) (creating[c] != 0)
#define create_is_done(c, G) creating[c]--
#define sends_put(c) moving[c] = newest; puts[c]++
#define has_put(c, FROM, TO) (puts[c] != 0)
#define put_is_done(c, FROM, TO) puts[c]--
#define revoke_is_done(G) skip /* it may be asked for once more */
#define forget_puts(c) skip
#define is_made(c) ((key[c] == 0) == about)
#define is_as_put(c, FROM) (key[c] != 0 && changed[c] == about)
#define changes(c) changed[c]++
#define shows_put(c, MOVED, NOT_MOVED) \
    (who == c && has_heard(c) && ((event == EVENT_MOVES && MOVED) || (event == EVENT_STAYS && NOT_MOVED)))
#define is_again(c) (step[c] == DONE)
#define is_leaving(c) (step[c] == RELEASING || step[c] == LEAVING || step[c] == DONE)
#define shows_delete(c) \
    (who == c && ((event == EVENT_FREES && about == 1 && key[c] != 0) || (event == EVENT_KEEPS && key[c] == 0)))
/* Answers are heard before what comes next of their claim: one that is lost would say no more than the next one does. So there is
 * one way to go on, or few. */
#define has_heard(c) \
    ((step[c] != BEHIND && step[c] != HELD) || ((told[c] == 0 || told[c] == GONE) && (step[c] == HELD || reply[c] == 0)))
#define hears(c) \
    (who == c && (event == EVENT_GRANTED || event == EVENT_LOOKS || event == EVENT_PUTS || event == EVENT_MOVES || event == EVENT_STAYS))
#define hears_put(c) (hears(c) || (who == c && (event == EVENT_RENEWED || event == EVENT_LOSES)))
#define time_of(c) (ttl[c] - ttl[c] / 100)
#define counts_from(c) (left <= (time_of(c) > age[mine[c]] -> time_of(c) - age[mine[c]] : 0) + 1)
#define counted(c) left
#define is_granted(c) (event == EVENT_GRANTED && about == token[c] && counts_from(c))
#define first_seen(c) was_first[c] = (was_first[c] || (reply[c] & FIRST))
#define counts_no_more(c) mine[c] = 0; was_first[c] = 0 /* what was heard makes no difference */
#define renewed(c) \
    if \
    :: event == EVENT_RENEWED && counts_from(c) -> count(c); took(RENEW) \
    :: else -> did(HEAR) \
    fi
/* Answers that claims may have had count for those that revoke a lease. */
#define knows(c) ((step[c] == BEHIND || step[c] == HELD) && told[c] != 0 && told[c] != GONE -> told[c] : mine[c])
#define needs(c, g) (counts(c) && (knows(c) == g || (moving[c] == g && is_newer(g, mine[c]))))
span ttl[PLACES];
short changed[PLACES]; /* how often the place was */
byte puts[PLACES];     /* that are under way */
bool was_first[PLACES];
bool is_needed; /* the lease whose end is asked for */
#else
#define set(NAME) byte NAME
#define has(SET, G) (SET & BIT(G))
#define add_to(SET, G) SET = SET | BIT(G)
#define take_from(SET, G) SET = SET & ~BIT(G)
#define span byte
#define wide byte
#define PLACES CLAIMS
#define FIRST 16
#define AFTER 32
#define IN_REPLY 7
#define GONE 8
#define MOVE(FROM, TO) BIT((FROM) + (TO) - 3) /* 1 to 2, 1 to 3, 2 to 3 */
/* Without a trace a step needs no event, and tells nobody. */
#define shows(EVENT, N) true
#define took(STEP) skip
#define did(STEP) skip
#define is_newer(G, THAN) ((G) > (THAN))
#define is_news(TOLD, MINE) is_newer(TOLD, MINE)
#define wants_lease (busy && newest < GENS && !granting)
#define WANTED (newest + 1)
#define begins_granting granting = 1
#define is_granting (granting && !granted)
#define granted_time TTL
#define may_revoke(G) (busy && newest > G && !has(revoking, G) && has(leases, G))
#define wanted(c) skip
#define may_ask_again(c) (!(creating[c] & BIT(newest)) && has(leases, newest))
#define may_put(c) \
    ((step[c] == BEHIND || step[c] == HELD) && mine[c] < newest && has(leases, newest) && !(moving[c] & MOVE(mine[c], newest)))
#define is_release true
#define may_look(c) (reply[c] == 0 && told[c] == 0)
#define sends_create(c, BEFORE) creating[c] = BEFORE | BIT(newest)
#define has_create(c, G) (creating[c] & BIT(G))
#define sends_put(c) moving[c] = moving[c] | MOVE(mine[c], newest)
#define has_put(c, FROM, TO) (moving[c] & MOVE(FROM, TO))
#define create_is_done(c, G) creating[c] = creating[c] & ~BIT(G)
#define put_is_done(c, FROM, TO) moving[c] = moving[c] & ~MOVE(FROM, TO)
#define revoke_is_done(G) take_from(revoking, G)
#define forget_puts(c) moving[c] = 0
#define is_made(c) true
#define is_as_put(c, FROM) (key[c] == FROM && rev[c] == token[c])
#define changes(c) skip
#define shows_put(c, MOVED, NOT_MOVED) true
#define is_again(c) false
#define shows_delete(c) true
#define hears(c) true
#define hears_put(c) true
#define counted(c) TTL - age[mine[c]]
#define is_granted(c) true
#define first_seen(c) skip
#define counts_no_more(c) skip
#define renewed(c) count(c)
#endif

mtype = { NOTHING, ASKED, BEHIND, HELD, RELEASING, LEAVING, DONE };

/* what the majority has agreed on; leases have the numbers 1, 2, 3 in the order in which they were asked for */
set(leases);            /* those that there are, a bit each */
byte key[PLACES];       /* the lease of the claim's place; 0: that isn't there */
byte rev[PLACES];       /* how often it has been created: its create revision */
byte pos[CLAIMS + 1];   /* where it stands, the oldest at 1; 0: nowhere */

/* what leaders keep to themselves: the time until a lease has expired */
span lasts[GENS + 1];
byte old_lasts[GENS + 1];
byte old_has;           /* leases that the deposed leader knows */
bool deposed;

/* the locker */
#ifdef TRACE
bool granting[PLACES];
#else
byte newest;            /* the lease that is named in requests */
bool granting;          /* the next one has been asked for */
#endif
bool granted;           /* and is there, or has been */
span age[GENS + 1];     /* since it was asked for, at most TTL */
set(revoking);          /* leases whose end has been asked for, and has not come */
set(doomed);            /* ... or has */
mtype step[PLACES] = NOTHING;
byte mine[PLACES];      /* the lease that its place is proven to be on; ASKED: the last that was named */
byte token[PLACES];     /* its create revision */
span valid[PLACES];     /* time until D: above 0, the claim is certain to hold the lock */

/* what is on its way */
byte creating[PLACES];   /* by the lease that each names, a bit each */
byte moving[PLACES];     /* puts from one lease to another, a bit each */
wide reply[PLACES];     /* to a create or a range: FIRST or AFTER, and the lease of the place */
byte reply_rev[PLACES];
byte told[PLACES];      /* to a put: the lease that the place is on; GONE */

#ifdef WAY_A
byte kept;              /* who answered the last request to keep the lease alive; 0: nobody */
bool keeping;
byte kept_age;
#endif
#ifdef HINT_GRANTS
byte ahead[CLAIMS];     /* whose deletion is watched, and 1 */
bool hint[CLAIMS];
#endif

#ifdef BREAKS           /* somebody takes a place away, and is answered; a member that stood still reads what was before */
byte broken[CLAIMS];    /* the create revision of the place that was; 0: none was */
byte before[CLAIMS];    /* as `reply`: what such a member shows */
byte before_rev[CLAIMS];
bool read[CLAIMS];      /* the reply is such a member's */
#define is_excused(c) (broken[c] != 0 && broken[c] == token[c]) /* it knows by its next put, or its watch */
#else
#define is_excused(c) false
#endif

inline check(c) {
    assert(valid[c] == 0 || is_excused(c) || (key[c] != 0 && pos[c] == 1 && rev[c] == token[c]))
}
inline check_all() {
#ifdef TRACE
    i = 1;
    do
    :: i < PLACES -> check(i); i++
    :: else -> break
    od;
    i = 0
#else
    check(0)
#if CLAIMS > 1
    ; check(1)
#endif
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
    take_from(leases, g); lasts[g] = 0; old_lasts[g] = 0; old_has = old_has & ~BIT(g);
    j = 0;
    do
    :: j < PLACES ->
        if :: key[j] == g -> remove(j) :: else fi;
#ifndef TRACE /* there a request that names it is not carried out */
        creating[j] = creating[j] & ~BIT(g);
        if
        :: g == 2 -> moving[j] = moving[j] & ~MOVE(1, 2)
        :: g == 3 -> moving[j] = moving[j] & ~(MOVE(1, 3) | MOVE(2, 3))
        :: else
        fi;
#endif
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
#ifdef BREAKS
    before[c] = 0; before_rev[c] = 0; read[c] = 0;
#endif
    step[c] = DONE; valid[c] = 0; mine[c] = 0; token[c] = 0; reply[c] = 0; reply_rev[c] = 0; told[c] = 0;
    forget_puts(c); counts_no_more(c);
    assert(key[c] == 0)
}
inline leave(c) {
    step[c] = LEAVING; valid[c] = 0; reply[c] = 0; reply_rev[c] = 0; told[c] = 0;
    counts_no_more(c)
}
/* The claim's D is that of its lease. */
inline count(c) {
    valid[c] = counted(c);
    if :: valid[c] == 0 -> leave(c) :: else fi;
    check(c)
}

#ifdef DOOMED
#define may_count(G) true
#else
#define may_count(G) !(has(doomed, G))
#endif

/* A look that is ordered among the writes grants; a read that shows the place as the first is followed by one. */
#if defined(BREAKS) && !defined(TRUSTS_READS)
#define is_proven(c) !read[c]
#else
#define is_proven(c) true
#endif
#ifdef BREAKS
#define is_read() read[me] = 0
#else
#define is_read() skip
#endif

#ifdef TRACE
#define me who
#define counts(c) (step[c] == BEHIND || step[c] == HELD || step[c] == ASKED || step[c] == RELEASING)
inline passes() {
    is_needed = 0;
    i = 1;
    do
    :: i < PLACES ->
        age[i] = age[i] + passed[i];
        lasts[i] = (lasts[i] > passed[0] -> lasts[i] - passed[0] : 0);
        if
        :: valid[i] > 0 ->
            valid[i] = (valid[i] > passed[i] -> valid[i] - passed[i] : 0);
            if :: valid[i] == 0 -> leave(i) :: else fi
        :: else
        fi;
        if :: event == EVENT_REVOKES && needs(i, who) -> is_needed = 1 :: else fi;
        i++
    :: else -> break
    od;
    i = 0
}
/* Another claim or lease has its place from now on. */
inline forget(n) {
    step[n] = NOTHING; mine[n] = 0; token[n] = 0; rev[n] = 0; changed[n] = 0; was_first[n] = 0; ttl[n] = 0;
    creating[n] = 0; moving[n] = 0; puts[n] = 0; reply[n] = 0; reply_rev[n] = 0; told[n] = 0; lasts[n] = 0; age[n] = 0;
    granting[n] = 0; revoking[n] = 0; doomed[n] = 0;
    i = 1;
    do
    :: i < PLACES ->
        if :: moving[i] == n -> moving[i] = 0 :: else fi;
        if :: mine[i] == n -> mine[i] = 0 :: else fi;
        if :: told[i] == n -> told[i] = 0 :: else fi;
        if :: (reply[i] & IN_REPLY) == n -> reply[i] = reply[i] - n :: else fi;
        i++
    :: else -> break
    od;
    i = 0
}
proctype contender()
#else
proctype contender(byte me)
#endif
{
#ifdef TRACE
    byte j, last;
#else
    byte i, j, last;
#endif
end:
    do
    /* ---- the locker's steps ---- */
    :: d_step { step[me] == NOTHING && newest != 0 && shows(ASKS, me) ->
        wanted(me); step[me] = ASKED; mine[me] = newest; sends_create(me, 0); took(ASK_FIRST) }
    :: d_step { step[me] == ASKED && may_ask_again(me) && shows(ASKS, me) ->
        sends_create(me, creating[me]); mine[me] = newest; took(ASK_AGAIN) }
    :: d_step { reply[me] != 0 && (step[me] == ASKED || (step[me] == BEHIND && reply_rev[me] == token[me])) && hears(me) ->
        if
        :: step[me] == ASKED -> token[me] = reply_rev[me]; mine[me] = reply[me] & IN_REPLY;
        :: step[me] == BEHIND && is_newer(reply[me] & IN_REPLY, mine[me]) -> mine[me] = reply[me] & IN_REPLY
        :: else
        fi;
        if
        :: (reply[me] & FIRST) && may_count(mine[me]) && is_proven(me) && is_granted(me) ->
#ifdef BREAKS
            assert(!read[me] || broken[me] != token[me]);
#endif
#ifdef WAITED
            assert(step[me] != BEHIND || mine[me] == 1);
#endif
            step[me] = HELD; reply[me] = 0; reply_rev[me] = 0;
#ifdef NAMED
            mine[me] = newest;
#endif
            count(me); took(GRANT)
        :: else -> first_seen(me); step[me] = BEHIND; reply[me] = 0; reply_rev[me] = 0; did(WAIT)
        fi;
        is_read() }
#ifdef HINT_GRANTS
    :: d_step { step[me] == BEHIND && hint[me] -> hint[me] = 0; step[me] = HELD; count(me) }
#endif
    /* the place is put on the newest lease */
    :: d_step { may_put(me) && shows(PUTS, me) ->
        sends_put(me); took(PUT) }
    :: d_step { told[me] != 0 && hears_put(me) ->
        if
        :: told[me] == GONE && (step[me] == BEHIND || step[me] == HELD) -> leave(me)
        :: told[me] != GONE && (step[me] == BEHIND || step[me] == HELD) && is_newer(told[me], mine[me]) ->
            mine[me] = told[me]; told[me] = 0;
            if
            :: step[me] == HELD ->
#ifdef ROTATED
                assert(mine[me] < 3);
#endif
#ifdef FROM_PUT
                valid[me] = TTL; check(me)
#else
                renewed(me)
#endif
            :: else -> did(HEAR)
            fi
        :: else -> told[me] = 0
        fi }
    :: d_step { step[me] == HELD && is_release && shows(LEAVES, me) ->
        step[me] = RELEASING; told[me] = 0; reply[me] = 0; reply_rev[me] = 0; took(LEAVE_HELD) }
#ifdef GIVEN_UP
    :: d_step { step[me] == ASKED -> over(me) }
#else
    :: d_step { step[me] == ASKED && shows(LEAVES, me) -> leave(me); token[me] = 0; took(LEAVE_ASKING) }
#endif
    :: d_step { step[me] == BEHIND && shows(LEAVES, me) -> leave(me); took(LEAVE_WAITING) }
#ifdef TRACE
    :: d_step { step[me] == HELD && !is_release && shows(LEAVES, me) -> leave(me); took(LEAVE_CLOSED) }
    :: d_step { step[me] == LEAVING && shows(LEAVES, me) -> took(LEAVE_LOST) }
    :: d_step { is_leaving(me) && shows(LOSES, me) -> took(LOSE) }
    :: d_step { step[me] == HELD && counts_from(me) && shows(RENEWED, me) -> count(me); took(HEAR_LATE) }
    :: d_step { step[me] == BEHIND && was_first[me] && may_count(mine[me]) && is_granted(me) && shows(GRANTED, me) ->
        step[me] = HELD; count(me); took(HEAR_LATE) }
#endif
    /* ---- carried out by the majority ---- */
#define CREATE(G) \
    :: d_step { has_create(me, G) && is_made(me) && shows(ENTERS, me) -> \
        create_is_done(me, G); \
        if :: key[me] == 0 -> key[me] = G; rev[me]++; enqueue(me); came_late(); changes(me); did(MAKE) :: else -> did(FIND) fi; \
        if :: step[me] == ASKED -> answer_where(me) :: else fi; \
        took(CREATE) }
#ifdef GHOST
#define came_late() assert(step[me] != DONE)
#else
#define came_late() skip
#endif
#ifdef TRACE
    CREATE(next)
#else
    CREATE(1)
#if GENS > 1
    CREATE(2)
#endif
#if GENS > 2
    CREATE(3)
#endif
#endif
    /* somebody who waits looks again */
    :: d_step { step[me] == BEHIND && may_look(me) && shows(LOOKS, me) ->
        if
        :: key[me] != 0 && rev[me] == token[me] && (pos[me] == 1 || is_newer(key[me], mine[me])) -> answer_where(me)
        :: key[me] != 0 && rev[me] == token[me] && pos[me] != 1 && !is_newer(key[me], mine[me])
        :: else -> told[me] = GONE
        fi;
        took(LOOK) }
#ifdef BREAKS
    :: d_step { key[me] != 0 && broken[me] == 0 -> broken[me] = rev[me]; remove(me); check_all() }
    :: d_step { key[me] != 0 && step[me] == BEHIND && (before_rev[me] != rev[me] || before[me] != (pos[me] == 1 -> FIRST : AFTER) + key[me]) ->
        before[me] = (pos[me] == 1 -> FIRST : AFTER) + key[me]; before_rev[me] = rev[me] }
    :: d_step { step[me] == BEHIND && reply[me] == 0 && told[me] == 0 && before_rev[me] == token[me] && before[me] != 0 ->
#ifdef STALE
        assert(!(before[me] & FIRST) || broken[me] != before_rev[me]);
#endif
        reply[me] = before[me]; reply_rev[me] = before_rev[me]; read[me] = 1 }
#endif
    /* a put, with its answer */
#if defined(RESURRECTS)
#define moves(FROM) (key[me] == 0 || (key[me] == FROM && rev[me] == token[me]))
#elif defined(BACKWARDS)
#define moves(FROM) (key[me] != 0 && rev[me] == token[me])
#else
/* The code compares the key's mod revision, which says more than its lease. */
#define moves(FROM) is_as_put(me, FROM)
#endif
#ifdef THERE
#define found(TO) TO
#else
#define found(TO) key[me]
#endif
#define PUT(FROM, TO) \
    :: d_step { has_put(me, FROM, TO) && shows_put(me, moves(FROM) && (has(leases, TO)), !moves(FROM)) -> \
        put_is_done(me, FROM, TO); \
        if \
        :: moves(FROM) && (has(leases, TO)) -> \
            if :: key[me] == 0 -> rev[me]++; enqueue(me) :: else fi; \
            key[me] = TO; told[me] = TO; changes(me); did(MOVE_IT) \
        :: !moves(FROM) && key[me] != 0 && rev[me] == token[me] -> told[me] = found(TO); did(LEAVE_IT) \
        :: !moves(FROM) && !(key[me] != 0 && rev[me] == token[me]) -> told[me] = GONE; did(LEAVE_IT) \
        :: else \
        fi; \
        if :: (step[me] == BEHIND || step[me] == HELD) && is_news(told[me], mine[me]) :: else -> told[me] = 0 fi; \
        took(CARRY_OUT) }
#ifdef TRACE
    PUT(0, next)
#else
#if GENS > 1
    PUT(1, 2)
#endif
#if GENS > 2
    PUT(1, 3)
    PUT(2, 3)
#endif
#endif
    /* a release, or a deletion, which is asked until there is an answer */
    :: d_step { (step[me] == RELEASING || step[me] == LEAVING || is_again(me)) && shows_delete(me) ->
/* The code does compare the create revision, and revokes the lease of a create without an answer instead (taint). */
#ifdef KEEPS_ANOTHER
        if :: key[me] != 0 && (token[me] == 0 || rev[me] == token[me]) -> remove(me) :: else fi;
#else
        if :: key[me] != 0 -> remove(me); did(FREE) :: else -> did(FREE_NOT) fi;
#endif
        over(me); check_all(); took(DELETE) }
#ifdef TRACE
    :: d_step { (step[me] == HELD || is_leaving(me)) && shows(LOOKS, me) -> took(LOOK_LATE) }
    :: d_step { key[me] == 0 && shows(GOES, me) -> took(GO) }
    :: d_step { has(leases, me) && shows(LASTS, me) -> took(END) }
    :: d_step { key[me] == 0 && !(has(leases, me)) && shows(ENDS, me) -> forget(me); took(END) }
#endif
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
#ifdef TRACE
    byte j, last;
#else
    byte i, j, last;
#endif
end:
    do
    :: d_step { wants_lease && shows(WANTS, WANTED) -> begins_granting; age[WANTED] = 0; took(WANT) }
    :: d_step { is_granting && shows(LEASED, WANTED) ->
        granted = 1; add_to(leases, WANTED); lasts[WANTED] = granted_time; took(LEASE) }
#ifndef TRACE
    :: d_step { granting && granted ->
        granting = 0; granted = 0; newest++;
#ifdef FROM_ANSWER
        age[newest] = 0
#endif
        }
#endif
#ifndef WAY_A
    /* An old one is revoked when no place that somebody counts on can be on it: none is on it or on an older one, from which a
     * put without an answer may have taken it there; nor is one being created or released. A place that is being created with a
     * newer one may be found on it by then: it is put to another before it is granted. */
#ifdef TRACE
#define needed(g) is_needed
#else
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
#endif
#define REVOKE(G) \
    :: d_step { may_revoke(G) && !needed(G) && shows(REVOKES, G) -> \
        add_to(revoking, G); add_to(doomed, G); took(REVOKE) } \
    :: d_step { (has(revoking, G)) && shows(REVOKED, G) -> \
        revoke_is_done(G); if :: has(leases, G) -> end_lease(G) :: else fi; took(END_REVOKED) }
#ifdef TRACE
    REVOKE(who)
#else
#if GENS > 1
    REVOKE(1)
#endif
#if GENS > 2
    REVOKE(2)
#endif
#endif
#else
    /* the other way: one lease, kept alive */
    :: d_step { newest == 1 && !keeping && kept == 0 -> keeping = 1; kept_age = 0 }
    :: d_step { keeping && (has(leases, 1)) && lasts[1] > 0 -> keeping = 0; lasts[1] = TTL; kept = 1 + deposed }
    :: d_step { keeping && (old_has & BIT(1)) && old_lasts[1] > 0 -> keeping = 0; old_lasts[1] = TTL; kept = 1 }
    :: d_step { keeping || kept != 0 -> keeping = 0; kept = 0; kept_age = 0 } /* lost */
    :: d_step { kept != 0 && (has(leases, 1)) -> /* the second request is carried out, with its answer */
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
#define old_ends(G) ((old_has & BIT(G)) && old_lasts[G] == 0)
#endif
#define EXPIRE(G) \
    :: d_step { (has(leases, G)) && lasts[G] == 0 && shows(EXPIRES, G) -> end_lease(G); took(END_EXPIRED) } \
    :: d_step { old_ends(G) -> ends_by_old(G); end_lease(G) }
#ifdef DEPOSED
#define ends_by_old(G) assert(lasts[G] == 0)
#else
#define ends_by_old(G) skip
#endif
#ifdef TRACE
    EXPIRE(who) /* a deposed leader may; a new one gives it more time */
#else
    EXPIRE(1)
#if GENS > 1
    EXPIRE(2)
#endif
#if GENS > 2
    EXPIRE(3)
#endif
#endif
#ifndef TRACE
    :: d_step { busy && !deposed && ELECTIONS ->
        deposed = 1; i = 1;
        do
        :: i <= GENS ->
            if
            :: has(leases, i) ->
                old_lasts[i] = lasts[i]; old_has = old_has | BIT(i); lasts[i] = TTL
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0 }
    /* ---- others ---- */
    :: d_step { OTHERS && busy && pos[OTHER] == 0 && newest != 0 -> enqueue(OTHER) }
    :: d_step { pos[OTHER] != 0 -> dequeue(OTHER) }
#endif
    od
}

#ifndef TRACE
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
            if :: lasts[i] > 0 -> lasts[i]-- :: else fi;
            if :: old_lasts[i] > 0 -> old_lasts[i]-- :: else fi;
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

#endif

init {
#ifdef TRACE
    atomic { age[0] = LONG_AGO; begins_trace(); run contender(); run lease() }
#else
    atomic {
        run contender(0);
#if CLAIMS > 1
        run contender(1);
#endif
        run lease(); run time()
    }
#endif
}
