/* socket.h: one socket to a Redis server, plain or TLS, with the parser of its replies. dial.c makes sockets,
 * handshake.c logs in over them, pipeline.c and subscription.c use them. A socket takes no lock: its user sees to it
 * that at most one thread receives and at most one thread sends.
 *
 * The guard bounds what a server may send: our replies are small and flat, but a parser believes each length that it reads. So the guard
 * looks at each byte before the parser gets it. */
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
    LK_REDIS_GUARD_LINE = 16 * 1024,    /* bytes of a line, whose end a parser may look for again each time */
    LK_REDIS_GUARD_REPLY = 1024 * 1024, /* bytes of a reply: the longest tells of a thousand waiters */
    LK_REDIS_GUARD_ELEMENTS = 65536,    /* elements of a reply, those of arrays inside included */
    LK_REDIS_GUARD_DEPTH = 4,           /* arrays inside of arrays */
    LK_REDIS_GUARD_PASSING = 128 * 1024 * 1024, /* bytes of a reply of which little is kept; its elements are
                                                   bounded for each array */
};

/* How far a stream of replies was read. Zero at its start, but for `passing`. */
typedef struct {
    size_t number;                     /* so many replies came before this one */
    size_t passing;                    /* from 1: of which reply little is kept; 0: of none */
    size_t bytes;                      /* of this reply */
    size_t elements;                   /* announced in this reply */
    size_t line;                       /* of this line's text; 0: the next byte says what comes */
    size_t skip;                       /* bytes of a string, and its end, that are still to come */
    size_t left[LK_REDIS_GUARD_DEPTH]; /* elements still to come of each array that is open */
    unsigned depth;                    /* how many are open */
    char head[16];                     /* the line's begin: all of one with a length */
    bool ended;                        /* its carriage return came */
} lk_redis_guard;

/* Whether these bytes may go on to the parser. False: the stream is to be given up. */
bool lk_redis_guard_allows(lk_redis_guard *guard, const char *data, size_t len);

/* ---------------------------------------------------------------- a socket ---- */

enum { LK_REDIS_SERVER_ID_LEN = 40 };

/* Which life of which server it is: INFO's run_id and master_replid. "": it does not tell. */
typedef struct {
    char run[LK_REDIS_SERVER_ID_LEN + 1];         /* another after each restart */
    char replication[LK_REDIS_SERVER_ID_LEN + 1]; /* another after each promotion */
} lk_redis_server;

typedef struct {
    int fd;               /* close-on-exec */
    redisReader *reader;  /* belongs to the receiving thread */
    lk_redis_guard guard; /* ... as does this, which stands before it */
    lk_tls *tls;          /* NULL: plain */
    short
        send_waits; /* what poll has to tell before more can be sent, when there was EAGAIN; of the sending thread */
    bool unsent;       /* TLS: bytes that were taken wait for POLLOUT, and another call; likewise */
    bool more;         /* TLS has bytes in it that poll knows nothing of; of the receiving thread */
    int64_t server_us; /* the server's time in us as the handshake learned it; 0: it did not */
    int64_t server_at; /* ... and when that came, in ns of the system's clock */
    lk_redis_server server;
    lk_redis_map
        *map;    /* of a cluster, as the handshake learned it; NULL: it did not. Who takes it leaves NULL */
    bool evicts; /* it deletes keys when its memory is full, as the handshake learned */
    int64_t replicas;             /* that the master had at the handshake; 0 also: it did not tell */
    int64_t client_id;            /* what the server calls this connection; 0: not known */
    unsigned via;                 /* the host of the target's list that led to it, from 1 on; 0: none did */
    lk_redis_address address;     /* that of the peer; of no length for a Unix socket */
    char peer[LK_REDIS_PEER_MAX]; /* "host:port" or the socket's path, for messages and comparisons */
} lk_redis_socket;

/* A socket on a connected socket, which it owns from then on, also when it fails. `tls`: set by its maker afterwards. */
lk_redis_socket *lk_redis_socket_new(int fd, const char *peer);

/* Close and free; NULL is allowed. `reset`: throw away what the kernel has not sent yet, so that a command
 * given up can't reach the server after what a later connection says. */
void lk_redis_socket_free(lk_redis_socket *socket, bool reset);

/* As send() and recv(), non-blocking: -1 and errno, EAGAIN; receive: 0 at the end. Never raises SIGPIPE. */
ssize_t lk_redis_socket_send(lk_redis_socket *socket, const char *data, size_t len);
ssize_t lk_redis_socket_receive(lk_redis_socket *socket, char *data, size_t cap);

/* The same, but asleep until something comes, for LK_REDIS_NAP_NS or until a signal. Plain sockets alone. */
#define LK_REDIS_NAP_NS (5 * LK_MS)
ssize_t lk_redis_socket_nap(lk_redis_socket *socket, char *data, size_t cap);

/* Wait for what poll calls `events`. 0, or an errno. */
int lk_redis_wait_for(int fd, short events, int64_t until);

/* The next complete reply that was fed: 1 and *reply; 0: none yet; -1: not Redis, or out of memory. */
int lk_redis_socket_next_reply(lk_redis_socket *socket, redisReply **reply);

/* Feed received bytes to the parser. 0, or an errno: ENOMEM, or EPROTO for what is no reply of ours. */
int lk_redis_socket_feed(lk_redis_socket *socket, const char *data, size_t len);

/* Send `len` bytes and read `count` replies, which are NULL before, waiting until `until` (system clock) at most.
 * Frees nothing: on failure the replies that came are in place. 0, or an errno; EPROTO: not Redis. */
int lk_redis_socket_exchange(lk_redis_socket *socket, const char *data, size_t len, redisReply **replies,
                             size_t count, int64_t until);
