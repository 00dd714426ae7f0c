/* prepare.c: see prepare.h. In which order a request is looked at decides which error it gets, so that is as it is in
 * PrepRequestProcessor.pRequest2Txn. */
#include "prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request while it is prepared. */
typedef struct {
    lk_simzk_preparation *p;
    const lk_simzk_call *call;
    lk_simzk_txn *txn;
} preparing;

/* ------------------------------------------------------------------ what will be ---- */

static void forget_from(lk_simzk_preparation *p, size_t count)
{
    while (p->count > count)
        free(p->prospects[--p->count].path);
}

void lk_simzk_prepared_until(lk_simzk_preparation *p, int64_t zxid)
{
    size_t over = 0;
    while (over < p->count && p->prospects[over].zxid <= zxid)
        free(p->prospects[over++].path);
    p->count -= over;
    if (p->count > 0)
        memmove(p->prospects, p->prospects + over, p->count * sizeof *p->prospects);
}

void lk_simzk_preparation_free(lk_simzk_preparation *p)
{
    forget_from(p, 0);
    free(p->prospects);
    p->prospects = NULL;
    p->room = 0;
}

static void expect(const preparing *now, const char *path, lk_simzk_prospect prospect)
{
    lk_simzk_preparation *const p = now->p;
    if (p->count == p->room) {
        p->room = p->room > 0 ? 2 * p->room : 32;
        p->prospects = realloc(p->prospects, p->room * sizeof *p->prospects);
        if (p->prospects == NULL)
            abort();
    }
    prospect.zxid = now->txn->zxid;
    prospect.path = strdup(path);
    if (prospect.path == NULL)
        abort();
    p->prospects[p->count++] = prospect;
}

static lk_simzk_prospect look(const preparing *now, const char *path)
{
    const lk_simzk_preparation *const p = now->p;
    for (size_t i = p->count; i-- > 0;)
        if (strcmp(p->prospects[i].path, path) == 0)
            return p->prospects[i];
    const lk_simzk_node *const node = lk_simzk_tree_find(p->tree, path);
    if (node == NULL)
        return (lk_simzk_prospect){.exists = false};
    return (lk_simzk_prospect){.exists = true,
                               .version = node->version,
                               .cversion = node->cversion,
                               .children = (int32_t)node->count,
                               .owner = node->owner,
                               .container = node->container,
                               .acl = node->acl};
}

/* ------------------------------------------------------------------ changes ---- */

static lk_simzk_error check_session(const preparing *now)
{
    return lk_simzk_tracker_check(now->p->tracker, now->call->session, now->call->owner, now->p->alone);
}

static int32_t next(int32_t number)
{
    return (int32_t)((uint32_t)number + 1);
}

static bool may(const preparing *now, const lk_simzk_prospect *node, int32_t perms)
{
    return lk_simzk_acl_allows(node->acl, perms, now->call->body->ids);
}

static const char *keep(const preparing *now, const char *path)
{
    return lk_simzk_arena_text(&now->txn->arena, path);
}

static lk_simzk_error create_in(const preparing *now, const lk_simzk_op *op, const char *parent_path,
                                lk_simzk_change *change)
{
    const bool sequential = (op->mode & LK_SIMZK_SEQUENTIAL) != 0 && op->mode < LK_SIMZK_CONTAINER;
    lk_simzk_error error = lk_simzk_acl_fix(op->acl, now->call->body->ids, &now->txn->arena, &change->acl);
    if (error != LK_SIMZK_OK)
        return error;
    lk_simzk_prospect parent = look(now, parent_path);
    if (!parent.exists)
        return LK_SIMZK_NONODE;
    if (!may(now, &parent, LK_SIMZK_CREATES))
        return LK_SIMZK_NOAUTH;
    const size_t size = strlen(op->path) + 16;
    char *const path = lk_simzk_arena_alloc(&now->txn->arena, size);
    (void)snprintf(path, size, sequential ? "%s%010d" : "%s", op->path, parent.cversion);
    if (!lk_simzk_path_is_valid(path))
        return LK_SIMZK_BADARGUMENTS;
    if (look(now, path).exists)
        return LK_SIMZK_NODEEXISTS;
    if (parent.owner != 0)
        return LK_SIMZK_NOCHILDRENFOREPHEMERALS;
    change->kind = LK_SIMZK_TXN_CREATE;
    change->path = path;
    change->data = op->data;
    change->container = op->kind == LK_SIMZK_CREATE_CONTAINER;
    change->owner = !change->container && (op->mode & LK_SIMZK_EPHEMERAL) != 0 ? now->call->session : 0;
    change->parent_cversion = parent.cversion = next(parent.cversion);
    if (op->data.len > 0)
        change->data.bytes = lk_simzk_arena_copy(&now->txn->arena, op->data.bytes, (size_t)op->data.len);
    parent.children++;
    expect(now, parent_path, parent);
    expect(now, path,
           (lk_simzk_prospect){
               .exists = true, .owner = change->owner, .container = change->container, .acl = change->acl});
    return LK_SIMZK_OK;
}

