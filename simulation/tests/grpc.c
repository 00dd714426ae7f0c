/* grpc.c: see grpc.h. */
#include "grpc.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "servers/wait.h"

enum { PREFIX = 5 };

typedef struct {
    uint8_t *bytes;
    size_t count;
} buffer;

typedef struct {
    int32_t id;
    bool ended, stays; /* the server's end; ours is left open */
    int status;
    char text[256];
    buffer in, out;
} call;

struct grpc {
    grpc_carrier carrier;
    nghttp2_session *session;
    call *open;
};

static void add(buffer *b, const void *bytes, size_t count)
{
    b->bytes = realloc(b->bytes, b->count + count + 1);
    if (b->bytes == NULL)
        abort();
    if (count > 0)
        memcpy(b->bytes + b->count, bytes, count);
    b->count += count;
}

static void take(buffer *b, size_t count)
{
    b->count -= count;
    memmove(b->bytes, b->bytes + count, b->count);
}

/* ------------------------------------------------------------------ nghttp2 ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *context)
{
    call *const c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags;
    (void)context;
    if (c == NULL)
        return 0;
    if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
        c->status = atoi((const char *)value);
    if (name_len == 12 && memcmp(name, "grpc-message", 12) == 0)
        (void)snprintf(c->text, sizeof c->text, "%.*s", (int)value_len, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t count,
                   void *context)
{
    call *const c = nghttp2_session_get_stream_user_data(session, id);
    (void)flags;
    (void)context;
    if (c != NULL)
        add(&c->in, bytes, count);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *context)
{
    call *const c = nghttp2_session_get_stream_user_data(session, id);
    (void)error;
    (void)context;
    if (c != NULL)
        c->ended = true;
    return 0;
}

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *into, size_t room, uint32_t *flags,
                        nghttp2_data_source *source, void *context)
{
    call *const c = source->ptr;
    const size_t count = c->out.count < room ? c->out.count : room;
    (void)session;
    (void)id;
    (void)context;
    if (count == 0 && c->stays)
        return NGHTTP2_ERR_DEFERRED;
    if (count > 0)
        memcpy(into, c->out.bytes, count);
    take(&c->out, count);
    if (c->out.count == 0 && !c->stays)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)count;
}

static bool send_all(grpc *client)
{
    const uint8_t *bytes;
    for (ssize_t count; (count = nghttp2_session_mem_send(client->session, &bytes)) > 0;)
        if (!client->carrier.send(client->carrier.context, bytes, (size_t)count))
            return false;
    return true;
}

bool grpc_feed(grpc *client, const void *bytes, size_t count)
{
    return nghttp2_session_mem_recv(client->session, bytes, count) == (ssize_t)count && send_all(client);
}

/* ------------------------------------------------------------------ calls ---- */

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        0};
}

static bool begin(grpc *client, call *c, const char *path)
{
    const nghttp2_nv headers[] = {header(":method", "POST"),
                                  header(":scheme", "http"),
                                  header(":path", path),
                                  header(":authority", "etcd"),
                                  header("content-type", "application/grpc"),
                                  header("te", "trailers")};
    const nghttp2_data_provider provider = {{.ptr = c}, read_out};
    c->status = -1;
    c->id = nghttp2_submit_request(client->session, NULL, headers, sizeof headers / sizeof *headers,
                                   &provider, c);
    return c->id >= 0;
}

static void add_message(call *c, const void *bytes, size_t count)
{
    const uint8_t prefix[PREFIX] = {0, (uint8_t)(count >> 24), (uint8_t)(count >> 16), (uint8_t)(count >> 8),
                                    (uint8_t)count};
    add(&c->out, prefix, PREFIX);
    add(&c->out, bytes, count);
}

static size_t complete(const call *c)
{
    const uint8_t *const p = c->in.bytes;
    if (c->in.count < PREFIX)
        return 0;
    const size_t size = PREFIX + ((size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4]);
    return c->in.count >= size ? size : 0;
}

static uint8_t *take_message(call *c, size_t *count)
{
    const size_t size = complete(c);
    buffer message = {0};
    if (size == 0)
        return NULL;
    add(&message, c->in.bytes + PREFIX, size - PREFIX);
    take(&c->in, size);
    *count = size - PREFIX;
    return message.bytes;
}

grpc_answer grpc_call(grpc *client, const char *path, const void *bytes, size_t count, int64_t patience_ms)
{
    const int64_t until = lk_now_ns() + patience_ms * 1000000;
    call c = {0};
    add_message(&c, bytes, count);
    bool ok = begin(client, &c, path) && send_all(client);
    while (ok && !c.ended && lk_now_ns() < until)
        ok = client->carrier.receive(client->carrier.context, client);
    grpc_answer answer = {.status = c.ended ? c.status : -1};
    (void)snprintf(answer.text, sizeof answer.text, "%s", c.text);
    answer.bytes = take_message(&c, &answer.count);
    if (!c.ended)
        (void)nghttp2_session_set_stream_user_data(client->session, c.id, NULL);
    free(c.in.bytes);
    free(c.out.bytes);
    return answer;
}

uint8_t *grpc_pack(const ProtobufCMessage *message, size_t *count)
{
    uint8_t *const packed = malloc(protobuf_c_message_get_packed_size(message) + 1);
    if (packed == NULL)
        abort();
    *count = protobuf_c_message_pack(message, packed);
    return packed;
}

grpc_answer grpc_ask(grpc *client, const char *path, const ProtobufCMessage *message, int64_t patience_ms)
{
    size_t size;
    uint8_t *const packed = grpc_pack(message, &size);
    const grpc_answer answer = grpc_call(client, path, packed, size, patience_ms);
    free(packed);
    return answer;
}

bool grpc_open(grpc *client, const char *path)
{
    client->open = calloc(1, sizeof *client->open);
    if (client->open == NULL)
        abort();
    client->open->stays = true;
    return begin(client, client->open, path) && send_all(client);
}

bool grpc_say(grpc *client, const ProtobufCMessage *message)
{
    size_t size;
    uint8_t *const packed = grpc_pack(message, &size);
    add_message(client->open, packed, size);
    free(packed);
    (void)nghttp2_session_resume_data(client->session, client->open->id);
    return send_all(client);
}

uint8_t *grpc_hear(grpc *client, size_t *count, int64_t patience_ms)
{
    const int64_t until = lk_now_ns() + patience_ms * 1000000;
    bool ok = true;
    while (ok && complete(client->open) == 0 && !client->open->ended && lk_now_ns() < until)
        ok = client->carrier.receive(client->carrier.context, client);
    return take_message(client->open, count);
}

/* ------------------------------------------------------------------ life ---- */

grpc *grpc_new(const grpc_carrier *carrier)
{
    grpc *const client = calloc(1, sizeof *client);
    nghttp2_session_callbacks *callbacks;
    if (client == NULL || nghttp2_session_callbacks_new(&callbacks) != 0)
        abort();
    client->carrier = *carrier;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_client_new(&client->session, callbacks, client) != 0)
        abort();
    nghttp2_session_callbacks_del(callbacks);
    (void)nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, NULL, 0);
    return client;
}

void grpc_free(grpc *client)
{
    if (client == NULL)
        return;
    nghttp2_session_del(client->session);
    if (client->open != NULL) {
        free(client->open->in.bytes);
        free(client->open->out.bytes);
    }
    free(client->open);
    free(client);
}
