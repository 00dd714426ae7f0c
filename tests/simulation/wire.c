/* wire.c: ZooKeeper's wire protocol (jute: numbers big-endian, texts and lists with their length before them); see
 * wire.h. */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "simulation/zookeeper/connection.h"

enum { FRAME_MAX = 1 << 16, KINDS_MAX = 64, PATIENCE_MS = 400, PATIENCES = 100 };
enum { OP_CREATE = 1, OP_DELETE = 2, OP_SET = 5, OP_CREATE2 = 15, OP_CONTAINER = 19, OP_CHECK = 13 };

/* By lk_simzk_kind. */
static const int32_t op_codes[] = {OP_CREATE, OP_CREATE2, OP_CONTAINER, OP_DELETE, OP_SET, OP_CHECK, 14, 3, 4,
                                   8,         9,          11,           100,       101,    18,       -11};

typedef struct {
    unsigned char bytes[FRAME_MAX];
    size_t len, at;
} frame;

/* A request that has no answer yet. */
typedef struct {
    int32_t xid;
    lk_simzk_kind kind;
} awaited;

struct wire {
    int fd;
    bool welcomed;
    unsigned char password[16];
    awaited awaited[KINDS_MAX];
    size_t count;
    int wakes;                    /* pings of our own that have no answer yet */
    unsigned char got[FRAME_MAX]; /* not read yet */
    size_t got_len, got_at;
    frame in, out;
};

static void fails(const char *why)
{
    (void)fprintf(stderr, "talking with ZooKeeper: %s\n", why);
    exit(1);
}

/* ------------------------------------------------------------------ jute ---- */

static void put_bytes(frame *f, const void *bytes, size_t len)
{
    if (f->len + len > FRAME_MAX)
        fails("a request is too long");
    if (len > 0)
        memcpy(f->bytes + f->len, bytes, len);
    f->len += len;
}

static void put_int(frame *f, int32_t value)
{
    const uint32_t big = htonl((uint32_t)value);
    put_bytes(f, &big, sizeof big);
}

static void put_long(frame *f, int64_t value)
{
    put_int(f, (int32_t)(uint32_t)((uint64_t)value >> 32));
    put_int(f, (int32_t)(uint32_t)value);
}

static void put_bool(frame *f, bool value)
{
    put_bytes(f, value ? "\1" : "", 1);
}

static void put_data(frame *f, const void *bytes, int32_t len)
{
    put_int(f, len);
    if (len > 0)
        put_bytes(f, bytes, (size_t)len);
}

static void put_text(frame *f, const char *text)
{
    put_data(f, text, (int32_t)strlen(text));
}

static const unsigned char *take_bytes(frame *f, size_t len)
{
    if (f->at + len > f->len)
        fails("an answer is too short");
    f->at += len;
    return f->bytes + f->at - len;
}

static int32_t take_int(frame *f)
{
    uint32_t big;
    memcpy(&big, take_bytes(f, sizeof big), sizeof big);
    return (int32_t)ntohl(big);
}

static int64_t take_long(frame *f)
{
    const uint64_t high = (uint32_t)take_int(f);
    return (int64_t)(high << 32 | (uint32_t)take_int(f));
}

static lk_simzk_data take_data(frame *f, lk_simzk_arena *arena)
{
    lk_simzk_data data = {NULL, take_int(f)};
    if (data.len >= 0)
        data.bytes = lk_simzk_arena_copy(arena, take_bytes(f, (size_t)data.len), (size_t)data.len);
    return data;
}

static const char *take_text(frame *f, lk_simzk_arena *arena)
{
    const size_t len = (size_t)take_int(f);
    char *const text = lk_simzk_arena_alloc(arena, len + 1);
    memcpy(text, take_bytes(f, len), len);
    return text;
}

static lk_simzk_stat take_stat(frame *f)
{
    lk_simzk_stat stat;
    stat.czxid = take_long(f);
    stat.mzxid = take_long(f);
    stat.ctime = take_long(f);
    stat.mtime = take_long(f);
    stat.version = take_int(f);
    stat.cversion = take_int(f);
    stat.aversion = take_int(f);
    stat.ephemeral_owner = take_long(f);
    stat.data_length = take_int(f);
    stat.num_children = take_int(f);
    stat.pzxid = take_long(f);
    return stat;
}

/* ------------------------------------------------------------------ frames ---- */

static void send_frame(wire *w)
{
    const uint32_t len = htonl((uint32_t)w->out.len);
    unsigned char bytes[FRAME_MAX + sizeof len];
    memcpy(bytes, &len, sizeof len);
    memcpy(bytes + sizeof len, w->out.bytes, w->out.len);
    const ssize_t size = (ssize_t)(w->out.len + sizeof len);
    (void)send(w->fd, bytes, (size_t)size,
               MSG_NOSIGNAL); /* if it has closed, there is no answer: that tells */
}

