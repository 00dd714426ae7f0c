/* etcd_bare.c: what the work costs with the driver's own connection alone (backends/etcd/net), as there is no client of etcd in C:
 * one transaction that makes a key and tells who is ahead, a watch on that one, the question again when it goes, and a
 * transaction that deletes. Nothing here renews a lease in time, recovers from lost answers, proves anything when an answer
 * comes late, or has deadlines; and nobody but its one thread ever looks at the socket. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "lk_list.h"
#include "net/net.h"

#define ROOT "bench/"

enum { KEY = 160, NAME = 32, PATIENCE_S = 20, VALUES_MAX = 64 };

static const char record[] = "0123456789abcdef0123456789abcdef 1700000000000 the name of an owner";

typedef enum { IDLE, ENTERING, QUEUED, HELD, LEAVING } lane_step;

/* One contender. */
typedef struct {
    lk_etcd_watcher watcher; /* of who is ahead */
    lane_step step;
    bool goes_on;              /* it gives the lock back at once, and begins again */
    bool watched;              /* it is behind somebody, whose end is told */
    int64_t behind, behind_at; /* when that one was created; a revision at which it was there */
    size_t count;              /* of the crew, where its cycles are counted */
    int64_t created;
    uint64_t name;   /* it has the same each time, as Go's Mutex has: etcd keeps all that were ever used */
    size_t base_len; /* of what is the lock's in `key`, its slash included */
    char key[KEY];
} lane;

/* For the connection it is its owner. */
struct lk_etcd {
    lk_bench *b;
    lk_etcd_net *net;
    locker_services svc;
    lk_etcd_call call;
    bool (*enough)(const lk_etcd *e); /* what is waited for */
    int awaited;                      /* answers to requests that are no lane's */
    int busy;                         /* lanes that haven't ended */
    int64_t lease;
    uint64_t last; /* of its lanes' names */
    lane one;
};

struct lk_bench_etcd {
    lk_etcd e;
};

/* ------------------------------------------------------------------ what the connection wants of its owner ---- */

static void drop_mark(const locker_services *svc, bool out_of_reach)
{
    (void)svc;
    (void)out_of_reach;
}

static void drop_call(const locker_services *svc)
{
    (void)svc;
}

static void drop_message(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    (void)svc;
    (void)level;
    (void)format;
}

static void on_up(lk_etcd *e)
{
    (void)e;
}

static void on_down(lk_etcd *e)
{
    lk_bench_crew_fail(e->b, "the bare client's connection was lost");
}

static void on_gone(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision);

static void on_watched(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision);

static const lk_etcd_owner events = {on_up, on_down, on_gone, on_watched};

/* ------------------------------------------------------------------ driving ---- */

static void check(const lk_etcd *e, const lk_etcd_reply *reply, const char *what)
{
    if (reply->status != LK_ETCD_OK)
        lk_bench_crew_fail(e->b, "%s: status %d: %s", what, reply->status, reply->text);
}

/* Something has come: is it what is waited for? */
static void came_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    if (e->enough != NULL && e->enough(e))
        lk_etcd_call_done_locked(e->net, &e->call);
}

static void drive_until_unlocking(lk_etcd *e, bool (*enough)(const lk_etcd *e)) LK_REQUIRES(*e->net)
{
    e->enough = enough;
    while (!enough(e)) {
        e->call.done = false;
        if (lk_etcd_await_unlocking(e->net, &e->call, lk_etcd_now(e->net) + PATIENCE_S * LK_BENCH_S) !=
            LK_ETCD_CALL_DONE)
            lk_bench_crew_fail(e->b, "the bare client waits in vain");
    }
    e->enough = NULL;
}

static void ask_locked(lk_etcd *e, const lk_etcd_method *method, const ProtobufCMessage *message,
                       lk_etcd_done_fn done, void *context) LK_REQUIRES(*e->net)
{
    if (lk_etcd_send_locked(e->net, method, message, done, context) == NULL)
        lk_bench_crew_fail(e->b, "%s can't be sent", method->path);
}

static bool is_answered(const lk_etcd *e)
{
    return e->awaited == 0;
}

static bool is_held(const lk_etcd *e)
{
    return e->one.step == HELD;
}

static bool is_asleep(const lk_etcd *e)
{
    return e->one.step == HELD || (e->one.step == QUEUED && e->one.watched);
}

static bool is_idle(const lk_etcd *e)
{
    return e->one.step == IDLE;
}

static bool is_over(const lk_etcd *e)
{
    return e->busy == 0;
}

/* ------------------------------------------------------------------ its life ---- */

