/*
 * internal.h: what the files of the Redis driver share.
 *
 * net/    guard.c: bounds on what a server sends. command.c: building commands. reply.c: what a server's
 * error means. socket.c: one socket. dial.c: reaching a host. handshake.c: logging in. reconnect.c: the
 * thread that connects again. conn.c: the command connection; pipeline.c: who writes and who reads it lock/
 * redis.c: the table, open and close. settings.c: the configuration, copied and checked. keys.c: names of
 * keys, values. scripts.c: the Lua texts. fence_cache.c: known counters of fencing numbers. messages.c:
 * wake-ups. claim_table.c: finding a claim by its value. acquire.c, release.c, pass.c, renew.c, inspect.c:
 * the operations. dispatch.c: the driver's turn. cleanup.c: what goes on without a caller. grant_info.c:
 * telling others who holds what, and the server's time
 *
 * One mutex, lk_redis.lock, guards all that changes; the only locks inside it are core's (the services) and a
 * link's TLS lock. It is never held across a system call that can wait.
 */
#ifndef LK_REDIS_INTERNAL_H
#define LK_REDIS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <locker/driver.h>

#include "net/socket.h"
#include "net/timing.h"

enum {
    LK_VALUE_LEN = 32,     /* hex digits of a lock's value, and of an instance's name */
    LK_HOPS_MAX = 5,       /* how often a master is looked for before giving up */
    LK_RENEW_BATCH = 256,  /* keys in one call of the renewal script */
    LK_PASS_RESERVE = 64,  /* fencing numbers of a grant that may be handed over inside the process */
    LK_CONTENDED = 16,     /* greatest value of the counters of recent contention */
    LK_CLAIM_BUCKETS = 64, /* initial size of the table of claims */
    LK_COUNTERS = 1024,    /* keys whose counter is remembered to be there */
    LK_LEAST_WORDS = 3,    /* of 8 bytes: 20 digits and a NUL */
    LK_ARGV_MAX = 16
};

#define LK_FENCE_SECONDS "604800"            /* how long a counter of fencing numbers lasts: a week */
#define LK_FENCE_MOST    (UINT64_C(1) << 53) /* numbers stay below it: Lua's doubles hold them exactly */

struct lk_redis;

/* ---------------------------------------------------------------- settings.c ---- */

/* What open was told; constant afterwards. */
struct lk_settings {
    locker_host *hosts; /* at least one, unless unix_path */
    size_t host_count;
    char *unix_path; /* NULL: TCP */
    char *user;      /* NULL: none */
    char *password;  /* NULL: none; wiped when freed */
    char *name_space;
    int64_t database;
    bool tls;
    char *tls_ca, *tls_cert, *tls_key, *tls_name; /* NULL: none */
    void *tls_context;                            /* redisSSLContext *, NULL without TLS */
    bool fencing;
    int64_t poll_ns;
    int64_t wait_replicas;
    int64_t wait_timeout_ns;
    int64_t connect_timeout_ns, command_timeout_ns, cleanup_ns;
};

extern const locker_param lk_redis_params[];

locker_status lk_settings_init(struct lk_settings *s, const locker_driver_config *config, locker_error *err);
void lk_settings_clear(struct lk_settings *s);

/* ---------------------------------------------------------------- keys.c ---- */

/* The keys of a lock: a plain string, what is known about its grant, who waits, and the fencing numbers. */
struct lk_keys {
    char *memory; /* all four, one allocation */
    const char *lock, *info, *queue, *fence;
    size_t lock_len, info_len, queue_len, fence_len;
};

/* False when memory ran out. Free with lk_keys_clear(). */
bool lk_keys_init(struct lk_keys *keys, const char *name_space, const char *key, size_t key_len);
/* The same, from the name of the lock key itself. */
bool lk_keys_init_raw(struct lk_keys *keys, const char *lock, size_t lock_len);
void lk_keys_clear(struct lk_keys *keys);
locker_status lk_redis_check_key(void *self, const char *key, size_t key_len, locker_error *err);

