/* net.h: a connection to an etcd cluster: gRPC over HTTP/2 (nghttp2, protobuf-c), driven by its callers'
 * threads. This floor does not know what the connection is used for. It goes from endpoint to endpoint,
 * logs in, keeps requests with the functions that take their answers, and one stream of watches. A mutex
 * guards all of this, and what the owner has. Only functions named ..._unlocking wait. */
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
/* The gRPC codes that the driver distinguishes (https://grpc.github.io/grpc/core/md_doc_statuscodes.html). */
enum {
    LK_ETCD_TOO_LARGE =
        -2, /* the answer is larger than the driver accepts; the server may have carried out the request */
    LK_ETCD_LOST =
        -1, /* the connection or the stream has ended without an answer; the server may have carried out the request */
    LK_ETCD_OK = 0,
    LK_ETCD_CANCELLED = 1,
    LK_ETCD_UNKNOWN = 2,
    LK_ETCD_INVALID_ARGUMENT = 3,
    LK_ETCD_DEADLINE_EXCEEDED = 4,
    LK_ETCD_NOT_FOUND = 5,
    LK_ETCD_PERMISSION_DENIED = 7,
    LK_ETCD_RESOURCE_EXHAUSTED = 8,  /* "too many requests" is reported as UNAVAILABLE instead */
    LK_ETCD_FAILED_PRECONDITION = 9, /* if another member may do it, UNAVAILABLE is reported instead */
    LK_ETCD_ABORTED = 10,
    LK_ETCD_OUT_OF_RANGE = 11,
    LK_ETCD_UNIMPLEMENTED = 12,
    LK_ETCD_INTERNAL = 13,
    LK_ETCD_UNAVAILABLE = 14,
    LK_ETCD_UNAUTHENTICATED = 16
};

typedef struct {
    int status;       /* a gRPC code, LK_ETCD_LOST or LK_ETCD_TOO_LARGE */
    const char *text; /* the server's text for people; "": it sent none */
    int64_t sent;     /* a time before the request was sent */
    const ProtobufCMessage
        *message; /* with LK_ETCD_OK: a message of the method's type, valid during the call only */
} lk_etcd_reply;

/* Called once for each request, with the mutex. It may send other requests. */
typedef void (*lk_etcd_done_fn)(lk_etcd *e, void *context, const lk_etcd_reply *reply);

/* Return true if the server may have carried out the request, or may do so later. Then ask again. */
bool lk_etcd_unknown(int status);
/* Fill err with the meaning of a definite refusal, and return its status. `doing` completes "while ...". */
locker_status lk_etcd_error(const lk_etcd_reply *reply, const char *doing, const char *key,
                            locker_error *err);

/* ---------------------------------------------------------------- events for the owner, with the mutex ---- */
typedef struct lk_etcd_watcher lk_etcd_watcher;
typedef struct {
    void (*on_up)(lk_etcd *e); /* A connection is up and logged in. */
    /* The connection has ended. All requests got LOST, and all watchers on_gone. */
    void (*on_down)(lk_etcd *e);
    /* The watched key was deleted, or its watch has ended. The watcher watches nothing now. `revision`: of
     * the deletion; 0: not known. */
    void (*on_gone)(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision);
    /* The watch exists. A watch "from now on" reports what comes after this revision. */
    void (*on_watched)(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision);
} lk_etcd_owner;

/* ---------------------------------------------------------------- its life: open.c ---- */
extern const locker_parameter lk_etcd_params[];

/* Connect for the first time, until connect_timeout. On failure nothing is left. config->values are the
 * driver's parameters. */
locker_status lk_etcd_net_open(lk_etcd_net **out, lk_etcd *e, const lk_etcd_owner *owner,
                               const locker_driver_config *config, const locker_services *svc,
                               locker_error *err) LK_UNCHECKED;
/* Free the connection, which nothing uses any more: requests end with LOST, watchers are forgotten. NULL
 * is allowed. */
void lk_etcd_net_free(lk_etcd_net *net) LK_UNCHECKED;
/* In a fork's child: close the descriptors, and touch nothing else. */
void lk_etcd_net_abandon(const lk_etcd_net *net) LK_UNCHECKED;
/* Return an epoll descriptor. When it is readable, core calls the keeper. */
int lk_etcd_net_descriptor(const lk_etcd_net *net);
/* Return the endpoints as a text for people. */
const char *lk_etcd_net_names(const lk_etcd_net *net);
int64_t lk_etcd_now(const lk_etcd_net *net);

/* ---------------------------------------------------------------- the mutex, the keeper: drive.c ---- */
void lk_etcd_enter(lk_etcd_net *net) LK_ACQUIRE(*net);
/* Hand the pending bytes to the socket, then unlock. */
void lk_etcd_leave(lk_etcd_net *net) LK_RELEASE(*net);
/* Have the keeper come at the time `at` or before. This wakes the keeper only if it would come later. */
void lk_etcd_keeper_by_locked(lk_etcd_net *net, int64_t at) LK_REQUIRES(*net);
/* Take the keeper's turn: read, connect, give up a silent server. Does not wait. Return when
 * the next turn is due. */
int64_t lk_etcd_turn_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* End the turn: send pending bytes, and make sure that some thread reads for all calls that wait.
 * Return `next`, or an earlier time for which the keeper was called. */
