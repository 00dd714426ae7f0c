/* wire.c: see wire.h. */
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
#include "simulation/zookeeper/jute.h"

enum { FRAME_MAX = 1 << 16, KINDS_MAX = 64, PATIENCE_MS = 400, PATIENCES = 100 };

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
    int waits;                    /* of PATIENCE_MS, since the last frame that is not an answer to those */
    unsigned char got[FRAME_MAX]; /* not read yet */
    size_t got_len, got_at;
    unsigned char frame[FRAME_MAX];
    lk_simzk_reader in; /* of it */
    lk_simzk_writer out;
};

void (*wire_before_failure)(void);

static void fails(const char *why)
{
    (void)fprintf(stderr, "talking with ZooKeeper: %s\n", why);
    if (wire_before_failure != NULL)
        wire_before_failure();
    exit(1);
}

/* ------------------------------------------------------------------ frames ---- */

/* Returns what send_frame() takes. */
static size_t begin_frame(wire *w)
{
    w->out.len = 0;
    return lk_simzk_put_frame(&w->out);
}

static void send_frame(wire *w, size_t begun)
{
    lk_simzk_end_frame(&w->out, begun);
    (void)send(w->fd, w->out.bytes, w->out.len,
               MSG_NOSIGNAL); /* if it has closed, there is no answer: that tells */
}

/* A member of an ensemble before 3.8.1 may forget an answer until it is asked something else
 * (ZOOKEEPER-4537). */
static void wake(wire *w)
{
    const size_t begun = begin_frame(w);
    lk_simzk_put_int(&w->out, LK_SIMZK_PING_XID);
    lk_simzk_put_int(&w->out, lk_simzk_code_of(LK_SIMZK_PING));
    send_frame(w, begun);
    w->wakes++;
}

/* A server that answers pings may still owe what is waited for: their answers don't begin the time anew. EINTR: we were
 * stopped or traced meanwhile. */