static void granted_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    (void)context;
    check(e, reply, "LeaseGrant");
    e->lease = ((const LkEtcdPb__LeaseGranted *)(const void *)reply->message)->id;
    e->awaited--;
    came_locked(e);
}

static void answered_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    check(e, reply, context);
    e->awaited--;
    came_locked(e);
}

/* It keeps the mutex for as long as it lives. */
LK_UNCHECKED lk_bench_etcd *lk_bench_etcd_open(lk_bench *b, int port, int64_t ttl_s)
{
    const locker_host host = {.name = "127.0.0.1", .port = port};
    static const locker_value none[VALUES_MAX]; /* of the driver's parameters */
    const locker_driver_config config = {.size = sizeof config,
                                         .scheme = "etcd",
                                         .hosts = &host,
                                         .host_count = 1,
                                         .values = none,
                                         .connect_timeout_ns = PATIENCE_S * LK_BENCH_S,
                                         .command_timeout_ns = PATIENCE_S * LK_BENCH_S};
    LkEtcdPb__LeaseGrant grant = LK_ETCD_PB__LEASE_GRANT__INIT;
    locker_error err;
    lk_bench_etcd *etcd = calloc(1, sizeof *etcd);
    if (etcd == NULL)
        lk_bench_crew_fail(b, "out of memory");
    lk_etcd *e = &etcd->e;
    e->b = b;
    e->svc = (locker_services){.size = sizeof e->svc,
                               .clock = locker_system_clock(),
                               .suspect = drop_mark,
                               .attend = drop_call,
                               .log = drop_message};
    e->last = (uint64_t)lk_bench_now() << 10; /* no two clients have the same names */
    if (lk_etcd_net_open(&e->net, e, &events, &config, &e->svc, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "the bare client: %s", err.text);
    lk_etcd_enter(e->net);
    lk_etcd_call_begin_locked(e->net, &e->call);
    grant.ttl = ttl_s;
    e->awaited++;
    ask_locked(e, &lk_etcd_lease_grant, &grant.base, granted_locked, NULL);
    drive_until_unlocking(e, is_answered);
    return etcd;
}

LK_UNCHECKED void lk_bench_etcd_close(lk_bench_etcd *etcd)
{
    static char what[] = "LeaseRevoke";
    lk_etcd *e = &etcd->e;
    LkEtcdPb__LeaseRevoke revoke = LK_ETCD_PB__LEASE_REVOKE__INIT;
    revoke.id = e->lease;
    e->awaited++;
    ask_locked(e, &lk_etcd_lease_revoke, &revoke.base, answered_locked, what);
    drive_until_unlocking(e, is_answered);
    lk_etcd_call_end_locked(e->net, &e->call);
    lk_etcd_leave(e->net);
    lk_etcd_net_free(e->net);
    free(etcd);
}

/* ------------------------------------------------------------------ transactions ---- */

/* What they are made of: none has more. */
typedef struct {
    LkEtcdPb__Txn txn;
    LkEtcdPb__Compare compare, *compares[1];
    LkEtcdPb__Put put;
    LkEtcdPb__Delete del;
    LkEtcdPb__Range range;
    LkEtcdPb__Op op[2], *ops[2];
    char end[KEY];
} transaction;

static ProtobufCBinaryData bytes(const char *text, size_t len)
{
    return (ProtobufCBinaryData){.len = len, .data = (uint8_t *)(uintptr_t)text};
}

static ProtobufCBinaryData key_of(const lane *l)
{
    return bytes(l->key, l->base_len + NAME);
}

/* If the lane's key was created then; 0: if it isn't there. */
static void begin_txn(transaction *t, const lane *l)
{
    lk_etcd_pb__txn__init(&t->txn);
    lk_etcd_pb__compare__init(&t->compare);
    t->compare.target = LK_ETCD_PB__COMPARE__TARGET__CREATE;
    t->compare.to_case = LK_ETCD_PB__COMPARE__TO_CREATE_REVISION;
    t->compare.key = key_of(l);
    t->compare.create_revision = l->created;
    t->compares[0] = &t->compare;
    t->txn.compare = t->compares;
    t->txn.n_compare = 1;
    t->txn.success = t->ops;
}

static LkEtcdPb__Op *add_op(transaction *t, LkEtcdPb__Op__OpCase what)
{
    LkEtcdPb__Op *op = t->ops[t->txn.n_success] = &t->op[t->txn.n_success];
    t->txn.n_success++;
    lk_etcd_pb__op__init(op);
    op->op_case = what;
    return op;
}

/* The latest of the lock's keys, before ours where that is there. */
static void add_range(transaction *t, const lane *l)
{
    memcpy(t->end, l->key, l->base_len);
    t->end[l->base_len - 1]++;
    lk_etcd_pb__range__init(&t->range);
    t->range.key = bytes(l->key, l->base_len);
    t->range.range_end = bytes(t->end, l->base_len);
    t->range.limit = l->created != 0 ? 1 : 2;
    t->range.max_create_revision = l->created != 0 ? l->created - 1 : 0;
    t->range.sort_target = LK_ETCD_PB__RANGE__TARGET__CREATE;
    t->range.sort_order = LK_ETCD_PB__RANGE__ORDER__DESCEND;
    t->range.keys_only = true;
    add_op(t, LK_ETCD_PB__OP__OP_RANGE)->range = &t->range;
}

/* ------------------------------------------------------------------ a lane ---- */

static void begin_locked(lk_etcd *e, lane *l) LK_REQUIRES(*e->net);
static void leave_locked(lk_etcd *e, lane *l) LK_REQUIRES(*e->net);

static void step_locked(lk_etcd *e, lane *l, lane_step next) LK_REQUIRES(*e->net)
{
    l->step = next;
    if (next == HELD && l->goes_on)
        leave_locked(e, l);
    came_locked(e);
}

static const LkEtcdPb__TxnDone *txn_done(const lk_etcd *e, const lk_etcd_reply *reply)
{
    const LkEtcdPb__TxnDone *done = (const LkEtcdPb__TxnDone *)(const void *)reply->message;
    check(e, reply, "Txn");
    if (!done->succeeded)
        lk_bench_crew_fail(e->b, "the bare client's key has gone, or was there");
    return done;
}

/* The last of the answers is the range. */
static void judge_locked(lk_etcd *e, lane *l, const LkEtcdPb__TxnDone *done) LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *ranged = done->responses[done->n_responses - 1]->range;
    const LkEtcdPb__KeyValue *ahead = NULL;
    for (size_t i = 0; i < ranged->n_kvs && ahead == NULL; i++)
        if (ranged->kvs[i]->create_revision < l->created)
            ahead = ranged->kvs[i];
    if (ahead == NULL) {
        step_locked(e, l, HELD);
        return;
    }
    l->step = QUEUED;
    l->behind_at = done->header->revision;
    if (l->watcher.id != 0 && l->behind == ahead->create_revision) {
        l->watched = true;
        came_locked(e);
        return;
    }
    l->behind = ahead->create_revision;
    l->watched = false;
    if (!lk_etcd_watch_locked(e->net, &l->watcher, ahead->key, (ProtobufCBinaryData){0, NULL}, 0))
        lk_bench_crew_fail(e->b, "a watch can't be sent");
}

