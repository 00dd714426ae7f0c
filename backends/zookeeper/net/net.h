/* net.h: one session with ZooKeeper, and nothing of what it is for: all that the upper floor (lock/) may use of this
 * one. This floor connects, and connects again; it sends requests and brings their answers, watches nodes, and knows
 * until when the leader has the session for certain. It knows its owner by a few callbacks alone.
 *
 * The client library is libzookeeper_st, which has no thread of its own: whoever waits for an answer drives its socket,
 * and the keeper does when nobody waits. Why: a lock and unlock makes 2.8 context switches, with the two threads of
 * libzookeeper_mt 17.8; bare, on loopback and one core, it takes 215 us (median) with the former and 310 us with the
 * latter. And the traps of those threads are gone: callbacks on a foreign thread, completions lost in close. The
 * synchronous calls, for which ZooKeeper's documentation recommends the other library, aren't used: they have no
 * deadline.
 *
 * One mutex guards all that changes, of the owner too; inside it only core's (the services) are taken. The client
 * library is called with it held, and does nothing there that can wait: its socket is non-blocking, host names are
 * resolved elsewhere. poll is called without it. */
#pragma once

#include <zookeeper/zookeeper.h>

#include "lk_error.h"
#include "lk_list.h"
#include "lk_mutex.h"
#include "lk_time.h"

#define LK_ZK_GUARDED LK_GUARDED_BY(lk_zk_net.mutex)
enum { LK_ZK_PATH_MAX = 2048 }; /* the longest path that a request is given, with its NUL */

typedef struct lk_zk_net lk_zk_net;
typedef struct lk_zk_request lk_zk_request;
typedef struct lk_zk_watch lk_zk_watch;

/* The owner: what it is, it alone knows. */
typedef struct lk_zk lk_zk;

/* Who wants to be told of a node's end; stands in the owner's own structure. All zero: of no node's. */
typedef struct {
    lk_zk_watch *watch;
    lk_list link; /* among those of the same watch */
} lk_zk_watcher;

/* What the owner is told, each with the mutex held. */
typedef struct {
    void (*on_up)(lk_zk *z);    /* there is a connection again, or the first one */
    void (*on_down)(lk_zk *z);  /* it is lost */
    void (*on_ended)(lk_zk *z); /* the session is over: what it had at the servers is gone, or will be */
    /* A watch got no answer although there is a connection: have it asked for again. */
    void (*on_stalled)(lk_zk *z);
    /* A node that was read by lk_zk_get_told_locked() was deleted, or has changed; one that was listed by
     * lk_zk_list_told_locked() has other children. */
    void (*on_event)(lk_zk *z, const char *path, bool deleted);
    /* A watched node has gone, or may have: ZNONODE; else `rc` says why it can't be watched. No watch has it now. */
    void (*on_gone)(lk_zk *z, lk_zk_watcher *watcher, int rc);
} lk_zk_owner;

/* ---------------------------------------------------------------- its life: open.c, settings.c ---- */
extern const locker_parameter lk_zk_params[];
enum { LK_ZK_PARAM_NAMES = 9 }; /* the one of them that is the owner's */

/* Read the parameters, and connect for the first time: nobody else sees it yet. *out is to be freed in either case. */
locker_status lk_zk_net_open(lk_zk_net **out, lk_zk *z, const lk_zk_owner *owner,
                             const locker_driver_config *config, const locker_services *svc,
                             locker_error *err) LK_UNCHECKED;
/* End the session. politely: with a good-bye, so that the server ends all that is its own at once; that waits for an
 * answer. Releases the mutex meanwhile; nobody else may be using the instance. */
void lk_zk_net_close_unlocking(lk_zk_net *net, bool politely) LK_REQUIRES(*net);
/* Nothing else uses it any more. NULL is allowed. */
void lk_zk_net_free(lk_zk_net *net) LK_UNCHECKED;
/* In a fork's child, which has no other thread: close the descriptors, and touch nothing else. */
void lk_zk_net_abandon(const lk_zk_net *net) LK_UNCHECKED;

