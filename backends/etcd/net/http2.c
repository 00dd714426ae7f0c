/* http2.c: a session of HTTP/2 on the socket, by nghttp2, which does no input or output of its own; and on its streams calls
 * of gRPC: messages with a prefix of five bytes, and a status in the trailers
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lk_escape.h"
#include "state.h"

enum {
    PREFIX = 5,                      /* "is it compressed", and the length in four bytes */
    MESSAGE_MOST = 16 * 1024 * 1024, /* of a message: enough for 10,000 permits with the longest keys */
    BYTES_KEPT = 16 * 1024,          /* of a buffer that is kept for the next call */
    OUT_MOST = 256 * 1024,           /* that wait outside nghttp2 for the socket */
    STREAM_WINDOW = 1024 * 1024, /* bytes that the server may send on a stream before we acknowledge them */
    CONNECTION_WINDOW = 4 * 1024 * 1024, /* the same on all streams together */
    STREAM_LAST = 1 << 30,               /* the greatest stream number that is used; HTTP/2 allows 2^31 */
    READS_MOST = 16                      /* reads in one turn */
};

static const int64_t pong_ns = LK_S;

static bool make_room(lk_etcd_bytes *bytes, size_t more)
{
    size_t cap = bytes->cap > 0 ? bytes->cap : 512;
    while (cap < bytes->len + more)
        cap *= 2;
    uint8_t *const at = cap > bytes->cap ? realloc(bytes->at, cap) : bytes->at;
    if (at == NULL)
        return false;
    bytes->at = at;
    bytes->cap = cap;
    return true;
}

static bool append(lk_etcd_bytes *bytes, const void *what, size_t len)
{
    if (!make_room(bytes, len))
        return false;
    memcpy(bytes->at + bytes->len, what, len);
    bytes->len += len;
    return true;
}

void lk_etcd_bytes_free(lk_etcd_bytes *bytes)
{
    free(bytes->at);
    *bytes = (lk_etcd_bytes){0};
}

static void empty(lk_etcd_bytes *bytes)
{
    bytes->len = 0;
    if (bytes->cap > BYTES_KEPT)
        lk_etcd_bytes_free(bytes);
}

/* ---------------------------------------------------------------- messages ---- */
bool lk_etcd_stream_add(lk_etcd_stream *stream, const ProtobufCMessage *message)
{
    const size_t len = protobuf_c_message_get_packed_size(message);
    if (len > UINT32_MAX || !make_room(&stream->out, PREFIX + len))
        return false;
    uint8_t *const at = stream->out.at + stream->out.len;
    at[0] = 0;
    for (size_t i = 1; i < PREFIX; i++)
        at[i] = (uint8_t)(len >> (8 * (PREFIX - 1 - i)));
    (void)protobuf_c_message_pack(message, at + PREFIX);
    stream->out.len += PREFIX + len;
    return true;
}

static size_t message_len(const uint8_t *prefix)
{
    return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}

static void lost(lk_etcd_stream *stream, const char *why)
{
    stream->status = LK_ETCD_LOST;
    (void)snprintf(stream->text, sizeof stream->text, "%s", why);
}

static void not_grpc_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    lk_etcd_break_locked(net, LOCKER_PROTOCOL, 0,
                         "the server at %s does not speak gRPC; check that it is etcd",
                         lk_etcd_here_locked(net));
}

/* Hand over the messages that have come of a stream that goes on. The message of another stream is kept
 * until its end. */