/* 128 random bits plus a number, as 32 hex digits and a NUL. */
void lk_value_text(const struct lk_redis *r, uint64_t number, char text[LK_VALUE_LEN + 1]);
/* Back from the text; false when it isn't one of this instance's values. */
bool lk_value_number(const struct lk_redis *r, const char *text, uint64_t *number);

/* ---------------------------------------------------------------- lock/fence_cache.c ---- */

uint64_t lk_counter_hash(const locker_claim *claim);
/* Whether the counter of the key with this hash is likely to be at the server. */
bool lk_counter_known(const struct lk_redis *r, uint64_t hash);
/* It is there. */
void lk_counter_seen(struct lk_redis *r, uint64_t hash);

/* ---------------------------------------------------------------- net/command.c ---- */

/* One command under construction; it points to its caller's strings. */
struct lk_argv {
    int argc;
    const char *argv[LK_ARGV_MAX];
    size_t len[LK_ARGV_MAX];
};

void lk_argv_add(struct lk_argv *a, const char *text, size_t len);
void lk_argv_text(struct lk_argv *a, const char *text);
/* Room for the command in the protocol's form, and writing it there; answers its end. */
size_t lk_argv_room(const struct lk_argv *a);
char *lk_argv_put(const struct lk_argv *a, char *out);
/* A number as text, ended by a NUL; answers its length. */
size_t lk_number_text(char *out, uint64_t n);
/* The pieces of that form, each answering its end: a line with a kind and a number ('*': so many arguments
 * follow, '$': an argument of so many bytes), the end of an argument, and arguments as a whole. */
char *lk_put_line(char *out, char kind, size_t n);
char *lk_put_end(char *out);
char *lk_put_text(char *out, const char *text);
char *lk_put_number(char *out, size_t n);
/* A finished command in the protocol's form: free with free(). False when memory ran out. */
bool lk_argv_format(const struct lk_argv *a, char **bytes, size_t *len);

/* ---------------------------------------------------------------- scripts.c ---- */

enum lk_script {
    LK_SCRIPT_ACQUIRE,
    LK_SCRIPT_RELEASE,
    LK_SCRIPT_RENEW,
    LK_SCRIPT_SHOW,
    LK_SCRIPT_BREAK,
    LK_SCRIPT_COUNT
};

const char *lk_script_text(enum lk_script which);
/* Start a call: EVALSHA where the hash is known and `whole` isn't asked for, else EVAL with the text. */
void lk_script_begin(const struct lk_redis *r, struct lk_argv *a, enum lk_script which, bool whole,
                     const struct lk_keys *keys);

/* ---------------------------------------------------------------- net/reply.c ---- */

enum lk_fault {
    LK_FAULT_NONE,
    LK_FAULT_NOSCRIPT,  /* EVAL with the text */
    LK_FAULT_TRANSIENT, /* LOADING and the like: again in a moment */
    LK_FAULT_MOVED,     /* READONLY, MOVED, ASK: another server is the master */
    LK_FAULT_DENIED,    /* NOAUTH, WRONGPASS, NOPERM */
    LK_FAULT_REFUSED,   /* OOM, MISCONF, NOREPLICAS: it can't write now */
    LK_FAULT_OTHER      /* anything else, and replies of an unexpected kind */
};

enum lk_fault lk_reply_fault(const redisReply *reply);
/* Fill err with what the server's error means for the user; `doing` completes "while ...". */
locker_status lk_fault_error(enum lk_fault fault, const redisReply *reply, const char *doing,
                             locker_error *err);
/* A reply that should be an integer or a string but is not. */
locker_status lk_reply_nonsense(const char *doing, locker_error *err);

/* ---------------------------------------------------------------- net/conn.c, net/pipeline.c ---- */

typedef void (*lk_op_fn)(struct lk_redis *r, void *context, redisReply *reply);

