/*
 * internal.h: what the files of the ZooKeeper driver share.
 *
 *   zookeeper.c  the table, open and close          settings.c   the configuration, copied and checked
 *   paths.c      names of nodes                     resolve.c    names of hosts
 *   session.c    the client handle and its events   requests.c        requests that await their answer
 *   drive.c       who drives the connection          keeper.c   the keeper's turn
 *   place.c       a place in a queue                 recover_create.c     a place whose creation got no
 * answer queue.c      finding places, and who is ahead   watch.c      being told of deletions heartbeat.c the
 * heartbeat that needs the quorum validity.c   what that proves node_timers.c       what a node wants after a
 * while   grant_time.c    since when a lock is held client.c     handles: plain, TLS, SASL          tls.c,
 * sasl.c  what those take blocking_connect.c      what may block in connecting with TLS and SASL acquire.c,
 * release.c, inspect.c: the operations
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

#include "net/tls_sasl.h"
#include "net/validity.h"

#define LK_MS INT64_C(1000000)
#define LK_S  INT64_C(1000000000)

enum {
    LK_ZK_STEM_LEN = 45,                     /* of our nodes' names: _c_<uuid>-lock- */
    LK_ZK_NAME_MAX = LK_ZK_STEM_LEN + 12,    /* ... and the number, and a NUL */
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
    char *names;       /* the hosts as a text for people: host:port,host:port */
    char *credentials; /* of digest: user:password, wiped when freed; NULL: none */
    struct lk_zk_library library;
    char *tls;                 /* TLS: its files, as the library takes them; NULL: none */
    struct lk_zk_sasl *sasl;   /* a login by SASL; NULL: none */
    char root[LK_ZK_ROOT_MAX]; /* chroot and namespace as a path: "" or /a/b */
    int64_t session_ns;        /* the session time-out that is asked for */
    int64_t tick_ns;           /* of the servers; 0: it was not told */
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
/* Whether a comes before b in the queue. Ties go by name. */
bool lk_zk_before(int32_t a, const char *a_name, int32_t b, const char *b_name);
/* Whether others may get the same number, or a lower one, later: the server has come to the end of them. */
bool lk_zk_used_up(int32_t sequence);
/* The name that create is given for a node of ours, to which the server appends its number: it has 128 random
 * bits plus a counter, as a UUID's text, so that no other attempt anywhere has it. */
void lk_zk_stem_begin(struct lk_zk *z, uint64_t random);
void lk_zk_stem(const struct lk_zk *z, uint64_t id, char stem[LK_ZK_STEM_LEN + 1]);
/* ... and with the number. */
void lk_zk_name(const struct lk_zk *z, uint64_t id, int32_t sequence, char name[LK_ZK_NAME_MAX]);
/* path = parent/name. False: it is too long; path is not set. */
bool lk_zk_join(char path[LK_ZK_PATH_MAX], const char *parent, const char *name);
/* Whether a name, or a path, is one of this locker's, of whichever session: as far as its id; as a whole. */
bool lk_zk_own_id(const struct lk_zk *z, const char *name, uint64_t *id);
bool lk_zk_is_own(const struct lk_zk *z, const char *name, uint64_t *id, int32_t *sequence);
/* The path of a node of ours that is there. */
void lk_zk_node_path(const struct lk_zk *z, const struct lk_zk_node *node, char path[LK_ZK_PATH_MAX]);

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

/* ---------------------------------------------------------------- requests.c ---- */

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
    struct lk_zk_call *call;    /* whose stack `context` is on; NULL: on no stack */
    int64_t sent;               /* before it was sent */
    int refused;                /* the error that the sync before it got; ZOK: none */
    zoo_op_result_t results[2]; /* of a multi: the client library writes them with the answer, however late */
};

/* Each sends one request. NULL: not sent, because there is no connection or no memory. */
struct lk_zk_op *lk_zk_create_locked(struct lk_zk *z, const char *path, const char *data, size_t len,
                                     lk_zk_done_fn done, void *context);
struct lk_zk_op *lk_zk_container_locked(struct lk_zk *z, const char *path, bool shared);
struct lk_zk_op *lk_zk_list_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context);
/* ... as the leader knows it; a server alone may lag behind what others have been answered. After a create of
 * ours the plain one does, because it knows of all that went before that. */
struct lk_zk_op *lk_zk_list_fresh_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done,
                                         void *context);