/* A member of an ensemble before 3.8.1 may forget an answer until it is asked something else (ZOOKEEPER-4537). */
static void wake(wire *w)
{
    w->out.len = 0;
    put_int(&w->out, LK_SIMZK_PING_XID);
    put_int(&w->out, op_codes[LK_SIMZK_PING]);
    send_frame(w);
    w->wakes++;
}

static bool receive_bytes(wire *w)
{
    for (int i = 0; i < PATIENCES; i++) {
        const ssize_t got = recv(w->fd, w->got, sizeof w->got, 0);
        w->got_len = got > 0 ? (size_t)got : 0;
        w->got_at = 0;
        if (got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
            return got > 0;
        if (w->welcomed)
            wake(w);
    }
    fails("no answer");
    return false;
}

static bool read_bytes(wire *w, void *to, size_t len)
{
    for (size_t have = 0; have < len;) {
        if (w->got_at == w->got_len && !receive_bytes(w))
            return false;
        const size_t more = len - have < w->got_len - w->got_at ? len - have : w->got_len - w->got_at;
        memcpy((unsigned char *)to + have, w->got + w->got_at, more);
        w->got_at += more;
        have += more;
    }
    return true;
}

static bool receive_frame(wire *w)
{
    uint32_t len;
    if (!read_bytes(w, &len, sizeof len))
        return false;
    w->in.len = ntohl(len);
    w->in.at = 0;
    if (w->in.len > FRAME_MAX)
        fails("an answer is too long");
    return read_bytes(w, w->in.bytes, w->in.len);
}

/* ------------------------------------------------------------------ requests ---- */

wire *wire_connect(const lk_server *server, const wire_hello *hello)
{
    wire *const w = calloc(1, sizeof *w);
    if (w == NULL || (w->fd = lk_server_connect(server, PATIENCE_MS)) < 0)
        fails("no connection");
    (void)setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    put_int(&w->out, 0);
    put_long(&w->out, hello->seen);
    put_int(&w->out, hello->timeout_ms);
    put_long(&w->out, hello->session);
    put_data(&w->out, hello->password, sizeof hello->password);
    put_bool(&w->out, false); /* not read-only */
    send_frame(w);
    return w;
}

static void put_acl(frame *f, lk_simzk_acl acl)
{
    put_int(f, (int32_t)acl.count);
    for (size_t i = 0; i < acl.count; i++) {
        put_int(f, acl.entries[i].perms);
        put_text(f, acl.entries[i].scheme);
        put_text(f, acl.entries[i].id);
    }
}

static void put_texts(frame *f, lk_simzk_texts texts)
{
    put_int(f, (int32_t)texts.count);
    for (size_t i = 0; i < texts.count; i++)
        put_text(f, texts.items[i]);
}

static void put_op(frame *f, const lk_simzk_op *op)
{
    if (op->kind == LK_SIMZK_PING || op->kind == LK_SIMZK_CLOSE)
        return;
    if (op->kind == LK_SIMZK_AUTH)
        put_int(f, 0);
    put_text(f, op->path);
    if (op->kind <= LK_SIMZK_CREATE_CONTAINER || op->kind == LK_SIMZK_SET || op->kind == LK_SIMZK_AUTH)
        put_data(f, op->data.bytes, op->data.len);
    if (op->kind <= LK_SIMZK_CREATE_CONTAINER) {
        put_acl(f, op->acl);
        put_int(f, op->mode);
    } else if (op->kind <= LK_SIMZK_CHECK || op->kind == LK_SIMZK_REMOVE_WATCHES) {
        put_int(f, op->version);
    } else if (op->kind == LK_SIMZK_EXISTS || op->kind == LK_SIMZK_GET || op->kind == LK_SIMZK_LIST) {
        put_bool(f, op->watch);
    }
}

static void put_multi_header(frame *f, int32_t type, bool done)
{
    put_int(f, type);
    put_bool(f, done);
    put_int(f, -1);
}

void wire_send(wire *w, const lk_simzk_request *request)
{
    const lk_simzk_kind kind = request->op.kind;
    w->out.len = 0;
    put_int(&w->out, request->xid);
    put_int(&w->out, op_codes[kind]);
    if (kind == LK_SIMZK_MULTI) {
        for (size_t i = 0; i < request->count; i++) {
            put_multi_header(&w->out, op_codes[request->ops[i].kind], false);
            put_op(&w->out, &request->ops[i]);
        }
        put_multi_header(&w->out, -1, true);
    } else if (kind == LK_SIMZK_SET_WATCHES) {
        put_long(&w->out, request->seen);
        put_texts(&w->out, request->data_watches);
        put_texts(&w->out, request->exist_watches);
        put_texts(&w->out, request->child_watches);
    } else {
        put_op(&w->out, &request->op);
    }
    if (w->count == KINDS_MAX)
        fails("too many requests without an answer");
    w->awaited[w->count++] = (awaited){request->xid, kind};
    send_frame(w);
}

/* ------------------------------------------------------------------ answers ---- */

static lk_simzk_kind kind_of(int32_t code)
{
    for (int kind = 0; kind < LK_SIMZK_ERROR; kind++)
        if (op_codes[kind] == code)
            return (lk_simzk_kind)kind;
    return LK_SIMZK_ERROR;
}

static void take_result(frame *f, lk_simzk_result *result, lk_simzk_arena *arena)
{
    if (result->kind <= LK_SIMZK_CREATE_CONTAINER)
        result->path = take_text(f, arena);
    if (result->kind == LK_SIMZK_CREATE2 || result->kind == LK_SIMZK_CREATE_CONTAINER ||
        result->kind == LK_SIMZK_SET)
        result->stat = take_stat(f);
    if (result->kind == LK_SIMZK_ERROR)
        result->error = take_int(f);
}

static void take_results(frame *f, lk_simzk_parcel *parcel)
{
    lk_simzk_result *const results = lk_simzk_arena_alloc(&parcel->arena, KINDS_MAX * sizeof *results);
    parcel->answer.results = results;
    for (;;) {
        const int32_t code = take_int(f);
        const bool done = *take_bytes(f, 1) != 0;
        (void)take_int(f);
        if (done || parcel->answer.count == KINDS_MAX)
            return;
        lk_simzk_result *const result = &results[parcel->answer.count++];
        *result = (lk_simzk_result){.kind = kind_of(code)};
        take_result(f, result, &parcel->arena);
    }
}

static void take_names(frame *f, lk_simzk_parcel *parcel)
{
    const size_t count = (size_t)take_int(f);
    const char **const items = lk_simzk_arena_alloc(&parcel->arena, count * sizeof *items);
    for (size_t i = 0; i < count; i++)
        items[i] = take_text(f, &parcel->arena);
    parcel->answer.names = (lk_simzk_texts){items, count};
}

static void take_reply(frame *f, lk_simzk_kind kind, lk_simzk_parcel *parcel)
{
    lk_simzk_answer *const answer = &parcel->answer;
    if (kind <= LK_SIMZK_CREATE_CONTAINER || kind == LK_SIMZK_SYNC)
        answer->path = take_text(f, &parcel->arena);
    if (kind == LK_SIMZK_MULTI)
        take_results(f, parcel);
    if (kind == LK_SIMZK_LIST)
        take_names(f, parcel);
    if (kind == LK_SIMZK_GET)
        answer->data = take_data(f, &parcel->arena);
    answer->has_stat = kind == LK_SIMZK_CREATE2 || kind == LK_SIMZK_CREATE_CONTAINER ||
                       kind == LK_SIMZK_SET || kind == LK_SIMZK_GET || kind == LK_SIMZK_EXISTS;
    if (answer->has_stat)
        answer->stat = take_stat(f);
}

static void take_welcome(wire *w, lk_simzk_parcel *parcel)
{
    (void)take_int(&w->in);
    parcel->answer.kind = LK_SIMZK_WELCOME;
    parcel->answer.timeout_ms = take_int(&w->in);
    parcel->answer.session = take_long(&w->in);
    if (take_int(&w->in) == sizeof w->password)
        memcpy(w->password, take_bytes(&w->in, sizeof w->password), sizeof w->password);
    w->welcomed = true;
}

/* What was asked by that number first; an answer to nothing fails. */
static lk_simzk_kind take_awaited(wire *w, int32_t xid)
{
    size_t at = 0;
    while (at < w->count && w->awaited[at].xid != xid)
        at++;
    if (at == w->count)
        fails("an answer to nothing");
    const lk_simzk_kind kind = w->awaited[at].kind;
    w->count--;
    memmove(&w->awaited[at], &w->awaited[at + 1], (w->count - at) * sizeof w->awaited[0]);
    return kind;
}

/* The answer to a ping of our own. */
static bool take_wake(wire *w)
{
    if (w->wakes == 0 || !w->welcomed || take_int(&w->in) != LK_SIMZK_PING_XID) {
        w->in.at = 0;
        return false;
    }
    w->wakes--;
    return true;
}

lk_simzk_answer *wire_receive(wire *w)
{
    do {
        if (!receive_frame(w))
            return NULL;
    } while (take_wake(w));
    lk_simzk_parcel *const parcel = lk_simzk_parcel_new(LK_SIMZK_REPLY);
    lk_simzk_answer *const answer = &parcel->answer;
    if (!w->welcomed) {
        take_welcome(w, parcel);
        return answer;
    }
    answer->xid = take_int(&w->in);
    answer->zxid = take_long(&w->in);
    answer->error = take_int(&w->in);
    if (answer->xid == LK_SIMZK_EVENT_XID) {
        answer->kind = LK_SIMZK_EVENT;
        answer->type = take_int(&w->in);
        (void)take_int(&w->in); /* the state, which is always that it is connected */
        answer->path = take_text(&w->in, &parcel->arena);
        return answer;
    }
    const lk_simzk_kind kind = take_awaited(w, answer->xid);
    if (answer->error == LK_SIMZK_OK)
        take_reply(&w->in, kind, parcel);
    return answer;
}

const unsigned char *wire_password(const wire *w)
{
    return w->password;
}

void wire_close(wire *w)
{
    if (w == NULL)
        return;
    close(w->fd);
    free(w);
}