enum { LK_OP_WAITING, LK_OP_ANSWERED, LK_OP_CUT };

/* The replies that may come before an op's own. */
enum { LK_EARLY_MAX = 2 };

/* A futex word that a few ops share, so that one system call wakes all of them whose answers came together.
 * It counts wake-ups. Each op that sleeps on it has a bit of its own, by which it is woken and the others are
 * not. */
struct lk_gate {
    atomic_uint word; /* relaxed: it brings nothing else; states have an order of their own */
};

/* A command whose reply is awaited, or a few in one flight, which share an op. Ops are recycled, never freed
 * before close: waking a recycled one is a spurious wake-up, which waiters stand. Members are guarded by lock
 * unless they say otherwise. */
struct lk_op {
    struct lk_op *next;   /* in the pending FIFO, or in a list of free ones */
    struct lk_gate *gate; /* what its waiter sleeps on; constant */
    uint32_t bit;         /* its own there; constant */
    atomic_int
        state;     /* written with lock held; read by the waiter without: release/acquire hands over reply */
    bool waited;   /* a thread waits for it; false: `done` is called */
    lk_op_fn done; /* with lock held; reply NULL: the connection was lost. NULL: drop the reply */
    void *context; /* for done */
    struct lk_op **slot;             /* where a claim remembers its op; cleared when it is answered */
    redisReply *reply;               /* the waiter's once ANSWERED; of the flight's last command */
    redisReply *early[LK_EARLY_MAX]; /* of the commands before it; the waiter's once ANSWERED or CUT */
    unsigned early_wanted, early_count;
    int64_t sent;  /* before it could have been sent */
    int64_t until; /* how long its waiter waits */
};

struct lk_buffer {
    char *data;
    size_t len, cap;
};

/* Connections to the same run of a server that were given up, but may not have ended there. */
enum { LK_OLD_CLIENTS = 8 };
struct lk_old_clients {
    int64_t id[LK_OLD_CLIENTS]; /* the server's names of them */
    size_t count;
};

enum lk_conn_state { LK_CONN_DOWN, LK_CONN_UP, LK_CONN_BROKEN };

/* The command connection. Guarded by lk_redis.lock; while `writing` is set, the writing thread alone uses
 * `going` and sends; while `reading` is set, the reading thread alone uses the link's parser and receives. */
struct lk_conn {
    enum lk_conn_state state; /* BROKEN: given up, but a thread is still in send or receive */
    struct lk_link *link;
    struct lk_buffer out;   /* commands to send */
    struct lk_buffer going; /* being sent */
    size_t gone;            /* of `going`, how much has been sent */
    bool writing, reading;
    bool blocked;    /* the socket's buffer is full: wait for POLLOUT */
    bool gathering;  /* the reader lets others append before it sends for all */
    int64_t look_at; /* when dispatch reads answers that nobody waits for; 0: there are none; LOCKER_NEVER: it
                        has looked, and is woken by what comes */
    bool armed;      /* the keeper's epoll watches for input */
    bool armed_out;  /* ... and for room to write */
    bool proven;     /* it has answered at least once */
    bool polling;    /* the reader may be asleep in poll: kick it */
    struct lk_op *first, **last; /* sent or to be sent, in order */
    size_t waited;               /* how many of them a thread waits for */
    int64_t due;                 /* not later than any of those wants to be woken at the latest */
    unsigned spin_failures;      /* in a row; of the reader */
    unsigned spin_skip;          /* sleep at once so many times; of the reader */
};

enum lk_outcome {
    LK_CALL_ANSWERED,
    LK_CALL_CUT,         /* sent, or perhaps sent; the connection was lost */
    LK_CALL_LATE,        /* sent, no answer by `until` */
    LK_CALL_AWAY,        /* not sent: no connection by `until`, or `prompt`; err says why */
    LK_CALL_REFUSED,     /* not sent: connecting fails for good; err says why */
    LK_CALL_INTERRUPTED, /* sent or not; see `sent` */
    LK_CALL_STALE,       /* not sent: the connection that it is for is gone */
    LK_CALL_NOMEM
};