static void take_messages_locked(lk_etcd_net *net, lk_etcd_stream *stream) LK_REQUIRES(*net)
{
    const lk_etcd_bytes *const in = &stream->in;
    size_t at = 0;
    while (in->len - at >= PREFIX && !net->broken) {
        const size_t len = message_len(in->at + at);
        if (in->at[at] != 0) {
            not_grpc_locked(net);
        } else if (len > MESSAGE_MOST) {
            stream->refused = true;
            (void)nghttp2_submit_rst_stream(net->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
            return;
        }
        if (in->len - at - PREFIX < len || stream->kind->on_message == NULL)
            break;
        stream->kind->on_message(net, in->at + at + PREFIX, len);
        at += PREFIX + len;
    }
    if (at > 0)
        memmove(in->at, in->at + at, in->len - at);
    stream->in.len -= at;
}

/* ---------------------------------------------------------------- nghttp2's callbacks, with the mutex ---- */
static lk_etcd_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static bool is_named(const uint8_t *name, size_t len, const char *what)
{
    return len == strlen(what) && memcmp(name, what, len) == 0;
}

/* Decode a text into one line, as errors and logs need it. */
static void take_text(lk_etcd_stream *stream, const char *escaped)
{
    stream->text[lk_unescape(stream->text, sizeof stream->text - 1, escaped)] = '\0';
    for (char *c = stream->text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *context)
{
    lk_etcd_stream *const stream = stream_of(session, frame->hd.stream_id);
    const char *const text = (const char *)value; /* nghttp2 ends the value with a NUL */
    (void)value_len;
    (void)flags;
    (void)context;
    if (stream == NULL)
        return 0;
    if (is_named(name, name_len, ":status"))
        stream->http_status = (int)strtol(text, NULL, 10);
    else if (is_named(name, name_len, "grpc-status"))
        stream->status = (int)strtol(text, NULL, 10);
    else if (is_named(name, name_len, "grpc-message"))
        take_text(stream, text);
    return 0;
}

LK_UNCHECKED static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                                size_t len, void *context)
{
    lk_etcd_net *const net = context;
    lk_etcd_stream *const stream = stream_of(session, id);
    (void)flags;
    if (stream == NULL || stream->refused || net->broken)
        return 0;
    if (!append(&stream->in, bytes, len))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    take_messages_locked(net, stream);
    return 0;
}

/* Set the stream's status after an answer in HTTP alone, perhaps of a proxy. Such an answer is not final
 * if it may pass, if it is about the proxy itself, or if the proxy got no answer in time: then the server
 * may have carried out the request. */
static void told_by_http(lk_etcd_stream *stream)
{
    const int status = stream->http_status;
    if (stream->status != LK_ETCD_LOST || status == 0 || status == 200)
        return;
    stream->status = status == 401   ? LK_ETCD_UNAUTHENTICATED
                     : status == 403 ? LK_ETCD_PERMISSION_DENIED
                     : status == 408 || status == 429 || (status >= 500 && status != 501)
                         ? LK_ETCD_UNAVAILABLE
                         : LK_ETCD_UNIMPLEMENTED;
    (void)snprintf(stream->text, sizeof stream->text, "HTTP status %d", status);
}

LK_UNCHECKED static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *context)
{
    lk_etcd_net *const net = context;
    lk_etcd_stream *const stream = stream_of(session, id);
    if (stream == NULL)
        return 0;
    stream->id = 0;
    if (stream->status == LK_ETCD_LOST && stream->text[0] == '\0')
        lost(stream, stream->refused ? "the answer is larger than 16 MiB" : nghttp2_http2_strerror(error));
    if (stream->refused && stream->kind->on_message == NULL)
        stream->status = LK_ETCD_TOO_LARGE;
    told_by_http(stream);
    if (stream->status == LK_ETCD_LOST ||
        stream->goes_on) /* a call that asks again at once is to meet a pause */
        net->going = true;
    const bool is_whole = stream->in.len >= PREFIX && stream->in.at[0] == 0 &&
                          stream->in.len == PREFIX + message_len(stream->in.at);
    if (stream->status == LK_ETCD_OK && stream->kind->on_message == NULL && !is_whole) {
        not_grpc_locked(net);
        lost(stream, "the answer is not a gRPC message");
    }
    stream->kind->on_end(net, stream);
    return 0;
}

/* Note a ping. Go's servers send ping after ping to measure the line while requests come, each when the
 * last one is answered (grpc-go, bdp_estimator.go). Each answer costs a turn, so the answer to such a
 * ping, which its data shows, waits. With any other ping the server asks whether we are alive, and may
 * wait for less than a second (--grpc-keepalive-timeout). */
static void pinged_locked(lk_etcd_net *net, const nghttp2_ping *ping) LK_REQUIRES(*net)
{
    static const uint8_t measures[] = {2, 4, 16, 16, 9, 14, 7, 7};
    if (net->pong_at != LOCKER_NEVER)
        (void)nghttp2_submit_ping(net->session, NGHTTP2_FLAG_ACK, net->pong);
    memcpy(net->pong, ping->opaque_data, sizeof net->pong);
    net->pong_at = lk_etcd_now(net);
    if (memcmp(net->pong, measures, sizeof measures) == 0)
        net->pong_at += pong_ns;
}

