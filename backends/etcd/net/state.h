/* state.h: what the files of this floor share: the connection, and their functions in the order of the
 * files. Each file uses only files before it. net.h has what the upper floor uses too. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "hosts.h"
#include "lk_time.h"
#include "net.h"
#include "secret.h"
#include "tls.h"

#define LK_ETCD_GUARDED LK_GUARDED_BY(lk_etcd_net.mutex)

/* A buffer that grows. All zero: empty. */
typedef struct {
    uint8_t *at;
    size_t len, cap;
} lk_etcd_bytes;

typedef struct lk_etcd_stream lk_etcd_stream;
/* A stream's events, with the mutex. They may open other streams. */
typedef struct {
    /* A message has come; it is valid until this returns. If on_message is NULL, the stream has a single
     * message, which stays in `in`. */
    void (*on_message)(lk_etcd_net *net, const uint8_t *message, size_t len);
    void (*on_end)(lk_etcd_net *net,
                   lk_etcd_stream *stream); /* The stream is over: `status` and `text` say how. */
} lk_etcd_stream_kind;

/* A call of gRPC. It begins all zero, except for its kind. Its buffers are kept for the next call. */
struct lk_etcd_stream {
    const lk_etcd_stream_kind *kind;
    int32_t id;        /* 0: it is not open */
    bool goes_on;      /* more messages may follow those in `out` */
    lk_etcd_bytes out; /* messages to be sent, each behind its prefix */
    size_t out_at;     /* where in `out` the next byte to be sent is */
    lk_etcd_bytes in;  /* the message that is arriving, behind its prefix */
    bool refused;      /* the answer is too large */
    int http_status;   /* 0: not received */
    int status;        /* as in lk_etcd_reply */
    char text[200];    /* the server's text for it */
};

struct lk_etcd_request {
    lk_list link; /* in lk_etcd_net.requests or spare */
    lk_etcd_stream stream;
    const lk_etcd_method *method;
    lk_etcd_done_fn done; /* NULL: the answer is not wanted */
    void *context;
    int64_t sent;
};

/* A message is unpacked into the arena. What does not fit comes from the heap. */
enum { LK_ETCD_ARENA = 16 * 1024, LK_ETCD_READ = 32 * 1024 };

typedef enum {
    LK_ETCD_AWAY,       /* there is no socket */
    LK_ETCD_CONNECTING, /* the socket is being connected */
    LK_ETCD_SECURING,   /* the TLS handshake is in progress */
    LK_ETCD_GREETING,   /* the other end has not sent anything in HTTP/2 yet */
    LK_ETCD_READING,    /* the password is being read from its file */
    LK_ETCD_LOGIN,      /* the login has no answer yet */
    LK_ETCD_UP
} lk_etcd_stage;

struct LK_CHECKED(capability("mutex")) lk_etcd_net {
    lk_etcd *e;
    const lk_etcd_owner *owner;
    const locker_services *svc;
    const locker_clock *clock;
    char *user, *password;  /* NULL: no login */
    lk_etcd_secret *secret; /* the file that may have a new password by the next login; NULL: there is none */
    lk_tls_settings tls;
    lk_hosts *hosts;
    int64_t connect_timeout_ns;
    int64_t patience_ns; /* lk_etcd_patience_locked() may lower it */
    int epoll_fd;        /* the driver's descriptor, which contains the socket */
    int kick_fd;         /* an eventfd that ends the driving thread's poll */

    lk_mutex mutex; /* guards all below, and what the owner has */

    /* the endpoints */
    lk_addresses *endpoints LK_ETCD_GUARDED; /* replaced only while AWAY */
    lk_addresses *fresh LK_ETCD_GUARDED;     /* their replacement; NULL: none */
    size_t endpoint LK_ETCD_GUARDED;         /* the present endpoint, or the next one */
    int64_t attempt_ns LK_ETCD_GUARDED;      /* how long an endpoint has to come up */
    int64_t looked_up_at LK_ETCD_GUARDED;    /* when the latest lookup of the hosts began */

