/*
 * internal.h: what the files of the ZooKeeper driver share.
 *
 *   zookeeper.c  the table, open and close          settings.c   the configuration, copied and checked
 *   paths.c      names of nodes                     resolve.c    names of hosts
 *   session.c    the client handle and its events   ops.c        requests that await their answer
 *   flow.c       who drives the connection          dispatch.c   the keeper's turn
 *   node.c       a place in a queue                 search.c     a place whose creation got no answer
 *   watch.c      being told of deletions            beat.c       the heartbeat that needs the quorum
 *   acquire.c, release.c, inspect.c: the operations
 *
 * The client library is libzookeeper_st, which has no thread of its own: whoever waits for an answer drives
 * its socket, and the keeper does when nobody waits. Why: a lock and unlock makes 2.8 context switches, with
 * the two threads of libzookeeper_mt 17.8; bare, on loopback and one core, it takes 215 us (median) with the
 * former and 310 us with the latter. And the traps of those threads are gone: callbacks on a foreign thread,
 * completions lost in close. The synchronous calls, for which ZooKeeper's documentation recommends the other
 * library, aren't used: they have no deadline.
 *
 * One mutex, lk_zk.lock, guards all that changes, the client handle too; inside it only core's (the services)
 * are taken. The client library is called with it held, and does nothing there that can wait: its socket is
 * non-blocking, host names are resolved elsewhere. poll is called without it.
 *
 * The library has a few variables of the process (the request number, buffers of its log texts), which
 * several lockers of one process use without a common lock. A request number that is given twice or out of
 * order does no harm, because each handle compares it only with its own oldest request's; the buffers always
 * end with a NUL and their text goes nowhere.
 */
#ifndef LK_ZK_INTERNAL_H
#define LK_ZK_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <locker/driver.h>
#include <zookeeper/zookeeper.h>

#define LK_MS INT64_C(1000000)
#define LK_S  INT64_C(1000000000)

enum {
    LK_ZK_UUID_LEN = 36,
    LK_ZK_NAME_MAX = 80,                     /* of our nodes' names: _c_<uuid>-lock-<number> and a NUL */
    LK_ZK_ROOT_MAX = 512,                    /* chroot and namespace, encoded */
    LK_ZK_PARENT_MAX = 1536,                 /* ... with a key behind it */
    LK_ZK_PATH_MAX = LK_ZK_PARENT_MAX + 512, /* ... and a child, which a foreign client may have named */
    LK_ZK_SEEN = 1024,                       /* keys whose parents are known to be there */
    LK_ZK_PARENTS_TRIES = 8                  /* how often vanishing parents are made again */
};

struct lk_zk;
struct lk_zk_op;
struct lk_zk_node;
struct lk_zk_watch;

/* ---------------------------------------------------------------- settings.c ---- */

/* What open was told; constant afterwards. */
struct lk_zk_settings {
    locker_host *hosts; /* at least one; ports filled in */
    size_t host_count;
    char *names;               /* the hosts as a text for people: host:port,host:port */
    char *credentials;         /* user:password, wiped when freed; NULL: none */
    char root[LK_ZK_ROOT_MAX]; /* chroot and namespace as a path: "" or /a/b */
    int64_t session_ns;        /* the session time-out that is asked for */
    int64_t connect_timeout_ns, command_timeout_ns, cleanup_ns;
};

extern const locker_param lk_zk_params[];

locker_status lk_zk_settings_init(struct lk_zk_settings *s, const locker_driver_config *config,
                                  locker_error *err);
void lk_zk_settings_clear(struct lk_zk_settings *s);

/* ---------------------------------------------------------------- paths.c ---- */

/* Encode one component of a path injectively at `out`, which has 3 * len + 1 bytes; returns its end. */
char *lk_zk_encode(char *out, const char *text, size_t len);
/* The path of the node under which a key's contenders stand. False: too long. */
bool lk_zk_parent_path(const struct lk_zk *z, const char *key, size_t key_len, char path[LK_ZK_PARENT_MAX]);
locker_status lk_zk_check_key(void *self, const char *key, size_t key_len, locker_error *err);
/* Whether a child is a contender (ours, Curator's, kazoo's); gives its sequence number. */
bool lk_zk_contender(const char *name, int32_t *sequence);
/* Whether a comes before b in the queue; the sequence may have wrapped. Ties go by name. */
bool lk_zk_before(int32_t a, const char *a_name, int32_t b, const char *b_name);
/* A name that no other attempt anywhere has: 128 random bits plus a counter, as a UUID's text. */
void lk_zk_uuid(struct lk_zk *z, char uuid[LK_ZK_UUID_LEN + 1]);
/* path = parent/name. False: it was cut at its size. */
bool lk_zk_join(char path[LK_ZK_PATH_MAX], const char *parent, const char *name);