/* For core to wait for, and to have the keeper called. */
int lk_zk_net_descriptor(const lk_zk_net *net);
/* The hosts, as a text for people. */
const char *lk_zk_net_names(const lk_zk_net *net);

/* ---------------------------------------------------------------- the mutex: drive.c; the keeper: socket.c ---- */
void lk_zk_enter(lk_zk_net *net) LK_ACQUIRE(*net);
/* Unlock, after sending what is held back. */
void lk_zk_leave(lk_zk_net *net) LK_RELEASE(*net);
/* Have the keeper come by `at` at the latest. */
void lk_zk_keeper_by_locked(lk_zk_net *net, int64_t at) LK_REQUIRES(*net);
/* What the keeper means to do next is at `next`; returns that, or what somebody has wanted sooner. */
int64_t lk_zk_keeper_next_locked(lk_zk_net *net, int64_t next) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- the session: connection.c, session.c ---- */
bool lk_zk_is_up_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* The session's number; 0: none. */
int64_t lk_zk_session_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* Its time-out; before the servers have said it, the one that is asked for. */
int64_t lk_zk_timeout_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* One more or one less of the owner's waits for an event, so somebody has to read. */
void lk_zk_event_awaited_locked(lk_zk_net *net, bool awaited) LK_REQUIRES(*net);
/* End it as soon as possible, and begin another one. */
void lk_zk_give_up_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Whether there is no other to go to. */
bool lk_zk_has_one_server_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* Connect again to a server that has fallen silent. The attempt lasts until the deadline of the locks that are held: a stopped server
 * serves this connection when it continues, and more attempts would only fill its queue. */
void lk_zk_reconnect_once_locked(lk_zk_net *net, const char *why) LK_REQUIRES(*net);
/* Connect again, to the same one if there is no other: that tells whether the session is still there, which stays. */
void lk_zk_reconnect_locked(lk_zk_net *net, const char *why) LK_REQUIRES(*net);
/* Why there is no connection, or no answer. */
locker_status lk_zk_away_locked(const lk_zk_net *net, locker_error *err) LK_REQUIRES(*net);

/* The leader has ordered a request that was sent at that time. */
void lk_zk_confirm_locked(lk_zk_net *net, int64_t sent) LK_REQUIRES(*net);
/* D: the leader does not end the session before (validity.h). */
int64_t lk_zk_deadline_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* What that will be once a request that is sent then has been ordered. */
int64_t lk_zk_promise_locked(const lk_zk_net *net, int64_t sent) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- requests.c ---- */
/* An answer; which members are set depends on the request. */
typedef struct {
    int rc;
    int text_len;     /* of data; -1: none */
    int64_t sent;     /* when the request was about to be */
    const char *text; /* a path, or a node's data */
    const struct Stat *stat;
    const struct String_vector *names;
    int of_two[2]; /* of a transaction of two that was refused: what each was answered */
} lk_zk_reply;

/* Called once for each request, at the latest when the session ends; with the mutex held. */
typedef void (*lk_zk_done_fn)(lk_zk *z, void *context, const lk_zk_reply *reply);

/* Each sends one request, which lasts until `done`. NULL: not sent (no connection, no memory), no `done`. */
lk_zk_request *lk_zk_create_locked(lk_zk_net *net, const char *path, const char *data, lk_zk_done_fn done,
                                   void *context) LK_REQUIRES(*net);
/* A parent: others need it too (shared), or not. Nobody is told. */
void lk_zk_container_locked(lk_zk_net *net, const char *path, bool shared) LK_REQUIRES(*net);
/* Return why the latest parent that was asked for does not exist, if a server refused to make it or one above it; else ZOK. */
int lk_zk_parent_refused_locked(const lk_zk_net *net) LK_REQUIRES(*net);
lk_zk_request *lk_zk_list_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
/* ... with all that anybody was answered before, at whichever server: behind a check, which the leader has to order; a
 * sync is not enough: at the leader it is a read like any other (CommitProcessor with matchSyncs false), and the leader tells its
 * followers of a commit before it makes the change itself (Leader.tryToCommit). So a try could be BUSY after an unlock was answered
 * elsewhere. After a create of ours the plain one does, because that was ordered. */
