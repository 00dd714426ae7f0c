/* etcd_steps.c: the steps of models/etcd.pml that a simulated etcd takes. A request is told by its own guards, and what it has done by the change of the keys. So a driver
 * that asks for something else than the model shows in the steps. */
#include "etcd_service.h"

#include <stdlib.h>
#include <string.h>

#include "etcd/state.h"
#include "steps.h"

enum { NAME = 32 }; /* of a place: its locker's number, and its own, in hexadecimal digits */

typedef struct {
    char name[NAME + 1];
    int64_t created, modified, lease;
} place;

typedef struct {
    int pid;
    long long sent_ns;
} request;

static struct {
    place *places; /* as the latest entry of the log has left them */
    size_t count, room;
    request *requests; /* by their numbers */
    size_t request_room;
} steps;

/* False: it is no place's. */
static bool is_place(const void *key, size_t len, char name[NAME + 1])
{
    const char *const text = key;
    if (len <= NAME || text[len - NAME - 1] != '/' ||
        strspn(text + len - NAME, "0123456789abcdef") < NAME) /* a kv's key ends with a 0 */
        return false;
    memcpy(name, text + len - NAME, NAME);
    name[NAME] = '\0';
    return true;
}

static bool names_place(ProtobufCBinaryData key, char name[NAME + 1])
{
    char text[256];
    if (key.len >= sizeof text)
        return false;
    memcpy(text, key.data, key.len);
    text[key.len] = '\0';
    return is_place(text, key.len, name);
}

/* ------------------------------------------------------------------ what has changed ---- */

static place *find(place *places, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(places[i].name, name) == 0)
            return &places[i];
    return NULL;
}

static void tell_change(const place *p)
{
    lk_sim_step("change %s %lld %lld %lld", p->name, (long long)p->created, (long long)p->modified,
                (long long)p->lease);
}

static void look(const lk_simetcd_store *store)
{
    place *const before = steps.places;
    const size_t count = steps.count;
    steps.places = NULL;
    steps.count = steps.room = 0;
    for (size_t i = 0; i < store->key_count; i++) {
        const lk_simetcd_kv *const kv = lk_simetcd_state(store->keys[i], INT64_MAX);
        place now;
        if (kv == NULL ||
            !names_place((ProtobufCBinaryData){kv->key.len, (uint8_t *)(uintptr_t)kv->key.bytes}, now.name))
            continue;
        now.created = kv->create;
        now.modified = kv->mod;
        now.lease = kv->lease;
        steps.places = lk_simetcd_grow(steps.places, steps.count, &steps.room, sizeof *steps.places);
        steps.places[steps.count++] = now;
        const place *const old = find(before, count, now.name);
        if (old == NULL || old->modified != now.modified)
            tell_change(&now);
    }
    for (size_t i = 0; i < count; i++)
        if (find(steps.places, steps.count, before[i].name) == NULL) {
            before[i].created = before[i].modified = before[i].lease = 0;
            tell_change(&before[i]);
        }
    free(before);
}

/* ------------------------------------------------------------------ requests ---- */

static const request *request_of(const lk_simetcd_done *done)
{
    static const request none;
    return done->request < steps.request_room ? &steps.requests[done->request] : &none;
}

/* What the key's revision, of that kind, is compared with; -1: it isn't. */
static long long guard(const LkEtcdPb__Txn *txn, const char *name, LkEtcdPb__Compare__Target target)
{
    char of[NAME + 1];
    for (size_t i = 0; i < txn->n_compare; i++) {
        const LkEtcdPb__Compare *const c = txn->compare[i];
        if (c->target == target && c->result == LK_ETCD_PB__COMPARE__RESULT__EQUAL &&
            names_place(c->key, of) && strcmp(of, name) == 0)
            return target == LK_ETCD_PB__COMPARE__TARGET__CREATE ? c->create_revision : c->mod_revision;
    }
    return -1;
}

static void tell_put(const request *r, const LkEtcdPb__Txn *txn, const LkEtcdPb__Put *put)
{
    char name[NAME + 1];
    if (!names_place(put->key, name))
        return;
    const long long created = guard(txn, name, LK_ETCD_PB__COMPARE__TARGET__CREATE);
    if (created == 0)
        lk_sim_step("entered %d %lld %s %lld", r->pid, r->sent_ns, name, (long long)put->lease);
    else
        lk_sim_step("put %d %lld %s %lld %lld", r->pid, r->sent_ns, name, (long long)put->lease,
                    guard(txn, name, LK_ETCD_PB__COMPARE__TARGET__MOD));
}