/* ---------------------------------------------------------------- resolve.c ---- */

struct lk_zk_lookup;

/* The hosts as numeric addresses, a comma list as the client library reads it; malloc'ed. Blocks while names
 * are resolved. NULL: none could be, err says why. */
char *lk_zk_resolve(const locker_host *hosts, size_t count, locker_error *err);
bool lk_zk_all_literal(const locker_host *hosts, size_t count);
/* The same in a thread of its own, which outlives the instance if it has to. */
void lk_zk_lookup_start_locked(struct lk_zk *z);
/* Take the result, if there is one: malloc'ed, else NULL. */
char *lk_zk_lookup_take_locked(struct lk_zk *z);
void lk_zk_lookup_drop(struct lk_zk *z);

/* ---------------------------------------------------------------- ops.c ---- */

/* What an answer carries; which members are set depends on the request. */
struct lk_zk_reply {
    const char *text; /* a path, or a node's data */
    int text_len;     /* of data; -1: none */
    const struct Stat *stat;
    const struct String_vector *names;
};

typedef void (*lk_zk_done_fn)(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply);

/* A request whose answer is awaited. The client library calls back once for each, or never when its handle is
 * closed; so all are in a list, and what is left of it is failed after closing. Guarded by lock. */
struct lk_zk_op {
    struct lk_zk_op *next, *prev; /* in lk_zk.ops */
    struct lk_zk *z;
    lk_zk_done_fn done; /* with lock held; NULL: nobody wants the answer any more */
    void *context;
    struct lk_zk_call *call; /* whose stack `context` is on; NULL: on no stack */
    int64_t sent;            /* before it was sent */
};

/* Each sends one request. NULL: not sent, because there is no connection or no memory. */
struct lk_zk_op *lk_zk_create_locked(struct lk_zk *z, const char *path, const char *data, size_t len,
                                     lk_zk_done_fn done, void *context);
struct lk_zk_op *lk_zk_container_locked(struct lk_zk *z, const char *path, bool shared);
struct lk_zk_op *lk_zk_list_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context);
struct lk_zk_op *lk_zk_get_locked(struct lk_zk *z, const char *path, struct lk_zk_watch *watch,
                                  lk_zk_done_fn done, void *context);
struct lk_zk_op *lk_zk_delete_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context);
struct lk_zk_op *lk_zk_sync_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context);
struct lk_zk_op *lk_zk_multi_locked(struct lk_zk *z, const zoo_op_t *ops, zoo_op_result_t *results,
                                    size_t count, lk_zk_done_fn done, void *context);
/* Fail all that still awaits an answer: the handle was closed. */
void lk_zk_ops_fail_locked(struct lk_zk *z);
/* The caller goes: answers to its requests find nobody. */
void lk_zk_ops_forget_locked(struct lk_zk *z, const struct lk_zk_call *call);
void lk_zk_ops_free(struct lk_zk *z);
/* Whether the server may or may not have done what was asked, or never got it: ask again. */
bool lk_zk_unknown(int rc);
/* What a definite refusal means; `doing` completes "while ...". */
locker_status lk_zk_error(int rc, const char *doing, const char *path, locker_error *err);

/* ---------------------------------------------------------------- flow.c ---- */

/* A caller that waits for something; lives on its stack. Guarded by lock. */
struct lk_zk_call {
    struct lk_zk_call *next, *prev; /* in lk_zk.calls */
    pthread_cond_t cond;
    bool done;     /* what it waits for has happened */
    bool wants_up; /* that is a connection */
    bool asleep;   /* in cond, not driving */
    bool interrupted;
    int pending; /* answers still to come, where it waits for several */
};

enum lk_zk_outcome { LK_ZK_DONE, LK_ZK_LATE, LK_ZK_INTERRUPTED };

