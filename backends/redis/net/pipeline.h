/* pipeline.h: the command connection: whoever has a use for it appends, sends and receives, in order. */
#pragma once

#include "command.h"
#include "lk_atomic.h"
#include "reconnect.h"
#include "shared.h"

/* ---------------------------------------------------------------- ops: commands whose answers are awaited ---- */

enum { LK_REDIS_OP_WAITING, LK_REDIS_OP_ANSWERED, LK_REDIS_OP_CUT };

/* A futex word that a few ops share, so that one system call wakes all of them whose answers came together.
 * It counts wake-ups. Each op that sleeps on it has a bit of its own, by which it alone is woken. */
typedef struct {
    atomic_uint word; /* relaxed: it brings nothing else; states have an order of their own */
} lk_redis_gate;

/* A command whose reply is awaited, or a few in one flight. Guarded by the mutex but where it says otherwise. */
typedef struct lk_redis_op {
    struct lk_redis_op *next; /* in flight, or in a list of free ones */
    lk_redis_gate *gate;      /* what its waiter sleeps on; constant */
    uint32_t bit;             /* its own there; constant */
    atomic_int state;   /* read by the waiter without the mutex: release/acquire hands over the replies */
    bool waited;        /* a thread waits for it; else `done` is called, unless it is kept */
    bool kept;          /* a thread will come for the answer */
    lk_redis_done done; /* NULL: drop the reply */
    void *context;      /* for done */
    lk_redis_caller *caller; /* who can be interrupted; its op is cleared when it is answered */
    redisReply *reply[LK_REDIS_FLIGHT_MAX]; /* the waiter's once ANSWERED or CUT */
    unsigned wanted, count;                 /* how many there will be, and are */
    int64_t sent;                           /* before it could have been sent */
    int64_t until;                          /* how long its waiter waits */
} lk_redis_op;

/* All zero: it has none yet. */
typedef struct {
    struct lk_redis_op_block *blocks; /* all ops that were ever made */
    lk_redis_op *free;
    _Atomic(lk_redis_op *) returned; /* pushed without the mutex (release), taken whole with it (acquire) */
} lk_redis_ops;

void lk_redis_ops_destroy(lk_redis_ops *ops);

/* NULL: no memory. */
lk_redis_op *lk_redis_op_get_locked(lk_redis_ops *ops) LK_REDIS_LOCKED;
/* An op that nobody waits for. */
void lk_redis_op_free_locked(lk_redis_ops *ops, lk_redis_op *op) LK_REDIS_LOCKED;
/* The same, of a waiter that was answered, which does not take the mutex again for it. */
void lk_redis_op_return(lk_redis_ops *ops, lk_redis_op *op);

/* Sleep until the op is woken, or spuriously; not if the gate's count isn't `seen` any more. Without the mutex. */
void lk_redis_op_sleep(const lk_redis_op *op, unsigned seen);
/* Wake who sleeps. The state was set before. */
void lk_redis_op_wake(const lk_redis_op *op);

/* Ops that remain to be woken once the mutex is released. */
enum { LK_REDIS_REPLIES_MAX = 64 };
typedef struct {
    size_t ops, gates; /* how many */
    lk_redis_gate *gate[LK_REDIS_REPLIES_MAX];
    uint32_t bits[LK_REDIS_REPLIES_MAX];
} lk_redis_wakes;

void lk_redis_wakes_add(lk_redis_wakes *wakes, const lk_redis_op *op);
void lk_redis_wakes_all(const lk_redis_wakes *wakes);

/* ---------------------------------------------------------------- the connection ---- */

/* BROKEN: given up, but a thread is still in send or receive. */
typedef enum { LK_REDIS_DOWN, LK_REDIS_UP, LK_REDIS_BROKEN } lk_redis_pipeline_state;

/* Guarded by the mutex; while `writing` is set, the writing thread alone uses `going` and sends; while `reading` is
 * set, the reading thread alone uses the socket's parser and receives. */