int64_t lk_etcd_turn_ends_locked(lk_etcd_net *net, int64_t next) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- the connection: connection.c ---- */
bool lk_etcd_is_up_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* Set how long the oldest request may be unanswered before the driver leaves the endpoint: `ns`, or
 * `busy_ns` if the endpoint answers other requests. The owner derives these from its leases. */
void lk_etcd_patience_locked(lk_etcd_net *net, int64_t ns, int64_t busy_ns) LK_REQUIRES(*net);
/* Leave the useless endpoint soon. The connection is not up from now on. The events come later, not in
 * this call. */
void lk_etcd_leave_member_locked(lk_etcd_net *net, const char *why) LK_REQUIRES(*net);
/* Say why there is no connection, or no answer. Returns UNAVAILABLE, DENIED, PROTOCOL or CONFIG. */
locker_status lk_etcd_away_locked(const lk_etcd_net *net, locker_error *err) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- requests: requests.c ---- */
typedef struct {
    const char *path; /* such as "/etcdserverpb.KV/Txn" */
    const ProtobufCMessageDescriptor *answer;
} lk_etcd_method;
extern const lk_etcd_method lk_etcd_range, lk_etcd_put, lk_etcd_txn, lk_etcd_lease_grant,
    lk_etcd_lease_revoke, lk_etcd_lease_ask, lk_etcd_login, lk_etcd_status, lk_etcd_member_list;

/* Send a request. `message` is packed before this returns. NULL: not sent (no connection, no memory), and
 * `done` is not called. */
lk_etcd_request *lk_etcd_send_locked(lk_etcd_net *net, const lk_etcd_method *method,
                                     const ProtobufCMessage *message, lk_etcd_done_fn done, void *context)
    LK_REQUIRES(*net);
/* Forget a request: `done` is not called. The server may still carry it out. Not allowed after `done`,
 * because the request is gone then. */
void lk_etcd_forget_locked(lk_etcd_request *request);

/* ---------------------------------------------------------------- the member's reads: member.c ---- */
/* Return the id of the member whose reads are never stale; 0: there is none, or it is not known. */
uint64_t lk_etcd_prover_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* This member has answered a read. If it is another member than was asked for its version, the endpoint
 * hands requests to several members. Then no read counts. */
void lk_etcd_answered_by_locked(lk_etcd_net *net, uint64_t member) LK_REQUIRES(*net);
/* Ask again whether the cluster has only one member, if this is why its reads count: a cluster may grow. */
void lk_etcd_count_members_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- callers that wait: drive.c ---- */
/* A call that waits, on its caller's stack. The mutex guards it. */
typedef struct {
    lk_list link; /* in lk_etcd_net.calls */
    pthread_cond_t cond;
    bool done;   /* what the call waits for has happened; set by lk_etcd_call_done_locked() */
    bool asleep; /* it sleeps in `cond`, and does not drive */
    bool interrupted;
    bool wants_up;     /* it waits for a connection */
    bool prompt;       /* it waits only until all endpoints have failed */
    unsigned failures; /* failed attempts to connect since it began */
    bool deserted;     /* every endpoint has refused or failed since it began */
} lk_etcd_call;
typedef enum { LK_ETCD_CALL_DONE, LK_ETCD_CALL_LATE, LK_ETCD_CALL_INTERRUPTED } lk_etcd_outcome;

void lk_etcd_call_begin_locked(lk_etcd_net *net, lk_etcd_call *call) LK_REQUIRES(*net);
/* End the call, and make sure that another thread goes on driving. */
void lk_etcd_call_end_locked(lk_etcd_net *net, lk_etcd_call *call) LK_REQUIRES(*net);
void lk_etcd_call_done_locked(lk_etcd_net *net, lk_etcd_call *call) LK_REQUIRES(*net);
void lk_etcd_interrupt_locked(lk_etcd_net *net, lk_etcd_call *call) LK_REQUIRES(*net);
/* Drive the connection, or sleep while another call drives, until call->done. Releases the mutex
 * meanwhile. A call that is interrupted and done is DONE. */
lk_etcd_outcome lk_etcd_await_unlocking(lk_etcd_net *net, lk_etcd_call *call, int64_t until)
    LK_REQUIRES(*net);
/* Wait for a connection in the same way. LATE also if a login was refused, and with `prompt` if every
 * endpoint has failed. */
lk_etcd_outcome lk_etcd_await_up_unlocking(lk_etcd_net *net, lk_etcd_call *call, bool prompt, int64_t until)
    LK_REQUIRES(*net);

/* ---------------------------------------------------------------- watches: watch.c ---- */
struct lk_etcd_watcher {
    lk_table_link by_id; /* in lk_etcd_net.watchers */
    int64_t id;          /* 0: it watches nothing */
};
/* Watch for the deletion of the key, or of the first deleted key from it up to `end` (empty: of that key
 * only), from `revision` on. Revision 0: from now on, as on_watched reports. A server handles watches from
 * a past revision only ten times a second. If a compaction comes in between, it may omit a deletion
 * (etcd#18089, #19179). False: no connection, or no memory. */
bool lk_etcd_watch_locked(lk_etcd_net *net, lk_etcd_watcher *watcher, ProtobufCBinaryData key,
                          ProtobufCBinaryData end, int64_t revision) LK_REQUIRES(*net);
/* End the watch, so that it reports nothing more. A watcher without a watch is allowed. */
void lk_etcd_unwatch_locked(lk_etcd_net *net, lk_etcd_watcher *watcher) LK_REQUIRES(*net);
