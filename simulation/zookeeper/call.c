/* call.c: see call.h. */
#include "call.h"

#include <stdlib.h>

static lk_simzk_op copy_op(const lk_simzk_op *from, lk_simzk_arena *arena)
{
    lk_simzk_op op = *from;
    op.path = lk_simzk_arena_text(arena, from->path);
    op.acl = lk_simzk_acl_copy(from->acl, arena);
    if (from->data.len >= 0)
        op.data.bytes = lk_simzk_arena_copy(arena, from->data.bytes, (size_t)from->data.len);
    return op;
}

static lk_simzk_texts copy_texts(lk_simzk_texts from, lk_simzk_arena *arena)
{
    const char **const items = lk_simzk_arena_alloc(arena, from.count * sizeof *items);
    for (size_t i = 0; i < from.count; i++)
        items[i] = lk_simzk_arena_text(arena, from.items[i]);
    return (lk_simzk_texts){items, from.count};
}

lk_simzk_body *lk_simzk_body_new(const lk_simzk_request *request)
{
    lk_simzk_body *const body = lk_simzk_alloc(sizeof *body);
    lk_simzk_arena *const arena = &body->arena;
    lk_simzk_op *const ops = lk_simzk_arena_alloc(arena, request->count * sizeof *ops);
    for (size_t i = 0; i < request->count; i++)
        ops[i] = copy_op(&request->ops[i], arena);
    body->refs = 1;
    body->request = *request;
    body->request.op = copy_op(&request->op, arena);
    body->request.ops = ops;
    body->request.data_watches = copy_texts(request->data_watches, arena);
    body->request.exist_watches = copy_texts(request->exist_watches, arena);
    body->request.child_watches = copy_texts(request->child_watches, arena);
    return body;
}

/* Take a reference. NULL is allowed. */
static lk_simzk_body *body_ref(lk_simzk_body *body)
{
    if (body != NULL)
        body->refs++;
    return body;
}

void lk_simzk_body_unref(lk_simzk_body *body)
{
    if (body == NULL || --body->refs > 0)
        return;
    lk_simzk_arena_free(&body->arena);
    free(body);
}

lk_simzk_call *lk_simzk_call_new(lk_simzk_call_kind kind, lk_simzk_connection *c, int64_t session,
                                 lk_simzk_body *body)
{
    lk_simzk_call *const call = lk_simzk_alloc(sizeof *call);
    call->kind = kind;
    call->connection = lk_simzk_connection_ref(c);
    call->session = session;
    call->body = body_ref(body);
    return call;
}

void lk_simzk_call_free(lk_simzk_call *call)
{
    lk_simzk_connection_unref(call->connection);
    lk_simzk_body_unref(call->body);
    lk_simzk_txn_unref(call->txn);
    free(call);
}

void lk_simzk_calls_free(lk_list *calls)
{
    for (lk_list *link; (link = lk_list_take(calls)) != NULL;)
        lk_simzk_call_free(LK_CONTAINER(link, lk_simzk_call, link));
}

lk_simzk_kind lk_simzk_call_asks(const lk_simzk_call *call)
{
    return call->body != NULL ? call->body->request.op.kind : LK_SIMZK_CLOSE;
}

int32_t lk_simzk_call_xid(const lk_simzk_call *call)
{
    return call->body != NULL ? call->body->request.xid : 0;
}

bool lk_simzk_call_writes(const lk_simzk_call *call)
{
    if (call->kind != LK_SIMZK_CALL_CLIENT)
        return true;
    const lk_simzk_kind asked = lk_simzk_call_asks(call);
    return asked <= LK_SIMZK_MULTI || asked == LK_SIMZK_CLOSE;
}
