/*
 * requests.c: requests, and the table of those that await their answer. The client library's completions end
 * here, with lk_zk.lock held, because whoever drives the connection holds it.
 */
#include <stdlib.h>
#include <string.h>

#include "../internal.h"

/* ------------------------------------------------------------------ the table ---- */

static struct lk_zk_op *op_new_locked(struct lk_zk *z, lk_zk_done_fn done, void *context)
{
    struct lk_zk_op *op = z->free_ops;
    if (!z->up)
        return NULL;
    if (op != NULL)
        z->free_ops = op->next;
    else
        op = malloc(sizeof(*op));
    if (op == NULL)
        return NULL;
    lk_zk_cork_locked(z);
    lk_zk_pipe_enter(z, &z->guard);
    *op = (struct lk_zk_op){.z = z, .done = done, .context = context, .sent = lk_zk_now(z)};
    op->next = z->ops;
    if (op->next != NULL)
        op->next->prev = op;
    z->ops = op;
    return op;
}

static void unlink_locked(struct lk_zk *z, struct lk_zk_op *op)
{
    if (op->prev != NULL)
        op->prev->next = op->next;
    else
        z->ops = op->next;
    if (op->next != NULL)
        op->next->prev = op->prev;
}

static void op_free_locked(struct lk_zk *z, struct lk_zk_op *op)
{
    unlink_locked(z, op);
    op->next = z->free_ops;
    z->free_ops = op;
}

static void finish_locked(struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk *z = op->z;
    unlink_locked(z, op); /* done may send more, or drop a session's worth of others */
    if (op->refused != ZOK && lk_zk_unknown(rc))
        rc = op->refused; /* the server said why, and closed the connection */
    else if (!lk_zk_unknown(rc))
        lk_zk_validity_answered(&z->validity, op->sent, lk_zk_now(z));
    if (rc == ZSESSIONEXPIRED)
        z->over = true; /* the leader's word. The server goes on serving reads and pings, and says no more */
    if (op->done != NULL)
        op->done(z, op, rc, reply);
    op->next = z->free_ops;
    z->free_ops = op;
}

/* What the client library said to a request, which it was handed right after op_new_locked(): taken, or the
 * op is given back. When sending fails it closes its socket without telling. */
static struct lk_zk_op *sent_locked(struct lk_zk *z, struct lk_zk_op *op, int rc)
{
    lk_zk_pipe_leave(z, &z->guard);
    if (z->up && zoo_state(z->zh) != ZOO_CONNECTED_STATE)
        lk_zk_went_down_locked(z);
    if (rc == ZOK)
        return op;
    op_free_locked(z, op);
    return NULL;
}

void lk_zk_ops_fail_locked(struct lk_zk *z)
{
    static const struct lk_zk_reply nothing = {.text_len = -1};
    while (z->ops != NULL)
        finish_locked(z->ops, ZCLOSING, &nothing);
}

void lk_zk_ops_forget_locked(struct lk_zk *z, const struct lk_zk_call *call)
{
    for (struct lk_zk_op *op = z->ops; op != NULL; op = op->next) {
        if (op->call == call) {
            op->call = NULL;
            op->done = NULL;
        }
    }
}

void lk_zk_ops_free(struct lk_zk *z)
{
    while (z->free_ops != NULL) {
        struct lk_zk_op *op = z->free_ops;
        z->free_ops = op->next;
        free(op);
    }
}

/* ------------------------------------------------------------------ completions ---- */

static void on_string_stat(int rc, const char *value, const struct Stat *stat, const void *data)
{
    const struct lk_zk_reply reply = {.text = value, .text_len = -1, .stat = stat};
    finish_locked((struct lk_zk_op *)(uintptr_t)data, rc, &reply);
}

static void on_string(int rc, const char *value, const void *data)
{
    on_string_stat(rc, value, NULL, data);
}

static void on_strings(int rc, const struct String_vector *names, const void *data)
{
    const struct lk_zk_reply reply = {.text_len = -1, .names = names};
    finish_locked((struct lk_zk_op *)(uintptr_t)data, rc, &reply);
}

