/*
 * zookeeper.h: a simulated ZooKeeper of 1, 3 or 5 servers, as 3.8 and 3.9 are: a state machine without threads, sockets,
 * clock or randomness of its own. Who uses it gives it the time, and decides when each message between two servers, each
 * write to a disk and each change of a server's data happens; what is decided alike happens alike.
 *
 * A client has connections to servers. What it sends arrives at once, and an answer waits until it is received, so the
 * network between client and server is the caller's, too. Requests and answers are what goes over the wire, as structs.
 *
 * It lacks what our driver doesn't use: observers, reconfiguration, quotas, TTL nodes, local sessions, persistent
 * watches, SASL. Where memory is short it aborts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lk_simzk lk_simzk;
typedef struct lk_simzk_connection lk_simzk_connection;

enum { LK_SIMZK_SERVERS_MAX = 5 };

/* ---------------------------------------------------------------- requests and answers ---- */

/* The server's numbers; the client library has the same ones. */
typedef enum {
    LK_SIMZK_OK = 0,
    LK_SIMZK_RUNTIMEINCONSISTENCY = -2,
    LK_SIMZK_BADARGUMENTS = -8,
    LK_SIMZK_UNKNOWNSESSION = -12,
    LK_SIMZK_NONODE = -101,
    LK_SIMZK_NOAUTH = -102,
    LK_SIMZK_BADVERSION = -103,
    LK_SIMZK_NOCHILDRENFOREPHEMERALS = -108,
    LK_SIMZK_NODEEXISTS = -110,
    LK_SIMZK_NOTEMPTY = -111,
    LK_SIMZK_SESSIONEXPIRED = -112,
    LK_SIMZK_INVALIDACL = -114,
    LK_SIMZK_AUTHFAILED = -115,
    LK_SIMZK_SESSIONMOVED = -118,
    LK_SIMZK_NOWATCHER = -121
} lk_simzk_error;

typedef enum {
    LK_SIMZK_CREATE, /* answered by a path; the two others by a path and a stat */
    LK_SIMZK_CREATE2,
    LK_SIMZK_CREATE_CONTAINER,
    LK_SIMZK_DELETE,
    LK_SIMZK_SET,
    LK_SIMZK_CHECK, /* in a multi only */
    LK_SIMZK_MULTI,
    LK_SIMZK_EXISTS,
    LK_SIMZK_GET,
    LK_SIMZK_LIST,
    LK_SIMZK_SYNC,
    LK_SIMZK_PING,        /* answered with LK_SIMZK_PING_XID */
    LK_SIMZK_AUTH,        /* path: the scheme; data: credentials. Answered with LK_SIMZK_AUTH_XID */
    LK_SIMZK_SET_WATCHES, /* after a reconnection. Answered with LK_SIMZK_WATCHES_XID */
    LK_SIMZK_REMOVE_WATCHES,
    LK_SIMZK_CLOSE, /* the session */
    LK_SIMZK_ERROR  /* of a multi's results: one that failed */
} lk_simzk_kind;

enum { LK_SIMZK_EVENT_XID = -1, LK_SIMZK_PING_XID = -2, LK_SIMZK_AUTH_XID = -4, LK_SIMZK_WATCHES_XID = -8 };

/* How a node is created: bits, and a kind. */
enum { LK_SIMZK_EPHEMERAL = 1, LK_SIMZK_SEQUENTIAL = 2, LK_SIMZK_CONTAINER = 4 };

enum {
    LK_SIMZK_READ = 1,
    LK_SIMZK_WRITE = 2,
    LK_SIMZK_CREATES = 4,
    LK_SIMZK_DELETES = 8,
    LK_SIMZK_ADMIN = 16
};

enum { LK_SIMZK_CREATED = 1, LK_SIMZK_DELETED = 2, LK_SIMZK_CHANGED = 3, LK_SIMZK_CHILD = 4 };

typedef struct {
    const void *bytes;
    int32_t len; /* -1: none */
} lk_simzk_data;

typedef struct {
    int32_t perms;
    const char *scheme, *id;
} lk_simzk_ace;

