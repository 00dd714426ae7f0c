/*
 * socket.h: one socket to a Redis server, plain or TLS, with the parser of its replies. dial.c makes links,
 * handshake.c logs in over them, conn.c and lock/messages.c use them. A link takes no lock: its user sees to
 * it that at most one thread receives and at most one thread sends.
 */
#ifndef LK_REDIS_LINK_H
#define LK_REDIS_LINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>
#include <locker/driver.h>

#include "guard.h"
#include "timing.h"

enum { LK_PEER_MAX = 300, LK_SERVER_ID_LEN = 40 };

/* Which life of which server it is: INFO's run_id and master_replid. "": it does not tell. */
struct lk_server_id {
    char run[LK_SERVER_ID_LEN + 1];         /* another after each restart */
    char replication[LK_SERVER_ID_LEN + 1]; /* another after each promotion */
};

struct lk_link {
    int fd;                   /* close-on-exec */
    redisReader *reader;      /* belongs to the receiving thread */
    struct lk_guard guard;    /* ... as does this, which stands before it */
    redisContext *tls;        /* NULL: plain. Owns fd then */
    pthread_mutex_t tls_lock; /* one SSL call at a time; never held across a wait. Innermost */
    bool unsent;              /* TLS: bytes that were taken wait for POLLOUT; of the sending thread */
    int64_t server_us;        /* the server's time in us as the handshake learned it; 0: it did not */
    int64_t server_at;        /* ... and when that came, in ns of the system's clock */
    struct lk_server_id server;
    int64_t client_id;      /* what the server calls this connection; 0: not known */
    char peer[LK_PEER_MAX]; /* "host:port" or the socket's path, for messages and comparisons */
};

/* A link on a connected socket, which it owns from then on, also when it fails. */
struct lk_link *lk_link_new(int fd, const char *peer);

/* Close and free; NULL is allowed. `reset`: throw away what the kernel has not sent yet, so that a command
 * given up can't reach the server after what a later connection says. */
void lk_link_free(struct lk_link *link, bool reset);

/* As send() and recv() on a non-blocking socket: -1 with errno, EAGAIN when it would block; receive answers 0
 * at the end of the stream. Never raises SIGPIPE. */
ssize_t lk_link_send(struct lk_link *link, const char *data, size_t len);
ssize_t lk_link_receive(struct lk_link *link, char *data, size_t cap);

/* The same, but asleep until something comes, for LK_NAP_NS at most or until a signal. On a plain link
 * alone. */
#define LK_NAP_NS (5 * LK_MS)
ssize_t lk_link_nap(struct lk_link *link, char *data, size_t cap);

/* The next complete reply among what was fed: 1 and *reply, 0 when there is none yet, -1 when the stream is
 * not the Redis protocol (or memory ran out). */
int lk_link_next_reply(struct lk_link *link, redisReply **reply);

/* Feed received bytes to the parser. 0, or an errno: ENOMEM, or EPROTO for what no reply of ours looks
 * like. */
int lk_link_feed(struct lk_link *link, const char *data, size_t len);

/* Send `len` bytes and read `count` replies, waiting for at most until `until` (system clock). Frees nothing:
 * on failure the replies that came are in place, the others NULL. 0, or an errno; EPROTO: not Redis. */
int lk_link_exchange(struct lk_link *link, const char *data, size_t len, redisReply **replies, size_t count,
                     int64_t until);

#endif
