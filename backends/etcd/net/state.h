/* state.h: what the files of this floor share: the connection, and their functions, by the files in their order: each uses
 * only those before it. What is the upper floor's too is in net.h. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "hosts.h"
#include "lk_time.h"
#include "net.h"
#include "secret.h"
#include "tls.h"

#define LK_ETCD_GUARDED LK_GUARDED_BY(lk_etcd_net.mutex)

/* Bytes that come to more. All zero: none. */
typedef struct {
    uint8_t *at;
    size_t len, cap;
} lk_etcd_bytes;

typedef struct lk_etcd_stream lk_etcd_stream;
/* What becomes of a stream, told with the mutex; it may open others. */
typedef struct {
    /* A message has come: it is the stream's until this returns. NULL: there is one, and it stays in `in`. */
    void (*on_message)(lk_etcd_net *net, const uint8_t *message, size_t len);
    void (*on_end)(lk_etcd_net *net, lk_etcd_stream *stream); /* it is over: `status` and `text` say how */
} lk_etcd_stream_kind;

/* A call in gRPC's words. It begins all zero, but for its kind; buffers are kept for the next one. */
struct lk_etcd_stream {
    const lk_etcd_stream_kind *kind;
    int32_t id;        /* 0: it isn't open */
    bool goes_on;      /* more may be sent behind what is in `out` */
    lk_etcd_bytes out; /* messages, each behind its prefix */
    size_t out_at;     /* what is sent next */
    lk_etcd_bytes in;  /* the message that comes, behind its prefix */
    bool refused;      /* its answer is too large */
    int http_status;   /* 0: it wasn't told */
    int status;        /* gRPC's, as in lk_etcd_reply */
    char text[200];    /* what is said about it */
};

struct lk_etcd_request {
    lk_list link; /* in lk_etcd_net.requests or spare */
    lk_etcd_stream stream;
    const lk_etcd_method *method;
    lk_etcd_done_fn done; /* NULL: nobody wants the answer */
    void *context;
    int64_t sent;
};

/* A message is unpacked into this; what doesn't fit is taken from the heap. */
enum { LK_ETCD_ARENA = 16 * 1024, LK_ETCD_READ = 32 * 1024 };

typedef enum {
    LK_ETCD_AWAY,       /* no socket */
    LK_ETCD_CONNECTING, /* until the socket is connected */
    LK_ETCD_SECURING,   /* until the handshake of TLS is done */
    LK_ETCD_GREETING,   /* until the other end has said something in HTTP/2 */
    LK_ETCD_READING,    /* until the password has been read again */
    LK_ETCD_LOGIN,      /* until it has taken the login */
    LK_ETCD_UP
} lk_etcd_stage;

struct LK_CHECKED(capability("mutex")) lk_etcd_net {
    lk_etcd *e;
    const lk_etcd_owner *owner;
    const locker_services *svc;
    const locker_clock *clock;
    char *user, *password; /* NULL: no login */
    lk_etcd_secret
        *secret; /* the file in which the password may stand anew by the next login; NULL: there is none */
    lk_tls_settings tls;
    lk_hosts *hosts;
    int64_t connect_timeout_ns;
    int64_t patience_ns; /* lk_etcd_patience_locked() lowers it */
    int epoll_fd;        /* the driver's descriptor: holds the socket */
    int kick_fd;         /* eventfd, ends the driving thread's poll */

    lk_mutex mutex; /* guards all below, and what the owner has */

    /* where to */
    lk_addresses *endpoints LK_ETCD_GUARDED; /* replaced while AWAY alone */
    lk_addresses *fresh LK_ETCD_GUARDED;     /* ... by these; NULL: there are no others */
    size_t endpoint LK_ETCD_GUARDED;         /* the present one, or the next */
    int64_t attempt_ns LK_ETCD_GUARDED;      /* what an endpoint has to get up */
    int64_t looked_up_at LK_ETCD_GUARDED;    /* when the hosts were last begun to be resolved */

