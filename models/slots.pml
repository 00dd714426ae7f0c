/*
 * slots.pml: permits in etcd. A place in the lock's queue wants one of N permits; one of the first N, with no other kind of
 * place ahead, takes a slot, which is a key outside of the queue. Are there ever more than N, or two with one slot, or a
 * slot that is nobody's; and does a foreign mutex, which knows the queue alone, exclude them all?
 *
 * A slot is taken by one transaction that also writes it into the place's record. Requests for one are carried out late; the
 * first claim's more than once, and their answers are lost. Its place and slot are put on a newer lease together, and the old
 * one is revoked. A lease that ends takes both, after its claim has ceased to count on it (etcd.pml).
 *
 * models/README.md tells which code this stands for, and what it leaves out.
 *
 * run quick: -DSLOTS=2
 * run full: -DSLOTS=1
 * fault BLIND: a slot is taken without a look whether it is taken
 * fault PLACELESS: a slot is taken though the place has gone
 * fault SECOND: a slot is taken though the place has another: a late request leaves one that is nobody's
 * fault SLOT_BEHIND: a slot is taken with an older lease than its place has by now
 * fault MOVES_ALONE: a place is put on a new lease without a look whether its record names a slot, which stays on the old one
 * fault ANOTHER: a request without an answer is not repeated; another slot is asked for, without a look whether one was had
 * fault FORGETS: who gives up, or releases, deletes the slot that it knows of, and not the one that its place's record names
 * fault PLACE_FIRST: a release deletes the place, and then the slot
 * fault SLOT_ALONE: who has a slot leaves the queue
 * fault FOREIGN_COUNTS: a foreign place ahead is counted as one permit
 * fault HEEDLESS: a slot that is seen to be free is taken without a look at who is ahead
 * witness FULL: all slots are held
 * witness MUTEX: the foreign mutex is held while permits wait, and after some were held
 * witness LATE: a request for a slot is carried out when its claim has gone
 * witness UNTOLD: a claim finds a slot that it was not told of
 */
#ifndef SLOTS
#define SLOTS 2
#endif
#define CLAIMS 3
#define FOREIGN CLAIMS  /* the mutex, as a place */
#define BIT(N) (1 << (N))
#define REQUEST(K, L) BIT(2 * (K) + (L) - 1)

mtype = { NOTHING, WAITING, TAKING, HELD, RELEASING, DONE };

/* what the majority has agreed on; each claim has a locker of its own, with a lease 1; the first's has a lease 2 as well */
byte pos[CLAIMS + 1];   /* the place, the oldest at 1; 0: it isn't there */
byte on[CLAIMS];        /* the place's lease */
byte record[CLAIMS];    /* the slot that the place's record names, and 1; 0: none */
byte slot[2];           /* whose, and 1; 0: it isn't there */
byte slot_on[2];        /* the slot's lease */
bool revoked[CLAIMS];   /* lease 1 is no more */

/* the claims */
mtype step[CLAIMS] = NOTHING;
byte want[CLAIMS];      /* the slot that is asked for, or held */
byte mine[CLAIMS];      /* the lease that the place is known to be on */
byte taking[CLAIMS];    /* requests under way, a bit each */
#ifdef MUTEX
bool were_some;
#endif

