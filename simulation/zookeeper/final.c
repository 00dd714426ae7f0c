/* final.c: the last step of a request: its transaction is applied, or it reads; and it is answered
 * (FinalRequestProcessor). */

#include <stdlib.h>
#include <string.h>

#include "state.h"

/* ------------------------------------------------------------------ what is applied ---- */

/* The server's own books of sessions. A session that ended without its client's doing loses its connections. */
static void note_session(lk_simzk_server *s, const lk_simzk_call *call)
{
    const lk_simzk_txn *const txn = call->txn;
    const lk_simzk_change *const change = &txn->changes[0];
    if (txn->count == 0)
        return;
    if (change->kind == LK_SIMZK_TXN_CREATE_SESSION && s->role == LK_SIMZK_FOLLOWING)
        lk_simzk_touches_add(&s->following.touches, txn->session, change->timeout_ms);
    if (change->kind != LK_SIMZK_TXN_CLOSE_SESSION)
        return;
    lk_simzk_tracker_remove(&s->tracker, txn->session);
    lk_simzk_touches_remove(&s->following.touches, txn->session);
    if (call->connection == NULL)
        lk_simzk_hang_up_session(s, txn->session, NULL);
}

/* The nodes that go with a session. */
static void tell_ended(const lk_simzk_server *s, const lk_simzk_txn *txn)
{
    const lk_simzk_setup *const setup = &s->z->setup;
    if (setup->on_ended == NULL || txn->count == 0 || txn->changes[0].kind != LK_SIMZK_TXN_CLOSE_SESSION)
        return;
    for (size_t i = 0; i < txn->changes[0].paths.count; i++) {
        const lk_simzk_node *const node = lk_simzk_tree_find(&s->tree, txn->changes[0].paths.items[i]);
        if (node != NULL)
            setup->on_ended(setup->context, node->czxid);
    }
}

/* One result for each change; to be freed. */
static lk_simzk_result *apply(lk_simzk_server *s, const lk_simzk_call *call)
{
    lk_simzk_result *const results = lk_simzk_alloc((call->txn->count + 1) * sizeof *results);
    tell_ended(s, call->txn);
    lk_simzk_tree_apply(&s->tree, call->txn, results, &s->watches);
    if (s->role == LK_SIMZK_LEADING)
        lk_simzk_prepared_until(&s->leading.preparation, call->txn->zxid);
    note_session(s, call);
    return results;
}

/* ------------------------------------------------------------------ answers to writes ---- */

static void answer_multi(const lk_simzk_call *call, const lk_simzk_result *results, lk_simzk_parcel *parcel)
{
    lk_simzk_result *const copy =
        lk_simzk_arena_copy(&parcel->arena, results, call->txn->count * sizeof *results);
    for (size_t i = 0; i < call->txn->count; i++) {
        copy[i].path = lk_simzk_arena_text(&parcel->arena, results[i].path);
        if (copy[i].kind ==
            LK_SIMZK_CREATE_CONTAINER) /* which has no result of its own (OpResult.CreateResult) */
            copy[i].kind = LK_SIMZK_CREATE2;
    }
    parcel->answer.results = copy;
    parcel->answer.count = call->txn->count;
}

static void answer_write(const lk_simzk_call *call, const lk_simzk_result *result, lk_simzk_parcel *parcel)
{
    lk_simzk_answer *const answer = &parcel->answer;
    const lk_simzk_kind asked = lk_simzk_call_asks(call);
    answer->error = result->error;
    if (result->error != LK_SIMZK_OK)
        return;
    if (asked <= LK_SIMZK_CREATE_CONTAINER)
        answer->path = lk_simzk_arena_text(&parcel->arena, result->path);
    answer->has_stat =
        asked == LK_SIMZK_CREATE2 || asked == LK_SIMZK_CREATE_CONTAINER || asked == LK_SIMZK_SET;
    if (answer->has_stat)
        answer->stat = result->stat;
}

/* ------------------------------------------------------------------ reads ---- */