    /* the connection */
    lk_etcd_stage stage LK_ETCD_GUARDED;
    int fd LK_ETCD_GUARDED;                /* -1: none */
    lk_tls *secure LK_ETCD_GUARDED;        /* on the socket; NULL: none */
    short waits LK_ETCD_GUARDED;           /* what poll has to tell before it goes on */
    bool unsent LK_ETCD_GUARDED;           /* it has taken more than the socket has */
    int64_t retry_at LK_ETCD_GUARDED;      /* AWAY: the next attempt */
    int64_t attempt_until LK_ETCD_GUARDED; /* CONNECTING to LOGIN */
    int64_t read_until LK_ETCD_GUARDED;    /* READING: then the login is made by the password that is known */
    int64_t ended_at LK_ETCD_GUARDED;      /* when the last one ended, or could not begin */
    int64_t patience LK_ETCD_GUARDED;      /* at most patience_ns */
    int64_t busy_patience LK_ETCD_GUARDED; /* with a member that answers others; at least patience */
    int64_t pong_at LK_ETCD_GUARDED;       /* a ping is answered then; never: there is none */
    uint8_t pong[8] LK_ETCD_GUARDED;       /* ... so */
    unsigned failures LK_ETCD_GUARDED;     /* in a row, without an answer between */
    bool literal LK_ETCD_GUARDED;          /* no host has to be resolved */
    bool looking_up LK_ETCD_GUARDED; /* the hosts are being, in a thread whose result has yet to be taken */
    bool broken LK_ETCD_GUARDED;     /* it is to be ended: trouble says why */
    bool going LK_ETCD_GUARDED;      /* it takes no requests any more, and ends with the last answer */
    bool heard LK_ETCD_GUARDED;      /* the other end has said something */
    bool greeted LK_ETCD_GUARDED;    /* ... in HTTP/2 */
    bool logged_in LK_ETCD_GUARDED;  /* ... and has taken the login */
    bool was_up LK_ETCD_GUARDED;     /* there was a connection before: the password may have changed since */
    bool denied LK_ETCD_GUARDED;     /* the login was refused, at the last attempt */
    bool login_unwanted LK_ETCD_GUARDED;  /* that there are no users has been told */
    uint64_t prover LK_ETCD_GUARDED;      /* lk_etcd_prover_locked() */
    bool is_mended LK_ETCD_GUARDED;       /* ... because of the member's version */
    bool suspected LK_ETCD_GUARDED;       /* core was told that the service is out of reach */
    locker_error trouble LK_ETCD_GUARDED; /* why the last one ended; status OK: none has */
    char *token LK_ETCD_GUARDED;          /* of the login; NULL: none */
    nghttp2_session *session LK_ETCD_GUARDED;
    lk_etcd_bytes out LK_ETCD_GUARDED; /* what the socket has not taken yet */
    size_t out_at LK_ETCD_GUARDED;

    /* what goes over it */
    int64_t answered_at LK_ETCD_GUARDED; /* when a request was last answered, and the answer said something */
    lk_list requests LK_ETCD_GUARDED;    /* that await their answer, the oldest first */
    lk_list spare LK_ETCD_GUARDED;       /* requests to be used again */
    lk_etcd_stream watch LK_ETCD_GUARDED;
    int64_t watch_id LK_ETCD_GUARDED;   /* the latest that was given */
    int64_t watch_base LK_ETCD_GUARDED; /* the server's number of a watch is less than ours by this */
    lk_table watchers LK_ETCD_GUARDED;

    /* driving */
    lk_list calls LK_ETCD_GUARDED;      /* callers that wait */
    int64_t poll_until LK_ETCD_GUARDED; /* `polling`: until then */
    int64_t left_at LK_ETCD_GUARDED;    /* when a caller last drove */
    int64_t keeper_at LK_ETCD_GUARDED;  /* when the keeper means to come */
    short poll_events LK_ETCD_GUARDED;  /* `polling`: for those */
    short armed LK_ETCD_GUARDED;   /* the keeper's epoll tells of those of the socket, once; 0: of none */
    bool in_epoll LK_ETCD_GUARDED; /* ... and knows it */
    bool in_turn LK_ETCD_GUARDED;  /* the keeper has come: its turn will return keeper_at */
    bool reading LK_ETCD_GUARDED;  /* a caller's thread drives */
    bool polling LK_ETCD_GUARDED;  /* ... and is asleep in poll, or about to come back: kick it */

    size_t arena_used LK_ETCD_GUARDED;
    bool arena_spilled LK_ETCD_GUARDED;
    _Alignas(max_align_t) uint8_t arena[LK_ETCD_ARENA] LK_ETCD_GUARDED;
    uint8_t in[LK_ETCD_READ] LK_ETCD_GUARDED;
};

static inline bool lk_etcd_serves_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    return net->stage == LK_ETCD_UP && !net->broken && !net->going;
}

static inline const char *lk_etcd_here_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    return lk_hosts_at(net->hosts, net->endpoints->list[net->endpoint].host)->text;
}

/* ---------------------------------------------------------------- the socket, and who looks at it: socket.c ---- */
/* The connection is of no use: it is ended at the next settling (connection.c), not in here. The first reason is kept. */
void lk_etcd_break_locked(lk_etcd_net *net, locker_status status, int os_error, const char *format, ...)
    LK_REQUIRES(*net) LK_CHECKED(format(printf, 4, 5));