typedef struct lk_redis_pipeline {
    lk_redis_shared *shared;
    lk_redis_reconnect *reconnect;
    void (*lost)(void *owner, const char *why); /* the connection is given up; its socket is still there */
    void *owner;
    int64_t silence_ns; /* a server that does not answer for so long is given up */
    lk_redis_ops ops;
    int kick_fd; /* ends the reader's poll; -1: of one that has no callers, whose reader is the keeper */
    lk_redis_pipeline_state state LK_GUARDED_BY(mutex);
    lk_redis_socket *socket;
    lk_buffer out;   /* commands to send */
    lk_buffer going; /* being sent */
    size_t gone;     /* of `going`, how much has been sent */
    bool writing, reading;
    short blocked LK_GUARDED_BY(mutex);  /* nothing can be sent until poll tells of this; 0: it can */
    bool gathering LK_GUARDED_BY(mutex); /* the reader lets others append before it sends for all */
    /* When the keeper reads answers that nobody waits for; 0: there are none; LOCKER_NEVER: what comes wakes it. */
    int64_t look_at LK_GUARDED_BY(mutex);
    short armed LK_GUARDED_BY(mutex);      /* what the keeper's epoll watches for */
    bool proven LK_GUARDED_BY(mutex);      /* it has answered at least once */
    int64_t answered LK_GUARDED_BY(mutex); /* when what was answered last had been sent; 0: nothing was */
    /* For how long those who wait for answers can bear that nothing comes; LOCKER_NEVER: for as long as it likes. */
    int64_t patience_ns LK_GUARDED_BY(mutex);
    bool avoided LK_GUARDED_BY(mutex);  /* it is silent: what can go over another one does */
    bool polling;                       /* the reader may be asleep in poll: kick it */
    lk_redis_op *first, **last;         /* in flight or about to be, in order */
    size_t waited LK_GUARDED_BY(mutex); /* how many of them a thread waits for */
    int64_t due LK_GUARDED_BY(mutex);   /* not later than any of those wants to be woken at the latest */
    unsigned spin_failures;             /* in a row; of the reader */
    unsigned spin_skip;                 /* sleep at once so many times; of the reader */
    /* When something came last; 0: nothing has. Relaxed: who has received it says so before it has the mutex again. */
    atomic_int_least64_t heard_at;
    /* What the connection is, as net.c sets it with the mutex. */
    atomic_uint connection; /* counts them, from 1; release/acquire hands over what on_up did, or a later's */
    /* The number of the server that we are, or were last connected to, among all that the instance was. Relaxed: who has sent since then has had the mutex. */
    atomic_uint era;
    int64_t server_us LK_GUARDED_BY(mutex); /* the server's time when it was made; 0: not known */
} lk_redis_pipeline;

/* `calls`: it has callers. False: errno says why; nothing is left to be destroyed. */
bool lk_redis_pipeline_init(lk_redis_pipeline *p, lk_redis_shared *shared, lk_redis_reconnect *reconnect,
                            bool calls);
/* Nobody else wants it any more: all that awaits an answer learns that none comes, and nothing is submitted from here on. */
void lk_redis_pipeline_settle(lk_redis_pipeline *p);
/* Of one that was settled. */
void lk_redis_pipeline_destroy(lk_redis_pipeline *p);

void lk_redis_pipeline_install_locked(lk_redis_pipeline *p, lk_redis_socket *socket) LK_REDIS_LOCKED;
/* Give the connection up: everything that awaits an answer learns that none will come. */
void lk_redis_pipeline_fail_locked(lk_redis_pipeline *p, const char *why) LK_REDIS_LOCKED;

static inline unsigned lk_redis_era(const lk_redis_pipeline *p)
{
    return LK_READ(p->era);
}

/* Room for a command of at most that length, to be submitted. NULL: there is no connection, or no memory. */
char *lk_redis_room_locked(lk_redis_pipeline *p, size_t len) LK_REDIS_LOCKED;
/* Send the command put there, which ends at `end`, without waiting; `done` may be NULL. False: no memory. */
bool lk_redis_submit_locked(lk_redis_pipeline *p, const char *end, lk_redis_done done,
                            void *context) LK_REDIS_LOCKED;
/* Append a caller's commands, `count` of them. NULL when memory ran out. There is a connection. */
lk_redis_op *lk_redis_pipeline_append_locked(lk_redis_pipeline *p, const lk_redis_command *a, size_t count,
                                             int64_t until, lk_redis_caller *caller) LK_REDIS_LOCKED;
/* The same for a caller that comes for the answers later: with lk_redis_pipeline_want_locked(), after which it waits as others. Until
 * then the answers are read as those that nobody waits for. */
lk_redis_op *lk_redis_pipeline_keep_locked(lk_redis_pipeline *p, const lk_redis_command *a,
                                           size_t count) LK_REDIS_LOCKED;
void lk_redis_pipeline_want_locked(lk_redis_pipeline *p, lk_redis_op *op, int64_t until,
                                   lk_redis_caller *caller) LK_REDIS_LOCKED;
/* Send, receive or sleep until the op has its answer. Called with the mutex, returns without. Unless ANSWERED or CUT,
 * the op is not the caller's any more; else it goes back by lk_redis_op_return(). */
lk_redis_outcome lk_redis_pipeline_await_unlock(lk_redis_pipeline *p, lk_redis_op *op,
                                                lk_redis_caller *caller, int64_t until)
    LK_RELEASE(lk_redis_mutex);
