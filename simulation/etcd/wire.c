/* wire.c: see wire.h. */
#include "wire.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve.h"
#include "watch.h"

enum { PREFIX = 5, PATH_MOST = 128, MESSAGE_MOST = 2 << 20, RESETS_MOST = 1000 };

typedef struct {
    uint8_t *bytes;
    size_t count, room;
} buffer;

/* A call, and its stream. */
typedef struct {
    lk_list link; /* in its wire's */
    lk_simetcd_wire *wire;
    int32_t id;
    lk_simetcd_kind kind; /* LK_SIMETCD_KINDS: none that there is */
    bool wants_leader, asked, answered, is_watch, ends;
    const lk_simetcd_error *error; /* that it ends with */
    uint64_t request;
    buffer in, out;
    lk_simetcd_stream watches;
} stream;

struct lk_simetcd_wire {
    lk_simetcd_member *m;
    unsigned life; /* of the member when it was connected */
    nghttp2_session *session;
    lk_list streams;
    buffer early, out; /* what has come before the member serves; what goes out */
    bool pinged;       /* and there is no answer yet */
    unsigned resets;   /* streams that the client has reset */
    bool broken;
};

/* ------------------------------------------------------------------ bytes ---- */

static void add(buffer *b, const void *bytes, size_t count)
{
    while (b->room - b->count < count)
        b->bytes = lk_simetcd_grow(b->bytes, b->room, &b->room, 1);
    if (count > 0)
        memcpy(b->bytes + b->count, bytes, count);
    b->count += count;
}

static void take(buffer *b, size_t count)
{
    b->count -= count;
    memmove(b->bytes, b->bytes + count, b->count);
}

static void add_message(buffer *b, const ProtobufCMessage *message)
{
    const size_t size = protobuf_c_message_get_packed_size(message);
    const uint8_t prefix[PREFIX] = {0, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8),
                                    (uint8_t)size};
    uint8_t *const packed = lk_simetcd_alloc(size + 1);
    (void)protobuf_c_message_pack(message, packed);
    add(b, prefix, PREFIX);
    add(b, packed, size);
    free(packed);
}

/* ------------------------------------------------------------------ answers ---- */

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

static void tell_answer(const stream *s)
{
    const lk_simetcd *const e = s->wire->m->e;
    if (e->setup.on_answer != NULL)
        e->setup.on_answer(e->setup.context);
}

/* The call's end: gRPC's status, in trailers, or in headers where there is nothing else. */
static size_t status(const lk_simetcd_error *error, char text[12], nghttp2_nv headers[2])
{
    (void)snprintf(text, 12, "%d", error != NULL ? error->status : 0);
    headers[0] = header("grpc-status", text);
    headers[1] = header("grpc-message", error != NULL ? error->text : "");
    return 2;
}

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *into, size_t room, uint32_t *flags,
                        nghttp2_data_source *source, void *context)
{
    stream *const s = source->ptr;
    const size_t count = s->out.count < room ? s->out.count : room;
    (void)context;
    if (count == 0 && !s->ends)
        return NGHTTP2_ERR_DEFERRED;
    if (count > 0)
        memcpy(into, s->out.bytes, count);
    take(&s->out, count);
    if (s->ends && s->out.count == 0) {
        char text[12];
        nghttp2_nv trailers[2];
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        (void)nghttp2_submit_trailer(session, id, trailers, status(s->error, text, trailers));
    }
    return (ssize_t)count;
}

static void send_headers(stream *s)
{
    const nghttp2_nv headers[] = {header(":status", "200"), header("content-type", "application/grpc")};
    const nghttp2_data_provider provider = {.source = {.ptr = s}, .read_callback = read_out};
    s->answered = true;
    (void)nghttp2_submit_response(s->wire->session, s->id, headers, 2, &provider);
}

static void send_out(stream *s)
{
    if (s->answered)
        (void)nghttp2_session_resume_data(s->wire->session, s->id);
    else
        send_headers(s);
    tell_answer(s);
}