/* ... with a watch, unless `watch` is NULL. */
struct lk_zk_op *lk_zk_get_locked(struct lk_zk *z, const char *path, watcher_fn watch, void *watch_context,
                                  lk_zk_done_fn done, void *context);
/* Replace a node's data, if its version is that one. */
struct lk_zk_op *lk_zk_set_locked(struct lk_zk *z, const char *path, const char *data, size_t len,
                                  int32_t version, lk_zk_done_fn done, void *context);
struct lk_zk_op *lk_zk_delete_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context);
/* The same, and replace the data of the parent in one transaction, if its version is that one. */
struct lk_zk_op *lk_zk_delete_marked_locked(struct lk_zk *z, const char *path, const char *parent,
                                            const char *mark, size_t len, int32_t version, lk_zk_done_fn done,
                                            void *context);
struct lk_zk_op *lk_zk_sync_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context);
/* A request that changes nothing, and that the leader has to order nevertheless. */
struct lk_zk_op *lk_zk_check_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context);
/* A request that changes nothing, and that any server answers by itself. */
struct lk_zk_op *lk_zk_touch_locked(struct lk_zk *z, lk_zk_done_fn done);
/* `results` must last until `done` is called. */
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

/* ---------------------------------------------------------------- drive.c ---- */

/* A caller that waits for something; lives on its stack. Guarded by lock. */
struct lk_zk_call {
    struct lk_zk_call *next, *prev; /* in lk_zk.calls */
    pthread_cond_t cond;
    bool done;         /* what it waits for has happened */
    bool wants_up;     /* that is a connection */
    bool prompt;       /* ... unless nothing listens at any server */
    bool deserted;     /* that has been seen */
    bool hurried;      /* each attempt since then was refused: the next one is not put off */
    unsigned refusals; /* since then, in a row */
    bool asleep;       /* in cond, not driving */
    bool interrupted;
    int pending; /* answers still to come, where it waits for several */
};

enum lk_zk_outcome { LK_ZK_DONE, LK_ZK_LATE, LK_ZK_INTERRUPTED };

void lk_zk_call_begin_locked(struct lk_zk *z, struct lk_zk_call *call);
/* Also forgets its requests, and sees to it that somebody goes on driving. */
void lk_zk_call_end_locked(struct lk_zk *z, struct lk_zk_call *call);
/* Drive the connection, or sleep while another does, until call->done. Releases lock meanwhile. */
enum lk_zk_outcome lk_zk_await_locked(struct lk_zk *z, struct lk_zk_call *call, int64_t until);
/* The same for a connection; LATE, too, when there won't be one. */
enum lk_zk_outcome lk_zk_await_up_locked(struct lk_zk *z, struct lk_zk_call *call, int64_t until);
void lk_zk_call_done_locked(struct lk_zk_call *call);
/* One answer of call->pending is there. */
void lk_zk_call_count_locked(struct lk_zk_call *call);
/* Have whoever drives look again: the connection has changed. */
void lk_zk_kick_locked(struct lk_zk *z);
void lk_zk_interrupt_locked(struct lk_zk *z, struct lk_zk_call *call);
/* Have what is sent wait for more, and go together in one piece: the library writes each request in two, and
 * every piece costs the server a turn. */
void lk_zk_cork_locked(struct lk_zk *z);
/* Let it go: before lock is released, and before anything is waited for. */
void lk_zk_push_locked(struct lk_zk *z);
/* The library has closed its socket. */
void lk_zk_no_socket_locked(struct lk_zk *z);
/* The keeper's turn of driving: no waiting. Returns when it wants another at the latest. */
int64_t lk_zk_drive_locked(struct lk_zk *z);
/* What the library's answer to reading and writing means. */
void lk_zk_processed_locked(struct lk_zk *z, int rc);
/* Whoever drove has done so. */
void lk_zk_driven_locked(struct lk_zk *z);
/* Have the keeper come by `at` at the latest. */
void lk_zk_keeper_by_locked(struct lk_zk *z, int64_t at);

/* ---------------------------------------------------------------- session.c ---- */

