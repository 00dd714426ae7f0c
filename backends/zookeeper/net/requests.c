/* requests.c: requests, and the table of those that await their answer. The client library calls back once for each, or
 * never when its handle is closed; so all are in a list, and what is left of it is failed after closing. Completions end
 * here, with the mutex held, because whoever drives the connection holds it. */
#include <string.h>

#include "state.h"

struct lk_zk_request {
    lk_list link; /* in lk_zk_net.requests, or spare */
    lk_zk_net *net;
    lk_zk_done_fn done; /* NULL: nobody wants the answer any more */
    void *context;
    lk_zk_call *call;           /* whose stack `context` is on; NULL: on no stack */
    int64_t sent;               /* before it was sent */
    int refused;                /* the error that the check before it got; ZOK: none */
    zoo_op_result_t results[2]; /* of a multi: the client library writes them with the answer, however late */
};

static lk_zk_request *request_of(lk_list *link)
{
    return LK_CONTAINER(link, lk_zk_request, link);
}

/* How much may be in flight. Requests of one connection are served in order: a heartbeat waits for all that was sent before it,
 * and so does the attempt of a call that has little time left. So FEW requests may be in flight at any time. More may be, because
 * a server that writes to a slow disk does so for many at once, while the oldest of them has not been under way for too long: for
 * a heartbeat, for a quarter of the time that the call has left, or for the way that the fastest took. */
enum { FEW = 64, OF_ATTEMPT = 4 };
enum { HEARTBEAT_PARTS = 32, CALL_PARTS = 4 }; /* of the session time-out; of the call's time */

bool lk_zk_has_room_locked(const lk_zk_net *net, int64_t until)
{
    if (net->in_flight + net->let_in * OF_ATTEMPT < FEW)
        return true;
    if (net->in_flight == 0)
        return false;
    const int64_t now = lk_zk_net_now(net);
    const int64_t patience = lk_time_earlier((until - now) / CALL_PARTS, net->timeout_ns / HEARTBEAT_PARTS);
    return now - request_of(net->requests.prev)->sent < lk_time_later(patience, 2 * net->fastest_ns);
}

/* An attempt whose call ends before an answer can be there would only delay those of others: it is passed over. */
void lk_zk_let_in_locked(lk_zk_net *net)
{
    if (lk_list_empty(&net->line) || !lk_zk_has_room_locked(net, LOCKER_NEVER))
        return;
    const int64_t answer_at = lk_zk_net_now(net) + net->took_ns;
    LK_EACH_SAFE(lk_zk_call, call, line, &net->line) {
        const bool idle = net->in_flight + net->let_in == 0;
        if (!idle && call->until < answer_at)
            continue;
        if (!idle && !lk_zk_has_room_locked(net, call->until))
            break; /* nobody overtakes it */
        lk_list_remove(&call->line);
        call->let_in = true;
        net->let_in++;
        lk_zk_call_done_locked(call);
    }
}

/* A request that is about to be handed to the client library. NULL: it can't be sent. */
static lk_zk_request *begin_locked(lk_zk_net *net, lk_zk_done_fn done, void *context) LK_REQUIRES(*net)
{
    if (!net->up)
        return NULL;
    lk_list *const spare = lk_list_take(&net->spare);
    lk_zk_request *request = spare != NULL ? request_of(spare) : malloc(sizeof *request);
    if (request == NULL)
        return NULL;
    lk_zk_cork_locked(net);
    lk_zk_sigpipe_block(net, &net->sigpipe);
    *request = (lk_zk_request){.net = net, .done = done, .context = context, .sent = lk_zk_net_now(net)};
    lk_list_prepend(&net->requests, &request->link);
    net->in_flight++;
    return request;
}

/* What the client library said to a request, which it was handed right after begin_locked(): taken, or it is given
 * back. When sending fails it closes its socket without telling. */
static lk_zk_request *sent_locked(lk_zk_net *net, lk_zk_request *request, int rc) LK_REQUIRES(*net)
{
    lk_zk_sigpipe_restore(net, &net->sigpipe);
    if (net->up && zoo_state(net->zh) != ZOO_CONNECTED_STATE)
        lk_zk_went_down_locked(net);
    if (rc == ZOK)
        return request;
    lk_list_remove(&request->link);
    net->in_flight--;
    lk_list_prepend(&net->spare, &request->link);
    return NULL;
}

