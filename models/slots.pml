/*
 * slots.pml: permits in etcd. A waiter has a place in a queue of its own. The first place takes one of N
 * slots, and goes. A try takes a slot if no client waits. Are there ever more than N holders, or two with
 * the same slot, or a slot without a holder that stays? Is a waiter ever overtaken? Is the key ever used
 * with two numbers, or as a lock, at once?
 *
 * Requests for a slot are carried out late, and those of the first claim more than once. Their answers are
 * lost, which taints the lease that they name: it is revoked when nothing that counts is on it (etcd.pml).
 *
 * models/README.md says which code this stands for, and what it leaves out.
 *
 * run quick: -DN=2
 * run full: -DN=1
 * fault BLIND: a slot is taken without checking that it is free
 * fault PLACELESS: a slot is taken for a place that has gone
 * fault PASSES: a try takes a free slot without checking that no client waits by now
 * fault LOCK_UNSEEN: a try takes a slot without checking that the key is not locked by now
 * fault OTHER_NUMBER: a try or a new waiter does not check that the key is not used with another number by now
 * fault UNTAINTED: an unanswered request is forgotten, and its lease lives on
 * witness FULL: all slots are held
 * witness LEFT: a slot is taken late, for a claim that has gone
 * witness UNTOLD: a claim has a slot by a request without an answer
 * witness BESIDE: a foreign mutex, which knows nothing of permits, is held beside them
 */
#ifndef N
#define N 2
#endif
#define CLAIMS 3
#define SLOTS 3         /* the last is the only one of those who want one of 1, where others want one of N */
#define BIT(K) (1 << (K))

mtype = { NOTHING, WAITING, TAKING, HELD, DONE };

/* what the majority has agreed on */
byte pos[CLAIMS];       /* the place among those that wait, the oldest at 1; 0: it isn't there */
byte slot[SLOTS];       /* whose, and 1; 0: it isn't there */
bool locked;            /* somebody of ours has the key as a lock */
bool foreign;           /* a foreign mutex has it */

/* the claims */
mtype step[CLAIMS] = NOTHING;
bool tries[CLAIMS];     /* it has no place */
bool odd[CLAIMS];       /* it wants one of 1 */
byte want[CLAIMS];      /* the slot that is asked for, or held */
byte taking[CLAIMS];    /* requests under way, a bit each */
bool tainted[CLAIMS];

#define waits(C) (pos[C] != 0)
#define nobody_waits() (!waits(0) && !waits(1) && !waits(2))
#define is_locked() (locked || foreign)
#define is_of(K, C) ((K == 2) == odd[C])
#define other_waits(C, D) (waits(D) && odd[C] != odd[D])
#define other_number(C) ((odd[C] -> slot[0] != 0 || slot[1] != 0 : slot[2] != 0) || \
    other_waits(C, 0) || other_waits(C, 1) || other_waits(C, 2))
#define permits_there() (!nobody_waits() || slot[0] != 0 || slot[1] != 0 || slot[2] != 0)

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
#ifdef PASSES
#define none_before() true
#else
#define none_before() nobody_waits()
#endif
#ifdef LOCK_UNSEEN
#define is_unlocked() true
#else
#define is_unlocked() (!is_locked())
#endif
#ifdef OTHER_NUMBER
#define is_of_number(C) true
#else
#define is_of_number(C) (!other_number(C))
#endif
#ifdef UNTAINTED
#define taint() skip
#else
#define taint() tainted[me] = 1
#endif

#define owned(C) (step[C] != HELD || slot[want[C]] == (C) + 1)
#define is_somebodys(K) (slot[K] == 0 || tainted[slot[K] - 1] || \
    ((step[slot[K] - 1] == HELD || step[slot[K] - 1] == TAKING) && want[slot[K] - 1] == K))
#define held(K) (slot[K] != 0 && step[slot[K] - 1] == HELD && want[slot[K] - 1] == K)
inline check() {
    assert(owned(0) && owned(1) && owned(2)); /* so no two have one slot, and at most N hold */
    assert(is_somebodys(0) && is_somebodys(1) && is_somebodys(2));
    assert(!held(2) || (!held(0) && !held(1)));
    assert(!locked || (!held(0) && !held(1) && !held(2)));
#ifdef FULL
    assert(!held(0) || !held(N - 1));
#endif
#ifdef BESIDE
    assert(!foreign || !held(0))
#endif
}