void lk_etcd_pong_locked(lk_etcd_net *net, int64_t now)
{
    if (now < net->pong_at)
        return;
    net->pong_at = LOCKER_NEVER;
    (void)nghttp2_submit_ping(net->session, NGHTTP2_FLAG_ACK, net->pong);
}

/* End the stream with the other end's last frame. nghttp2 would wait for our last frame too, which may
 * never be sent, and which not every proxy requires. */
static void end_stream(nghttp2_session *session, const nghttp2_frame_hd *head)
{
    if ((head->flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
        nghttp2_session_get_stream_local_close(session, head->stream_id) == 0)
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, head->stream_id, NGHTTP2_CANCEL);
}

LK_UNCHECKED static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    lk_etcd_net *const net = context;
    if (frame->hd.type == NGHTTP2_SETTINGS)
        net->greeted = true;
    else if (frame->hd.type == NGHTTP2_GOAWAY)
        net->going = true;
    else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
        pinged_locked(net, &frame->ping);
    else if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)
        end_stream(session, &frame->hd);
    return 0;
}

/* Hand nghttp2 the stream's next bytes. */
static ssize_t read_stream(nghttp2_session *session, int32_t id, uint8_t *into, size_t most, uint32_t *flags,
                           nghttp2_data_source *source, void *context)
{
    lk_etcd_stream *const stream = source->ptr;
    const size_t left = stream->out.len - stream->out_at, len = left < most ? left : most;
    (void)session;
    (void)id;
    (void)context;
    if (len > 0)
        memcpy(into, stream->out.at + stream->out_at, len);
    stream->out_at += len;
    if (len == left && !stream->goes_on)
        *flags = NGHTTP2_DATA_FLAG_EOF;
    else if (left == 0)
        return NGHTTP2_ERR_DEFERRED;
    else if (len == left)
        stream->out.len = stream->out_at = 0;
    return (ssize_t)len;
}

/* ---------------------------------------------------------------- the session ---- */
bool lk_etcd_http2_begin_locked(lk_etcd_net *net)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
    };
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *options = NULL;
    net->heard = net->greeted = net->going = false;
    net->pong_at = LOCKER_NEVER;
    if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&options) == 0) {
        nghttp2_option_set_no_auto_ping_ack(options, 1);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        if (nghttp2_session_client_new2(&net->session, callbacks, net, options) != 0)
            net->session = NULL;
    }
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(options);
    return net->session != NULL &&
           nghttp2_submit_settings(net->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof *settings) == 0 &&
           nghttp2_session_set_local_window_size(net->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) == 0;
}

void lk_etcd_http2_end_locked(lk_etcd_net *net)
{
    nghttp2_session_del(net->session);
    net->session = NULL;
    empty(&net->out);
    net->out_at = 0;
}

/* Fill the buffer with frames, so that they go out in one piece. Return false if there are none. */
static bool fill_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    const uint8_t *frame;
    ssize_t len;
    while (net->out.len < OUT_MOST && (len = nghttp2_session_mem_send(net->session, &frame)) != 0) {
        if (len < 0 || !append(&net->out, frame, (size_t)len)) {
            lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, 0,
                                 "closed the connection to etcd at %s: out of memory",
                                 lk_etcd_here_locked(net));
            return false;
        }
    }
    return net->out.len > 0;
}

void lk_etcd_flush_locked(lk_etcd_net *net)
{
    while (net->session != NULL && !net->broken && (fill_locked(net) || net->unsent)) {
        const ssize_t n =
            lk_etcd_socket_send_locked(net, net->out.at + net->out_at, net->out.len - net->out_at);
        if (n < 0 && errno != EAGAIN)
            lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, errno, "the connection to etcd at %s was lost: %s",
                                 lk_etcd_here_locked(net), strerror(errno));
        if (n < 0)
            return;
        net->out_at += (size_t)n;
        if (net->out_at == net->out.len) {
            empty(&net->out);
            net->out_at = 0;
        }
        if (net->unsent)
            return;
    }
}