static void entered_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lane *l = context;
    const LkEtcdPb__TxnDone *done = txn_done(e, reply);
    l->created = done->header->revision;
    judge_locked(e, l, done);
}

static void looked_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    judge_locked(e, context, txn_done(e, reply));
}

static void look_locked(lk_etcd *e, lane *l) LK_REQUIRES(*e->net)
{
    transaction t;
    l->watched = false;
    l->step = ENTERING;
    begin_txn(&t, l);
    add_range(&t, l);
    ask_locked(e, &lk_etcd_txn, &t.txn.base, looked_locked, l);
}

/* Who is first when the one ahead has gone, only a range can tell: it may have given up. The connection calls it with its mutex. */
LK_UNCHECKED static void on_gone(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision)
{
    lane *l = LK_CONTAINER(watcher, lane, watcher);
    (void)revision;
    if (l->step == QUEUED) /* else a look is under way, and finds it gone */
        look_locked(e, l);
}

/* Where something was written since the look, the one ahead may have gone. The connection calls it with its mutex. */
LK_UNCHECKED static void on_watched(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision)
{
    lane *l = LK_CONTAINER(watcher, lane, watcher);
    if (revision > l->behind_at) {
        look_locked(e, l);
        return;
    }
    l->watched = true;
    came_locked(e);
}

static void begin_locked(lk_etcd *e, lane *l)
{
    transaction t;
    l->step = ENTERING;
    l->created = 0;
    begin_txn(&t, l);
    lk_etcd_pb__put__init(&t.put);
    t.put.key = key_of(l);
    t.put.value = bytes(record, sizeof record - 1);
    t.put.lease = e->lease;
    add_op(&t, LK_ETCD_PB__OP__OP_PUT)->put = &t.put;
    add_range(&t, l);
    ask_locked(e, &lk_etcd_txn, &t.txn.base, entered_locked, l);
}

static void left_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lane *l = context;
    (void)txn_done(e, reply);
    if (l->goes_on && lk_bench_crew_stopped(e->b)) {
        e->busy--;
    } else if (l->goes_on) {
        e->b->crew->count[l->count]++;
        begin_locked(e, l);
    }
    if (l->goes_on)
        came_locked(e);
    else
        step_locked(e, l, IDLE);
}

