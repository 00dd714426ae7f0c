/* socket.h: a socket to a Redis server, plain or TLS, with the parser of its replies. dial.c makes
 * sockets, handshake.c logs in over them, pipeline.c and subscription.c use them. A socket has no lock: at
 * most one thread may receive, and at most one thread may send.
 *
 * The guard bounds what a server may send. Our replies are small and flat, but a parser believes each
 * length that it reads. So the guard looks at each byte before the parser gets it. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster.h"
#include "target.h"
#include "tls.h"

/* ---------------------------------------------------------------- bounds on replies ---- */

enum {
    LK_REDIS_GUARD_LINE = 16 * 1024,    /* bytes of a line: a parser may search for its end again and again */
    LK_REDIS_GUARD_REPLY = 1024 * 1024, /* bytes of a reply: the longest one lists a thousand waiters */
    LK_REDIS_GUARD_ELEMENTS = 65536,    /* elements of a reply, including those of inner arrays */
    LK_REDIS_GUARD_DEPTH = 4,           /* depth of arrays inside arrays */
    LK_REDIS_GUARD_PASSING =
        128 * 1024 * 1024, /* bytes of a reply that is hardly kept; its elements are bounded in each array */
};

/* The position in a stream of replies. Zero at the start, except for `passing`. */
typedef struct {
    size_t number;                     /* number of replies before this one */
    size_t passing;                    /* from 1: the number of the reply that is hardly kept; 0: none */
    size_t bytes;                      /* bytes of this reply so far */
    size_t elements;                   /* elements that this reply has announced */
    size_t line;                       /* bytes of this line's text so far; 0: the next byte is a type */
    size_t skip;                       /* bytes of a string, with its end, that are still to come */
    size_t left[LK_REDIS_GUARD_DEPTH]; /* elements that are still to come in each open array */
    unsigned depth;                    /* number of open arrays */
    char head[16];                     /* the beginning of the line; all of a line with a length */
    bool ended;                        /* the line's carriage return has come */
} lk_redis_guard;

/* Return true if the parser may get these bytes. False: give up the stream. */
bool lk_redis_guard_allows(lk_redis_guard *guard, const char *data, size_t len);

/* ---------------------------------------------------------------- a socket ---- */

enum { LK_REDIS_SERVER_ID_LEN = 40 };

/* The life of a server: INFO's run_id and master_replid. "": not known. */
typedef struct {
    char run[LK_REDIS_SERVER_ID_LEN + 1];         /* changes with each restart */
    char replication[LK_REDIS_SERVER_ID_LEN + 1]; /* changes with each promotion */
} lk_redis_server;

typedef struct {
    int fd;               /* close-on-exec */
    redisReader *reader;  /* used by the receiving thread */
    lk_redis_guard guard; /* checks bytes before the parser gets them; used by the receiving thread */
    lk_tls *tls;          /* NULL: plain */
    short send_waits;     /* the poll events to wait for after EAGAIN; used by the sending thread */
    bool
        unsent; /* TLS holds bytes for which POLLOUT and another call are needed; used by the sending thread */
    bool more;  /* TLS holds received bytes that poll does not see; used by the receiving thread */
    int64_t server_us; /* the server's time in us at the handshake; 0: not known */
    int64_t server_at; /* when that answer came, in ns of the system's clock */
    lk_redis_server server;
    lk_redis_map *map;            /* of a cluster: the map from the handshake; NULL: none, or taken */
    bool evicts;                  /* the server deletes keys when its memory is full */
    int64_t replicas;             /* number of the master's replicas at the handshake; 0 also: not known */
    int64_t client_id;            /* the server's id of this connection; 0: not known */
    unsigned via;                 /* the host in the target's list that led to it, from 1 on; 0: none */
    lk_redis_address address;     /* the peer's address; of length 0 for a Unix socket */
    char peer[LK_REDIS_PEER_MAX]; /* "host:port" or the socket's path, for texts and comparisons */
} lk_redis_socket;

/* Make a socket that owns the connected `fd` from now on, also if this fails. The caller sets `tls` later. */
lk_redis_socket *lk_redis_socket_new(int fd, const char *peer);

/* Close and free the socket. NULL is allowed. `reset`: drop unsent bytes, so that a command that was given
 * up cannot reach the server after commands of a later connection. */
void lk_redis_socket_free(lk_redis_socket *socket, bool reset);

/* Like send() and recv() without blocking: -1 and errno, or EAGAIN; receive: 0 at the end. Never raises
 * SIGPIPE. */
ssize_t lk_redis_socket_send(lk_redis_socket *socket, const char *data, size_t len);
ssize_t lk_redis_socket_receive(lk_redis_socket *socket, char *data, size_t cap);

/* Receive like that, but sleep until something comes, for LK_REDIS_NAP_NS at most, or until a signal.
 * Plain sockets only. */
#define LK_REDIS_NAP_NS (5 * LK_MS)
ssize_t lk_redis_socket_nap(lk_redis_socket *socket, char *data, size_t cap);

/* Poll for `events`. Returns 0 or an errno. */
int lk_redis_wait_for(int fd, short events, int64_t until);

/* Take the next complete reply from the parser: 1 and *reply; 0: none yet; -1: not Redis, or no memory. */
int lk_redis_socket_next_reply(lk_redis_socket *socket, redisReply **reply);

/* Feed received bytes to the parser. Returns 0 or an errno: ENOMEM, or EPROTO for bytes that are no
 * allowed reply. */
int lk_redis_socket_feed(lk_redis_socket *socket, const char *data, size_t len);

/* Send `len` bytes, and read `count` replies into `replies`, which are NULL before. Waits until `until`
 * (system clock) at most. Frees nothing: if it fails, the replies that came are in place. Returns 0 or an
 * errno; EPROTO: not Redis. */
int lk_redis_socket_exchange(lk_redis_socket *socket, const char *data, size_t len, redisReply **replies,
                             size_t count, int64_t until);