lk_zk_request *lk_zk_list_fresh_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
/* ... and have on_event told once. */
lk_zk_request *lk_zk_list_told_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
lk_zk_request *lk_zk_get_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
/* ... and have on_event told once. */
lk_zk_request *lk_zk_get_told_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
/* Replace a node's data, if its version is that one. */
lk_zk_request *lk_zk_set_locked(lk_zk_net *net, const char *path, const char *data, int32_t version,
                                lk_zk_done_fn done, void *context) LK_REQUIRES(*net);
lk_zk_request *lk_zk_delete_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
/* The same, and replace the data of the parent in one transaction, if its version is that one. */
lk_zk_request *lk_zk_delete_marked_locked(lk_zk_net *net, const char *path, const char *parent,
                                          const char *mark, int32_t version, lk_zk_done_fn done,
                                          void *context) LK_REQUIRES(*net);
/* Delete one node and make an ephemeral one, in one transaction. */
lk_zk_request *lk_zk_exchange_locked(lk_zk_net *net, const char *old, const char *path, const char *data,
                                     lk_zk_done_fn done, void *context) LK_REQUIRES(*net);
lk_zk_request *lk_zk_sync_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
/* A request that changes nothing, and that the leader has to order nevertheless. */
lk_zk_request *lk_zk_check_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
/* A request that changes nothing, and that any server answers by itself. */
lk_zk_request *lk_zk_touch_locked(lk_zk_net *net, lk_zk_done_fn done, void *context) LK_REQUIRES(*net);

/* Return when the latest request was sent that this connection has answered. What the server tells from now on happened after
 * that, or was told in its order. 0: no request was answered. */
int64_t lk_zk_heard_locked(const lk_zk_net *net) LK_REQUIRES(*net);

/* True if little enough is in flight for the requests of one more attempt, which has until then. 0: for what nobody waits for. */
bool lk_zk_has_room_locked(const lk_zk_net *net, int64_t until) LK_REQUIRES(*net);

/* Whether the server may or may not have done what was asked, or never got it: ask again. */
bool lk_zk_unknown(int rc);
/* What a definite refusal means; `doing` completes "while ...". */
locker_status lk_zk_error(int rc, const char *doing, const char *path, locker_error *err);

/* ---------------------------------------------------------------- many checks: requests.c ---- */
enum { LK_ZK_CHECKS_MAX = 1024 }; /* of one request */

/* A request that asks the leader whether nodes are there. From lk_zk_checks_new() to free(): by `done`, once it was sent. */
typedef struct {
    lk_zk_net *net; /* on which it was sent */
    size_t count;
    void *items[LK_ZK_CHECKS_MAX]; /* what each is about: its maker's */
    zoo_op_t ops[LK_ZK_CHECKS_MAX];
    zoo_op_result_t results[LK_ZK_CHECKS_MAX]; /* written by the client library */
    size_t used;
    char paths[96 * 1024]; /* a server closes a connection that sends more than its jute.maxbuffer: 1 MB */
} lk_zk_checks;

/* NULL: no memory. */
lk_zk_checks *lk_zk_checks_new(void);
/* Where the path goes that lk_zk_checks_add() takes next; NULL: no more fit. */
char *lk_zk_checks_path(lk_zk_checks *c);
void lk_zk_checks_add(lk_zk_checks *c, void *item);
/* Its context is `c`. False: not sent. */
bool lk_zk_checks_send_locked(lk_zk_net *net, lk_zk_checks *c, lk_zk_done_fn done) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- watch.c ---- */
/* Who is to tell of a node's end. */
typedef enum {
    LK_ZK_BY_US,         /* lk_zk_watchers_tell_locked() alone */
    LK_ZK_BY_SERVER,     /* which is asked at once */
    LK_ZK_BY_SERVER_SOON /* ... along with the next request */
} lk_zk_teller;

/* Have the node's end told to the watcher. False: no memory. */
bool lk_zk_watch_locked(lk_zk_net *net, lk_zk_watcher *watcher, const char *path, lk_zk_teller teller)
    LK_REQUIRES(*net);