inline enqueue() {
    i = 0;
    do
    :: i < CLAIMS -> if :: pos[i] > last -> last = pos[i] :: else fi; i++
    :: else -> break
    od;
    pos[me] = last + 1; i = 0; last = 0
}
inline dequeue() {
    i = 0;
    do
    :: i < CLAIMS -> if :: pos[me] != 0 && pos[i] > pos[me] -> pos[i]-- :: else fi; i++
    :: else -> break
    od;
    pos[me] = 0; i = 0
}
inline free_slot(k) {
    if :: slot[k] == me + 1 -> slot[k] = 0 :: else fi
}

proctype contender(byte me)
{
    byte i, last;
end:
    do
    /* The place is made if the key isn't locked, and not used with another number. Who only tries makes none. */
    :: d_step { step[me] == NOTHING && me == 2 && N > 1 && !odd[me] -> odd[me] = 1 }
    :: d_step { step[me] == NOTHING && !is_locked() && is_of_number(me) -> enqueue(); step[me] = WAITING }
    :: d_step { step[me] == NOTHING -> tries[me] = 1; step[me] = WAITING }
    /* one transaction has shown who is ahead, and the slots; some time goes by until what it leads to is carried out */
#define ASK(K) \
    :: d_step { step[me] == WAITING && is_of(K, me) && slot[K] == 0 && \
        (tries[me] -> nobody_waits() && !is_locked() && !other_number(me) : pos[me] == 1) -> \
        step[me] = TAKING; want[me] = K; taking[me] = taking[me] | BIT(K) }
    ASK(0)
#if N > 1
    ASK(1)
#endif
    ASK(2)
    /* again, as no answer has come */
    :: d_step { me == 0 && step[me] == TAKING -> taint(); taking[me] = taking[me] | BIT(want[me]) }
    /* carried out; the answer comes, or is lost; it was asked again, and a copy is still under way */
#define TAKE(K, ANSWERED, COPIED) \
    :: d_step { (me == 0 || (ANSWERED && !COPIED)) && (taking[me] & BIT(K)) && \
            (!ANSWERED || (step[me] == TAKING && want[me] == K)) -> \
        if :: !COPIED -> taking[me] = taking[me] & ~BIT(K) :: else -> taint() fi; \
        if :: !ANSWERED -> taint() :: else fi; \
        if \
        :: is_free(K) && !tries[me] && has_place(me) -> \
            assert(pos[me] == 1); was_left(); dequeue(); slot[K] = me + 1 \
        :: is_free(K) && tries[me] && none_before() && is_unlocked() && is_of_number(me) -> \
            assert(nobody_waits()); was_left(); slot[K] = me + 1 \
        :: else -> was_told(K) \
        fi; \
        if \
        :: ANSWERED && slot[K] == me + 1 -> step[me] = HELD \
        :: ANSWERED && slot[K] != me + 1 -> \
            want[me] = 0; step[me] = WAITING; \
            if :: !tries[me] && pos[me] == 0 -> step[me] = DONE :: else fi \
        :: else \
        fi; \
        check() }
#ifdef LEFT
#define was_left() assert(step[me] != DONE)
#else
#define was_left() skip
#endif
#ifdef UNTOLD
#define was_told(K) assert(step[me] != TAKING || slot[K] != me + 1)
#else
#define was_told(K) skip
#endif
    TAKE(0, false, false)
    TAKE(0, true, false)
    TAKE(0, true, true)
#if N > 1
    TAKE(1, false, false)
    TAKE(1, true, false)
    TAKE(1, true, true)
#endif
    TAKE(2, true, false)
    /* Given up: the place is deleted, and what the permit may come to be goes with its lease. A lease that ends does the same. */
    :: d_step { step[me] == WAITING || (step[me] == TAKING && me == 0) ->
        if :: step[me] == TAKING -> taint() :: else fi;
        dequeue(); step[me] = DONE; want[me] = 0; check() }
    :: d_step { step[me] == HELD -> free_slot(want[me]); step[me] = DONE; want[me] = 0; check() }
    /* what is on a tainted lease, once everything that counts is on another */
    :: d_step { tainted[me] && step[me] != TAKING ->
        if :: step[me] != HELD || want[me] != 0 -> free_slot(0) :: else fi;
        if :: step[me] != HELD || want[me] != 1 -> free_slot(1) :: else fi;
        if :: step[me] == DONE -> taking[me] = 0; tainted[me] = 0 :: else fi; /* a late one is refused by then */
        check() }
    od
}

proctype others()
{
end:
    do
    :: d_step { !locked && !permits_there() && !foreign -> locked = 1; check() }
    :: d_step { locked -> locked = 0 }
    :: d_step { !locked && !foreign -> foreign = 1; check() }
    :: d_step { foreign -> foreign = 0 }
    od
}

init {
    atomic { run contender(0); run contender(1); run contender(2); run others() }
}