static lk_simzk_error delete_in(const preparing *now, const lk_simzk_op *op, const char *parent_path,
                                lk_simzk_change *change)
{
    lk_simzk_prospect parent = look(now, parent_path);
    if (!parent.exists)
        return LK_SIMZK_NONODE;
    if (!may(now, &parent, LK_SIMZK_DELETES))
        return LK_SIMZK_NOAUTH;
    const lk_simzk_prospect node = look(now, op->path);
    if (!node.exists)
        return LK_SIMZK_NONODE;
    if (op->version != -1 && op->version != node.version)
        return LK_SIMZK_BADVERSION;
    if (node.children > 0)
        return LK_SIMZK_NOTEMPTY;
    change->kind = LK_SIMZK_TXN_DELETE;
    change->path = keep(now, op->path);
    parent.children--;
    expect(now, parent_path, parent);
    expect(now, op->path, (lk_simzk_prospect){.exists = false});
    return LK_SIMZK_OK;
}

static lk_simzk_error create(const preparing *now, const lk_simzk_op *op, lk_simzk_change *change)
{
    char *const parent = lk_simzk_path_parent(op->path);
    const lk_simzk_error error = parent == NULL ? LK_SIMZK_BADARGUMENTS : create_in(now, op, parent, change);
    free(parent);
    return error;
}

static lk_simzk_error delete_node(const preparing *now, const lk_simzk_op *op, lk_simzk_change *change)
{
    char *const parent = lk_simzk_path_is_special(op->path) ? NULL : lk_simzk_path_parent(op->path);
    const lk_simzk_error error = parent == NULL ? LK_SIMZK_BADARGUMENTS : delete_in(now, op, parent, change);
    free(parent);
    return error;
}

/* Of a node that is there, with that version, and that the client may use so. */
static lk_simzk_error inspect(const preparing *now, const lk_simzk_op *op, int32_t perms,
                              lk_simzk_prospect *node)
{
    if (!lk_simzk_path_is_valid(op->path))
        return LK_SIMZK_BADARGUMENTS;
    *node = look(now, op->path);
    if (!node->exists)
        return LK_SIMZK_NONODE;
    if (!may(now, node, perms))
        return LK_SIMZK_NOAUTH;
    return op->version != -1 && op->version != node->version ? LK_SIMZK_BADVERSION : LK_SIMZK_OK;
}

static lk_simzk_error set(const preparing *now, const lk_simzk_op *op, lk_simzk_change *change)
{
    lk_simzk_prospect node;
    const lk_simzk_error error = inspect(now, op, LK_SIMZK_WRITE, &node);
    if (error != LK_SIMZK_OK)
        return error;
    change->kind = LK_SIMZK_TXN_SET;
    change->path = keep(now, op->path);
    change->version = node.version = next(node.version);
    change->data = op->data;
    if (op->data.len > 0)
        change->data.bytes = lk_simzk_arena_copy(&now->txn->arena, op->data.bytes, (size_t)op->data.len);
    expect(now, op->path, node);
    return LK_SIMZK_OK;
}

static lk_simzk_error check(const preparing *now, const lk_simzk_op *op, lk_simzk_change *change)
{
    lk_simzk_prospect node;
    change->kind = LK_SIMZK_TXN_CHECK;
    change->path = keep(now, op->path);
    return inspect(now, op, LK_SIMZK_READ, &node);
}

static lk_simzk_error change_one(const preparing *now, const lk_simzk_op *op, lk_simzk_change *change)
{
    const lk_simzk_error error = check_session(now);
    if (error != LK_SIMZK_OK)
        return error;
    switch (op->kind) {
    case LK_SIMZK_CREATE:
    case LK_SIMZK_CREATE2:
    case LK_SIMZK_CREATE_CONTAINER:
        return create(now, op, change);
    case LK_SIMZK_DELETE:
        return delete_node(now, op, change);
    case LK_SIMZK_SET:
        return set(now, op, change);
    default:
        return check(now, op, change);
    }
}

static void refused(lk_simzk_change *change, lk_simzk_error error)
{
    change->kind = LK_SIMZK_TXN_ERROR;
    change->error = error;
}