static void on_data(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
    const struct lk_zk_reply reply = {.text = value, .text_len = len, .stat = stat};
    finish_locked((struct lk_zk_op *)(uintptr_t)data, rc, &reply);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    on_string_stat(rc, NULL, stat, data);
}

static void on_void(int rc, const void *data)
{
    on_string_stat(rc, NULL, NULL, data);
}

/* ------------------------------------------------------------------ requests ---- */

struct lk_zk_op *lk_zk_create_locked(struct lk_zk *z, const char *path, const char *data, size_t len,
                                     lk_zk_done_fn done, void *context)
{
    const struct ACL_vector *acl = lk_zk_logs_in(z) ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    struct lk_zk_op *op = op_new_locked(z, done, context);
    if (op == NULL)
        return NULL;
    return sent_locked(
        z, op, zoo_acreate2(z->zh, path, data, (int)len, acl, ZOO_EPHEMERAL_SEQUENTIAL, on_string_stat, op));
}

/* A server that knows no containers (before 3.5) gets plain nodes, which stay. */
static void container_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc,
                                  const struct lk_zk_reply *reply)
{
    (void)op;
    (void)reply;
    if (rc == ZUNIMPLEMENTED)
        z->refused_parents = true;
}

struct lk_zk_op *lk_zk_container_locked(struct lk_zk *z, const char *path, bool shared)
{
    /* Whoever uses this user's locks is this user. Nodes above, which other users need too, they may read
     * and create in. ZooKeeper asks the parent whether a child may be deleted, so the key's node is what
     * protects its contenders. */
    struct ACL both[2] = {{.perms = ZOO_PERM_ALL, .id = ZOO_AUTH_IDS},
                          {.perms = ZOO_PERM_READ | ZOO_PERM_CREATE, .id = ZOO_ANYONE_ID_UNSAFE}};
    const struct ACL_vector mixed = {.count = 2, .data = both};
    const struct ACL_vector *acl = !lk_zk_logs_in(z) ? &ZOO_OPEN_ACL_UNSAFE
                                   : shared          ? &mixed
                                                     : &ZOO_CREATOR_ALL_ACL;
    struct lk_zk_op *op = op_new_locked(z, container_done_locked, NULL);
    if (op == NULL)
        return NULL;
    return sent_locked(z, op,
                       zoo_acreate(z->zh, path, NULL, -1, acl,
                                   z->refused_parents ? ZOO_PERSISTENT : ZOO_CONTAINER, on_string, op));
}

struct lk_zk_op *lk_zk_list_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context)
{
    struct lk_zk_op *op = op_new_locked(z, done, context);
    return op == NULL ? NULL : sent_locked(z, op, zoo_aget_children(z->zh, path, 0, on_strings, op));
}

struct lk_zk_op *lk_zk_sync_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context)
{
    struct lk_zk_op *op = op_new_locked(z, done, context);
    return op == NULL ? NULL : sent_locked(z, op, zoo_async(z->zh, path, on_string, op));
}

static void synced_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_op *list = op->context; /* under way: answers come in order */
    (void)z;
    (void)reply;
    if (list != NULL && !lk_zk_unknown(rc))
        list->refused = rc;
}

struct lk_zk_op *lk_zk_list_fresh_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context)
{
    struct lk_zk_op *sync = lk_zk_sync_locked(z, path, synced_locked, NULL);
    struct lk_zk_op *list = sync != NULL ? lk_zk_list_locked(z, path, done, context) : NULL;
    if (list != NULL)
        sync->context = list;
    return list;
}

struct lk_zk_op *lk_zk_get_locked(struct lk_zk *z, const char *path, watcher_fn watch, void *watch_context,
                                  lk_zk_done_fn done, void *context)
{
    struct lk_zk_op *op = op_new_locked(z, done, context);
    if (op == NULL)
        return NULL;
    return sent_locked(z, op, zoo_awget(z->zh, path, watch, watch_context, on_data, op));
}

struct lk_zk_op *lk_zk_set_locked(struct lk_zk *z, const char *path, const char *data, size_t len,
                                  int32_t version, lk_zk_done_fn done, void *context)
{
    struct lk_zk_op *op = op_new_locked(z, done, context);
    if (op == NULL)
        return NULL;
    return sent_locked(z, op, zoo_aset(z->zh, path, data, (int)len, version, on_stat, op));
}