/* Called by the library, which knows nothing of mutexes, with it held. */
LK_UNCHECKED static void finish_locked(const void *data, lk_zk_reply reply)
{
    lk_zk_request *request = (lk_zk_request *)(uintptr_t)data;
    lk_zk_net *net = request->net;
    lk_list_remove(&request->link); /* done may send more, or drop a session's worth of others */
    net->in_flight--;
    /* Only what was ordered makes the list behind it fresh: that the check is denied, too. Else the server may have said
     * why, and closed the connection; or it was too busy for the check alone. */
    if (request->refused != ZOK && (lk_zk_unknown(reply.rc) || request->refused != ZNOAUTH))
        reply.rc = request->refused;
    else if (!lk_zk_unknown(reply.rc)) {
        const int64_t now = lk_zk_net_now(net);
        lk_zk_validity_answered(&net->validity, request->sent, now);
        net->took_ns = now - request->sent;
        if (net->up) { /* an answer may be left to be read of a connection that was given up */
            net->heard = request->sent;
            net->away_since = 0;
        }
    }
    if (reply.rc == ZSESSIONEXPIRED) /* the leader's word: the server goes on serving reads and pings */
        net->over = true;
    if (reply.rc == ZSESSIONCLOSEDREQUIRESASLAUTH) /* the server closes the connection, and says no more */
        lk_zk_reconnect_locked(net, "a server requires a SASL login");
    reply.sent = request->sent;
    reply.of_two[0] = request->results[0].err;
    reply.of_two[1] = request->results[1].err;
    if (request->done != NULL)
        request->done(net->z, request->context, &reply);
    lk_list_prepend(&net->spare, &request->link);
    lk_zk_let_in_locked(net);
}

void lk_zk_requests_fail_locked(lk_zk_net *net)
{
    for (lk_list *link; (link = lk_list_first(&net->requests)) != NULL;)
        finish_locked(request_of(link), (lk_zk_reply){.rc = ZCLOSING, .text_len = -1});
}

void lk_zk_request_forget_locked(lk_zk_request *request)
{
    request->call = NULL;
    request->done = NULL;
}

void lk_zk_requests_forget_locked(lk_zk_net *net, const lk_zk_call *call)
{
    LK_EACH(lk_zk_request, request, link, &net->requests)
        if (request->call == call)
            lk_zk_request_forget_locked(request);
}

bool lk_zk_call_expect_locked(lk_zk_call *call, lk_zk_request *request)
{
    if (request == NULL)
        return false;
    request->call = call;
    call->pending++;
    call->done = false;
    return true;
}

void lk_zk_requests_free(lk_zk_net *net)
{
    for (lk_list *link; (link = lk_list_take(&net->spare)) != NULL;)
        free(request_of(link));
}

static void on_data(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
    finish_locked(data, (lk_zk_reply){.rc = rc, .text = value, .text_len = len, .stat = stat});
}

static void on_string_stat(int rc, const char *value, const struct Stat *stat, const void *data)
{
    on_data(rc, value, -1, stat, data);
}

static void on_string(int rc, const char *value, const void *data)
{
    on_data(rc, value, -1, NULL, data);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    on_data(rc, NULL, -1, stat, data);
}

static void on_void(int rc, const void *data)
{
    on_data(rc, NULL, -1, NULL, data);
}

static void on_strings(int rc, const struct String_vector *names, const void *data)
{
    finish_locked(data, (lk_zk_reply){.rc = rc, .text_len = -1, .names = names});
}

/* Hand `request`, where begin_locked() could make it, to the client library by this call. */
#define SEND(call) (request != NULL ? sent_locked(net, request, call) : NULL)

static const struct ACL_vector *own_acl(const lk_zk_net *net)
{
    return lk_zk_logs_in(&net->set) ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

lk_zk_request *lk_zk_create_locked(lk_zk_net *net, const char *path, const char *data, lk_zk_done_fn done,
                                   void *context)
{
    const struct ACL_vector *acl = own_acl(net);
    lk_zk_request *request = begin_locked(net, done, context);
    return SEND(zoo_acreate2(net->zh, path, data, (int)strlen(data), acl, ZOO_EPHEMERAL_SEQUENTIAL,
                             on_string_stat, request));
}

/* A server that knows no containers (before 3.5) gets plain nodes, which stay. Below a parent that was refused the others miss
 * it, so that does not hide why; one that is there shows that the refusal of those above it is of no matter, because a server
 * refuses to make a node before it looks whether it is there. Called as any answer is, with the mutex held. */
LK_UNCHECKED static void container_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply)
{
    lk_zk_net *net = context;
    (void)z;
    if (reply->rc == ZUNIMPLEMENTED)
        net->refused_parents = true;
    if (reply->rc == ZOK || reply->rc == ZNODEEXISTS || reply->rc == ZUNIMPLEMENTED)
        net->parent_rc = ZOK;
    else if (reply->rc != ZNONODE && !lk_zk_unknown(reply->rc))
        net->parent_rc = reply->rc;
}