static void end(stream *s, const lk_simetcd_error *error)
{
    if (s->ends)
        return;
    s->ends = true;
    s->error = error;
    if (s->answered || error == NULL) {
        send_out(s);
        return;
    }
    char text[12];
    nghttp2_nv headers[4] = {header(":status", "200"), header("content-type", "application/grpc")};
    const size_t count = 2 + status(error, text, headers + 2);
    s->answered = true;
    (void)nghttp2_submit_response(s->wire->session, s->id, headers, count, NULL);
    tell_answer(s);
}

static void done(void *context, const lk_simetcd_error *error, const ProtobufCMessage *message)
{
    stream *const s = context;
    s->request = 0;
    if (message != NULL)
        add_message(&s->out, message);
    end(s, error);
}

static void tell_watch(void *context, const LkEtcdPb__Watched *told)
{
    stream *const s = context;
    if (s->ends)
        return;
    add_message(&s->out, &told->base);
    send_out(s);
}

static void end_watch(void *context, const lk_simetcd_error *error)
{
    end(context, error);
}

/* ------------------------------------------------------------------ requests ---- */

static const lk_simetcd_error no_message = {13, "grpc: failed to unmarshal the received message"};

static void ask(stream *s, const uint8_t *bytes, size_t count)
{
    lk_simetcd_member *const m = s->wire->m;
    ProtobufCMessage *const message = lk_simetcd_unpack(s->kind, bytes, count);
    if (message == NULL) {
        end(s, &no_message);
    } else if (s->is_watch) {
        lk_simetcd_watch(&s->watches, (const LkEtcdPb__Watch *)(const void *)message);
        protobuf_c_message_free_unpacked(message, NULL);
    } else if (s->wants_leader && m->lead == -1) {
        protobuf_c_message_free_unpacked(message, NULL);
        end(s, &lk_simetcd_no_leader);
    } else {
        s->request = lk_simetcd_ask(m, s->kind, message, done, s);
    }
    s->asked = true;
}

/* All messages that are complete; of most calls there is one. */
static void read_messages(stream *s)
{
    while (s->in.count >= PREFIX && !s->ends && (s->is_watch || !s->asked)) {
        const uint8_t *const p = s->in.bytes;
        const size_t size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
        if (p[0] != 0 || size > MESSAGE_MOST) {
            end(s, &no_message);
            return;
        }
        if (s->in.count < PREFIX + size)
            return;
        ask(s, p + PREFIX, size);
        take(&s->in, PREFIX + size);
    }
}

/* ------------------------------------------------------------------ streams ---- */

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    lk_simetcd_wire *const wire = context;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    stream *const s = lk_simetcd_alloc(sizeof *s);
    *s = (stream){.wire = wire, .id = frame->hd.stream_id, .kind = LK_SIMETCD_KINDS};
    lk_list_append(&wire->streams, &s->link);
    (void)nghttp2_session_set_stream_user_data(session, s->id, s);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *context)
{
    stream *const s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    char path[PATH_MOST];
    (void)flags;
    (void)context;
    if (s == NULL)
        return 0;
    if (name_len == 5 && memcmp(name, ":path", 5) == 0 && value_len < sizeof path) {
        memcpy(path, value, value_len);
        path[value_len] = '\0';
        s->kind = lk_simetcd_kind_of(path);
    }
    if (name_len == 9 && memcmp(name, "hasleader", 9) == 0)
        s->wants_leader = value_len == 4 && memcmp(value, "true", 4) == 0;
    return 0;
}