typedef struct {
    const lk_simzk_ace *entries;
    size_t count;
} lk_simzk_acl;

typedef struct {
    const char *const *items;
    size_t count;
} lk_simzk_texts;

typedef struct {
    int64_t czxid, mzxid, ctime, mtime; /* times in ms of the leader's wall clock */
    int32_t version, cversion, aversion;
    int64_t ephemeral_owner;
    int32_t data_length, num_children;
    int64_t pzxid;
} lk_simzk_stat;

/* A request, or one of a multi's. Which members count depends on its kind. */
typedef struct {
    lk_simzk_kind kind;
    const char *path;
    lk_simzk_data data;
    lk_simzk_acl acl;
    int32_t mode;
    int32_t version; /* -1: any. Of REMOVE_WATCHES: 1 child, 2 data, 3 any */
    bool watch;
} lk_simzk_op;

typedef struct {
    int32_t xid; /* comes back with the answer; above 0 but for those kinds that have a number of their own */
    lk_simzk_op op;
    const lk_simzk_op *ops; /* of a multi */
    size_t count;
    int64_t
        seen; /* of SET_WATCHES: the last zxid that the client was answered; and the paths that it watches */
    lk_simzk_texts data_watches, exist_watches, child_watches;
} lk_simzk_request;

/* Of one of a multi. */
typedef struct {
    lk_simzk_kind kind;
    lk_simzk_error error;
    const char *path;
    lk_simzk_stat stat;
} lk_simzk_result;

typedef enum {
    LK_SIMZK_WELCOME, /* the first one: session, password and time-out; timeout_ms 0: the session has expired */
    LK_SIMZK_REPLY,
    LK_SIMZK_EVENT /* type and path */
} lk_simzk_answer_kind;

typedef struct {
    lk_simzk_answer_kind kind;
    int32_t xid;
    int64_t
        zxid; /* the last that the server has applied; of an event: of the change, or -1. A client keeps the highest */
    lk_simzk_error error;
    const char *path; /* NULL: none. Likewise below */
    bool has_stat;
    lk_simzk_stat stat;
    lk_simzk_data data;
    lk_simzk_texts names;
    const lk_simzk_result *results;
    size_t count; /* of them */
    int32_t type; /* of an event */
    int64_t session;
    uint64_t password;
    int32_t timeout_ms;
} lk_simzk_answer;

/* ---------------------------------------------------------------- its life, and time ---- */

/* A server's clock, by which it expires sessions and gives others up. */
typedef struct {
    int64_t offset_ns; /* not negative */
    int32_t ppm;       /* how much faster it runs */
} lk_simzk_clock;

/* What waits for the caller. */
typedef enum {
    LK_SIMZK_VOTES,  /* a message of an election */
    LK_SIMZK_QUORUM, /* a message between a leader and a follower */
    LK_SIMZK_DISK,   /* what a server writes to its disk: from and to are that server */
    LK_SIMZK_APPLY   /* a commit, which changes what a server shows: likewise */
} lk_simzk_channel;

enum { LK_SIMZK_CHANNELS = LK_SIMZK_APPLY + 1 };

/* In one link the order is kept. */
typedef struct {
    lk_simzk_channel channel;
    int from, to; /* servers count from 0 */
} lk_simzk_link;

typedef struct {
    int servers;
    /* Else 3.8: that tells no zxid with an event, takes CREATE2 in a multi for CREATE, and answers EXISTS to whoever may
     * not read. */
    bool is_3_9;
    int32_t tick_ms;                        /* 0: 2000; as in zoo.cfg, likewise below */
    int32_t init_limit, sync_limit;         /* in ticks; 0: 10 and 5 */
    int32_t min_timeout_ms, max_timeout_ms; /* of sessions; 0: 2 and 20 ticks */
    int32_t container_check_ms;             /* how often empty containers are removed; 0: 60000 */
    lk_simzk_clock clocks[LK_SIMZK_SERVERS_MAX];
    /* Told of each message, write or commit that begins to wait, and of each answer, or end of a connection; they
     * must not call anything here. NULL: nobody is told. */
    void (*on_waiting)(void *context, lk_simzk_link link);
    void (*on_answer)(void *context, lk_simzk_connection *connection);
    /* A server is about to remove a node because its session has ended; likewise. */
    void (*on_ended)(void *context, int64_t czxid);
    void *context;
} lk_simzk_setup;