int64_t lk_zk_heard_locked(const lk_zk_net *net)
{
    return net->heard;
}

int lk_zk_parent_refused_locked(const lk_zk_net *net)
{
    return net->parent_rc;
}

void lk_zk_container_locked(lk_zk_net *net, const char *path, bool shared)
{
    /* Whoever uses this user's locks is this user. Nodes above, which other users need too, they may read and create
     * in. ZooKeeper asks the parent whether a child may be deleted, so the key's node is what protects its contenders. */
    struct ACL both[2] = {{.perms = ZOO_PERM_ALL, .id = ZOO_AUTH_IDS},
                          {.perms = ZOO_PERM_READ | ZOO_PERM_CREATE, .id = ZOO_ANYONE_ID_UNSAFE}};
    const struct ACL_vector mixed = {.count = 2, .data = both};
    const struct ACL_vector *acl = shared && lk_zk_logs_in(&net->set) ? &mixed : own_acl(net);
    const int mode = net->refused_parents ? ZOO_PERSISTENT : ZOO_CONTAINER;
    lk_zk_request *request = begin_locked(net, container_done_locked, net);
    (void)SEND(zoo_acreate(net->zh, path, NULL, -1, acl, mode, on_string, request));
}

lk_zk_request *lk_zk_list_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
{
    lk_zk_request *request = begin_locked(net, done, context);
    return SEND(zoo_aget_children(net->zh, path, 0, on_strings, request));
}

static void checked_locked(lk_zk *z, void *context, const lk_zk_reply *reply)
{
    lk_zk_request *list = context; /* under way: answers come in order */
    (void)z;
    if (list != NULL && reply->rc != ZNONODE)
        list->refused = reply->rc;
}

lk_zk_request *lk_zk_list_fresh_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
{
    lk_zk_request *check = lk_zk_check_locked(net, path, checked_locked, NULL);
    lk_zk_request *list = check != NULL ? lk_zk_list_locked(net, path, done, context) : NULL;
    if (list != NULL)
        check->context = list;
    return list;
}

lk_zk_request *lk_zk_get_watched_locked(lk_zk_net *net, const char *path, watcher_fn watch,
                                        void *watch_context, lk_zk_done_fn done, void *context)
{
    lk_zk_request *request = begin_locked(net, done, context);
    return SEND(zoo_awget(net->zh, path, watch, watch_context, on_data, request));
}

lk_zk_request *lk_zk_get_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
{
    return lk_zk_get_watched_locked(net, path, NULL, NULL, done, context);
}

/* What the library keeps of it is all there is: the event names the path. */
static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    lk_zk_net *net = context;
    (void)zh;
    (void)state;
    if (type != ZOO_SESSION_EVENT)
        net->owner->on_event(net->z, path, type == ZOO_DELETED_EVENT);
}

lk_zk_request *lk_zk_get_told_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
{
    return lk_zk_get_watched_locked(net, path, on_event, net, done, context);
}

lk_zk_request *lk_zk_list_told_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
{
    lk_zk_request *request = begin_locked(net, done, context);
    return SEND(zoo_awget_children(net->zh, path, on_event, net, on_strings, request));
}

lk_zk_request *lk_zk_set_locked(lk_zk_net *net, const char *path, const char *data, int32_t version,
                                lk_zk_done_fn done, void *context)
{
    lk_zk_request *request = begin_locked(net, done, context);
    return SEND(zoo_aset(net->zh, path, data, (int)strlen(data), version, on_stat, request));
}

lk_zk_request *lk_zk_delete_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
{
    lk_zk_request *request = begin_locked(net, done, context);
    return SEND(zoo_adelete(net->zh, path, -1, on_void, request));
}

lk_zk_request *lk_zk_sync_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
{
    lk_zk_request *request = begin_locked(net, done, context);
    return SEND(zoo_async(net->zh, path, on_string, request));
}

lk_zk_request *lk_zk_touch_locked(lk_zk_net *net, lk_zk_done_fn done, void *context)
{
    lk_zk_request *request = begin_locked(net, done, context);
    return SEND(zoo_aexists(net->zh, "/", 0, on_stat, request));
}

/* `results` must last until `done` is called; NULL: nobody wants them, and there are two at most. */
static lk_zk_request *multi_locked(lk_zk_net *net, const zoo_op_t *ops, zoo_op_result_t *results,
                                   size_t count, lk_zk_done_fn done, void *context) LK_REQUIRES(*net)
{
    lk_zk_request *request = begin_locked(net, done, context);
    return SEND(
        zoo_amulti(net->zh, (int)count, ops, results != NULL ? results : request->results, on_void, request));
}