struct lk_claim_data;

/* One command of a caller that waits for its answer. */
struct lk_call {
    int64_t until;
    struct lk_claim_data *claim; /* NULL: can't be interrupted */
    unsigned only;               /* the connection that it is to be sent on, else STALE; 0: any */
    bool prompt;                 /* AWAY at once where nothing listens */
    /* results */
    redisReply *reply;               /* ANSWERED: free with freeReplyObject() */
    redisReply *early[LK_EARLY_MAX]; /* of the commands before the last: free with lk_call_clear() */
    int64_t sent;                    /* a time before it was sent; 0: it was not */
    unsigned on;                     /* the connection that it was sent on: r->connection then ... */
    unsigned era;                    /* ... and its r->era */
    uint64_t least;                  /* ... and its r->fence_least */
};

/* Send one command and wait for its answer. Takes and releases lock. */
enum lk_outcome lk_call(struct lk_redis *r, struct lk_call *call, const struct lk_argv *argv,
                        locker_error *err);
/* The same for up to LK_EARLY_MAX + 1 commands in one flight: they reach the server one right behind the
 * other. */
enum lk_outcome lk_call_flight(struct lk_redis *r, struct lk_call *call, const struct lk_argv *argv,
                               size_t count, locker_error *err);
/* Free the replies of a flight. */
void lk_call_clear(struct lk_call *call);
/* The same for a script; deals with NOSCRIPT. `fill` is the rest of the arguments, behind which stands what
 * the script needs to know of the counter: see lk_redis.fence_least. */
enum lk_outcome lk_call_script(struct lk_redis *r, struct lk_call *call, enum lk_script which,
                               const struct lk_keys *keys, const struct lk_argv *fill, locker_error *err);

/* Append a command without waiting. False when there is no connection, or no memory: nothing was done. */
bool lk_submit_locked(struct lk_redis *r, const char *bytes, size_t len, lk_op_fn done, void *context);
bool lk_submit_argv_locked(struct lk_redis *r, const struct lk_argv *a, lk_op_fn done, void *context);
/* Send what was appended, and see to it that somebody reads the answers. Releases lock for a moment. */
void lk_pump_locked(struct lk_redis *r);
void lk_nudge_locked(struct lk_redis *r, struct lk_op *op);

struct lk_op *lk_op_get_locked(struct lk_redis *r);
void lk_op_return(struct lk_redis *r, struct lk_op *op);
void lk_op_append_locked(struct lk_redis *r, struct lk_op *op);
void lk_ops_free(struct lk_redis *r);
bool lk_buffer_add(struct lk_buffer *b, const char *data, size_t len);
void lk_conn_install_locked(struct lk_redis *r, struct lk_link *link);
void lk_conn_fail_locked(struct lk_redis *r, const char *why);
void lk_conn_reap_locked(struct lk_redis *r);
void lk_conn_arm_locked(struct lk_redis *r);
/* What remains to be woken once lock is released. */
enum { LK_REPLIES_MAX = 64 };
struct lk_wakes {
    size_t ops, gates; /* how many */
    struct lk_gate *gate[LK_REPLIES_MAX];
    uint32_t bits[LK_REPLIES_MAX];
};
void lk_conn_complete_locked(struct lk_redis *r, const struct lk_op *self, redisReply **replies, size_t count,
                             struct lk_wakes *wakes);
void lk_wake_all(const struct lk_wakes *wakes);
/* Sleep until the op is woken, or spuriously; not at all if the gate's count isn't `seen` any more. Who reads
 * sees to it that nobody sleeps beyond its time. Called without lock. */