/* The servers have moved: those addresses are theirs now. */
void lk_zk_servers_set_locked(struct lk_zk *z, const char *addresses);
/* Make a client handle when there is none. */
void lk_zk_session_begin_locked(struct lk_zk *z);
/* End the handle: the session is over, or not wanted any more. */
void lk_zk_session_drop_locked(struct lk_zk *z);
/* What the driving thread does after each turn: end a session that is over, go on after a reconnection. */
void lk_zk_session_settle_locked(struct lk_zk *z);
/* The leader has ordered a request that was sent at that time. */
void lk_zk_confirm_locked(struct lk_zk *z, int64_t sent);
/* The local deadline of what the session holds. */
int64_t lk_zk_deadline_locked(const struct lk_zk *z);
/* Take up again what stands still: after a reconnection, or after a server that was too busy. */
void lk_zk_resume_locked(struct lk_zk *z);
/* An answer said nothing although the connection is up: resume in a moment. */
void lk_zk_stalled_locked(struct lk_zk *z);
/* The library told that the session is in this state. */
void lk_zk_session_event_locked(struct lk_zk *z, int state);
/* The connection is lost. */
void lk_zk_went_down_locked(struct lk_zk *z);
/* Go to another server, if there is one. The session stays. */
void lk_zk_leave_server_locked(struct lk_zk *z, const char *why);
/* Connect again, to the same one if there is no other: that tells whether the session is still there. */
void lk_zk_reconnect_locked(struct lk_zk *z, const char *why);
/* How long a server has for its part of connecting, before another attempt is made. LOCKER_NEVER: as long as
 * the client library gives it. */
int64_t lk_zk_patience_locked(const struct lk_zk *z, int64_t now);
/* There won't be a connection: whoever waits for one is told. */
void lk_zk_refused_locked(struct lk_zk *z);
/* An attempt to connect has failed: nothing listens there, or for another reason. */
void lk_zk_attempt_failed_locked(struct lk_zk *z, bool refused);
/* Whether a prompt caller waits for the next attempt: it isn't put off then. */
bool lk_zk_hurried_locked(const struct lk_zk *z);
/* Why there is no connection. */
locker_status lk_zk_away_locked(const struct lk_zk *z, locker_error *err);

/* ---------------------------------------------------------------- place.c, recover_create.c ---- */

/* What is known of a place: of its node, and of who is ahead. ARCHITECTURE.md has the table. */
enum lk_zk_step {
    LK_ZK_NOTHING, /* nothing has been asked under its name */
    LK_ZK_ASKED,   /* create and list are under way */
    LK_ZK_DOUBT,   /* create got no answer: the node is there, or not, or comes yet */
    LK_ZK_UNSEEN,  /* the same, and a search did not show it: the claim goes on under another name */
    LK_ZK_ENTERED, /* it is there; who is ahead isn't known: a list is under way, or wanted */
    LK_ZK_BEHIND,  /* it is there; somebody was ahead in a list that showed it */
    LK_ZK_FIRST,   /* it is there; nobody was: it has the lock. Set in queue.c alone */
    LK_ZK_USED_UP, /* it is there; its number says nothing, because the key's node has no more of them */
    LK_ZK_FAILED,  /* `error` says why */
    LK_ZK_GONE     /* it isn't there and won't be, with proof */
};

/* A place in a key's queue: an ephemeral node, or an attempt to make one. Guarded by lock. */
struct lk_zk_node {
    struct lk_zk_node *next, **link;             /* in lk_zk.nodes, left or doubtful */
    struct lk_zk_node *fresh_next, **fresh_link; /* in lk_zk.fresh; fresh_link NULL: it isn't */
    struct lk_zk_node *same;                     /* in its bucket of lk_zk.places */
    locker_claim *claim;                         /* whose it is; NULL: nobody's, to be deleted */
    struct lk_zk_call *call;                     /* who waits for the next step; NULL: nobody */
    struct lk_zk_watch *ahead;                   /* on the predecessor; NULL unless BEHIND and waiting */
    struct lk_zk_node *next_behind;              /* among those that the same watch tells */
    locker_error *error;                         /* of FAILED; malloc'ed, may be NULL */
    uint64_t id;                                 /* the part of its name that is its own */
    int64_t session;                             /* in which it was asked for */
    int64_t czxid;                               /* the fencing token; 0 until it is known */
    int64_t watch_at;                            /* when it wants a watch on itself */
    int64_t since_by;                            /* when the time of its grant wants to be written */
    int64_t granted_at;                          /* that time; of a lock that was waited for */
    int64_t cap;           /* LOST then at the latest, of a lease that isn't renewed; else LOCKER_NEVER */
    int64_t retry_at;      /* of a delete */
    int64_t trouble_since; /* first refused delete; 0: none */
    int64_t doubt_since;   /* of one in `doubtful`: of the latest name that it stands for */
    int64_t look_at;       /* ... when it is looked for again */
    int32_t sequence;      /* once it is there */
    int create_rc;         /* create's answer */
    unsigned ops;          /* requests that refer to it */
    uint32_t parent_hash;
    uint8_t step;       /* enum lk_zk_step */
    uint8_t tries;      /* how often its parents have been made */
    bool there;         /* it is at the server: its name is known, and no end of it */
    bool listing;       /* a list of its queue is under way */
    bool unwanted;      /* it is to be deleted, as soon as there is a connection */
    bool deleting;      /* a delete is under way */
    bool maybe_deleted; /* a delete was sent whose answer was lost */
    bool deleted;       /* by us, with proof */
    bool watched;       /* its own deletion will be told, or that has been asked for */
    bool waited;        /* it has been BEHIND */
    bool granted;       /* core knows that it has the lock */
    bool wake_wanted;   /* the claim was enrolled: it is woken, not its caller */
    char parent[];      /* the path of the key's node */
};