    /* the connection */
    lk_etcd_stage stage LK_ETCD_GUARDED;
    int fd LK_ETCD_GUARDED;                /* -1: there is none */
    lk_tls *secure LK_ETCD_GUARDED;        /* TLS on the socket; NULL: there is none */
    short waits LK_ETCD_GUARDED;           /* the poll events for which the handshake waits */
    bool unsent LK_ETCD_GUARDED;           /* TLS holds bytes that the socket has not taken */
    int64_t retry_at LK_ETCD_GUARDED;      /* AWAY: when the next attempt is due */
    int64_t attempt_until LK_ETCD_GUARDED; /* CONNECTING to LOGIN: when the attempt is given up */
    int64_t read_until LK_ETCD_GUARDED;    /* READING: when the login goes on with the known password */
    int64_t ended_at LK_ETCD_GUARDED;      /* when the latest attempt or connection ended */
    int64_t patience LK_ETCD_GUARDED;      /* how long a request may be unanswered; at most patience_ns */
    int64_t busy_patience
        LK_ETCD_GUARDED; /* the same while the member answers other requests; at least `patience` */
    int64_t pong_at LK_ETCD_GUARDED;   /* when a ping is to be answered; never: there is none */
    uint8_t pong[8] LK_ETCD_GUARDED;   /* that ping's data */
    unsigned failures LK_ETCD_GUARDED; /* failed attempts in a row, without an answer in between */
    bool literal LK_ETCD_GUARDED;      /* no host has to be resolved */
    bool looking_up LK_ETCD_GUARDED;   /* a thread resolves the hosts, or its result is not taken yet */
    bool broken LK_ETCD_GUARDED;       /* the connection is to be ended; `trouble` says why */
    bool going LK_ETCD_GUARDED;     /* the connection takes no new requests, and ends after the last answer */
    bool heard LK_ETCD_GUARDED;     /* the other end has sent something */
    bool greeted LK_ETCD_GUARDED;   /* the other end has sent something in HTTP/2 */
    bool logged_in LK_ETCD_GUARDED; /* the login has been accepted */
    bool was_up LK_ETCD_GUARDED;    /* a connection was up before, so the password may have changed */
    bool denied LK_ETCD_GUARDED;    /* the latest login was refused */
    bool login_unwanted LK_ETCD_GUARDED; /* it was logged that the cluster has no users */
    uint64_t prover LK_ETCD_GUARDED;     /* lk_etcd_prover_locked() */
    bool is_mended LK_ETCD_GUARDED;      /* `prover` is known by its version */
    bool suspected LK_ETCD_GUARDED;      /* core was told that the service is out of reach */
    locker_error trouble
        LK_ETCD_GUARDED;         /* why the latest connection or attempt ended; status OK: none has ended */
    char *token LK_ETCD_GUARDED; /* the login's token; NULL: none */
    nghttp2_session *session LK_ETCD_GUARDED;
    lk_etcd_bytes out LK_ETCD_GUARDED; /* bytes that the socket has not taken yet */
    size_t out_at LK_ETCD_GUARDED;

    /* requests and watches */
    int64_t answered_at LK_ETCD_GUARDED; /* when the latest useful answer came */
    lk_list requests LK_ETCD_GUARDED;    /* in flight, the oldest first */
    lk_list spare LK_ETCD_GUARDED;       /* requests that are free for use */
    lk_etcd_stream watch LK_ETCD_GUARDED;
    int64_t watch_id LK_ETCD_GUARDED;   /* the greatest id that a watch has got */
    int64_t watch_base LK_ETCD_GUARDED; /* our id of a watch minus the server's */
    lk_table watchers LK_ETCD_GUARDED;

    /* driving */
    lk_list calls LK_ETCD_GUARDED;      /* calls that wait */
    int64_t poll_until LK_ETCD_GUARDED; /* `polling`: the end of the poll */
    int64_t left_at LK_ETCD_GUARDED;    /* when a call last stopped driving */
    int64_t keeper_at LK_ETCD_GUARDED;  /* when the keeper means to come */
    short poll_events LK_ETCD_GUARDED;  /* `polling`: the events of the poll */
    short armed LK_ETCD_GUARDED;        /* the events that the keeper's epoll reports once; 0: none */
    bool in_epoll LK_ETCD_GUARDED;      /* the keeper's epoll contains the socket */
    bool in_turn LK_ETCD_GUARDED;       /* the keeper takes its turn, and will return keeper_at */
    bool reading LK_ETCD_GUARDED;       /* a call's thread drives */
    bool polling LK_ETCD_GUARDED; /* that thread sleeps in poll, or is about to return: kick it to wake it */

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
    return net->hosts->list[net->endpoints->list[net->endpoint].host].text;
}

/* ---------------------------------------------------------------- the socket: socket.c ---- */
/* Mark the connection as useless. lk_etcd_settle_locked() ends it later, not this call. The first reason
 * is kept. */
void lk_etcd_break_locked(lk_etcd_net *net, locker_status status, int os_error, const char *format, ...)
    LK_REQUIRES(*net) LK_CHECKED(format(printf, 4, 5));
/* Begin to connect to the present endpoint. Returns 0 or an errno. */
int lk_etcd_socket_open_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Go on connecting, after poll has reported something. Returns 0: connected; EAGAIN: not yet; else an
 * errno. */
int lk_etcd_socket_finish_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Like send() and recv(), without waiting. */
ssize_t lk_etcd_socket_send_locked(lk_etcd_net *net, const void *bytes, size_t len) LK_REQUIRES(*net);
ssize_t lk_etcd_socket_receive_locked(lk_etcd_net *net, void *bytes, size_t len) LK_REQUIRES(*net);
/* Close the socket. `reset`: drop unsent bytes, so that a request that was given up cannot reach the
 * server after later requests. */