void lk_op_sleep(const struct lk_op *op, unsigned seen);
/* Wake those whose time is over. */
void lk_ops_wake_due_locked(struct lk_redis *r, int64_t now);
void lk_flush_locked(struct lk_redis *r);
/* One turn of reading, by a thread whose op is `self` (NULL: dispatch, which doesn't wait). */
void lk_read_turn_locked(struct lk_redis *r, const struct lk_op *self, int64_t until);
/* Kick a reader out of its poll. */
void lk_kick_locked_reader(struct lk_redis *r);

/* ---------------------------------------------------------------- net/dial.c, net/reconnect.c ---- */

/* Why a connection could not be had. */
struct lk_connect_error {
    locker_error error;
    bool permanent; /* a person has to change something */
    bool transient; /* the server is there and starting: again in a moment */
    bool deserted;  /* nothing listens at any host that was tried */
};

/* A socket connected to one host, plain or TLS. Blocks until `until` (resolving a name may take longer). */
struct lk_link *lk_link_connect(const struct lk_settings *s, const char *host, int port, int64_t until,
                                struct lk_connect_error *why);
void lk_peer_name(const char *host, int port, char *out);
/* Log in to a master: as far as `until`, following replicas to their master. `loaded` gets the scripts'
 * hashes (NULL: a subscriber, which loads none). `redirect`: where to try first, or "". */
struct lk_link *lk_connect_master(const struct lk_settings *s, const char *redirect, char (*loaded)[41],
                                  int64_t until, struct lk_connect_error *why);
locker_status lk_handshake(const struct lk_settings *s, struct lk_link *link, char (*loaded)[41],
                           int64_t until, char *master, struct lk_connect_error *why);

/* Have what is missing connected, by the connector thread. */
void lk_connector_want_locked(struct lk_redis *r);
void lk_back_off_locked(struct lk_redis *r);
/* The server said that another one is the master: go and look for it. */
void lk_moved_locked(struct lk_redis *r, const redisReply *reply);
/* Whether connecting was last tried in vain, by an attempt that began at `since` or later. */
bool lk_has_failed_since_locked(const struct lk_redis *r, int64_t since);
/* Somebody wants to know now: have it tried again, unless that was done a moment ago. Answers since when an
 * attempt tells. */
int64_t lk_connector_hurry_locked(struct lk_redis *r);
/* End the thread, at the latest when `until` has come; true when it has ended. */
bool lk_connector_stop(struct lk_redis *r, int64_t until);

/* ---------------------------------------------------------------- lock/messages.c ---- */

struct lk_subscriber {
    struct lk_link *link; /* NULL: none. Received from by dispatch alone */
    bool wanted;          /* somebody waits, or has waited */
    bool look;            /* read it without being told: something may be in the parser */
    bool refused;         /* the server denies the channel: the next caller that would wait is told */
    locker_error why;     /* ... with this */
    atomic_bool ready; /* acknowledged; written with lock held, read without: a hint that costs one attempt */
};

/* Subscribe on a new link, blocking. False: why says it. */
bool lk_subscribe(struct lk_redis *r, struct lk_link *link, int64_t until, struct lk_connect_error *why);
void lk_subscriber_install_locked(struct lk_redis *r, struct lk_link *link);
void lk_subscriber_lose_locked(struct lk_redis *r);
/* Read the messages that are there. By dispatch only. */
void lk_subscriber_read_locked(struct lk_redis *r);

/* ---------------------------------------------------------------- lock/claim_table.c ---- */

/* The driver's bytes of a claim. Used by the claim's own thread; what another thread touches is marked, and
 * guarded by lk_redis.lock. */