struct lk_zk_node *lk_zk_node_new_locked(struct lk_zk *z, locker_claim *claim, const char *parent);
/* One of ours that a list shows, and of which nothing is known: to be deleted. NULL: no memory. */
struct lk_zk_node *lk_zk_node_adopt_locked(struct lk_zk *z, const char *parent, uint64_t id);
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
/* It is gone, with proof: somebody else deleted it, or its session is over. `why` is static text. */
void lk_zk_node_vanish_locked(struct lk_zk *z, struct lk_zk_node *node, const char *why);
/* It is there, with that number. */
void lk_zk_node_found_locked(struct lk_zk *z, struct lk_zk_node *node, int32_t sequence);
/* ... but nobody wants it. */
void lk_zk_node_stray_locked(struct lk_zk *z, struct lk_zk_node *node, int32_t sequence);
/* Whether it is there, or will be, isn't known. Without a claim it has no name any more. */
void lk_zk_node_doubt_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Tell whoever waits for it. */
void lk_zk_node_settle_locked(struct lk_zk *z, struct lk_zk_node *node, enum lk_zk_step step);
void lk_zk_node_fail_locked(struct lk_zk *z, struct lk_zk_node *node, int rc, const char *doing);
/* One request less refers to it; frees it when it was the last thing. */
void lk_zk_node_unref_locked(struct lk_zk *z, struct lk_zk_node *node);
void lk_zk_node_free_locked(struct lk_zk *z, struct lk_zk_node *node);

/* Look for a node whose create got no answer. */
void lk_zk_node_search_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Look for those that nobody waits for, if it is time. Returns when it is again. */
int64_t lk_zk_search_due_locked(struct lk_zk *z, int64_t now);
/* ... now, whenever it is due. */
void lk_zk_search_all_locked(struct lk_zk *z);

/* ---------------------------------------------------------------- queue.c ---- */

/* Put it into the table of places, by its id. False: no memory. */
bool lk_zk_queue_add_locked(struct lk_zk *z, struct lk_zk_node *node);
void lk_zk_queue_remove_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Our own place of that name, or path; NULL: there is none. */
struct lk_zk_node *lk_zk_queue_find_locked(const struct lk_zk *z, const char *name);
/* Delete what a list of a queue shows of ours that belongs to no claim. */
void lk_zk_queue_sweep_locked(struct lk_zk *z, const char *parent, const struct String_vector *names);
/* Find the node's place in a list of its queue, which was asked for after it was there. */
void lk_zk_queue_place_locked(struct lk_zk *z, struct lk_zk_node *node, const struct String_vector *names);
/* Its predecessor may have gone: look again. A hint too many does no harm. */
void lk_zk_queue_hint_locked(struct lk_zk *z, struct lk_zk_node *node);

/* ---------------------------------------------------------------- watch.c ---- */

/* A watch on a predecessor. The client library keeps a pointer to it while it is armed, so it stays until it
 * has fired or the handle is closed, even if nobody is behind it any more. Guarded by lock. */
struct lk_zk_watch {
    struct lk_zk_watch *next; /* in its bucket */
    struct lk_zk *z;
    struct lk_zk_op *op;       /* get under way; NULL: none */
    struct lk_zk_node *behind; /* whom it tells */
    uint32_t hash;             /* of path */
    bool armed;                /* the server will tell */
    char path[];
};