void lk_zk_call_begin_locked(struct lk_zk *z, struct lk_zk_call *call);
/* Also forgets its requests, and sees to it that somebody goes on driving. */
void lk_zk_call_end_locked(struct lk_zk *z, struct lk_zk_call *call);
/* Drive the connection, or sleep while another does, until call->done. Releases lock meanwhile. */
enum lk_zk_outcome lk_zk_await_locked(struct lk_zk *z, struct lk_zk_call *call, int64_t until);
/* The same for a connection. */
enum lk_zk_outcome lk_zk_await_up_locked(struct lk_zk *z, struct lk_zk_call *call, int64_t until);
void lk_zk_call_done_locked(struct lk_zk_call *call);
/* One answer of call->pending is there. */
void lk_zk_call_count_locked(struct lk_zk_call *call);
/* Have whoever drives look again: the connection has changed. */
void lk_zk_kick_locked(struct lk_zk *z);
void lk_zk_interrupt_locked(struct lk_zk *z, struct lk_zk_call *call);
/* The keeper's turn of driving: no waiting. Returns when it wants another at the latest. */
int64_t lk_zk_drive_locked(struct lk_zk *z);
/* Have the keeper come by `at` at the latest. */
void lk_zk_keeper_by_locked(struct lk_zk *z, int64_t at);

/* ---------------------------------------------------------------- session.c ---- */

/* Make a client handle when there is none. */
void lk_zk_session_begin_locked(struct lk_zk *z);
/* End the handle: the session is over, or not wanted any more. */
void lk_zk_session_drop_locked(struct lk_zk *z);
/* What the driving thread does after each turn: end a session that is over, go on after a reconnection. */
void lk_zk_session_settle_locked(struct lk_zk *z);
/* The leader has confirmed the session, by a request sent at that time. */
void lk_zk_confirm_locked(struct lk_zk *z, int64_t sent);
/* The local deadline of what the session holds. */
int64_t lk_zk_deadline_locked(const struct lk_zk *z);
/* Take up again what stands still: after a reconnection, or after a server that was too busy. */
void lk_zk_resume_locked(struct lk_zk *z);
/* An answer said nothing although the connection is up: resume in a moment. */
void lk_zk_stalled_locked(struct lk_zk *z);
/* The connection is lost. */
void lk_zk_went_down_locked(struct lk_zk *z);
/* Go to another server, if there is one. The session stays. */
void lk_zk_leave_server_locked(struct lk_zk *z, const char *why);
/* How long one server has for its part of connecting, before the next is tried. */
int64_t lk_zk_patience_locked(const struct lk_zk *z);
/* Why there is no connection. */
locker_status lk_zk_away_locked(const struct lk_zk *z, locker_error *err);

/* ---------------------------------------------------------------- node.c, search.c ---- */

enum lk_zk_step {
    LK_ZK_CREATING,  /* create and list are under way */
    LK_ZK_UNSURE,    /* the answer to create was lost: to be searched for */
    LK_ZK_SEARCHING, /* that is under way */
    LK_ZK_UNLISTED,  /* it is there; the list of its queue has to be asked for again */
    LK_ZK_LISTING,   /* that is under way */
    LK_ZK_QUEUED,    /* waits for the one ahead */
    LK_ZK_FIRST,     /* it has the lock */
    LK_ZK_FAILED,    /* `error` says why */
    LK_ZK_GONE       /* it is not at the server, for certain */
};

/* A place in a key's queue: an ephemeral node, or an attempt to make one. Guarded by lock. */
struct lk_zk_node {
    struct lk_zk_node *next, **link;             /* in lk_zk.nodes while it has a claim, else in lk_zk.left */
    struct lk_zk_node *fresh_next, **fresh_link; /* in lk_zk.fresh; fresh_link NULL: it isn't */
    locker_claim *claim;                         /* whose it is; NULL: nobody's, to be deleted */
    struct lk_zk_call *call;                     /* who waits for the next step; NULL: nobody */
    enum lk_zk_step step;
    bool there;         /* it is at the server, as far as we know */
    bool created;       /* create has been answered in this attempt */
    bool deleting;      /* a delete is under way */
    bool maybe_deleted; /* a delete was sent whose answer was lost */
    bool deleted;       /* by us, with proof */
    bool granted;       /* core knows that it has the lock */
    bool wake_wanted;   /* the claim was enrolled: it is woken, not its caller */
    uint8_t tries;      /* how often its parents have been made */
    int create_rc;      /* create's answer */
    unsigned ops;       /* requests that refer to it */
    char uuid[LK_ZK_UUID_LEN + 1];
    char name[LK_ZK_NAME_MAX]; /* "" until it is known */
    int32_t sequence;
    int64_t czxid;             /* the fencing token; 0 until it is known */
    int64_t created_at;        /* when create was answered; for own watches */
    int64_t cap;               /* LOST then at the latest, of a lease that isn't renewed; else LOCKER_NEVER */
    int64_t retry_at;          /* of a delete */
    int64_t trouble_since;     /* first refused delete; 0: none */
    size_t smaller;            /* how many stood ahead when the queue was last listed */
    struct lk_zk_watch *own;   /* on itself */
    struct lk_zk_watch *ahead; /* on the one ahead */
    struct lk_zk_node *follower; /* next that waits for the same node */
    locker_error *error;         /* of FAILED; malloc'ed, may be NULL */
    uint32_t hash;               /* of parent */
    char parent[];               /* path of the key's node */
};

