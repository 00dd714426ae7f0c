/*
 * shared.pml: while several clients share a lock in Redis, its key is a marker that names the set of these
 * holders. Does a writer ever hold the lock beside a reader, and does a set that is gone keep any client
 * from the lock?
 *
 * Each request may be carried out at any time after it was sent, in any order, or never be answered. A
 * claim's value is used once. A client may delete the key, once: earlier holders may not know that until
 * their next renewal, which then fails.
 *
 * models/README.md says which code this stands for, and what it leaves out.
 *
 * run quick: -DEND=2
 * run full: -DEND=3
 * run full: -DEND=1 -DWRITERS=2
 * fault CONSTANT: the marker is the same for each set
 * fault BLIND: a renewal extends the key without checking that it is the marker
 * fault NOT_LOWERED: the marker keeps its end when the holder with the longest lease leaves
 * fault SHORTENED: a renewal sets the marker's end to that of its own lease, not to the latest
 * fault OLDER_RELEASE: an older client hands its lock over to a shared waiter as to an exclusive one
 * fault REVIVED: a renewal brings back a holder that is not in the set any more
 * witness BOTH: two clients hold the lock shared at once
 * witness FOLLOWS: a writer holds the lock after readers
 */
#ifndef READERS
#define READERS 2 /* claims that share */
#endif
#ifndef WRITERS
#define WRITERS 1 /* claims that don't */
#endif
#ifndef END
#define END 2
#endif
#define TTL 2
#define CLAIMS (READERS + WRITERS)
#define IS_READER(c) ((c) < READERS)

mtype = { FREE, PLAIN, MARKER };
mtype = { NEW, ASKED, WAITING, HELD, GONE };

byte now;

/* the server: the key, and the sets by epoch */
mtype what = FREE;
byte key_until;
byte key_of;              /* PLAIN: the claim; MARKER: the epoch */
byte epochs;              /* the last that was taken */
byte in_epoch[CLAIMS];    /* of a reader: the set that it is in; 0: none */
byte until[CLAIMS];       /* ... and its lease's end there */
byte written;             /* when a writer's lease began last, as the server reckons */

/* the clients */
mtype state[CLAIMS] = NEW;
byte valid[CLAIMS];       /* D: it is certain until then */
byte sent[CLAIMS];        /* when the request under way was */
bool asks[CLAIMS], renews[CLAIMS], leaves[CLAIMS]; /* requests that may be carried out still */
byte ask_sent[CLAIMS];
bool granted[CLAIMS];     /* an answer is under way */
bool cut[CLAIMS];         /* the key was deleted under it */
bool deleted;
byte i, most, ended;

#define certain(c) (state[c] == HELD && now < valid[c] && !cut[c])

inline check() {
    i = 0;
    do
    :: i < READERS ->
        assert(!(certain(i) && certain(READERS)));
#if WRITERS > 1
        assert(!(certain(i) && certain(READERS + 1)));
#endif
        i++
    :: else -> break
    od;
#if WRITERS > 1
    assert(!(certain(READERS) && certain(READERS + 1)));
#endif
#ifdef BOTH
    assert(!(certain(0) && certain(1)));
#endif
#ifdef FOLLOWS
    assert(!(epochs > 0 && state[0] == GONE && certain(READERS)));
#endif
    i = 0
}

