/* pipeline.h: the command connection. The threads that wait for answers append, send and receive by
 * themselves, in order. */
#pragma once

#include "command.h"
#include "lk_atomic.h"
#include "reconnect.h"
#include "shared.h"

/* ---------------------------------------------------------------- ops: commands in flight ---- */

enum { LK_REDIS_OP_WAITING, LK_REDIS_OP_ANSWERED, LK_REDIS_OP_CUT };

/* A futex word that a few ops share, so that one system call wakes all waiters whose answers came
 * together. The word counts wake-ups. Each op has a bit of its own, by which it can be woken alone. */
typedef struct {
    atomic_uint word; /* relaxed: the states of the ops carry the order */
} lk_redis_gate;

/* A command, or a few in one flight, whose replies are awaited. Guarded by the mutex unless a member says
 * otherwise. */
typedef struct lk_redis_op {
    struct lk_redis_op *next; /* in the flight, or in a list of free ops */
    lk_redis_gate *gate;      /* the word on which its waiter sleeps; constant */
    uint32_t bit;             /* its bit in that word; constant */
    atomic_int state;   /* the waiter reads it without the mutex: release/acquire hands over the replies */
    bool waited;        /* a thread waits for the answer; else `done` is called, unless `kept` */
    bool kept;          /* a thread will wait for the answer later */
    lk_redis_done done; /* NULL: drop the reply */
    void *context;      /* for done */
    lk_redis_caller *caller; /* the caller that can be interrupted; its op is cleared with the answer */
    redisReply *reply[LK_REDIS_FLIGHT_MAX]; /* owned by the waiter once ANSWERED or CUT */
    unsigned wanted, count;                 /* the number of replies wanted, and received */
    int64_t sent;                           /* a time before the command was sent */
    int64_t until;                          /* the end of the waiter's time */
} lk_redis_op;

/* A pool of ops. All zero: empty. */
typedef struct {
    struct lk_redis_op_block *blocks; /* all ops ever made */
    lk_redis_op *free;
    _Atomic(lk_redis_op *)
        returned; /* pushed without the mutex (release), taken as a whole with it (acquire) */
} lk_redis_ops;

void lk_redis_ops_destroy(lk_redis_ops *ops);

/* Take a free op. NULL: no memory. */
lk_redis_op *lk_redis_op_get_locked(lk_redis_ops *ops) LK_REDIS_LOCKED;
/* Free an op for which no thread waits. */
void lk_redis_op_free_locked(lk_redis_ops *ops, lk_redis_op *op) LK_REDIS_LOCKED;
/* Free an answered op without the mutex, from the thread that waited for it. */
void lk_redis_op_return(lk_redis_ops *ops, lk_redis_op *op);

/* Sleep until the op is woken, or spuriously. Return at once if the gate's count is not `seen`. Without
 * the mutex. */
void lk_redis_op_sleep(const lk_redis_op *op, unsigned seen);
/* Wake the op's waiter. Its state was set before. */
void lk_redis_op_wake(const lk_redis_op *op);

/* Ops that are to be woken once the mutex is released. */
enum { LK_REDIS_REPLIES_MAX = 64 };
typedef struct {
    size_t ops, gates; /* counts */
    lk_redis_gate *gate[LK_REDIS_REPLIES_MAX];
    uint32_t bits[LK_REDIS_REPLIES_MAX];
} lk_redis_wakes;

void lk_redis_wakes_add(lk_redis_wakes *wakes, const lk_redis_op *op);
void lk_redis_wakes_all(const lk_redis_wakes *wakes);

/* ---------------------------------------------------------------- the connection ---- */

/* BROKEN: given up, while a thread is still inside send or receive. */
typedef enum { LK_REDIS_DOWN, LK_REDIS_UP, LK_REDIS_BROKEN } lk_redis_pipeline_state;