/* All servers run, and have no data. Time is 0. */
lk_simzk *lk_simzk_new(const lk_simzk_setup *setup);
/* Connections have to be given back before. NULL is allowed. */
void lk_simzk_free(lk_simzk *z);

/* Have it be that time: whatever is due until then is done, in order. */
void lk_simzk_advance(lk_simzk *z, int64_t now_ns);
int64_t lk_simzk_now(const lk_simzk *z);
/* When something is due next; INT64_MAX: never. */
int64_t lk_simzk_due(const lk_simzk *z);

/* ---------------------------------------------------------------- what waits ---- */

size_t lk_simzk_waiting(const lk_simzk *z, lk_simzk_link link);
/* Do the first of the link. False: nothing waits there, or the server that it goes to is stopped. */
bool lk_simzk_deliver(lk_simzk *z, lk_simzk_link link);
/* Until nothing can be delivered any more. */
void lk_simzk_settle(lk_simzk *z);
/* Break the connections between two servers: what is on its way is lost, and both see that at once. */
void lk_simzk_break(lk_simzk *z, int one, int other);

/* ---------------------------------------------------------------- servers ---- */

/* SIGSTOP: it does nothing; what is sent to it waits. */
void lk_simzk_stop(lk_simzk *z, int server);
/* What was due meanwhile is done by the next lk_simzk_advance(), so the caller decides what comes first. */
void lk_simzk_continue(lk_simzk *z, int server);
/* It ends. written: what waits for its disk gets there, as when a process is killed; else it is lost. */
void lk_simzk_crash(lk_simzk *z, int server, bool written);
/* ... and starts again, with its data or with none. */
void lk_simzk_start(lk_simzk *z, int server, bool with_data);

/* The server that leads and serves; -1: none. A former one may not know yet that it is none any more: the one of the
 * latest epoch is answered. */
int lk_simzk_leader(const lk_simzk *z);
/* Whether it runs and serves clients. */
bool lk_simzk_serves(const lk_simzk *z, int server);
/* The last zxid that it has applied. */
int64_t lk_simzk_applied(const lk_simzk *z, int server);
/* Whether the leader has the session, and is not ending it. False too when nobody leads. */
bool lk_simzk_has_session(const lk_simzk *z, int64_t session);
/* What the leader has of sessions, of their nodes, and of nodes that last, beyond those of the server itself, or that
 * nobody leads; false: nothing. */
bool lk_simzk_left(const lk_simzk *z, char *text, size_t room);
/* Have each server count so many children of a node so far, whatever it has: for what happens when numbers end. */
void lk_simzk_count_children(lk_simzk *z, const char *path, int32_t cversion);

/* ---------------------------------------------------------------- clients ---- */

typedef struct {
    int64_t session; /* 0: a new one */
    uint64_t password;
    int32_t timeout_ms;
    int64_t seen; /* the last zxid that it was answered */
} lk_simzk_hello;

/* NULL: nothing listens there. Else to be given back to lk_simzk_disconnect(). */
lk_simzk_connection *lk_simzk_connect(lk_simzk *z, int server, const lk_simzk_hello *hello);
/* The request is copied. What a server that has closed is sent is lost. */
void lk_simzk_send(lk_simzk_connection *c, const lk_simzk_request *request);
/* The next answer, to be freed; NULL: none yet. */
lk_simzk_answer *lk_simzk_receive(lk_simzk_connection *c);
void lk_simzk_answer_free(lk_simzk_answer *answer);
/* The server has closed it, and all its answers have been received. */
bool lk_simzk_is_closed(const lk_simzk_connection *c);
/* Closes it and frees it, with what was not received. NULL is allowed. */
void lk_simzk_disconnect(lk_simzk_connection *c);