/* A look asks for the key that it is guarded by. */
static void tell_look(const lk_simetcd_done *done, const LkEtcdPb__Txn *txn, const LkEtcdPb__Range *range)
{
    const request *const r = request_of(done);
    char name[NAME + 1];
    if (!names_place(range->key, name) || range->range_end.len > 0)
        return;
    const long long created = guard(txn, name, LK_ETCD_PB__COMPARE__TARGET__CREATE);
    if (created > 0)
        lk_sim_step("looked %d %lld %s %lld %lld", r->pid, r->sent_ns, name, created, (long long)done->index);
}

static void tell_txn(const lk_simetcd_done *done, const LkEtcdPb__Txn *txn)
{
    const request *const r = request_of(done);
    char name[NAME + 1];
    for (size_t i = 0; i < txn->n_success; i++) {
        const LkEtcdPb__Op *const op = txn->success[i];
        if (op->op_case == LK_ETCD_PB__OP__OP_TXN)
            tell_txn(done, op->txn);
        else if (op->op_case == LK_ETCD_PB__OP__OP_PUT)
            tell_put(r, txn, op->put);
        else if (op->op_case == LK_ETCD_PB__OP__OP_DEL && names_place(op->del->key, name))
            lk_sim_step("deleted %d %lld %s %lld", r->pid, r->sent_ns, name,
                        guard(txn, name, LK_ETCD_PB__COMPARE__TARGET__CREATE));
        else if (op->op_case == LK_ETCD_PB__OP__OP_RANGE && i == 0)
            tell_look(done, txn, op->range);
    }
}

static void tell_request(const lk_simetcd_done *done)
{
    const request *const r = request_of(done);
    const void *const message = done->message, *const answer = done->answer->message;
    if (done->kind == LK_SIMETCD_GRANT) {
        const LkEtcdPb__LeaseGranted *const granted = answer;
        lk_sim_step("leased %d %lld %lld %lld", r->pid, r->sent_ns, (long long)granted->id,
                    (long long)granted->ttl);
    } else if (done->kind == LK_SIMETCD_REVOKE && done->expires) {
        lk_sim_step("expired %lld", (long long)((const LkEtcdPb__LeaseRevoke *)message)->id);
    } else if (done->kind == LK_SIMETCD_REVOKE) {
        lk_sim_step("revoked %d %lld %lld", r->pid, r->sent_ns,
                    (long long)((const LkEtcdPb__LeaseRevoke *)message)->id);
    } else if (done->kind == LK_SIMETCD_TXN) {
        tell_txn(done, message);
    }
}

/* What was refused has done nothing, and tells its client nothing of keys. */
static void on_done(const lk_simetcd_done *done)
{
    if (!lk_sim_steps_are_told())
        return;
    if (!done->reads)
        look(done->store);
    if (done->answer->error == NULL)
        tell_request(done);
    if (!done->reads)
        lk_sim_step("done %lld", (long long)done->index);
}

static void on_asked(const lk_sim_connection *connection, uint64_t number)
{
    if (!lk_sim_steps_are_told())
        return;
    while (number >= steps.request_room)
        steps.requests =
            lk_simetcd_grow(steps.requests, steps.request_room, &steps.request_room, sizeof *steps.requests);
    steps.requests[number] = (request){.pid = lk_sim_connection_process(connection)->pid,
                                       .sent_ns = lk_sim_connection_sent_at(connection)};
}

void lk_sim_etcd_steps_begin(lk_sim_etcd *etcd)
{
    int32_t fastest = INT32_MIN;
    free(steps.places);
    free(steps.requests);
    memset(&steps, 0, sizeof steps);
    etcd->on_asked = on_asked;
    etcd->on_done = on_done;
    for (int i = 0; i < etcd->count; i++)
        fastest = etcd->etcd->setup.clocks[i].ppm > fastest ? etcd->etcd->setup.clocks[i].ppm : fastest;
    lk_sim_step("clock 0 %d", fastest); /* none of them ends a lease before */
}