/* A connection for commands. Guarded by the mutex. While `writing` is set, only the writing thread sends
 * and uses `going`. While `reading` is set, only the reading thread receives and uses the socket's parser. */
typedef struct lk_redis_pipeline {
    lk_redis_shared *shared;
    lk_redis_reconnect *reconnect;
    void (*lost)(void *owner, const char *why); /* the connection is given up; its socket still exists */
    void *owner;
    int64_t silence_ns; /* a server that is silent for so long is given up */
    lk_redis_ops ops;
    int kick_fd; /* ends the reader's poll; -1: no callers use this connection, so the keeper reads it */
    lk_redis_pipeline_state state LK_GUARDED_BY(mutex);
    lk_redis_socket *socket;
    lk_buffer out;   /* commands to be sent */
    lk_buffer going; /* commands that are being sent */
    size_t gone;     /* how much of `going` is sent */
    bool writing, reading;
    short blocked LK_GUARDED_BY(mutex);  /* the poll events to wait for before the next send; 0: none */
    bool gathering LK_GUARDED_BY(mutex); /* the reader lets other threads append before it sends for all */
    /* when the keeper reads answers that no thread waits for; 0: there are none; LOCKER_NEVER: their
     * arrival wakes it */
    int64_t look_at LK_GUARDED_BY(mutex);
    short armed LK_GUARDED_BY(mutex);      /* the events for which the keeper's epoll watches */
    bool proven LK_GUARDED_BY(mutex);      /* the server has answered at least once on it */
    int64_t answered LK_GUARDED_BY(mutex); /* when the latest answered command was sent; 0: none */
    /* how long the connection may be silent while answers are awaited; LOCKER_NEVER: any time */
    int64_t patience_ns LK_GUARDED_BY(mutex);
    bool avoided LK_GUARDED_BY(mutex);  /* it is silent: commands go over another connection if they can */
    bool polling;                       /* the reader may sleep in poll: kick it */
    lk_redis_op *first, **last;         /* in flight or about to be sent, in order */
    size_t waited LK_GUARDED_BY(mutex); /* the number of these for which a thread waits */
    int64_t due LK_GUARDED_BY(mutex);   /* not later than the earliest end of a waiter's time */
    unsigned spin_failures;             /* in a row; used by the reader */
    unsigned spin_skip;                 /* how often to sleep without spinning; used by the reader */
    /* when something came last; 0: never. Relaxed: the reader writes it before it takes the mutex again. */
    atomic_int_least64_t heard_at;
    /* set by net.c with the mutex */
    atomic_uint connection; /* counts connections from 1; release/acquire hands over what on_up did */
    /* the number of the present or latest server among all servers of the instance. Relaxed: a thread that
     * has sent since then has held the mutex. */
    atomic_uint era;
    int64_t server_us LK_GUARDED_BY(mutex); /* the server's time when the connection was made; 0: not known */
} lk_redis_pipeline;

/* Initialize the connection. `calls`: callers use it. False: errno says why, and nothing is left to be
 * destroyed. */
bool lk_redis_pipeline_init(lk_redis_pipeline *p, lk_redis_shared *shared, lk_redis_reconnect *reconnect,
                            bool calls);
/* Settle the connection, which no other thread uses any more: all ops end without an answer, and nothing
 * more is submitted. */
void lk_redis_pipeline_settle(lk_redis_pipeline *p);
/* Destroy a settled connection. */
void lk_redis_pipeline_destroy(lk_redis_pipeline *p);

void lk_redis_pipeline_install_locked(lk_redis_pipeline *p, lk_redis_socket *socket) LK_REDIS_LOCKED;
/* Give the connection up: all ops end without an answer. */
void lk_redis_pipeline_fail_locked(lk_redis_pipeline *p, const char *why) LK_REDIS_LOCKED;

static inline unsigned lk_redis_era(const lk_redis_pipeline *p)
{
    return LK_READ(p->era);
}