struct lk_claim_data {
    uint64_t number;            /* its value is the instance's base plus this; 0: none yet */
    int64_t busy_sent;          /* when the last attempt answered BUSY was sent */
    uint64_t busy_fence;        /* the counter of fencing numbers then: a message with no more is old */
    uint64_t fence;             /* of the grant: the first of its numbers; 0: no fencing */
    unsigned era;               /* where the lease was confirmed last: lk_redis.era (guarded once granted) */
    unsigned busy_era;          /* the same of the last attempt that answered BUSY */
    int64_t valid_until;        /* the local deadline; once granted: as last confirmed (guarded) */
    int64_t since;              /* when it was granted; set before it stands in the list of notes */
    int64_t direct_us;          /* how long the lock had been handed on when it came to us; 0: it was free */
    atomic_uint_fast64_t given; /* by message: the fencing number; 0: none. Relaxed: it brings nothing else */
    locker_claim *next;         /* in the table of claims (guarded) */
    struct lk_claim_data *note_next;  /* in the list of those to be noted (guarded once it is there) */
    struct lk_claim_data **note_link; /* what points to it there; NULL: not there (guarded) */
    struct lk_op *op;                 /* the attempt under way (guarded) */
    locker_claim **renewal;           /* where a renewal under way refers to it (guarded) */
    bool tabled;                      /* is in the table: messages find it (guarded) */
    bool noted;                       /* the server was told whose grant it is (guarded) */
    bool interrupted;                 /* (guarded) */
    atomic_bool held;                 /* granted. Relaxed: who reads it late wakes once too often */
    bool unsure;                      /* an attempt of unknown outcome may have left something */
    bool enrolled;                    /* an attempt asked the server to queue it */
    uint8_t numbers;                  /* how many fencing numbers a grant takes; 0: no fencing */
    uint8_t confirms;                 /* grants that were asked for anew, because they came late */
    uint8_t passes;                   /* hand-overs inside the process since the server's grant */
    uint8_t polls;                    /* quick ones made, plus 1; 0: none is due (guarded) */
};

static inline struct lk_claim_data *lk_claim_data(const locker_claim *claim)
{
    return locker_claim_private(claim);
}

/* Back from the driver's bytes. */
static inline locker_claim *lk_claim_of(struct lk_claim_data *data)
{
    return (locker_claim *)((char *)data - ((sizeof(locker_claim) + 15) & ~(size_t)15));
}

struct lk_claims {
    locker_claim **bucket;
    size_t buckets, count; /* buckets: a power of two */
};

void lk_claims_add_locked(struct lk_redis *r, locker_claim *claim);
void lk_claims_remove_locked(struct lk_redis *r, locker_claim *claim);
locker_claim *lk_claims_find_locked(struct lk_redis *r, uint64_t number);
/* Wake all that wait: each tries again. */
void lk_claims_wake_locked(struct lk_redis *r);
/* For how long the lock has been handed on, without being free, when the claim gives it back: us. */
static inline int64_t lk_claim_direct_us(const struct lk_claim_data *data, int64_t now)
{
    return data->direct_us > 0 ? data->direct_us + (now - data->since) / LK_US : 0;
}
/* No renewal and no note is sent for the claim any more, and no answer finds it. */
void lk_claim_silence_locked(struct lk_redis *r, locker_claim *claim);

/* ---------------------------------------------------------------- cleanup.c ---- */

/* A value that is to be released, or withdrawn from the queue, without a caller. Guarded by lock. */
struct lk_cleanup {
    struct lk_cleanup *next, **link;
    struct lk_keys keys;
    char value[LK_VALUE_LEN + 1];
    char *member;     /* to take out of the queue; NULL: none */
    int64_t deadline; /* given up then */
    int64_t retry_at; /* 0: at once */
    bool sent, whole; /* awaiting its answer; send the script's text */
};

/* Start one; takes the keys over, also when it fails (false: out of memory). The caller pumps. */
bool lk_cleanup_start_locked(struct lk_redis *r, struct lk_keys *keys, const char *value, const char *member);
/* Send what is due; returns when there is more to do. */
int64_t lk_cleanups_run_locked(struct lk_redis *r, int64_t now);
void lk_cleanups_free_locked(struct lk_redis *r);

/* ---------------------------------------------------------------- lock/grant_info.c ---- */