struct lk_zk_node *lk_zk_node_new_locked(struct lk_zk *z, locker_claim *claim, const char *parent);
/* Send create and list in one flight. */
void lk_zk_node_start_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Go on with what a lost connection interrupted. */
void lk_zk_node_resume_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Nobody wants it any more: it is deleted in the background, and freed. */
void lk_zk_node_leave_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Send the delete, unless one is under way. */
void lk_zk_node_delete_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Ask for the queue's list, and find the node's place in it. */
void lk_zk_node_list_locked(struct lk_zk *z, struct lk_zk_node *node);
/* The one ahead has gone. */
void lk_zk_node_advance_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Somebody else deleted it, or its session is over. `why` is static text. */
void lk_zk_node_vanish_locked(struct lk_zk *z, struct lk_zk_node *node, const char *why);
/* It is there, with that name: what create's answer says. */
bool lk_zk_node_found_locked(struct lk_zk *z, struct lk_zk_node *node, const char *name, int64_t czxid);
/* Tell whoever waits for it. */
void lk_zk_node_settle_locked(struct lk_zk *z, struct lk_zk_node *node, enum lk_zk_step step);
void lk_zk_node_fail_locked(struct lk_zk *z, struct lk_zk_node *node, int rc, const char *doing);
void lk_zk_node_fresh_locked(struct lk_zk *z, struct lk_zk_node *node, bool fresh);
/* One request less refers to it; frees it when it was the last thing. */
void lk_zk_node_unref_locked(struct lk_zk *z, struct lk_zk_node *node);
void lk_zk_node_free_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Find out whether create, whose answer was lost, made it. */
void lk_zk_node_search_locked(struct lk_zk *z, struct lk_zk_node *node);

/* ---------------------------------------------------------------- watch.c ---- */

/* A watch on one node's data. The client library keeps a pointer to it while it is armed, so it stays until
 * it has fired or the handle is closed, even if nobody is interested any more. Guarded by lock. */
struct lk_zk_watch {
    struct lk_zk_watch *next; /* in its bucket */
    struct lk_zk *z;
    struct lk_zk_op *op;          /* get under way; NULL: none */
    bool armed;                   /* the server will tell */
    struct lk_zk_node *own;       /* the node itself, if it is ours */
    struct lk_zk_node *followers; /* those that wait behind it */
    uint32_t hash;                /* of path */
    char path[];
};

/* Watch the node's own deletion, or that of the sibling ahead. False: out of memory. */
bool lk_zk_watch_own_locked(struct lk_zk *z, struct lk_zk_node *node);
bool lk_zk_watch_ahead_locked(struct lk_zk *z, struct lk_zk_node *node, const char *name);
/* The node is not interested any more. */
void lk_zk_unwatch_ahead_locked(struct lk_zk_node *node);
void lk_zk_unwatch_own_locked(struct lk_zk_node *node);
/* Ask again for those whose request was lost. */
void lk_zk_watches_resume_locked(struct lk_zk *z);
/* After the handle was closed. */
void lk_zk_watches_free_locked(struct lk_zk *z);
void lk_zk_on_watch(zhandle_t *zh, int type, int state, const char *path, void *context);
uint32_t lk_zk_hash(const char *text);

/* ---------------------------------------------------------------- beat.c ---- */

/* Send heartbeats if it is time; returns when the next is due. */
int64_t lk_zk_beat_locked(struct lk_zk *z, int64_t now);
/* Check one node, for a caller that needs the deadline moved before it can have the lock. */
void lk_zk_prove_locked(struct lk_zk *z, struct lk_zk_node *node);

/* ---------------------------------------------------------------- claims ---- */