/* Return room for a command of at most this length. NULL: no connection, or no memory. */
char *lk_redis_room_locked(lk_redis_pipeline *p, size_t len) LK_REDIS_LOCKED;
/* Submit the command in that room, which ends at `end`, without waiting. `done` may be NULL. False: no
 * memory. */
bool lk_redis_submit_locked(lk_redis_pipeline *p, const char *end, lk_redis_done done,
                            void *context) LK_REDIS_LOCKED;
/* Append a caller's commands to an existing connection. NULL: no memory. */
lk_redis_op *lk_redis_pipeline_append_locked(lk_redis_pipeline *p, const lk_redis_command *a, size_t count,
                                             int64_t until, lk_redis_caller *caller) LK_REDIS_LOCKED;
/* Append a command for a caller that waits later, after lk_redis_pipeline_want_locked(). Until then its
 * answer is read as if no thread waited for it. */
lk_redis_op *lk_redis_pipeline_keep_locked(lk_redis_pipeline *p, const lk_redis_command *a,
                                           size_t count) LK_REDIS_LOCKED;
void lk_redis_pipeline_want_locked(lk_redis_pipeline *p, lk_redis_op *op, int64_t until,
                                   lk_redis_caller *caller) LK_REDIS_LOCKED;
/* Send, receive or sleep until the op has its answer. Called with the mutex; returns without it. Only if
 * ANSWERED or CUT the op is still the caller's, who returns it by lk_redis_op_return(). */
lk_redis_outcome lk_redis_pipeline_await_unlock(lk_redis_pipeline *p, lk_redis_op *op,
                                                lk_redis_caller *caller, int64_t until)
    LK_RELEASE(lk_redis_mutex);
/* Have the caller's wait return INTERRUPTED, now or when it begins. */
void lk_redis_interrupt_locked(lk_redis_shared *shared, lk_redis_caller *caller) LK_REDIS_LOCKED;

/* Send what was appended, and make sure that a thread reads the answers. */
void lk_redis_pump_unlocking(lk_redis_pipeline *p) LK_REDIS_LOCKED;
/* Take a turn for answers that no thread waits for: sleep until `until` at most. */
void lk_redis_drive_unlocking(lk_redis_pipeline *p, int64_t until) LK_REDIS_LOCKED;

/* Bear no longer silence than this until all commands in flight are answered. */
static inline void lk_redis_pipeline_bear_locked(lk_redis_pipeline *p, int64_t patience_ns) LK_REDIS_LOCKED
{
    if (patience_ns < p->patience_ns)
        p->patience_ns = patience_ns;
}
/* Return since when answers are awaited and nothing has come. LOCKER_NEVER: none are awaited. */
int64_t lk_redis_pipeline_silent_since_locked(const lk_redis_pipeline *p) LK_REDIS_LOCKED;
/* Return true if that is longer than the commands in flight can bear. Bytes that have come, but are not
 * read yet, end the silence. */
bool lk_redis_pipeline_is_silent_locked(const lk_redis_pipeline *p, int64_t now) LK_REDIS_LOCKED;

/* Return true if an answer is awaited. */
static inline bool lk_redis_is_awaited_locked(const lk_redis_pipeline *p) LK_REDIS_LOCKED
{
    return p->state == LK_REDIS_UP && p->first != NULL;
}

/* The keeper's part. Handle the connection's events: */
void lk_redis_pipeline_events_unlocking(lk_redis_pipeline *p, uint32_t events) LK_REDIS_LOCKED;
/* Return when awaited answers must be read, or a silent server must be given up. */
int64_t lk_redis_pipeline_due_locked(const lk_redis_pipeline *p) LK_REDIS_LOCKED;
void lk_redis_pipeline_look_unlocking(lk_redis_pipeline *p, int64_t now) LK_REDIS_LOCKED;
/* Have the keeper's epoll report answers that no thread waits for. */
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