/* Have who waits return INTERRUPTED, now or once it comes to wait. */
void lk_redis_interrupt_locked(lk_redis_shared *shared, lk_redis_caller *caller) LK_REDIS_LOCKED;

/* Send what was appended, and see to it that somebody reads the answers. */
void lk_redis_pump_unlocking(lk_redis_pipeline *p) LK_REDIS_LOCKED;
/* A turn of a thread that waits for answers which are nobody's: asleep until `until` at most. */
void lk_redis_drive_unlocking(lk_redis_pipeline *p, int64_t until) LK_REDIS_LOCKED;

/* Who has just submitted something can't bear a longer silence than this until all is answered. */
static inline void lk_redis_pipeline_bear_locked(lk_redis_pipeline *p, int64_t patience_ns) LK_REDIS_LOCKED
{
    if (patience_ns < p->patience_ns)
        p->patience_ns = patience_ns;
}
/* Since when answers are awaited and nothing has come; LOCKER_NEVER: none are. */
int64_t lk_redis_pipeline_silent_since_locked(const lk_redis_pipeline *p) LK_REDIS_LOCKED;
/* Whether that is longer than they can bear. What has come, and no thread has got to read yet, is no silence. */
bool lk_redis_pipeline_is_silent_locked(const lk_redis_pipeline *p, int64_t now) LK_REDIS_LOCKED;

/* Whether an answer is to come. */
static inline bool lk_redis_is_awaited_locked(const lk_redis_pipeline *p) LK_REDIS_LOCKED
{
    return p->state == LK_REDIS_UP && p->first != NULL;
}

/* The keeper's part. What epoll told of the connection: */
void lk_redis_pipeline_events_unlocking(lk_redis_pipeline *p, uint32_t events) LK_REDIS_LOCKED;
/* When the answers that are awaited want a look, or an end to a server that is silent; and seeing to that. */
int64_t lk_redis_pipeline_due_locked(const lk_redis_pipeline *p) LK_REDIS_LOCKED;
void lk_redis_pipeline_look_unlocking(lk_redis_pipeline *p, int64_t now) LK_REDIS_LOCKED;
/* Let the keeper read what nobody waits for. */
void lk_redis_pipeline_arm_locked(lk_redis_pipeline *p) LK_REDIS_LOCKED;

/* ---------------------------------------------------------------- calls ---- */

typedef struct {
    int64_t until;
    lk_redis_caller *caller; /* NULL: can't be interrupted */
    unsigned only;           /* the connection that it is to be sent on, else STALE; 0: any */
    unsigned map; /* of a cluster: what `maps` was when the server was chosen; 0: there is one alone */
    bool prompt;  /* AWAY at once where nothing listens */
    bool patient; /* asked again: it waits for the back-off where there is no connection */
    /* results */
    redisReply *replies[LK_REDIS_FLIGHT_MAX]; /* of a flight: free with lk_redis_call_clear() */
    redisReply *reply; /* ANSWERED: the last of them; of one command: freeReplyObject() */
    int64_t sent;      /* a time before it was sent; 0: it was not */
    unsigned on;       /* the connection that it was sent on ... */
    unsigned era;      /* ... its era ... */
    int64_t server_us; /* ... and the server's time when that was made; 0: not known */
} lk_redis_call;

/* Send up to LK_REDIS_FLIGHT_MAX commands in one flight (they reach the server one right behind the other), and wait for
 * their answers. Without the mutex. */
lk_redis_outcome lk_redis_ask(lk_redis_pipeline *p, lk_redis_call *call, const lk_redis_command *a,
                              size_t count, locker_error *err);
void lk_redis_call_clear(lk_redis_call *call);

/* The same for one command in two steps: append it, if there is a connection now (NULL: there is none, or no memory); and wait for
 * the answer, without the mutex. */
lk_redis_op *lk_redis_call_begin_locked(lk_redis_pipeline *p, lk_redis_call *call,
                                        const lk_redis_command *a) LK_REDIS_LOCKED;
lk_redis_outcome lk_redis_call_end(lk_redis_pipeline *p, lk_redis_call *call, lk_redis_op *op);
/* Return the answer to a command that was begun and that nobody waits for yet, or NULL: there is none. *cut: there will be none. The
 * answer belongs to the op; lk_redis_op_free_locked() frees both. Without the mutex, by the thread that will wait. */
const redisReply *lk_redis_call_peek(const lk_redis_op *op, bool *cut);

/* Append a command without waiting, as lk_redis_submit_locked() (pipeline.h). */
bool lk_redis_submit_command_locked(lk_redis_pipeline *p, const lk_redis_command *a, lk_redis_done done,
                                    void *context) LK_REDIS_LOCKED;