/* The driver's bytes of a claim. Guarded by lock. */
struct lk_zk_claim {
    struct lk_zk_node *node; /* NULL: none */
    struct lk_zk_call *call; /* the attempt under way, for interrupt */
};

static inline struct lk_zk_claim *lk_zk_claim(const locker_claim *claim)
{
    return locker_claim_private(claim);
}

/* ---------------------------------------------------------------- the instance ---- */

struct lk_zk {
    const locker_services *svc;
    const locker_clock *clock;
    struct lk_zk_settings set;
    uint64_t id_high, id_low; /* random */
    int epoll_fd;             /* the driver's descriptor: holds the socket */
    int kick_fd;              /* eventfd, ends the driving thread's poll */

    pthread_mutex_t lock; /* guards all below */
    uint64_t counter;     /* of names given */

    /* the session */
    zhandle_t *zh;        /* NULL: none */
    char *addresses;      /* numeric; of the last resolution */
    bool up;              /* connected, and served */
    bool came_up;         /* ... since the last settling */
    bool over;            /* it has ended: to be dropped by the driving thread */
    bool denied;          /* the server refused our credentials */
    bool suspect;         /* core was told that the service is out of reach */
    bool refused_parents; /* the server knows no containers */
    int64_t session_id;   /* of the client library; 0 until connected */
    int64_t timeout_ns;   /* negotiated */
    int64_t confirmed;    /* greatest send time of a request that the leader has answered */
    int64_t away_since;   /* when the connection was lost; 0 while it is up */
    int64_t begin_at;     /* a handle that could not be made is tried again then */
    struct lk_zk_lookup *lookup;
    int64_t looked_up_at;
    bool literal; /* no host has to be resolved */

    /* driving */
    int fd;                    /* the socket; -1: none */
    int interest;              /* ZOOKEEPER_READ and _WRITE, as last asked */
    int64_t attempt_at;        /* when the present attempt to connect began */
    int64_t turn_at;           /* when the client library wants to be called at the latest */
    bool reading;              /* a thread drives */
    bool polling;              /* ... and is asleep in poll: kick it */
    int armed_fd;              /* descriptor that the keeper's epoll watches, or -1 */
    int64_t left_at;           /* when a caller last drove */
    int64_t keeper_at;         /* when the keeper means to come */
    struct lk_zk_call *calls;  /* callers that wait */
    struct lk_zk_call *closer; /* waits until `left` is empty; NULL: nobody */
    struct lk_zk_op *ops, *free_ops;

    /* what is at the server */
    struct lk_zk_node *nodes; /* with a claim */
    struct lk_zk_node *left;  /* without: to be deleted */
    struct lk_zk_node *fresh; /* there, but not yet watched themselves */
    size_t enrolled;          /* claims that wait for a wake */
    struct lk_zk_watch **watches;
    size_t watch_count, watch_buckets; /* buckets: a power of two */
    int64_t beat_at;                   /* next heartbeat; LOCKER_NEVER: none is needed */
    int64_t beat_unanswered;           /* when the oldest heartbeat without an answer was sent; 0: none */
    int64_t resume_at;                 /* what stands still is taken up again then; LOCKER_NEVER: nothing */
    uint32_t seen[LK_ZK_SEEN];         /* hashes of parents that are there, or were */

    bool log_due; /* note holds a line for the log: it is written by a thread without lock */
    locker_log_level note_level;
    char note[LOCKER_ERROR_TEXT_MAX];
};

static inline int64_t lk_zk_now(const struct lk_zk *z)
{
    return z->clock->now(z->clock->context);
}

static inline int64_t lk_zk_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t lk_zk_after(int64_t start, int64_t span)
{
    return start > LOCKER_NEVER - span ? LOCKER_NEVER : start + span;
}

void lk_zk_note_locked(struct lk_zk *z, locker_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Write what lk_zk_note_locked() kept. Called without lock. */
void lk_zk_note_write(struct lk_zk *z);

/* ---------------------------------------------------------------- operations ---- */

int64_t lk_zk_dispatch(void *self);
locker_status lk_zk_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_zk_interrupt(void *self, locker_claim *claim);
void lk_zk_withdraw(void *self, locker_claim *claim);
locker_status lk_zk_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_zk_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                         locker_error *err);
locker_status lk_zk_break(void *self, const char *key, size_t key_len, int64_t until, locker_info *broken,
                          locker_error *err);
locker_status lk_zk_ping(void *self, int64_t until, locker_error *err);

#endif