/* The grants that are not noted yet, and when the keeper looks after them. */
struct lk_notes {
    _Atomic(struct lk_claim_data *) pushed; /* by note_next; pushed without lock, taken whole with it */
    atomic_bool ticking;                    /* dispatch looks after them by itself: no attend is needed */
    struct lk_claim_data *first;            /* guarded by lock, as the rest */
    bool active;                            /* there were grants since the last look */
    int64_t look_at;                        /* the next look; 0: it is yet to be set */
    int64_t time_sent;                      /* when the server's time was asked for last; 0: never */
};

/* A claim was granted, by the thread that made it. Called without lock; data->since is set. */
void lk_note_grant(struct lk_redis *r, struct lk_claim_data *data);
void lk_note_grant_locked(struct lk_redis *r, struct lk_claim_data *data);
/* It is gone: no note is sent for it any more. */
void lk_note_forget_locked(struct lk_redis *r, struct lk_claim_data *data);
/* Submit what is due; answers when it wants to be called again. The caller pumps. */
int64_t lk_notes_run_locked(struct lk_redis *r, int64_t now);
/* Submit all that is there. The caller pumps. */
void lk_notes_flush_locked(struct lk_redis *r);
/* What the server's clock shows at the local time `at`, in us: a little less rather than more. 0: unknown. */
uint64_t lk_server_us(const struct lk_redis *r, int64_t at);
/* Where a counter of fencing numbers may start; 0: the server's time is not known well enough. */
uint64_t lk_fence_floor(const struct lk_redis *r, int64_t now);
/* A reply to TIME that came at the local time `at`. */
bool lk_server_time(const redisReply *reply, int64_t *us);
void lk_server_time_set(struct lk_redis *r, int64_t us, int64_t at);

/* ---------------------------------------------------------------- the instance ---- */

struct lk_redis {
    const locker_services *svc; /* gone after close, which the connector thread may outlive */
    const locker_clock *clock;
    struct lk_settings set;
    char instance[LK_VALUE_LEN + 1]; /* names the channel of wake-ups */
    uint64_t base_high, base_low;    /* 128 random bits */
    atomic_uint_fast64_t counter;    /* of values; relaxed: it orders nothing */
    atomic_bool trusted;     /* a release has been carried out, and nothing denied since; relaxed: a hint */
    atomic_uint busy_lately; /* up to LK_CONTENDED: attempts were found busy lately; relaxed: a hint */
    atomic_uint pass_lately; /* up to LK_CONTENDED: hand-overs in here were asked for; relaxed: a hint */
    atomic_int_least64_t spare_until; /* till then a grant takes one number: a counter was ahead; relaxed */
    atomic_int_least64_t server_ahead_us; /* the server's clock less ours; INT64_MIN: unknown; relaxed */
    atomic_int_least64_t server_asked; /* when that was learned, on our clock; relaxed: a little off does no
                                          harm */
    atomic_uint_least32_t counters[LK_COUNTERS]; /* marks of keys (lock/fence_cache.c); relaxed: hints */
    /* The server's time when the connection was made. A counter that is not above it may lack numbers that
     * were given out before: the server may have been restarted or made master since. It is lifted to the
     * server's time, once for each counter and connection. Written before `connection` is. */
    atomic_uint_fast64_t fence_least;
    /* The same as text, for every script, in words that are copied without lock; relaxed: one that is made
     * while they change is for a connection that is gone, and not sent. */
    atomic_uint_fast64_t least_text[LK_LEAST_WORDS];
    /* Counts the connections, from 1. Written with lock held; release/acquire hands over fence_least. */
    atomic_uint connection;
    /* Counts the servers that we were connected to: a restart, or a replica that was made master, is another,
     * and so is one that does not tell who it is. Written with lock held; relaxed: whoever has sent a command
     * since the connection was made has had lock since. */
    atomic_uint era;
    char sha[LK_SCRIPT_COUNT][41]; /* "" where the server would not tell; constant after open */
    int epoll_fd;                  /* the driver's descriptor: connection, subscriber */
    int kick_fd;                   /* eventfd, ends the reader's poll */

