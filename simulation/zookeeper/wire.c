/* wire.c: see wire.h. */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#include "jute.h"

enum { FRAME_MAX = 0xfffff /* jute.maxbuffer */, CONNECTED_STATE = 3 };

/* A request that has no answer yet. */
typedef struct {
    int32_t xid;
    lk_simzk_kind kind;
} awaited;

struct lk_simzk_wire {
    lk_simzk *z;
    int server;
    lk_simzk_connection *connection; /* once the client has said hello */
    bool closed;
    int64_t session;
    lk_simzk_wire_listener listener; /* all NULL: there is none */
    lk_simzk_writer in, out;         /* not read yet; to be taken */
    awaited *awaited;
    size_t count, room;
};

lk_simzk_wire *lk_simzk_wire_new(lk_simzk *z, int server)
{
    lk_simzk_wire *const wire = lk_simzk_alloc(sizeof *wire);
    wire->z = z;
    wire->server = server;
    return wire;
}

void lk_simzk_wire_listen(lk_simzk_wire *wire, lk_simzk_wire_listener listener)
{
    wire->listener = listener;
}

void lk_simzk_wire_free(lk_simzk_wire *wire)
{
    lk_simzk_disconnect(wire->connection);
    free(wire->in.bytes);
    free(wire->out.bytes);
    free(wire->awaited);
    free(wire);
}

bool lk_simzk_wire_is_closed(const lk_simzk_wire *wire)
{
    return wire->closed || (wire->connection != NULL && lk_simzk_is_closed(wire->connection));
}

int64_t lk_simzk_wire_session(const lk_simzk_wire *wire)
{
    return wire->session;
}

/* ------------------------------------------------------------------ requests ---- */

static void greet(lk_simzk_wire *wire, lk_simzk_reader *r)
{
    lk_simzk_hello hello;
    (void)lk_simzk_take_int(r); /* the protocol's version */
    hello.seen = lk_simzk_take_long(r);
    hello.timeout_ms = lk_simzk_take_int(r);
    hello.session = wire->session = lk_simzk_take_long(r);
    (void)lk_simzk_take_int(r); /* the password's length */
    hello.password = (uint64_t)lk_simzk_take_long(r);
    (void)lk_simzk_take_long(r);
    (void)lk_simzk_take_bool(r); /* whether it may be read-only, which no server is */
    wire->connection = r->is_broken ? NULL : lk_simzk_connect(wire->z, wire->server, &hello);
    wire->closed = wire->connection == NULL;
}

static lk_simzk_acl take_acl(lk_simzk_reader *r, lk_simzk_arena *arena)
{
    const size_t count = lk_simzk_take_count(r, 3 * sizeof(int32_t));
    lk_simzk_ace *const entries = lk_simzk_arena_alloc(arena, count * sizeof *entries);
    for (size_t i = 0; i < count; i++) {
        entries[i].perms = lk_simzk_take_int(r);
        entries[i].scheme = lk_simzk_take_text(r, arena);
        entries[i].id = lk_simzk_take_text(r, arena);
    }
    return (lk_simzk_acl){entries, count};
}

static lk_simzk_op take_op(lk_simzk_reader *r, lk_simzk_kind kind, lk_simzk_arena *arena)
{
    lk_simzk_op op = {.kind = kind, .data = {NULL, -1}};
    if (kind == LK_SIMZK_PING || kind == LK_SIMZK_CLOSE)
        return op;
    if (kind == LK_SIMZK_AUTH)
        (void)lk_simzk_take_int(r);
    op.path = lk_simzk_take_text(r, arena);
    if (kind <= LK_SIMZK_CREATE_CONTAINER || kind == LK_SIMZK_SET || kind == LK_SIMZK_AUTH)
        op.data = lk_simzk_take_data(r, arena);
    if (kind <= LK_SIMZK_CREATE_CONTAINER) {
        op.acl = take_acl(r, arena);
        op.mode = lk_simzk_take_int(r);
    } else if (kind <= LK_SIMZK_CHECK || kind == LK_SIMZK_REMOVE_WATCHES) {
        op.version = lk_simzk_take_int(r);
    } else if (kind == LK_SIMZK_EXISTS || kind == LK_SIMZK_GET || kind == LK_SIMZK_LIST) {
        op.watch = lk_simzk_take_bool(r);
    }
    return op;
}