struct lk_zk_op *lk_zk_delete_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context)
{
    struct lk_zk_op *op = op_new_locked(z, done, context);
    return op == NULL ? NULL : sent_locked(z, op, zoo_adelete(z->zh, path, -1, on_void, op));
}

struct lk_zk_op *lk_zk_delete_marked_locked(struct lk_zk *z, const char *path, const char *parent,
                                            const char *mark, size_t len, int32_t version, lk_zk_done_fn done,
                                            void *context)
{
    struct lk_zk_op *op = op_new_locked(z, done, context);
    zoo_op_t both[2];
    zoo_delete_op_init(&both[0], path, -1);
    zoo_set_op_init(&both[1], parent, mark, (int)len, version, NULL);
    return op == NULL ? NULL : sent_locked(z, op, zoo_amulti(z->zh, 2, both, op->results, on_void, op));
}

struct lk_zk_op *lk_zk_check_locked(struct lk_zk *z, const char *path, lk_zk_done_fn done, void *context)
{
    struct lk_zk_op *op = op_new_locked(z, done, context);
    zoo_op_t check;
    zoo_check_op_init(&check, path, -1);
    return op == NULL ? NULL : sent_locked(z, op, zoo_amulti(z->zh, 1, &check, op->results, on_void, op));
}

struct lk_zk_op *lk_zk_touch_locked(struct lk_zk *z, lk_zk_done_fn done)
{
    struct lk_zk_op *op = op_new_locked(z, done, NULL);
    return op == NULL ? NULL : sent_locked(z, op, zoo_aexists(z->zh, "/", 0, on_stat, op));
}

struct lk_zk_op *lk_zk_multi_locked(struct lk_zk *z, const zoo_op_t *ops, zoo_op_result_t *results,
                                    size_t count, lk_zk_done_fn done, void *context)
{
    struct lk_zk_op *op = op_new_locked(z, done, context);
    return op == NULL ? NULL : sent_locked(z, op, zoo_amulti(z->zh, (int)count, ops, results, on_void, op));
}

/* ------------------------------------------------------------------ what an answer means ---- */

/* A hung server gives ZOPERATIONTIMEOUT, a confused stream ZRUNTIMEINCONSISTENCY: all that isn't a server's
 * own word on the request is taken alike. */
bool lk_zk_unknown(int rc)
{
    return (rc < ZOK && rc > ZAPIERROR && rc != ZUNIMPLEMENTED && rc != ZBADARGUMENTS) || rc == ZCLOSING ||
           rc == ZSESSIONEXPIRED || rc == ZSESSIONMOVED || rc == ZTHROTTLEDOP || rc == ZNOTREADONLY;
}

locker_status lk_zk_error(int rc, const char *doing, const char *path, locker_error *err)
{
    switch (rc) {
    case ZNOAUTH:
        return locker_error_set(err, LOCKER_DENIED, 0,
                                "ZooKeeper denies %s at %s: log in as the user whose locks these are, or "
                                "change the node's ACL",
                                doing, path);
    case ZAUTHFAILED:
    case ZINVALIDACL:
        return locker_error_set(err, LOCKER_DENIED, 0,
                                "ZooKeeper refused the login; check user and password");
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        return locker_error_set(err, LOCKER_DENIED, 0,
                                "ZooKeeper serves only who logs in by SASL: give sasl=digest-md5, or the "
                                "mechanism that your servers take, with a user and password");
    case ZNOCHILDRENFOREPHEMERALS:
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "%s lies under an ephemeral node; take another namespace or chroot", path);
    case ZEPHEMERALONLOCALSESSION:
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "the server has local sessions, which can't hold locks; enable its "
                                "localSessionsUpgradingEnabled");
    default:
        if (lk_zk_unknown(rc))
            return locker_error_set(err, LOCKER_UNAVAILABLE, 0,
                                    "the connection to ZooKeeper was lost while %s (%s)", doing, zerror(rc));
        return locker_error_set(err, LOCKER_PROTOCOL, 0, "ZooKeeper answered '%s' (%d) while %s at %s",
                                zerror(rc), rc, doing, path);
    }
}