static lk_simzk_error exists(lk_simzk_server *s, const lk_simzk_call *call, lk_simzk_parcel *parcel)
{
    const lk_simzk_op *const op = &call->body->request.op;
    const lk_simzk_node *const node = lk_simzk_tree_find(&s->tree, op->path);
    if (node != NULL && s->z->setup.is_3_9 && !lk_simzk_acl_allows(node->acl, LK_SIMZK_READ, call->body->ids))
        return LK_SIMZK_NOAUTH;
    if (op->watch)
        lk_simzk_watches_add(&s->watches.data, op->path, call->connection);
    if (node == NULL)
        return LK_SIMZK_NONODE;
    parcel->answer.has_stat = true;
    parcel->answer.stat = lk_simzk_tree_stat(node);
    return LK_SIMZK_OK;
}

/* The node that the call may read; its watch is set in that list. */
static lk_simzk_error find(const lk_simzk_server *s, const lk_simzk_call *call, lk_simzk_watch_list *watches,
                           const lk_simzk_node **node)
{
    const lk_simzk_op *const op = &call->body->request.op;
    *node = lk_simzk_tree_find(&s->tree, op->path);
    if (*node == NULL)
        return LK_SIMZK_NONODE;
    if (!lk_simzk_acl_allows((*node)->acl, LK_SIMZK_READ, call->body->ids))
        return LK_SIMZK_NOAUTH;
    if (op->watch)
        lk_simzk_watches_add(watches, op->path, call->connection);
    return LK_SIMZK_OK;
}

static lk_simzk_error get(lk_simzk_server *s, const lk_simzk_call *call, lk_simzk_parcel *parcel)
{
    const lk_simzk_node *node;
    const lk_simzk_error error = find(s, call, &s->watches.data, &node);
    if (error != LK_SIMZK_OK)
        return error;
    parcel->answer.has_stat = true;
    parcel->answer.stat = lk_simzk_tree_stat(node);
    parcel->answer.data.len = node->len;
    if (node->len >= 0)
        parcel->answer.data.bytes = lk_simzk_arena_copy(&parcel->arena, node->data, (size_t)node->len);
    return LK_SIMZK_OK;
}

static lk_simzk_error list(lk_simzk_server *s, const lk_simzk_call *call, lk_simzk_parcel *parcel)
{
    const lk_simzk_node *node;
    const lk_simzk_error error = find(s, call, &s->watches.child, &node);
    if (error != LK_SIMZK_OK)
        return error;
    const char **const names = lk_simzk_arena_alloc(&parcel->arena, node->count * sizeof *names);
    for (size_t i = 0; i < node->count; i++)
        names[i] = lk_simzk_arena_text(&parcel->arena, lk_simzk_tree_name(node->children[i]));
    parcel->answer.names = (lk_simzk_texts){names, node->count};
    return LK_SIMZK_OK;
}

/* ------------------------------------------------------------------ watches ---- */

enum { WATCH_CHILD = 1, WATCH_DATA = 2 };

static lk_simzk_error remove_watches(lk_simzk_server *s, const lk_simzk_call *call)
{
    const lk_simzk_op *const op = &call->body->request.op;
    bool removed = false;
    if (op->version != WATCH_DATA)
        removed = lk_simzk_watches_remove(&s->watches.child, op->path, call->connection);
    if (op->version != WATCH_CHILD)
        removed |= lk_simzk_watches_remove(&s->watches.data, op->path, call->connection);
    return removed ? LK_SIMZK_OK : LK_SIMZK_NOWATCHER;
}

/* What has happened since the client was answered last is told at once. */
static void set_data_watch(lk_simzk_server *s, lk_simzk_connection *c, const char *path, int64_t seen)
{
    const lk_simzk_node *const node = lk_simzk_tree_find(&s->tree, path);
    if (node == NULL)
        lk_simzk_watches_tell(c, LK_SIMZK_DELETED, path, -1);
    else if (node->mzxid > seen)
        lk_simzk_watches_tell(c, LK_SIMZK_CHANGED, path, -1);
    else
        lk_simzk_watches_add(&s->watches.data, path, c);
}