#define ahead_of(M, C) (pos[M] != 0 && pos[M] < pos[C])
#define permits_ahead(C) (ahead_of(0, C) + ahead_of(1, C) + ahead_of(2, C))
#define in_turn(C) (permits_ahead(C) < SLOTS && !ahead_of(FOREIGN, C))
#ifdef FOREIGN_COUNTS
#define may_take(C) (permits_ahead(C) + ahead_of(FOREIGN, C) < SLOTS)
#elif defined(HEEDLESS)
#define may_take(C) (!ahead_of(FOREIGN, C))
#else
#define may_take(C) in_turn(C)
#endif
#ifdef BLIND
#define is_free(K) true
#else
#define is_free(K) (slot[K] == 0)
#endif
#ifdef PLACELESS
#define has_place(C) true
#else
#define has_place(C) (pos[C] != 0)
#endif
#ifdef SECOND
#define has_none(C) true
#else
#define has_none(C) (record[C] == 0)
#endif
#ifdef SLOT_BEHIND
#define has_lease(C, L) (L == 2 || !revoked[C])
#elif defined(PLACELESS)
#define has_lease(C, L) (on[C] == L || pos[C] == 0)
#else
#define has_lease(C, L) (on[C] == L)
#endif
#ifdef MOVES_ALONE
#define moves(C) true
#else
#define moves(C) (record[C] == 0)
#endif
#ifdef ANOTHER
#define unseen(C) true
#else
#define unseen(C) (record[C] == 0)
#endif

#define owned(C) (step[C] != HELD || slot[want[C]] == (C) + 1)
#define foreign_alone() (pos[FOREIGN] != 1 || (step[0] != HELD && step[1] != HELD && step[2] != HELD))
#ifdef SLOT_ALONE
#define orphan(K) false
#else
#define orphan(K) (slot[K] != 0 && pos[slot[K] - 1] == 0)
#endif
inline check() {
    assert(owned(0) && owned(1) && owned(2)); /* so no two have one slot, and at most N hold */
    assert(foreign_alone());
    assert(!orphan(0) && !orphan(1));
#if SLOTS > 1
    assert(slot[0] == 0 || slot[0] != slot[1])
#endif
#ifdef FULL
    ; assert((step[0] == HELD) + (step[1] == HELD) + (step[2] == HELD) < SLOTS)
#endif
}

inline enqueue(n) {
    i = 0;
    do
    :: i <= CLAIMS -> if :: pos[i] > last -> last = pos[i] :: else fi; i++
    :: else -> break
    od;
    pos[n] = last + 1; i = 0; last = 0
}
inline dequeue(n) {
    i = 0;
    do
    :: i <= CLAIMS -> if :: pos[n] != 0 && pos[i] > pos[n] -> pos[i]-- :: else fi; i++
    :: else -> break
    od;
    pos[n] = 0; i = 0
}
inline free_slot(k) {
    if :: slot[k] == me + 1 -> slot[k] = 0; slot_on[k] = 0 :: else fi
}
inline over() {
    record[me] = 0; on[me] = 0; step[me] = DONE; want[me] = 0; mine[me] = 0; revoked[me] = 0
}
/* Deleted with the place: the slot that its record names. It is compared with what is known, or read first. */
inline free_its_slot() {
#ifdef FORGETS
    if :: step[me] == RELEASING -> free_slot(want[me]) :: else fi
#else
    if :: record[me] != 0 -> free_slot(record[me] - 1) :: else fi
#endif
}

#ifdef SLOT_ALONE
#define leave_queue() dequeue(me)
#else
#define leave_queue() skip
#endif
#ifdef MUTEX
#define held_one() were_some = 1
#else
#define held_one() skip
#endif
#ifdef LATE
#define was_late() assert(step[me] != DONE)
#else
#define was_late() skip
#endif
#ifdef UNTOLD
#define found_one() assert(false)
#else
#define found_one() skip
#endif