static bool receive_bytes(wire *w)
{
    while (w->waits < PATIENCES) {
        const ssize_t got = recv(w->fd, w->got, sizeof w->got, 0);
        w->got_len = got > 0 ? (size_t)got : 0;
        w->got_at = 0;
        if (got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return got > 0;
        if (errno == EINTR)
            continue;
        w->waits++;
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
    w->in = (lk_simzk_reader){.bytes = w->frame, .len = ntohl(len)};
    if (w->in.len > FRAME_MAX)
        fails("an answer is too long");
    return read_bytes(w, w->frame, w->in.len);
}

/* ------------------------------------------------------------------ requests ---- */

wire *wire_connect(const lk_server *server, const wire_hello *hello)
{
    wire *const w = calloc(1, sizeof *w);
    if (w == NULL || (w->fd = lk_server_connect(server, PATIENCE_MS)) < 0)
        fails("no connection");
    (void)setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    const size_t begun = begin_frame(w);
    lk_simzk_put_int(&w->out, 0);
    lk_simzk_put_long(&w->out, hello->seen);
    lk_simzk_put_int(&w->out, hello->timeout_ms);
    lk_simzk_put_long(&w->out, hello->session);
    lk_simzk_put_data(&w->out, (lk_simzk_data){hello->password, sizeof hello->password});
    lk_simzk_put_bool(&w->out, false); /* not read-only */
    send_frame(w, begun);
    return w;
}

static void put_acl(lk_simzk_writer *f, lk_simzk_acl acl)
{
    lk_simzk_put_int(f, (int32_t)acl.count);
    for (size_t i = 0; i < acl.count; i++) {
        lk_simzk_put_int(f, acl.entries[i].perms);
        lk_simzk_put_text(f, acl.entries[i].scheme);
        lk_simzk_put_text(f, acl.entries[i].id);
    }
}

static void put_op(lk_simzk_writer *f, const lk_simzk_op *op)
{
    if (op->kind == LK_SIMZK_PING || op->kind == LK_SIMZK_CLOSE)
        return;
    if (op->kind == LK_SIMZK_AUTH)
        lk_simzk_put_int(f, 0);
    lk_simzk_put_text(f, op->path);
    if (op->kind <= LK_SIMZK_CREATE_CONTAINER || op->kind == LK_SIMZK_SET || op->kind == LK_SIMZK_AUTH)
        lk_simzk_put_data(f, op->data);
    if (op->kind <= LK_SIMZK_CREATE_CONTAINER) {
        put_acl(f, op->acl);
        lk_simzk_put_int(f, op->mode);
    } else if (op->kind <= LK_SIMZK_CHECK || op->kind == LK_SIMZK_REMOVE_WATCHES) {
        lk_simzk_put_int(f, op->version);
    } else if (op->kind == LK_SIMZK_EXISTS || op->kind == LK_SIMZK_GET || op->kind == LK_SIMZK_LIST) {
        lk_simzk_put_bool(f, op->watch);
    }
}

void wire_send(wire *w, const lk_simzk_request *request)
{
    const lk_simzk_kind kind = request->op.kind;
    const size_t begun = begin_frame(w);
    lk_simzk_put_int(&w->out, request->xid);
    lk_simzk_put_int(&w->out, lk_simzk_code_of(kind));
    if (kind == LK_SIMZK_MULTI) {
        for (size_t i = 0; i < request->count; i++) {
            lk_simzk_put_multi(&w->out, lk_simzk_code_of(request->ops[i].kind), false, -1);
            put_op(&w->out, &request->ops[i]);
        }
        lk_simzk_put_multi(&w->out, -1, true, -1);
    } else if (kind == LK_SIMZK_SET_WATCHES) {
        lk_simzk_put_long(&w->out, request->seen);
        lk_simzk_put_texts(&w->out, request->data_watches);
        lk_simzk_put_texts(&w->out, request->exist_watches);
        lk_simzk_put_texts(&w->out, request->child_watches);
    } else {
        put_op(&w->out, &request->op);
    }
    if (w->count == KINDS_MAX)
        fails("too many requests without an answer");
    w->awaited[w->count++] = (awaited){request->xid, kind};
    send_frame(w, begun);
}

/* ------------------------------------------------------------------ answers ---- */

static lk_simzk_stat take_stat(lk_simzk_reader *r)
{
    lk_simzk_stat stat;
    stat.czxid = lk_simzk_take_long(r);
    stat.mzxid = lk_simzk_take_long(r);
    stat.ctime = lk_simzk_take_long(r);
    stat.mtime = lk_simzk_take_long(r);
    stat.version = lk_simzk_take_int(r);
    stat.cversion = lk_simzk_take_int(r);
    stat.aversion = lk_simzk_take_int(r);
    stat.ephemeral_owner = lk_simzk_take_long(r);
    stat.data_length = lk_simzk_take_int(r);
    stat.num_children = lk_simzk_take_int(r);
    stat.pzxid = lk_simzk_take_long(r);
    return stat;
}

static void take_result(lk_simzk_reader *f, lk_simzk_result *result, lk_simzk_arena *arena)
{
    if (result->kind <= LK_SIMZK_CREATE_CONTAINER)
        result->path = lk_simzk_take_text(f, arena);
    if (result->kind == LK_SIMZK_CREATE2 || result->kind == LK_SIMZK_CREATE_CONTAINER ||
        result->kind == LK_SIMZK_SET)
        result->stat = take_stat(f);
    if (result->kind == LK_SIMZK_ERROR)
        result->error = lk_simzk_take_int(f);
}

static void take_results(lk_simzk_reader *f, lk_simzk_parcel *parcel)
{
    lk_simzk_result *const results = lk_simzk_arena_alloc(&parcel->arena, KINDS_MAX * sizeof *results);
    parcel->answer.results = results;
    for (;;) {
        const int32_t code = lk_simzk_take_int(f);
        const bool done = lk_simzk_take_bool(f);
        (void)lk_simzk_take_int(f);
        if (done || parcel->answer.count == KINDS_MAX)
            return;
        lk_simzk_result *const result = &results[parcel->answer.count++];
        *result = (lk_simzk_result){.kind = lk_simzk_kind_of(code)};
        take_result(f, result, &parcel->arena);
    }
}

static void take_reply(lk_simzk_reader *f, lk_simzk_kind kind, lk_simzk_parcel *parcel)
{
    lk_simzk_answer *const answer = &parcel->answer;
    if (kind <= LK_SIMZK_CREATE_CONTAINER || kind == LK_SIMZK_SYNC)
        answer->path = lk_simzk_take_text(f, &parcel->arena);
    if (kind == LK_SIMZK_MULTI)
        take_results(f, parcel);
    if (kind == LK_SIMZK_LIST)
        answer->names = lk_simzk_take_texts(f, &parcel->arena);
    if (kind == LK_SIMZK_GET)
        answer->data = lk_simzk_take_data(f, &parcel->arena);
    answer->has_stat = kind == LK_SIMZK_CREATE2 || kind == LK_SIMZK_CREATE_CONTAINER ||
                       kind == LK_SIMZK_SET || kind == LK_SIMZK_GET || kind == LK_SIMZK_EXISTS;
    if (answer->has_stat)
        answer->stat = take_stat(f);
}

static void take_welcome(wire *w, lk_simzk_parcel *parcel)
{
    (void)lk_simzk_take_int(&w->in);
    parcel->answer.kind = LK_SIMZK_WELCOME;
    parcel->answer.timeout_ms = lk_simzk_take_int(&w->in);
    parcel->answer.session = lk_simzk_take_long(&w->in);
    const lk_simzk_data password = lk_simzk_take_data(&w->in, &parcel->arena);
    if (password.len == sizeof w->password)
        memcpy(w->password, password.bytes, sizeof w->password);
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
    if (w->wakes == 0 || !w->welcomed || lk_simzk_take_int(&w->in) != LK_SIMZK_PING_XID) {
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
    w->waits = 0;
    lk_simzk_parcel *const parcel = lk_simzk_parcel_new(LK_SIMZK_REPLY);
    lk_simzk_answer *const answer = &parcel->answer;
    if (!w->welcomed) {
        take_welcome(w, parcel);
        return answer;
    }
    answer->xid = lk_simzk_take_int(&w->in);
    answer->zxid = lk_simzk_take_long(&w->in);
    answer->error = lk_simzk_take_int(&w->in);
    if (answer->xid == LK_SIMZK_EVENT_XID) {
        answer->kind = LK_SIMZK_EVENT;
        answer->type = lk_simzk_take_int(&w->in);
        (void)lk_simzk_take_int(&w->in); /* the state, which is always that it is connected */
        answer->path = lk_simzk_take_text(&w->in, &parcel->arena);
        return answer;
    }
    const lk_simzk_kind kind = take_awaited(w, answer->xid);
    if (answer->error == LK_SIMZK_OK)
        take_reply(&w->in, kind, parcel);
    if (w->in.is_broken)
        fails("an answer is too short");
    return answer;
}

const unsigned char *wire_password(const wire *w)
{
    return w->password;
}

/* When a server sees that a connection has ended, it strikes its session's number off the list of connections, whoever
 * stands there by then, and closes it after that. Another of its threads takes the next connection: with the same session
 * it may be the one that is struck off, and then nobody else who comes with the session cuts it off
 * (ServerCnxnFactory.removeCnxnFromSessionMap(), seen with 3.8.0). So there is no next one before it has closed this. */
static void await_close(wire *w)
{
    (void)shutdown(w->fd, SHUT_WR);
    w->welcomed = false; /* nothing to be woken by */
    for (w->waits = 0; receive_bytes(w);)
        ;
}

void wire_close(wire *w)
{
    if (w == NULL)
        return;
    await_close(w);
    close(w->fd);
    free(w->out.bytes);
    free(w);
}