    pthread_mutex_t lock; /* guards all below */
    struct lk_conn conn;
    struct lk_subscriber sub;
    struct lk_claims claims;
    struct lk_cleanup *cleanups;
    struct lk_notes notes;
    struct lk_op_block *op_blocks; /* all ops that were ever made */
    struct lk_op *free_ops;
    _Atomic(struct lk_op *) returned_ops; /* pushed without lock (release), taken whole with it (acquire) */
    pthread_cond_t changed;               /* connection up, thread ended, closing */
    pthread_t connector;
    bool connector_running, connector_joinable;
    bool connector_left; /* close did not wait for it: it frees the instance */
    bool closing;
    bool suspect;               /* core was told that the service is away */
    bool dispatching;           /* inside dispatch, which will see what is due when */
    int64_t retry_at;           /* when the connector tries again */
    int64_t failed_at;          /* when the last attempt at connecting began, if it failed; else 0 */
    bool deserted;              /* ... and found nothing that listens */
    unsigned failures;          /* of connecting, in a row */
    unsigned hops;              /* connections given up for another master, in a row */
    struct lk_server_id server; /* that we are, or were last connected to */
    struct lk_old_clients old;
    char redirect[LK_PEER_MAX]; /* where the master is said to be; "" not known */
    struct lk_connect_error last_error;
    uint64_t jitter; /* state of a small generator */
    bool log_due;    /* note holds a line for the log: it is written by a thread without lock */
    locker_log_level note_level;
    char note[LOCKER_ERROR_TEXT_MAX];
};

static inline int64_t lk_redis_now(const struct lk_redis *r)
{
    return r->clock->now(r->clock->context);
}

/* The local deadline of a lease (Redlock's allowance for clock drift):
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ */
static inline int64_t lk_valid_until(int64_t sent, int64_t ttl_ns)
{
    return sent + ttl_ns - ttl_ns / 100 - 2 * LK_MS;
}

/* Counters of recent contention: count up by `by` to LK_CONTENDED, and down by one. Two threads that count at
 * once may lose a step, which does no harm to a hint. */
static inline void lk_lately_raise(atomic_uint *lately, unsigned by)
{
    const unsigned value = atomic_load_explicit(lately, memory_order_relaxed) + by;
    atomic_store_explicit(lately, value < LK_CONTENDED ? value : LK_CONTENDED, memory_order_relaxed);
}

static inline void lk_lately_lower(atomic_uint *lately)
{
    const unsigned value = atomic_load_explicit(lately, memory_order_relaxed);
    if (value > 0)
        atomic_store_explicit(lately, value - 1, memory_order_relaxed);
}

uint64_t lk_random(struct lk_redis *r, uint64_t below);
void lk_note_locked(struct lk_redis *r, locker_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Write what lk_note_locked() kept. Called without lock. */
void lk_note_write(struct lk_redis *r);
void lk_redis_free(struct lk_redis *r);

/* ---------------------------------------------------------------- operations ---- */

locker_status lk_redis_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_redis_interrupt(void *self, locker_claim *claim);
void lk_redis_withdraw(void *self, locker_claim *claim);
locker_status lk_redis_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_redis_pass(void *self, locker_claim *from, locker_claim *to);
void lk_redis_renew(void *self, locker_claim *const *grants, size_t count);
int64_t lk_redis_dispatch(void *self);
locker_status lk_redis_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                            locker_error *err);
locker_status lk_redis_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                             int64_t until, locker_info *broken, locker_error *err);
locker_status lk_redis_ping(void *self, int64_t until, locker_error *err);
/* The name in the queue of a claim: malloc'ed, NULL when memory ran out. */
char *lk_member_text(const struct lk_redis *r, const locker_claim *claim, const char *value);
/* Wait a while between attempts, until `until` at most or until interrupted. */
void lk_pause(struct lk_redis *r, const struct lk_claim_data *claim, int64_t until);

#endif