void lk_etcd_socket_close_locked(lk_etcd_net *net, bool reset) LK_REQUIRES(*net);
/* Return the events for which the socket is to be polled. 0: there is no socket. */
short lk_etcd_socket_events_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* Have the keeper's epoll report these events once; or not any more. */
void lk_etcd_arm_locked(lk_etcd_net *net) LK_REQUIRES(*net);
void lk_etcd_disarm_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Return the socket's events, without waiting. */
short lk_etcd_told_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Wake the driving thread, so that it looks again. */
void lk_etcd_kick_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- HTTP/2 and gRPC messages: http2.c ---- */
bool lk_etcd_http2_begin_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* End the session. Open streams get no event. */
void lk_etcd_http2_end_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Hand the pending bytes to the socket. */
void lk_etcd_flush_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Answer a ping that has waited long enough. */
void lk_etcd_pong_locked(lk_etcd_net *net, int64_t now) LK_REQUIRES(*net);
/* Read the bytes that have come, and hand them to their streams. */
void lk_etcd_receive_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Append a message to what the stream sends. Return false without memory. */
bool lk_etcd_stream_add(lk_etcd_stream *stream, const ProtobufCMessage *message);
/* Open the stream. Return false without memory. */
bool lk_etcd_stream_open_locked(lk_etcd_net *net, lk_etcd_stream *stream, const char *path) LK_REQUIRES(*net);
/* The stream has more to send. */
void lk_etcd_stream_go_on_locked(lk_etcd_net *net, lk_etcd_stream *stream) LK_REQUIRES(*net);
/* Reset the stream. Its buffers stay, unless they are large. */
void lk_etcd_stream_clear(lk_etcd_stream *stream);
void lk_etcd_bytes_free(lk_etcd_bytes *bytes);

/* ---------------------------------------------------------------- requests.c ---- */
/* Send as lk_etcd_send_locked() does, even if the connection is not up yet. */
lk_etcd_request *lk_etcd_ask_locked(lk_etcd_net *net, const lk_etcd_method *method,
                                    const ProtobufCMessage *message, lk_etcd_done_fn done, void *context)
    LK_REQUIRES(*net);
/* Unpack a message, which is valid until the next call. NULL: it is not of this type. */
ProtobufCMessage *lk_etcd_unpack_locked(lk_etcd_net *net, const ProtobufCMessageDescriptor *type,
                                        const uint8_t *bytes, size_t len) LK_REQUIRES(*net);
void lk_etcd_unpacked_locked(lk_etcd_net *net, ProtobufCMessage *message) LK_REQUIRES(*net);
/* Return true if the answer says that our login has expired. Then the driver connects again. */
bool lk_etcd_login_expired_locked(lk_etcd_net *net, int status, const char *text) LK_REQUIRES(*net);
/* End all requests with LK_ETCD_LOST. The session is gone. */
void lk_etcd_requests_lost_locked(lk_etcd_net *net) LK_REQUIRES(*net);
void lk_etcd_requests_free(lk_etcd_net *net);

/* ---------------------------------------------------------------- watch.c ---- */
/* Report all watchers as possibly gone. */
void lk_etcd_watchers_lost_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- member.c ---- */
/* A connection is up: find out whether this member's reads prove anything. */
void lk_etcd_ask_of_member_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- endpoints.c ---- */
/* Resolve the hosts for the first time. Blocks. No other thread sees the connection yet. */
locker_status lk_etcd_endpoints_find(lk_etcd_net *net, locker_error *err) LK_UNCHECKED;
/* Return when the hosts are to be resolved again; never: not needed. */
int64_t lk_etcd_look_up_at_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* Begin to resolve them, if it is time. */
void lk_etcd_look_up_locked(lk_etcd_net *net, int64_t now) LK_REQUIRES(*net);
/* Take the result, if there is one, as `fresh`. */
void lk_etcd_found_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Drop the result, which is out of date. */
void lk_etcd_found_forget_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Return true if the present endpoint is not among the fresh ones. */
bool lk_etcd_has_moved_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* AWAY: replace the endpoints by the fresh ones. */
void lk_etcd_endpoints_replace_locked(lk_etcd_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- connection.c ---- */
/* Do what is due: begin an attempt, give up one, or leave a silent member. */
void lk_etcd_tend_locked(lk_etcd_net *net, int64_t now) LK_REQUIRES(*net);
/* A call does not want to wait for the end of a long pause. */
void lk_etcd_hurry_locked(lk_etcd_net *net) LK_REQUIRES(*net);
/* Return when lk_etcd_tend_locked() is due next. */
int64_t lk_etcd_due_locked(const lk_etcd_net *net) LK_REQUIRES(*net);
/* Handle the socket's events. */
void lk_etcd_serve_locked(lk_etcd_net *net, short told) LK_REQUIRES(*net);
/* Go on to the next stage, or end a broken connection. Not to be called in a callback. */
void lk_etcd_settle_locked(lk_etcd_net *net) LK_REQUIRES(*net);