/* Check the first byte. HTTP/2 begins with the length of the server's settings, whose first byte is small. */
static void not_http2_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    const bool is_http1 = net->in[0] == 'H', is_tls = net->in[0] == 0x15;
    lk_etcd_break_locked(net, LOCKER_PROTOCOL, 0,
                         "the server at %s does not speak HTTP/2%s; check that this is etcd's client port",
                         lk_etcd_here_locked(net),
                         is_http1 ? ": it speaks HTTP/1, or requires TLS"
                         : is_tls ? ": it speaks TLS"
                                  : "");
}

static void take_locked(lk_etcd_net *net, size_t len) LK_REQUIRES(*net)
{
    if (!net->heard && net->in[0] != 0) {
        not_http2_locked(net);
        return;
    }
    net->heard = true;
    const ssize_t taken = nghttp2_session_mem_recv(net->session, net->in, len);
    if (taken < 0)
        lk_etcd_break_locked(net, LOCKER_PROTOCOL, 0, "etcd at %s sent invalid HTTP/2: %s",
                             lk_etcd_here_locked(net), nghttp2_strerror((int)taken));
    else if (!net->going && nghttp2_session_want_read(net->session) == 0)
        lk_etcd_break_locked(net, LOCKER_PROTOCOL, 0, "etcd at %s sent invalid HTTP/2",
                             lk_etcd_here_locked(net));
}

static void ended_locked(lk_etcd_net *net, int error) LK_REQUIRES(*net)
{
    const char *const here = lk_etcd_here_locked(net);
    locker_error why;
    bool permanent;
    if (!net->heard && net->secure != NULL && lk_tls_told(net->secure, here, &why, &permanent))
        lk_etcd_break_locked(net, why.status, why.os_error, "%s",
                             why.text); /* for example, it wants a certificate */
    else if (!net->heard)
        lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, error,
                             "the server at %s closed the connection without an answer; "
                             "check that this is etcd's client port, and whether it uses TLS",
                             here);
    else
        lk_etcd_break_locked(net, LOCKER_UNAVAILABLE, error, "the connection to etcd at %s was lost: %s",
                             here, error != 0 ? strerror(error) : "it was closed");
}

void lk_etcd_receive_locked(lk_etcd_net *net)
{
    for (int i = 0; (i < READS_MOST || net->secure != NULL) && net->session != NULL && !net->broken; i++) {
        const ssize_t n = lk_etcd_socket_receive_locked(net, net->in, sizeof net->in);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            ended_locked(net, n < 0 ? errno : 0);
        else
            take_locked(net, (size_t)n);
        if (n < (ssize_t)sizeof net->in && net->secure == NULL)
            return; /* all is read; poll does not see what TLS has buffered */
    }
}

/* ---------------------------------------------------------------- streams ---- */
#define HEADER(name, value)                                                                                  \
    {                                                                                                        \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value),            \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                                     \
    }

bool lk_etcd_stream_open_locked(lk_etcd_net *net, lk_etcd_stream *stream, const char *path)
{
    const char *const token = net->token != NULL ? net->token : "";
    const nghttp2_nv headers[] = {
        HEADER(":method", "POST"), HEADER(":scheme", net->secure != NULL ? "https" : "http"),
        HEADER(":path", path),     HEADER(":authority", lk_etcd_here_locked(net)),
        HEADER("te", "trailers"),  HEADER("content-type", "application/grpc"),
        HEADER("token", token),
    };
    const size_t count = sizeof headers / sizeof *headers - (net->token == NULL);
    const nghttp2_data_provider bytes = {.source = {.ptr = stream}, .read_callback = read_stream};
    stream->status = LK_ETCD_LOST;
    const int32_t id = nghttp2_submit_request(net->session, NULL, headers, count, &bytes, stream);
    if (id >= STREAM_LAST)
        net->going = true;
    stream->id = id > 0 ? id : 0;
    return id > 0;
}

void lk_etcd_stream_go_on_locked(lk_etcd_net *net, lk_etcd_stream *stream)
{
    (void)nghttp2_session_resume_data(net->session, stream->id);
}

void lk_etcd_stream_clear(lk_etcd_stream *stream)
{
    empty(&stream->out);
    empty(&stream->in);
    stream->out_at = 0;
    stream->id = 0;
    stream->refused = false;
    stream->http_status = 0;
    stream->text[0] = '\0';
}