/* Have the node's own deletion told. False: no memory or no connection. */
bool lk_zk_watch_own_locked(struct lk_zk *z, struct lk_zk_node *node);
/* Have the end of its predecessor told. One of our own needs no server for that. False: out of memory. */
bool lk_zk_watch_ahead_locked(struct lk_zk *z, struct lk_zk_node *node, const char *name, bool is_ours);
void lk_zk_unwatch_locked(struct lk_zk *z, struct lk_zk_node *node);
/* A place of our own goes, or has gone: those behind it look. */
void lk_zk_watch_ours_locked(struct lk_zk *z, const struct lk_zk_node *gone);
/* The one after w (NULL: the first) that is armed and that tells somebody; NULL: none. */
const struct lk_zk_watch *lk_zk_watch_next_locked(const struct lk_zk *z, const struct lk_zk_watch *w);
/* The majority says that the node is gone. If the server has not told of that, it never will. */
void lk_zk_watch_missed_locked(struct lk_zk *z, const char *path);
/* Ask again for those whose request was lost. */
void lk_zk_watches_resume_locked(struct lk_zk *z);
/* After the handle was closed. */
void lk_zk_watches_free_locked(struct lk_zk *z);
uint32_t lk_zk_hash(const char *text);

/* ---------------------------------------------------------------- heartbeat.c ---- */

/* Send heartbeats if it is time; returns when the next is due. */
int64_t lk_zk_beat_locked(struct lk_zk *z, int64_t now);
/* A node of ours was deleted by somebody else: perhaps with the whole session. Nothing is granted until a
 * heartbeat has been answered; that the connection is lost answers nothing. */
void lk_zk_doubt_locked(struct lk_zk *z);
/* Whether the deadline is far enough away for a grant. */
bool lk_zk_enough_locked(struct lk_zk *z, int64_t now);
/* Have the deadline moved, for a caller that can have this node's lock once there is enough. */
void lk_zk_prove_locked(struct lk_zk *z, struct lk_zk_node *node);

/* ---------------------------------------------------------------- node_timers.c ---- */

/* It wants a watch on itself at that time, or sooner if that was said before. */
void lk_zk_node_watch_by_locked(struct lk_zk *z, struct lk_zk_node *node, int64_t at);
/* It wants the time of its grant to be written then. */
void lk_zk_node_since_by_locked(struct lk_zk *z, struct lk_zk_node *node, int64_t at);
/* Do what is due of these. Returns when the next is. */
int64_t lk_zk_nodes_tend_locked(struct lk_zk *z, int64_t now);
/* It wants nothing of that any more. */
void lk_zk_node_rest_locked(struct lk_zk_node *node);

/* ---------------------------------------------------------------- grant_time.c ---- */

/* The node has the lock from now on: have that written, if it has waited and if it lasts. */
void lk_zk_since_plan_locked(struct lk_zk *z, struct lk_zk_node *node);
/* The node has had the lock for long enough. */
void lk_zk_since_write_locked(struct lk_zk *z, struct lk_zk_node *node);
/* What we keep in the data of a key's node. All zeros: nothing. */
struct lk_zk_record {
    uint64_t granted; /* the token of a grant that was waited for ... */
    int64_t unix_ms;  /* ... and when it was made */
    uint64_t broken;  /* the token of the latest that was broken */
};
enum { LK_ZK_RECORD_MAX = 112 };

/* False: somebody keeps something else there. */
bool lk_zk_record_read(const char *data, int len, struct lk_zk_record *record);
size_t lk_zk_record_write(const struct lk_zk_record *record, char text[LK_ZK_RECORD_MAX]);

/* ---------------------------------------------------------------- claims ---- */

/* The driver's bytes of a claim. Guarded by lock. */
struct lk_zk_claim {
    struct lk_zk_node *node; /* NULL: none */
    struct lk_zk_call *call; /* the attempt under way, for interrupt */
    bool interrupted;        /* no attempt is made for it any more */
    bool aside;              /* its last place had a number that is used up: it looks before it takes one */
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
    char stem[LK_ZK_STEM_LEN + 1]; /* of our nodes' names, without an id; random at its beginning */
    int epoll_fd;                  /* the driver's descriptor: holds the socket */
    int kick_fd;                   /* eventfd, ends the driving thread's poll */

    pthread_mutex_t lock; /* guards all below */
    uint64_t last_id;     /* given to a node; begins at random */