static void take_ops(lk_simzk_reader *r, lk_simzk_request *request, lk_simzk_arena *arena)
{
    const size_t most = r->len / (3 * sizeof(int32_t)); /* a header and a path each, at least */
    lk_simzk_op *const ops = lk_simzk_arena_alloc(arena, most * sizeof *ops);
    request->ops = ops;
    while (!r->is_broken && request->count < most) {
        const lk_simzk_kind kind = lk_simzk_kind_of(lk_simzk_take_int(r));
        const bool done = lk_simzk_take_bool(r);
        (void)lk_simzk_take_int(r);
        if (done)
            return;
        ops[request->count++] = take_op(r, kind, arena);
        r->is_broken |= kind > LK_SIMZK_CHECK;
    }
}

static void await(lk_simzk_wire *wire, int32_t xid, lk_simzk_kind kind)
{
    if (wire->count == wire->room) {
        wire->room = 2 * wire->room + 8;
        wire->awaited = realloc(wire->awaited, wire->room * sizeof *wire->awaited);
        if (wire->awaited == NULL)
            abort();
    }
    wire->awaited[wire->count++] = (awaited){xid, kind};
}

static void take_request(lk_simzk_wire *wire, lk_simzk_reader *r)
{
    lk_simzk_arena arena = {NULL};
    lk_simzk_request request = {.xid = lk_simzk_take_int(r)};
    const lk_simzk_kind kind = lk_simzk_kind_of(lk_simzk_take_int(r));
    request.op.kind = kind;
    if (kind == LK_SIMZK_MULTI) {
        take_ops(r, &request, &arena);
    } else if (kind == LK_SIMZK_SET_WATCHES) {
        request.seen = lk_simzk_take_long(r);
        request.data_watches = lk_simzk_take_texts(r, &arena);
        request.exist_watches = lk_simzk_take_texts(r, &arena);
        request.child_watches = lk_simzk_take_texts(r, &arena);
    } else if (kind < LK_SIMZK_ERROR) {
        request.op = take_op(r, kind, &arena);
    }
    r->is_broken |= kind >= LK_SIMZK_ERROR;
    if (!r->is_broken) {
        await(wire, request.xid, kind);
        if (wire->listener.asked != NULL)
            wire->listener.asked(wire->listener.context, &request);
        lk_simzk_send(wire->connection, &request);
    }
    lk_simzk_arena_free(&arena);
}

/* The next frame that is there as a whole. False: there is none. */
static bool take_frame(lk_simzk_wire *wire, size_t *at, lk_simzk_reader *frame)
{
    lk_simzk_reader all = {.bytes = wire->in.bytes, .len = wire->in.len, .at = *at};
    const size_t len = (uint32_t)lk_simzk_take_int(&all);
    wire->closed |= !all.is_broken && len > FRAME_MAX;
    if (wire->closed || all.is_broken || len > all.len - all.at)
        return false;
    *frame = (lk_simzk_reader){.bytes = all.bytes + all.at, .len = len};
    *at = all.at + len;
    return true;
}

bool lk_simzk_wire_feed(lk_simzk_wire *wire, const void *bytes, size_t count)
{
    lk_simzk_reader frame = {NULL, 0, 0, false};
    size_t at = 0;
    lk_simzk_put_bytes(&wire->in, bytes, count);
    while (!frame.is_broken && take_frame(wire, &at, &frame)) {
        if (wire->connection == NULL)
            greet(wire, &frame);
        else
            take_request(wire, &frame);
    }
    wire->in.len -= at;
    memmove(wire->in.bytes, wire->in.bytes + at, wire->in.len);
    return !frame.is_broken;
}

/* ------------------------------------------------------------------ answers ---- */

static void put_stat(lk_simzk_writer *w, const lk_simzk_stat *stat)
{
    lk_simzk_put_long(w, stat->czxid);
    lk_simzk_put_long(w, stat->mzxid);
    lk_simzk_put_long(w, stat->ctime);
    lk_simzk_put_long(w, stat->mtime);
    lk_simzk_put_int(w, stat->version);
    lk_simzk_put_int(w, stat->cversion);
    lk_simzk_put_int(w, stat->aversion);
    lk_simzk_put_long(w, stat->ephemeral_owner);
    lk_simzk_put_int(w, stat->data_length);
    lk_simzk_put_int(w, stat->num_children);
    lk_simzk_put_long(w, stat->pzxid);
}

