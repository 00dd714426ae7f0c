/* net.h: a connection to an etcd cluster, and nothing of what it is used for: gRPC over HTTP/2 (nghttp2, protobuf-c), driven by
 * its callers' threads. It goes from endpoint to endpoint, logs in, keeps requests with who waits for them, and one stream of
 * watches.
 *
 * A mutex guards all of it, and what its owner has. Nothing in here but what is called ..._unlocking waits. */
#pragma once

#include <locker/driver.h>

#include "etcd.pb-c.h"
#include "lk_list.h"
#include "lk_mutex.h"
#include "lk_table.h"

typedef struct lk_etcd lk_etcd; /* the owner */
typedef struct LK_CHECKED(capability("mutex")) lk_etcd_net lk_etcd_net;
typedef struct lk_etcd_request lk_etcd_request;

/* ---------------------------------------------------------------- answers ---- */
/* gRPC's codes that we tell apart (https://grpc.github.io/grpc/core/md_doc_statuscodes.html). */
enum {
    LK_ETCD_TOO_LARGE = -2, /* the answer is more than is taken; done or not */
    LK_ETCD_LOST = -1,      /* no answer comes: the connection has ended, or the stream; done or not */
    LK_ETCD_OK = 0,
    LK_ETCD_CANCELLED = 1,
    LK_ETCD_UNKNOWN = 2,
    LK_ETCD_INVALID_ARGUMENT = 3,
    LK_ETCD_DEADLINE_EXCEEDED = 4,
    LK_ETCD_NOT_FOUND = 5,
    LK_ETCD_PERMISSION_DENIED = 7,
    LK_ETCD_RESOURCE_EXHAUSTED = 8,  /* but for "too many requests", which is told as UNAVAILABLE */
    LK_ETCD_FAILED_PRECONDITION = 9, /* but for what another member may do, likewise */
    LK_ETCD_ABORTED = 10,
    LK_ETCD_OUT_OF_RANGE = 11,
    LK_ETCD_UNIMPLEMENTED = 12,
    LK_ETCD_INTERNAL = 13,
    LK_ETCD_UNAVAILABLE = 14,
    LK_ETCD_UNAUTHENTICATED = 16
};

typedef struct {
    int status;                      /* gRPC's, LK_ETCD_LOST or LK_ETCD_TOO_LARGE */
    const char *text;                /* what the server says about it, for people; "" where it says nothing */
    int64_t sent;                    /* when the request was about to be sent */
    const ProtobufCMessage *message; /* with LK_ETCD_OK: of the method's type; valid during the call only */
} lk_etcd_reply;

/* Called once for each request, with the mutex; it may send others. */
typedef void (*lk_etcd_done_fn)(lk_etcd *e, void *context, const lk_etcd_reply *reply);

/* Whether what was asked may or may not have been done, or may be later: ask again. Else it was not. */
bool lk_etcd_unknown(int status);
/* What a definite refusal means; `doing` completes "while ...". Returns the status that is in `err`. */
locker_status lk_etcd_error(const lk_etcd_reply *reply, const char *doing, const char *key,
                            locker_error *err);

/* ---------------------------------------------------------------- what its owner is told, with the mutex ---- */
typedef struct lk_etcd_watcher lk_etcd_watcher;
typedef struct {
    void (*on_up)(lk_etcd *e); /* a connection is there, logged in */
    /* It has ended: all requests have had their LOST, and watchers their on_gone. */
    void (*on_down)(lk_etcd *e);
    /* The watched key was deleted, or may have been, as its watch is no more; the watcher is in none now. `revision`: of
     * the deletion; 0: it isn't known. */
    void (*on_gone)(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision);
    /* The watch is there. One from now on tells of what comes after this revision. */
    void (*on_watched)(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision);
} lk_etcd_owner;

/* ---------------------------------------------------------------- its life: open.c ---- */
extern const locker_parameter lk_etcd_params[];

/* Connect for the first time, until connect_timeout. On failure nothing is left. The driver's parameters are config->values. */
locker_status lk_etcd_net_open(lk_etcd_net **out, lk_etcd *e, const lk_etcd_owner *owner,
                               const locker_driver_config *config, const locker_services *svc,
                               locker_error *err) LK_UNCHECKED;
/* Nothing else uses it any more: every request has its LOST, watchers are forgotten. NULL is allowed. */
void lk_etcd_net_free(lk_etcd_net *net) LK_UNCHECKED;
/* In a fork's child: close the descriptors, touch nothing else. */
void lk_etcd_net_abandon(const lk_etcd_net *net) LK_UNCHECKED;
/* For core to wait for, and to have the keeper called: an epoll descriptor. */
int lk_etcd_net_descriptor(const lk_etcd_net *net);
/* The endpoints, as a text for people. */
const char *lk_etcd_net_names(const lk_etcd_net *net);
int64_t lk_etcd_now(const lk_etcd_net *net);

/* ---------------------------------------------------------------- the mutex, the keeper: drive.c ---- */
void lk_etcd_enter(lk_etcd_net *net) LK_ACQUIRE(*net);
/* Unlock, after what is to be sent has been handed to the socket. */
void lk_etcd_leave(lk_etcd_net *net) LK_RELEASE(*net);
/* Have the keeper come by `at` at the latest. It is rung only if it means to come later. */
void lk_etcd_keeper_by_locked(lk_etcd_net *net, int64_t at) LK_REQUIRES(*net);
/* The keeper's turn: reads what has come, connects, gives up what is silent. No waiting. Returns when it wants another. */
int64_t lk_etcd_turn_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* The end of that turn: what was to be sent goes out; the keeper means to come at `next`; returns that, or what somebody has
 * wanted sooner. Nobody who waits may be left without a reader. */