static void begin(stream *s)
{
    if (s->kind == LK_SIMETCD_KINDS)
        end(s, &lk_simetcd_unknown_method);
    s->is_watch = s->kind == LK_SIMETCD_WATCH;
    if (!s->is_watch)
        return;
    s->watches.wants_leader = s->wants_leader;
    s->watches.tell = tell_watch;
    s->watches.end = end_watch;
    s->watches.context = s;
    lk_simetcd_stream_init(&s->watches, s->wire->m);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    stream *const s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    lk_simetcd_wire *const wire = context;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
        wire->pinged = false;
    if (frame->hd.type == NGHTTP2_RST_STREAM && ++wire->resets > RESETS_MOST) {
        fprintf(stderr,
                "more than %d streams of one connection are reset: nghttp2 refuses that by the true time\n",
                RESETS_MOST);
        abort();
    }
    if (s == NULL)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        begin(s);
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        if (s->is_watch)
            end(s, NULL);
        else if (!s->asked)
            end(s, &no_message);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t count,
                   void *context)
{
    stream *const s = nghttp2_session_get_stream_user_data(session, id);
    (void)flags;
    (void)context;
    if (s == NULL)
        return 0;
    if (!s->wire->pinged) /* as Go's servers do, to measure the line */
        (void)nghttp2_submit_ping(session, NGHTTP2_FLAG_NONE, NULL);
    s->wire->pinged = true;
    add(&s->in, bytes, count);
    read_messages(s);
    return 0;
}

/* Of a member that has ended nothing is left that knows of it. */
static void stream_free(stream *s)
{
    const bool lives = s->wire->life == s->wire->m->life;
    lk_list_remove(&s->link);
    if (s->request != 0 && lives)
        lk_simetcd_forget_request(s->wire->m, s->request);
    if (s->is_watch)
        lk_simetcd_stream_free(&s->watches);
    free(s->in.bytes);
    free(s->out.bytes);
    free(s);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *context)
{
    stream *const s = nghttp2_session_get_stream_user_data(session, id);
    (void)error;
    (void)context;
    if (s != NULL)
        stream_free(s);
    return 0;
}

/* ------------------------------------------------------------------ connections ---- */

static void begin_session(lk_simetcd_wire *wire)
{
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16384}};
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        abort();
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_server_new(&wire->session, callbacks, wire) != 0)
        abort();
    nghttp2_session_callbacks_del(callbacks);
    (void)nghttp2_submit_settings(wire->session, NGHTTP2_FLAG_NONE, settings, 1);
}

static bool lives(const lk_simetcd_wire *wire)
{
    return wire->m->running && wire->life == wire->m->life;
}

static void read_in(lk_simetcd_wire *wire, const void *bytes, size_t count)
{
    const ssize_t read = nghttp2_session_mem_recv(wire->session, bytes, count);
    wire->broken |= read < 0;
}

static void read_early(lk_simetcd_wire *wire)
{
    if (wire->session != NULL || !lives(wire) || !wire->m->serving)
        return;
    begin_session(wire);
    read_in(wire, wire->early.bytes, wire->early.count);
    wire->early.count = 0;
}

lk_simetcd_wire *lk_simetcd_wire_new(lk_simetcd *e, int member)
{
    lk_simetcd_wire *const wire = lk_simetcd_alloc(sizeof *wire);
    wire->m = &e->members[member];
    wire->life = wire->m->life;
    lk_list_init(&wire->streams);
    read_early(wire);
    return wire;
}

bool lk_simetcd_wire_feed(lk_simetcd_wire *wire, const void *bytes, size_t count)
{
    read_early(wire);
    if (wire->session == NULL)
        add(&wire->early, bytes, count);
    else if (lives(wire))
        read_in(wire, bytes, count);
    return !wire->broken;
}

const void *lk_simetcd_wire_output(lk_simetcd_wire *wire, size_t *count)
{
    const uint8_t *bytes;
    wire->out.count = 0;
    read_early(wire);
    if (wire->session != NULL && lives(wire))
        for (ssize_t some; (some = nghttp2_session_mem_send(wire->session, &bytes)) > 0;)
            add(&wire->out, bytes, (size_t)some);
    *count = wire->out.count;
    return wire->out.bytes;
}

bool lk_simetcd_wire_is_closed(const lk_simetcd_wire *wire)
{
    return wire->broken || !lives(wire) ||
           (wire->session != NULL && !nghttp2_session_want_read(wire->session) &&
            !nghttp2_session_want_write(wire->session));
}

void lk_simetcd_wire_free(lk_simetcd_wire *wire)
{
    while (!lk_list_empty(&wire->streams))
        stream_free(LK_CONTAINER(wire->streams.next, stream, link));
    nghttp2_session_del(wire->session);
    free(wire->early.bytes);
    free(wire->out.bytes);
    free(wire);
}