    /* the session */
    zhandle_t *zh;        /* NULL: none */
    char *addresses;      /* numeric; of the last resolution */
    bool up;              /* connected, and served */
    bool came_up;         /* ... since the last settling */
    bool over;            /* it has ended: to be dropped by the driving thread */
    bool denied;          /* the server refused our credentials, or TLS can't use its files */
    bool bad_files;       /* ... the latter */
    bool suspect;         /* core was told that the service is out of reach */
    bool refused_parents; /* the server knows no containers */
    bool literal;         /* no host has to be resolved */
    int64_t session_id;   /* of the client library; 0 until connected */
    int64_t timeout_ns;   /* negotiated */
    int64_t begun_at;     /* the present connection, or attempt to make one */
    struct lk_zk_validity validity;
    int64_t away_since; /* when the connection was lost; 0 while it is up */
    int64_t begin_at;   /* a handle that could not be made is tried again then */
    struct lk_zk_lookup *lookup;
    int64_t looked_up_at;
    struct lk_zk_shake shake;
    bool login_begun;              /* by SASL, on the present connection */
    char tls_trouble[128];         /* why the last handshake failed; "" if none did since it was up */
    struct lk_zk_pipe_guard guard; /* while a request is handed to the library */

    /* driving */
    int fd;                    /* the socket; -1: none */
    int no_socket;             /* errno if this process could make none lately; 0 */
    int corked_fd;             /* the socket, while it holds back what is sent; else -1 */
    int interest;              /* ZOOKEEPER_READ and _WRITE, as last asked */
    int64_t attempt_at;        /* when the present attempt to connect began */
    int attempt_error;         /* errno by which it failed; 0: it has not, or in another way */
    int64_t turn_at;           /* when the client library wants to be called at the latest */
    bool reading;              /* a thread drives */
    bool polling;              /* ... and is asleep in poll: kick it */
    bool doubted;              /* whether the session is still there; until a heartbeat is answered */
    int armed_fd;              /* descriptor that the keeper's epoll watches, or -1 */
    int64_t left_at;           /* when a caller last drove */
    int64_t keeper_at;         /* when the keeper means to come */
    struct lk_zk_call *calls;  /* callers that wait */
    struct lk_zk_call *closer; /* waits until `left` is empty; NULL: nobody */
    struct lk_zk_op *ops, *free_ops;

    /* what is at the server */
    struct lk_zk_node *nodes; /* with a claim */
    struct lk_zk_node *left;  /* without: to be deleted */
    struct lk_zk_node
        *doubtful;            /* one for each queue in which something of ours may come yet, but no claim's */
    bool may_stray;           /* a create was once unanswered, or a session ended: names without a claim may
                                 stand in queues from then on */
    struct lk_zk_node *fresh; /* there, but not yet watched themselves, or their grant not yet written */
    int64_t fresh_at;         /* none of those wants it before then */
    int64_t wall_ahead_ms;    /* the servers' wall clock less our clock; 0: not known */
    size_t enrolled;          /* claims that wait for a wake */
    struct lk_zk_node **places;        /* all of them, by id */
    size_t place_count, place_buckets; /* buckets: a power of two */
    struct lk_zk_watch **watches;
    size_t watch_count, watch_buckets; /* likewise */
    int64_t beat_at;                   /* next heartbeat or touch */
    int64_t quarter_at;                /* the next heartbeat of those that wait is not before that */
    int64_t beat_unanswered;           /* when the oldest of either without an answer was sent; 0: none */
    int64_t resume_at;                 /* what stands still is taken up again then; LOCKER_NEVER: nothing */
    uint32_t seen[LK_ZK_SEEN];         /* hashes of parents that are there, or were */

    bool log_due; /* note holds a line for the log: it is written once lock is released */
    locker_log_level note_level;
    char note[LOCKER_ERROR_TEXT_MAX];
};

static inline int64_t lk_zk_now(const struct lk_zk *z)
{
    return z->clock->now(z->clock->context);
}

/* Whether what we make is to be ours alone. */
static inline bool lk_zk_logs_in(const struct lk_zk *z)
{
    return z->set.credentials != NULL || z->set.sasl != NULL;
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
/* Unlock, after sending what is held back, and write what lk_zk_note_locked() kept. */
void lk_zk_leave(struct lk_zk *z);

/* ---------------------------------------------------------------- operations ---- */

int64_t lk_zk_dispatch(void *self);
locker_status lk_zk_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_zk_interrupt(void *self, locker_claim *claim);
void lk_zk_withdraw(void *self, locker_claim *claim);
locker_status lk_zk_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_zk_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                         locker_error *err);
locker_status lk_zk_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                          int64_t until, locker_info *broken, locker_error *err);
locker_status lk_zk_ping(void *self, int64_t until, locker_error *err);

#endif