int64_t lk_etcd_turn_ends_locked(lk_etcd_net *net, int64_t next) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- the connection: connection.c ---- */
bool lk_etcd_is_up_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* How long the oldest request may be unanswered before another endpoint is gone to, and where this one answers others meanwhile: set
 * by the owner as its leases want it. */
void lk_etcd_patience_locked(lk_etcd_net *net, int64_t ns, int64_t busy_ns) LK_REQUIRES(*net);
/* Go to the next endpoint, soon: this one is of no use. It isn't up from now on; the rest is told later, not in here. */
void lk_etcd_leave_member_locked(lk_etcd_net *net, const char *why) LK_REQUIRES(*net);
/* Why there is no connection, or no answer. UNAVAILABLE, DENIED, PROTOCOL or CONFIG. */
locker_status lk_etcd_away_locked(const lk_etcd_net *net, locker_error *err) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- requests: requests.c ---- */
typedef struct {
    const char *path; /* as in "/etcdserverpb.KV/Txn" */
    const ProtobufCMessageDescriptor *answer;
} lk_etcd_method;
extern const lk_etcd_method lk_etcd_range, lk_etcd_put, lk_etcd_txn, lk_etcd_lease_grant,
    lk_etcd_lease_revoke, lk_etcd_lease_ask, lk_etcd_login, lk_etcd_status, lk_etcd_member_list;

/* `message` is packed before it returns. NULL: not sent (no connection, no memory), no `done`. */
lk_etcd_request *lk_etcd_send_locked(lk_etcd_net *net, const lk_etcd_method *method,
                                     const ProtobufCMessage *message, lk_etcd_done_fn done, void *context)
    LK_REQUIRES(*net);
/* Nobody wants its answer any more: `done` isn't called. It is let go on at the server, not reset. Not after `done`: there is
 * no such request then. */
void lk_etcd_forget_locked(lk_etcd_request *request);

/* ---------------------------------------------------------------- the member's reads: member.c ---- */
/* The id of the member whose reads are of no time before they were asked for; 0: none, or that isn't known. */
uint64_t lk_etcd_prover_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* That member has answered a read. If it is another one than was asked for its version, what we are connected to hands requests to several
 * members, and none of them is believed any more. */
void lk_etcd_answered_by_locked(lk_etcd_net *net, uint64_t member) LK_REQUIRES(*net);
/* Ask again whether the member is alone, where that is why its reads prove something: a cluster may grow. */
void lk_etcd_count_members_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- callers that wait: drive.c ---- */
/* On a caller's stack. Guarded by the mutex. */
typedef struct {
    lk_list link; /* in lk_etcd_net.calls */
    pthread_cond_t cond;
    bool done;   /* what it waits for has happened: set it by lk_etcd_call_done_locked() */
    bool asleep; /* in cond, not driving */
    bool interrupted;
    bool wants_up;     /* what it waits for is a connection */
    bool prompt;       /* ... or that none of the endpoints gives one */
    unsigned failures; /* attempts to connect that have failed meanwhile */
    bool deserted;     /* ... and every endpoint has refused one, or failed, since it began */
} lk_etcd_call;
typedef enum { LK_ETCD_CALL_DONE, LK_ETCD_CALL_LATE, LK_ETCD_CALL_INTERRUPTED } lk_etcd_outcome;

void lk_etcd_call_begin_locked(lk_etcd_net *net, lk_etcd_call *call) LK_REQUIRES(*net);
/* Also sees to it that somebody goes on driving. */
void lk_etcd_call_end_locked(lk_etcd_net *net, lk_etcd_call *call) LK_REQUIRES(*net);
void lk_etcd_call_done_locked(lk_etcd_net *net, lk_etcd_call *call) LK_REQUIRES(*net);
void lk_etcd_interrupt_locked(lk_etcd_net *net, lk_etcd_call *call) LK_REQUIRES(*net);
/* Drive the connection, or sleep while another does, until call->done. Releases the mutex meanwhile. An interrupted call that
 * is done is DONE. */
lk_etcd_outcome lk_etcd_await_unlocking(lk_etcd_net *net, lk_etcd_call *call, int64_t until)
    LK_REQUIRES(*net);
/* The same for a connection. LATE also when a login was refused, and with `prompt` when every endpoint has failed since it
 * began. */
lk_etcd_outcome lk_etcd_await_up_unlocking(lk_etcd_net *net, lk_etcd_call *call, bool prompt, int64_t until)
    LK_REQUIRES(*net);

/* ---------------------------------------------------------------- watches: watch.c ---- */
struct lk_etcd_watcher {
    lk_table_link by_id; /* in lk_etcd_net.watchers */
    int64_t id;          /* 0: it watches nothing */
};
/* Have the deletion of the key told, or the first of those from it up to `end` (empty: it alone), from `revision` on; 0: from now
 * on, as on_watched says. What is told from a revision that has passed is told late: a server looks at those watches ten times
 * a second; and where a compaction comes between, it may leave a deletion out (etcd#18089, #19179). False: no connection, no memory. */
bool lk_etcd_watch_locked(lk_etcd_net *net, lk_etcd_watcher *watcher, ProtobufCBinaryData key,
                          ProtobufCBinaryData end, int64_t revision) LK_REQUIRES(*net);
/* Nothing is told of it any more. One that watches nothing is allowed. */
void lk_etcd_unwatch_locked(lk_etcd_net *net, lk_etcd_watcher *watcher) LK_REQUIRES(*net);