static void set_child_watch(lk_simzk_server *s, lk_simzk_connection *c, const char *path, int64_t seen)
{
    const lk_simzk_node *const node = lk_simzk_tree_find(&s->tree, path);
    if (node == NULL)
        lk_simzk_watches_tell(c, LK_SIMZK_DELETED, path, -1);
    else if (node->pzxid > seen)
        lk_simzk_watches_tell(c, LK_SIMZK_CHILD, path, -1);
    else
        lk_simzk_watches_add(&s->watches.child, path, c);
}

static void set_watches(lk_simzk_server *s, const lk_simzk_call *call)
{
    const lk_simzk_request *const request = &call->body->request;
    for (size_t i = 0; i < request->data_watches.count; i++)
        set_data_watch(s, call->connection, request->data_watches.items[i], request->seen);
    for (size_t i = 0; i < request->exist_watches.count; i++) {
        const char *const path = request->exist_watches.items[i];
        if (lk_simzk_tree_find(&s->tree, path) != NULL)
            lk_simzk_watches_tell(call->connection, LK_SIMZK_CREATED, path, -1);
        else
            lk_simzk_watches_add(&s->watches.data, path, call->connection);
    }
    for (size_t i = 0; i < request->child_watches.count; i++)
        set_child_watch(s, call->connection, request->child_watches.items[i], request->seen);
}

/* ------------------------------------------------------------------ a request ---- */

static lk_simzk_error answer_read(lk_simzk_server *s, const lk_simzk_call *call, lk_simzk_parcel *parcel)
{
    switch (lk_simzk_call_asks(call)) {
    case LK_SIMZK_EXISTS:
        return exists(s, call, parcel);
    case LK_SIMZK_GET:
        return get(s, call, parcel);
    case LK_SIMZK_LIST:
        return list(s, call, parcel);
    case LK_SIMZK_SYNC:
        parcel->answer.path = lk_simzk_arena_text(&parcel->arena, call->body->request.op.path);
        return LK_SIMZK_OK;
    case LK_SIMZK_PING:
        parcel->answer.xid = LK_SIMZK_PING_XID;
        return LK_SIMZK_OK;
    case LK_SIMZK_SET_WATCHES:
        set_watches(s, call);
        return LK_SIMZK_OK;
    default:
        return remove_watches(s, call);
    }
}

static bool is_moved(const lk_simzk_call *call, const lk_simzk_result *results)
{
    for (size_t i = 0; results != NULL && i < call->txn->count; i++)
        if (results[i].error == LK_SIMZK_SESSIONMOVED)
            return true;
    return call->error == LK_SIMZK_SESSIONMOVED;
}

static void answer(lk_simzk_server *s, lk_simzk_call *call, const lk_simzk_result *results)
{
    if (is_moved(call, results)) {
        lk_simzk_hang_up(s, call->connection);
        return;
    }
    lk_simzk_parcel *const parcel = lk_simzk_parcel_new(LK_SIMZK_REPLY);
    parcel->answer.xid = lk_simzk_call_xid(call);
    if (results == NULL)
        parcel->answer.error = call->error != LK_SIMZK_OK ? call->error : answer_read(s, call, parcel);
    else if (call->txn->multi)
        answer_multi(call, results, parcel);
    else
        answer_write(call, results, parcel);
    parcel->answer.zxid = s->tree.zxid;
    lk_simzk_connection_put(call->connection, parcel);
    if (lk_simzk_call_asks(call) == LK_SIMZK_CLOSE)
        lk_simzk_hang_up(s, call->connection);
}

void lk_simzk_final(lk_simzk_server *s, lk_simzk_call *call)
{
    lk_simzk_result *const results = call->txn != NULL ? apply(s, call) : NULL;
    if (call->connection != NULL && call->connection->open) {
        if (call->kind == LK_SIMZK_CALL_CREATE_SESSION)
            lk_simzk_welcome(s, call->connection, true);
        else
            answer(s, call, results);
    }
    free(results);
    lk_simzk_call_free(call);
}