/* Ask what waits for the next request. */
void lk_zk_watches_ask_locked(lk_zk_net *net) LK_REQUIRES(*net);
void lk_zk_unwatch_locked(lk_zk_net *net, lk_zk_watcher *watcher) LK_REQUIRES(*net);
/* Whether anything is watched at all. */
bool lk_zk_watches_any_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* The node goes, or has gone: whoever watches it is told, without a server. */
void lk_zk_watchers_tell_locked(lk_zk_net *net, const char *path) LK_REQUIRES(*net);
/* Ask again for those whose request was lost. */
void lk_zk_watches_resume_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Ask the leader whether the watched nodes are there. When one is missing of which the server has not told, it never will
 * (DESIGN.md, Lost and late watch events): another server is gone to, and the watchers are told. False: none is
 * watched. Without `ask` that is all that is done, unless the last question was lost, or the first node that is missing hid the
 * others. */
bool lk_zk_watches_check_locked(lk_zk_net *net, bool ask) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- callers: requests.c, connection.c, drive.c ---- */
/* A caller that waits for something; lives on its stack. Guarded by the mutex. */
typedef struct {
    lk_list link; /* in lk_zk_net.calls */
    pthread_cond_t cond;
    bool done;         /* what it waits for has happened */
    bool wants_up;     /* that is a connection */
    bool prompt;       /* ... unless nothing listens at any server */
    bool deserted;     /* that has been seen */
    bool hurried;      /* each attempt since then was refused: the next one is not put off */
    unsigned refusals; /* since then, in a row */
    bool asleep;       /* in cond, not driving */
    bool interrupted;
    int pending;   /* answers still to come */
    lk_list line;  /* in lk_zk_net.line, while it waits for room */
    bool let_in;   /* there is room for it */
    int64_t until; /* so long it waits for room */
} lk_zk_call;

typedef enum { LK_ZK_DONE, LK_ZK_LATE, LK_ZK_INTERRUPTED } lk_zk_outcome;

void lk_zk_call_begin_locked(lk_zk_net *net, lk_zk_call *call) LK_REQUIRES(*net);
/* Also forgets its requests, and sees to it that somebody goes on driving. */
void lk_zk_call_end_locked(lk_zk_net *net, lk_zk_call *call) LK_REQUIRES(*net);
/* It waits for the answer to this request as well, whose context is on its stack. False: that is NULL. */
bool lk_zk_call_expect_locked(lk_zk_call *call, lk_zk_request *request);
/* One of the answers that it expects is there. */
void lk_zk_call_answered_locked(lk_zk_call *call);
void lk_zk_call_done_locked(lk_zk_call *call);
/* Drive the connection, or sleep while another does, until call->done. Releases the mutex meanwhile. */
lk_zk_outcome lk_zk_await_unlocking(lk_zk_net *net, lk_zk_call *call, int64_t until) LK_REQUIRES(*net);
/* The same for a connection; LATE, too, when there won't be one. */
lk_zk_outcome lk_zk_await_up_unlocking(lk_zk_net *net, lk_zk_call *call, int64_t until) LK_REQUIRES(*net);
/* The same for room on the connection, for the requests of one attempt. Calls get it in the order in which they came. Also DONE
 * when the connection is lost. */
lk_zk_outcome lk_zk_await_room_unlocking(lk_zk_net *net, lk_zk_call *call, int64_t until) LK_REQUIRES(*net);
/* Before a server that was too busy for an answer is asked again: the same for a moment, unless the connection is lost. */
lk_zk_outcome lk_zk_pause_unlocking(lk_zk_net *net, lk_zk_call *call, int64_t until) LK_REQUIRES(*net);
void lk_zk_interrupt_locked(lk_zk_net *net, lk_zk_call *call) LK_REQUIRES(*net);
/* The keeper's turn of driving: no waiting. Returns when it wants another at the latest. */
int64_t lk_zk_drive_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* ... and its end, when it may have sent something since: the rest of what the socket did not take waits for room there,
 * and not for the next turn. Returns likewise. */
int64_t lk_zk_drive_on_locked(lk_zk_net *net) LK_REQUIRES(*net);