/* The latest end among the members of the set that the key names. */
inline latest() {
    most = 0; i = 0;
    do
    :: i < READERS ->
        if :: in_epoch[i] == key_of && until[i] > now && until[i] > most -> most = until[i] :: else fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* What the key says is what the set says. */
inline check_marker() {
    if
    :: what == MARKER -> latest(); assert(key_until == most); most = 0
    :: what == PLAIN -> assert(key_until <= written + TTL)
    :: else
    fi
}

inline enter(c) {
    if
    :: what == FREE ->
#ifdef CONSTANT
        epochs = 1;
#else
        epochs++;
#endif
        what = MARKER; key_of = epochs
    :: else
    fi;
    in_epoch[c] = key_of; until[c] = now + TTL;
    key_until = now + TTL
}

/* The first of the queue comes in, who may be any that waits; an older release drops those that share. */
inline hand_over() {
    what = FREE; key_until = 0; key_of = 0
}

inline acquire(c) {
    asks[c] = 0;
    if
    :: IS_READER(c) && (what == FREE || what == MARKER) -> enter(c); granted[c] = (state[c] == ASKED)
    :: !IS_READER(c) && what == FREE ->
        what = PLAIN; key_of = c; key_until = now + TTL; written = now; granted[c] = (state[c] == ASKED)
    :: else -> if :: state[c] == ASKED -> state[c] = WAITING :: else fi
    fi;
    check_marker()
}

inline renew(c) {
    renews[c] = 0; ended = sent[c] + TTL; sent[c] = 0;
#ifdef BLIND
    if :: IS_READER(c) && what != FREE -> key_until = now + TTL :: else fi;
#endif
    if
#ifdef REVIVED
    :: IS_READER(c) && what == MARKER ->
        in_epoch[c] = key_of;
#else
    :: IS_READER(c) && what == MARKER && in_epoch[c] == key_of && until[c] > now ->
#endif
        assert(!cut[c]);
        until[c] = now + TTL;
#ifdef SHORTENED
        key_until = ended;
#else
        latest(); key_until = most; most = 0;
#endif
        if :: state[c] == HELD -> valid[c] = ended :: true fi /* or the answer is lost */
    :: !IS_READER(c) && what == PLAIN && key_of == c ->
        key_until = now + TTL; written = now;
        if :: state[c] == HELD -> valid[c] = ended :: true fi
    :: else -> if :: state[c] == HELD -> state[c] = GONE; valid[c] = 0 :: true fi
    fi;
    ended = 0;
    check_marker()
}

inline release(c) {
    leaves[c] = 0;
    if
    :: IS_READER(c) && what == MARKER && in_epoch[c] == key_of && until[c] > now ->
        in_epoch[c] = 0; until[c] = 0;
        latest();
        if
        :: most == 0 -> hand_over()
#ifndef NOT_LOWERED
        :: most > 0 -> key_until = most
#else
        :: most > 0
#endif
        fi;
        most = 0
    :: !IS_READER(c) && what == PLAIN && key_of == c ->
        hand_over();
#ifdef OLDER_RELEASE
        if
        :: state[0] == WAITING ->
            what = PLAIN; key_of = 0; key_until = now + TTL; written = now; state[0] = HELD; valid[0] = now + TTL;
            assert(what == MARKER) /* a shared waiter holds what is shared */
        :: else
        fi
#endif
    :: else
    fi;
    check_marker()
}

inline tick() {
    now++;
    if :: what != FREE && key_until <= now -> what = FREE; key_until = 0; key_of = 0 :: else fi;
    check_marker()
}

proctype claim(byte c)
{
end:
    do
    :: d_step { (state[c] == NEW || state[c] == WAITING) && now < END ->
        state[c] = ASKED; asks[c] = 1; ask_sent[c] = now }
    :: d_step { asks[c] -> acquire(c); check() }
    :: d_step { state[c] == ASKED && granted[c] ->
        state[c] = HELD; granted[c] = 0; valid[c] = ask_sent[c] + TTL; ask_sent[c] = 0; check() }
    :: d_step { state[c] == HELD && !renews[c] && now < valid[c] && now < END -> renews[c] = 1; sent[c] = now }
    :: atomic { renews[c] -> renew(c); check() }
    /* gives it back, or gives up */
    :: d_step { state[c] != NEW && state[c] != GONE -> state[c] = GONE; valid[c] = 0; granted[c] = 0; ask_sent[c] = 0; leaves[c] = 1 }
    :: d_step { leaves[c] -> release(c); check() }
    od
}

proctype world()
{
end:
    do
    :: d_step { now < END + TTL -> tick(); check() }
    :: d_step { !deleted && what != FREE ->
        deleted = 1; i = 0;
        do
        :: i < CLAIMS ->
            if
            :: IS_READER(i) && what == MARKER && in_epoch[i] == key_of -> cut[i] = 1
            :: !IS_READER(i) && what == PLAIN && key_of == i -> cut[i] = 1
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0; what = FREE; key_until = 0; key_of = 0 }
    od
}

init {
    byte n = 0;
    atomic {
        do
        :: n < CLAIMS -> run claim(n); n++
        :: else -> break
        od;
        run world()
    }
}