static void leave_locked(lk_etcd *e, lane *l)
{
    transaction t;
    l->step = LEAVING;
    begin_txn(&t, l);
    lk_etcd_pb__delete__init(&t.del);
    t.del.key = key_of(l);
    add_op(&t, LK_ETCD_PB__OP__OP_DEL)->del = &t.del;
    ask_locked(e, &lk_etcd_txn, &t.txn.base, left_locked, l);
}

static void name_lane(lk_etcd *e, lane *l, const char *key)
{
    l->base_len = (size_t)snprintf(l->key, sizeof l->key - NAME - 1, ROOT "%s/", key);
    l->name = l->name != 0 ? l->name : ++e->last;
    (void)snprintf(l->key + l->base_len, sizeof l->key - l->base_len, "%032llx", (unsigned long long)l->name);
}

/* ------------------------------------------------------------------ one contender ---- */

LK_UNCHECKED static void enter_until(lk_etcd *e, const char *key, bool (*enough)(const lk_etcd *e))
{
    name_lane(e, &e->one, key);
    begin_locked(e, &e->one);
    drive_until_unlocking(e, enough);
}

void lk_bench_etcd_lock(lk_bench_etcd *etcd, const char *key)
{
    enter_until(&etcd->e, key, is_held);
}

void lk_bench_etcd_enter(lk_bench_etcd *etcd, const char *key)
{
    enter_until(&etcd->e, key, is_asleep);
}

LK_UNCHECKED void lk_bench_etcd_await(lk_bench_etcd *etcd)
{
    drive_until_unlocking(&etcd->e, is_held);
}

LK_UNCHECKED void lk_bench_etcd_unlock(lk_bench_etcd *etcd)
{
    lk_etcd *e = &etcd->e;
    leave_locked(e, &e->one);
    drive_until_unlocking(e, is_idle);
}

LK_UNCHECKED void lk_bench_etcd_ping(lk_bench_etcd *etcd)
{
    static char what[] = "Range";
    lk_etcd *e = &etcd->e;
    LkEtcdPb__Range range = LK_ETCD_PB__RANGE__INIT;
    range.key = bytes(ROOT, sizeof ROOT - 1);
    e->awaited++;
    ask_locked(e, &lk_etcd_range, &range.base, answered_locked, what);
    drive_until_unlocking(e, is_answered);
}

/* ------------------------------------------------------------------ many ---- */

LK_UNCHECKED void lk_bench_etcd_lanes(lk_bench_etcd *etcd, const char *key, bool shared, int lanes,
                                      size_t first)
{
    lk_etcd *e = &etcd->e;
    lane *all = calloc((size_t)lanes, sizeof *all);
    if (all == NULL)
        lk_bench_crew_fail(e->b, "out of memory");
    e->busy = lanes;
    for (int i = 0; i < lanes; i++) {
        char own[64];
        all[i] = (lane){.goes_on = true, .count = first + (size_t)i};
        name_lane(e, &all[i], shared ? key : lk_lane_key(own, key, i));
        begin_locked(e, &all[i]);
    }
    drive_until_unlocking(e, is_over);
    free(all);
}

LK_UNCHECKED void lk_bench_etcd_hold(lk_bench_etcd *etcd, const char *prefix, int n)
{
    char key[64];
    for (int i = 0; i < n; i++) {
        enter_until(&etcd->e, lk_lane_key(key, prefix, i), is_held);
        etcd->e.one.step = IDLE; /* it stays, and the lane is used again */
    }
}

/* A stream for each, which this end closes at once: so it is a request with one answer. */
static const lk_etcd_method keep_alive = {"/etcdserverpb.Lease/LeaseKeepAlive",
                                          &lk_etcd_pb__lease_granted__descriptor};

LK_UNCHECKED void lk_bench_etcd_idle(lk_bench_etcd *etcd, int64_t every)
{
    static char what[] = "LeaseKeepAlive";
    lk_etcd *e = &etcd->e;
    LkEtcdPb__LeaseRevoke message =
        LK_ETCD_PB__LEASE_REVOKE__INIT; /* it has the lease's number, as that one has */
    message.id = e->lease;
    for (int64_t next = lk_bench_now(); !lk_bench_crew_stopped(e->b); lk_bench_sleep(20 * LK_BENCH_MS)) {
        if (lk_bench_now() < next)
            continue;
        next += every;
        e->awaited++;
        ask_locked(e, &keep_alive, &message.base, answered_locked, what);
        drive_until_unlocking(e, is_answered);
    }
}