lk_zk_request *lk_zk_delete_marked_locked(lk_zk_net *net, const char *path, const char *parent,
                                          const char *mark, int32_t version, lk_zk_done_fn done,
                                          void *context)
{
    zoo_op_t both[2];
    zoo_delete_op_init(&both[0], path, -1);
    zoo_set_op_init(&both[1], parent, mark, (int)strlen(mark), version, NULL);
    return multi_locked(net, both, NULL, 2, done, context);
}

lk_zk_request *lk_zk_exchange_locked(lk_zk_net *net, const char *old, const char *path, const char *data,
                                     lk_zk_done_fn done, void *context)
{
    zoo_op_t both[2];
    zoo_delete_op_init(&both[0], old, -1);
    zoo_create_op_init(&both[1], path, data, (int)strlen(data), own_acl(net), ZOO_EPHEMERAL, NULL, 0);
    return multi_locked(net, both, NULL, 2, done, context);
}

lk_zk_request *lk_zk_check_locked(lk_zk_net *net, const char *path, lk_zk_done_fn done, void *context)
{
    zoo_op_t check;
    zoo_check_op_init(&check, path, -1);
    return multi_locked(net, &check, NULL, 1, done, context);
}

/* Whether nodes are there, as the leader says, who orders it like a write; nothing is written, no watch fires. */

enum { CHECK_BYTES = 17 }; /* what a check takes beside its path */

lk_zk_checks *lk_zk_checks_new(void)
{
    lk_zk_checks *c = malloc(sizeof *c); /* 200 KB, most of which nobody writes or reads */
    if (c != NULL)
        c->used = c->count = 0;
    return c;
}

char *lk_zk_checks_path(lk_zk_checks *c)
{
    const bool fits =
        c->count < LK_ZK_CHECKS_MAX && c->used + c->count * CHECK_BYTES + LK_ZK_PATH_MAX <= sizeof(c->paths);
    return fits ? c->paths + c->used : NULL;
}

void lk_zk_checks_add(lk_zk_checks *c, void *item)
{
    const char *path = c->paths + c->used;
    zoo_check_op_init(&c->ops[c->count], path, -1);
    c->results[c->count].err = ZRUNTIMEINCONSISTENCY; /* an answer may tell of fewer */
    c->items[c->count++] = item;
    c->used += strlen(path) + 1;
}

bool lk_zk_checks_send_locked(lk_zk_net *net, lk_zk_checks *c, lk_zk_done_fn done)
{
    c->net = net;
    return c->count > 0 && multi_locked(net, c->ops, c->results, c->count, done, c) != NULL;
}

/* A hung server gives ZOPERATIONTIMEOUT, a confused stream ZRUNTIMEINCONSISTENCY: all that isn't a server's
 * own word on the request is taken alike. */
bool lk_zk_unknown(int rc)
{
    return (rc < ZOK && rc > ZAPIERROR && rc != ZUNIMPLEMENTED && rc != ZBADARGUMENTS) || rc == ZCLOSING ||
           rc == ZSESSIONEXPIRED || rc == ZSESSIONMOVED || rc == ZTHROTTLEDOP || rc == ZNOTREADONLY;
}

enum { quota_exceeded = -125 }; /* the client library has no name for it */

locker_status lk_zk_error(int rc, const char *doing, const char *path, locker_error *err)
{
    switch (rc) {
    case ZNOAUTH:
        return lk_denied(err,
                         "ZooKeeper denied %s at %s; log in as the user "
                         "who owns these locks, or change the node's ACL",
                         doing, path);
    case ZAUTHFAILED:
    case ZINVALIDACL:
        return lk_denied(err, "ZooKeeper refused the login; check user and password");
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        return lk_denied(err, "ZooKeeper requires a SASL login; set sasl=digest-md5, or the "
                              "mechanism that your servers support, and a user and password");
    case quota_exceeded:
        return lk_misconfigured(err,
                                "a quota of ZooKeeper does not allow %s at %s; raise the quota of the "
                                "node above (listquota and setquota of zkCli.sh), or use another chroot",
                                doing, path);
    case ZNOCHILDRENFOREPHEMERALS:
        return lk_misconfigured(err, "%s is below an ephemeral node; use another namespace or chroot", path);
    case ZEPHEMERALONLOCALSESSION:
        return lk_misconfigured(err, "the server uses local sessions, which cannot hold locks; "
                                     "set localSessionsUpgradingEnabled=true on the servers");
    default:
        if (lk_zk_unknown(rc))
            return lk_unavailable(err, "the connection to ZooKeeper was lost while %s (%s)", doing,
                                  zerror(rc));
        return locker_error_set(err, LOCKER_PROTOCOL, 0, "ZooKeeper answered '%s' (%d) while %s at %s",
                                zerror(rc), rc, doing, path);
    }
}