/* Begin to connect to the present endpoint. 0, or an errno. */
int lk_etcd_socket_open_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Go on with that, when poll tells something. 0: it is connected; EAGAIN: not yet; else an errno. */
int lk_etcd_socket_finish_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* As send and recv, without waiting. */
ssize_t lk_etcd_socket_send_locked(lk_etcd_net *net, const void *bytes, size_t len) LK_REQUIRES(*net);
ssize_t lk_etcd_socket_receive_locked(lk_etcd_net *net, void *bytes, size_t len) LK_REQUIRES(*net);
/* `reset`: throw away what isn't sent yet, so that what was given up can't reach the server after what is said later. */
void lk_etcd_socket_close_locked(lk_etcd_net *net, bool reset) LK_REQUIRES(*net);
/* What poll is to tell of it. 0: there is none. */
short lk_etcd_socket_events_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* Have the keeper's epoll tell of that, once; and not any more. */
void lk_etcd_arm_locked(lk_etcd_net *net) LK_REQUIRES(*net);
void lk_etcd_disarm_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* What there is to tell of the socket, without waiting. */
short lk_etcd_told_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Have whoever drives look again. */
void lk_etcd_kick_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- HTTP/2 and gRPC's messages: http2.c ---- */
bool lk_etcd_http2_begin_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Streams that are open are told nothing. */
void lk_etcd_http2_end_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Hand the socket what there is to be sent. */
void lk_etcd_flush_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Answer a ping that has waited long enough. */
void lk_etcd_pong_locked(lk_etcd_net *net, int64_t now) LK_REQUIRES(*net);
/* Read what has come, and tell whom it is for. */
void lk_etcd_receive_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Add a message to what the stream sends. False: no memory. */
bool lk_etcd_stream_add(lk_etcd_stream *stream, const ProtobufCMessage *message);
/* Open it. False: no memory. */
bool lk_etcd_stream_open_locked(lk_etcd_net *net, lk_etcd_stream *stream, const char *path) LK_REQUIRES(*net);
/* It has more to send. */
void lk_etcd_stream_go_on_locked(lk_etcd_net *net, lk_etcd_stream *stream) LK_REQUIRES(*net);
/* As new; its buffers stay, unless they are large. */
void lk_etcd_stream_clear(lk_etcd_stream *stream);
void lk_etcd_bytes_free(lk_etcd_bytes *bytes);

/* ---------------------------------------------------------------- requests.c ---- */
/* lk_etcd_send_locked(), whether the connection is up or not. */
lk_etcd_request *lk_etcd_ask_locked(lk_etcd_net *net, const lk_etcd_method *method,
                                    const ProtobufCMessage *message, lk_etcd_done_fn done, void *context)
    LK_REQUIRES(*net);
/* Unpack; valid until the next one is. NULL: it is none of those. */
ProtobufCMessage *lk_etcd_unpack_locked(lk_etcd_net *net, const ProtobufCMessageDescriptor *type,
                                        const uint8_t *bytes, size_t len) LK_REQUIRES(*net);
void lk_etcd_unpacked_locked(lk_etcd_net *net, ProtobufCMessage *message) LK_REQUIRES(*net);
/* Whether this says that our login has expired; then the connection is made anew. */
bool lk_etcd_login_expired_locked(lk_etcd_net *net, int status, const char *text) LK_REQUIRES(*net);
/* LK_ETCD_LOST to all. There is no session any more. */
void lk_etcd_requests_lost_locked(lk_etcd_net *net) LK_REQUIRES(*net);
void lk_etcd_requests_free(lk_etcd_net *net);

/* ---------------------------------------------------------------- watch.c ---- */
/* All that are watched are told to be gone, perhaps. */
void lk_etcd_watchers_lost_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- member.c ---- */
/* A connection is there: find out whether this member's reads prove anything. */
void lk_etcd_ask_of_member_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- endpoints.c ---- */
/* Resolve the hosts for the first time; blocks. Nobody else sees it yet. */
locker_status lk_etcd_endpoints_find(lk_etcd_net *net, locker_error *err) LK_UNCHECKED;
/* When the hosts are to be resolved again; never: they needn't. */
int64_t lk_etcd_look_up_at_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* Begin that, if it is time. */
void lk_etcd_look_up_locked(lk_etcd_net *net, int64_t now) LK_REQUIRES(*net);
/* What it has found, if it has, is `fresh` from now on; who drives looks at it. */
void lk_etcd_found_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* That is out of date. */
void lk_etcd_found_forget_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Whether the present endpoint isn't among the fresh ones. */
bool lk_etcd_has_moved_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* AWAY: go by the fresh ones. */
void lk_etcd_endpoints_replace_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- connection.c ---- */
/* What is due by now: another attempt, the end of one, or of a silence. */
void lk_etcd_tend_locked(lk_etcd_net *net, int64_t now) LK_REQUIRES(*net);
/* Somebody doesn't want to wait for the end of a long pause. */
void lk_etcd_hurry_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* When lk_etcd_tend_locked() is to be called next. */
int64_t lk_etcd_due_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* What poll has told of the socket. */
void lk_etcd_serve_locked(lk_etcd_net *net, short told) LK_REQUIRES(*net);
/* Go on to the next stage, or end what is broken. Never in a callback. */
void lk_etcd_settle_locked(lk_etcd_net *net) LK_REQUIRES(*net);