static void put_result(lk_simzk_writer *w, const lk_simzk_result *result)
{
    const lk_simzk_kind kind = result->kind;
    const bool failed = kind == LK_SIMZK_ERROR;
    lk_simzk_put_multi(w, failed ? -1 : lk_simzk_code_of(kind), false, result->error);
    if (failed)
        lk_simzk_put_int(w, result->error);
    if (kind <= LK_SIMZK_CREATE_CONTAINER)
        lk_simzk_put_text(w, result->path);
    if (kind == LK_SIMZK_CREATE2 || kind == LK_SIMZK_CREATE_CONTAINER || kind == LK_SIMZK_SET)
        put_stat(w, &result->stat);
}

static void put_reply(lk_simzk_writer *w, const lk_simzk_answer *answer, lk_simzk_kind kind)
{
    if (answer->path != NULL)
        lk_simzk_put_text(w, answer->path);
    for (size_t i = 0; i < answer->count; i++)
        put_result(w, &answer->results[i]);
    if (kind == LK_SIMZK_MULTI)
        lk_simzk_put_multi(w, -1, true, -1);
    if (kind == LK_SIMZK_LIST)
        lk_simzk_put_texts(w, answer->names);
    if (kind == LK_SIMZK_GET)
        lk_simzk_put_data(w, answer->data);
    if (answer->has_stat)
        put_stat(w, &answer->stat);
}

static void put_welcome(lk_simzk_writer *w, const lk_simzk_answer *answer)
{
    lk_simzk_put_int(w, 0); /* the protocol's version */
    lk_simzk_put_int(w, answer->timeout_ms);
    lk_simzk_put_long(w, answer->session);
    lk_simzk_put_int(w, 2 * sizeof answer->password); /* its length */
    lk_simzk_put_long(w, (int64_t)answer->password);
    lk_simzk_put_long(w, 0);
    lk_simzk_put_bool(w, false); /* not read-only */
}

/* What was asked by that number first. */
static lk_simzk_kind take_awaited(lk_simzk_wire *wire, int32_t xid)
{
    size_t at = 0;
    while (wire->awaited[at].xid != xid)
        at++;
    const lk_simzk_kind kind = wire->awaited[at].kind;
    wire->count--;
    memmove(&wire->awaited[at], &wire->awaited[at + 1], (wire->count - at) * sizeof wire->awaited[0]);
    return kind;
}

/* Answers what was asked, where it is a reply. */
static lk_simzk_kind put_answer(lk_simzk_wire *wire, const lk_simzk_answer *answer)
{
    lk_simzk_writer *const w = &wire->out;
    const bool is_event = answer->kind == LK_SIMZK_EVENT;
    if (answer->kind == LK_SIMZK_WELCOME) {
        wire->session = answer->session;
        put_welcome(w, answer);
        return LK_SIMZK_ERROR;
    }
    lk_simzk_put_int(w, is_event ? LK_SIMZK_EVENT_XID : answer->xid);
    lk_simzk_put_long(w, answer->zxid);
    lk_simzk_put_int(w, (int32_t)answer->error);
    if (is_event) {
        lk_simzk_put_int(w, answer->type);
        lk_simzk_put_int(w, CONNECTED_STATE);
        lk_simzk_put_text(w, answer->path);
        return LK_SIMZK_ERROR;
    }
    const lk_simzk_kind kind = take_awaited(wire, answer->xid);
    if (answer->error == LK_SIMZK_OK)
        put_reply(w, answer, kind);
    return kind;
}

const void *lk_simzk_wire_output(lk_simzk_wire *wire, size_t *count)
{
    lk_simzk_answer *answer;
    wire->out.len = 0;
    while (wire->connection != NULL && (answer = lk_simzk_receive(wire->connection)) != NULL) {
        const size_t begun = lk_simzk_put_frame(&wire->out);
        const lk_simzk_kind asked = put_answer(wire, answer);
        lk_simzk_end_frame(&wire->out, begun);
        if (wire->listener.answered != NULL)
            wire->listener.answered(wire->listener.context, answer, asked, wire->out.len);
        lk_simzk_answer_free(answer);
    }
    *count = wire->out.len;
    return wire->out.bytes;
}