proctype contender(byte me)
{
    byte i, last;
end:
    do
    :: d_step { step[me] == NOTHING -> enqueue(me); step[me] = WAITING; on[me] = 1; mine[me] = 1; check() }
    /* one transaction has shown the places and the slots; some time goes by until what it leads to is carried out */
#define ASK(K) \
    :: d_step { step[me] == WAITING && unseen(me) && may_take(me) && is_free(K) -> \
        step[me] = TAKING; want[me] = K; taking[me] = taking[me] | REQUEST(K, mine[me]) }
    ASK(0)
#if SLOTS > 1
    ASK(1)
#endif
#if !defined(HEEDLESS) && !defined(FOREIGN_COUNTS)
    /* whose turn it is finds one */
    :: d_step { step[me] == WAITING && unseen(me) && in_turn(me) && !is_free(0) && (SLOTS == 1 || !is_free(1)) ->
        assert(false) }
#endif
#ifdef ANOTHER
    :: d_step { step[me] == TAKING -> step[me] = WAITING; want[me] = 0 }
#else
    /* it has one already, by a request whose answer was lost */
    :: d_step { step[me] == WAITING && record[me] != 0 ->
        found_one(); step[me] = HELD; want[me] = record[me] - 1; check() }
#endif
    /* again, as no answer has come */
    :: d_step { step[me] == TAKING && !(taking[me] & REQUEST(want[me], mine[me])) ->
        taking[me] = taking[me] | REQUEST(want[me], mine[me]) }
    /* carried out; the answer comes, or is lost; it was asked again, and a copy is still under way */
#define TAKE(K, L, ANSWERED, COPIED) \
    :: d_step { (me == 0 || (ANSWERED && !COPIED)) && (taking[me] & REQUEST(K, L)) && (!ANSWERED || (step[me] == TAKING && want[me] == K)) -> \
        was_late(); \
        if :: !COPIED -> taking[me] = taking[me] & ~REQUEST(K, L) :: else fi; \
        if \
        :: is_free(K) && has_place(me) && has_none(me) && has_lease(me, L) -> \
            assert(pos[me] == 0 || in_turn(me)); \
            slot[K] = me + 1; slot_on[K] = L; record[me] = K + 1 \
        :: else \
        fi; \
        if \
        :: ANSWERED && slot[K] == me + 1 -> step[me] = HELD; held_one(); leave_queue() \
        :: ANSWERED && slot[K] != me + 1 -> step[me] = WAITING; want[me] = 0 \
        :: else \
        fi; \
        check() }
#define TAKES(K) \
    TAKE(K, 1, false, false) TAKE(K, 1, true, false) TAKE(K, 1, true, true) \
    TAKE(K, 2, false, false) TAKE(K, 2, true, false) TAKE(K, 2, true, true)
    TAKES(0)
#if SLOTS > 1
    TAKES(1)
#endif
    /* On a newer lease, with the slot that it is known to have; that is compared with the place's record. */
    :: d_step { me == 0 && mine[me] == 1 && (step[me] == WAITING || step[me] == TAKING) && moves(me) ->
        on[me] = 2; mine[me] = 2 }
    :: d_step { me == 0 && mine[me] == 1 && step[me] == HELD -> on[me] = 2; mine[me] = 2; slot_on[want[me]] = 2 }
    :: d_step { mine[me] == 2 && !revoked[me] ->
        revoked[me] = 1;
        if :: slot[0] == me + 1 && slot_on[0] == 1 -> free_slot(0) :: else fi;
        if :: slot[1] == me + 1 && slot_on[1] == 1 -> free_slot(1) :: else fi;
        check() }
    :: d_step { step[me] == HELD -> step[me] = RELEASING }
    /* given up, or released: one transaction */
#ifdef PLACE_FIRST
    :: d_step { step[me] == RELEASING && pos[me] != 0 -> dequeue(me); check() }
#endif
    :: d_step { step[me] == WAITING || step[me] == RELEASING -> dequeue(me); free_its_slot(); over(); check() }
    /* the lease ends */
    :: d_step { step[me] != NOTHING && step[me] != DONE ->
        dequeue(me); free_slot(0); free_slot(1); over(); check() }
    od
}

proctype foreign()
{
    byte i, last;
end:
    do
    :: d_step { pos[FOREIGN] == 0 -> enqueue(FOREIGN); check() }
    :: d_step { pos[FOREIGN] != 0 ->
#ifdef MUTEX
        assert(pos[FOREIGN] != 1 || !were_some || (pos[0] == 0 && pos[1] == 0 && pos[2] == 0));
#endif
        dequeue(FOREIGN); check() }
    od
}

init {
    atomic { run contender(0); run contender(1); run contender(2); run foreign() }
}