/* The first that is refused is to blame: what was expected of those before it is not, those behind it aren't tried. */
static void change_all(const preparing *now, const lk_simzk_op *ops)
{
    const size_t before = now->p->count;
    bool failed = false;
    for (size_t i = 0; i < now->txn->count; i++) {
        lk_simzk_change *const change = &now->txn->changes[i];
        const bool as_create = now->txn->multi && ops[i].kind == LK_SIMZK_CREATE2 && !now->p->is_3_9;
        change->asked = as_create ? LK_SIMZK_CREATE : ops[i].kind;
        const lk_simzk_error error =
            failed ? LK_SIMZK_RUNTIMEINCONSISTENCY : change_one(now, &ops[i], change);
        if (error == LK_SIMZK_OK)
            continue;
        refused(change, error);
        if (!failed)
            forget_from(now->p, before);
        failed = true;
    }
}

/* ------------------------------------------------------------------ sessions and containers ---- */

/* Whether the session will have an ephemeral node there, once all is applied. */
static bool will_own(const preparing *now, const char *path)
{
    const lk_simzk_prospect node = look(now, path);
    return node.exists && node.owner == now->call->session;
}

static void add_path(const preparing *now, lk_simzk_change *change, const char *path)
{
    const char **const items = (const char **)(uintptr_t)change->paths.items;
    for (size_t i = 0; i < change->paths.count; i++)
        if (strcmp(items[i], path) == 0)
            return;
    if (will_own(now, path))
        items[change->paths.count++] = keep(now, path);
}

/* The nodes' parents are expected to have them still: so it is there, too, and a parent can't be deleted until the
 * session's end has been applied. */
static void close_session(const preparing *now, lk_simzk_change *change)
{
    const lk_simzk_preparation *const p = now->p;
    size_t most = p->count;
    LK_LIST_EACH(link, &p->tree->ephemerals)
        most++;
    change->kind = LK_SIMZK_TXN_CLOSE_SESSION;
    change->paths.items = lk_simzk_arena_alloc(&now->txn->arena, most * sizeof *change->paths.items);
    LK_LIST_EACH(link, &p->tree->ephemerals)
        add_path(now, change, LK_CONTAINER(link, lk_simzk_node, special)->path);
    for (size_t i = 0; i < p->count; i++)
        add_path(now, change, p->prospects[i].path);
    for (size_t i = 0; i < change->paths.count; i++)
        expect(now, change->paths.items[i], (lk_simzk_prospect){.exists = false});
    lk_simzk_tracker_closing(p->tracker, now->call->session);
}

static void create_session(const preparing *now, lk_simzk_change *change)
{
    change->kind = LK_SIMZK_TXN_CREATE_SESSION;
    change->timeout_ms = now->call->timeout_ms;
    lk_simzk_tracker_add(now->p->tracker, now->call->session, now->call->timeout_ms, now->p->time_ms);
    lk_simzk_tracker_own(now->p->tracker, now->call->session, now->call->owner);
}

static void delete_container(const preparing *now, lk_simzk_change *change)
{
    char *const parent_path = lk_simzk_path_parent(now->call->path);
    const lk_simzk_prospect node = look(now, now->call->path);
    lk_simzk_prospect parent = look(now, parent_path);
    if (!node.exists || node.children > 0 || node.owner != 0) {
        refused(change, node.exists ? LK_SIMZK_NOTEMPTY : LK_SIMZK_NONODE);
    } else {
        change->kind = LK_SIMZK_TXN_DELETE;
        change->path = keep(now, now->call->path);
        parent.children--;
        expect(now, parent_path, parent);
        expect(now, change->path, (lk_simzk_prospect){.exists = false});
    }
    free(parent_path);
}

/* ------------------------------------------------------------------ a request ---- */

static size_t count_changes(const lk_simzk_call *call)
{
    return lk_simzk_call_asks(call) == LK_SIMZK_MULTI ? call->body->request.count : 1;
}

static void write(const preparing *now)
{
    lk_simzk_change *const first = now->txn->changes;
    switch (now->call->kind) {
    case LK_SIMZK_CALL_CREATE_SESSION:
        create_session(now, first);
        break;
    case LK_SIMZK_CALL_CLOSE_SESSION:
        close_session(now, first);
        break;
    case LK_SIMZK_CALL_DELETE_CONTAINER:
        delete_container(now, first);
        break;
    case LK_SIMZK_CALL_CLIENT:
        if (lk_simzk_call_asks(now->call) == LK_SIMZK_CLOSE)
            close_session(now, first);
        else
            change_all(now, now->txn->multi ? now->call->body->request.ops : &now->call->body->request.op);
        break;
    }
}

void lk_simzk_prepare(lk_simzk_preparation *p, lk_simzk_call *call)
{
    if (!lk_simzk_call_writes(call)) {
        call->error = lk_simzk_tracker_check(p->tracker, call->session, call->owner, p->alone);
        return;
    }
    call->txn =
        lk_simzk_txn_new(++p->zxid, p->time_ms, call->session, lk_simzk_call_xid(call), count_changes(call));
    call->txn->multi = lk_simzk_call_asks(call) == LK_SIMZK_MULTI;
    write(&(preparing){p, call, call->txn});
}
