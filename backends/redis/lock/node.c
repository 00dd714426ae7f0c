/* node.c: the servers of an instance. Of a cluster each master that has slots of which something was asked has a node here; who
 * has which slots is told by each handshake, by a server that has a slot no more (MOVED), and by the others when one can't be
 * reached. A node whose server has no slots any more stays as it is, and comes back into use when it has some, or for another server:
 * there are no more of them than a cluster has masters and somebody still waits for, however often their addresses change. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "instance.h"
#include "net/command.h"

/* ------------------------------------------------------------------ servers ---- */

enum { NODES_MAX = LK_REDIS_MASTERS_MAX };

/* Up to so many, beginning behind this one. */
size_t lk_redis_peers_locked(void *self, char (*peer)[LK_REDIS_PEER_MAX], size_t max)
{
    const lk_redis_node *const own = self;
    size_t count = 0;
    const lk_redis_node *node = own;
    do {
        node = node->next != NULL ? node->next : own->r->nodes;
        if (node != own && node->slots > 0)
            (void)snprintf(peer[count++], LK_REDIS_PEER_MAX, "%s", lk_redis_net_peer(node->net));
    } while (node != own && count < max);
    return count;
}

const char *lk_redis_channel_of(void *self, uint16_t slot, char *name)
{
    lk_redis *const r = ((const lk_redis_node *)self)->r;
    char tag[sizeof(uint64_t) + 1] = "";
    *lk_redis_tag_put(tag, lk_redis_slot_tag(&r->slots, slot)) = '\0';
    (void)snprintf(name, LK_REDIS_CHANNEL_MAX, "%s%s", r->channel, tag);
    return name;
}

uint16_t lk_redis_slot_of_channel(void *self, const char *channel, size_t len)
{
    char none[] = "";
    const lk_redis_prefix nothing = {.text = none};
    const lk_redis *const r = ((const lk_redis_node *)self)->r;
    return lk_redis_slot_of(&r->slots, &nothing, channel, len);
}

lk_redis_node *lk_redis_node_new(lk_redis *r, const char *peer)
{
    lk_redis_node *node = calloc(1, sizeof *node);
    if (node == NULL)
        return NULL;
    node->r = r;
    lk_redis_fences_set_least(&node->fences, 0);
    lk_redis_server_time_init(&node->time, &r->shared, r->set.clock_drift);
    lk_list_init(&node->renewals.waiting);
    node->net = lk_redis_net_new(&r->shared, &r->set.target, r->channel, r->owner, node, &node->commands,
                                 &node->renewing, r->set.wait_replicas > 0);
    if (node->net == NULL) {
        const int why = errno;
        free(node);
        errno = why;
        return NULL;
    }
    if (peer != NULL)
        lk_redis_net_is_at(node->net, peer, &(lk_redis_scripts){r->script, LK_REDIS_SCRIPTS_LOADED, NULL});
    lk_redis_node **last = &r->nodes;
    while (*last != NULL)
        last = &(*last)->next;
    *last = node;
    return node;
}

bool lk_redis_nodes_init(lk_redis *r)
{
    if (!r->set.target.cluster)
        return true;
    r->map = calloc(LK_REDIS_SLOTS, sizeof r->map[0]);
    if (r->map == NULL)
        return false;
    for (size_t slot = 0; slot < LK_REDIS_SLOTS; slot++)
        LK_WRITE(r->map[slot], r->nodes);
    r->nodes->slots = LK_REDIS_SLOTS;
    atomic_store(&r->shared.maps, 1);
    return true;
}

/* No key is asked for there, and none is about to be. */
static bool is_unused_locked(const lk_redis_node *node) LK_REDIS_LOCKED
{
    return node->slots == 0 && !node->is_named && lk_list_empty(&node->renewals.waiting);
}

static void leave_unused_locked(lk_redis *r) LK_REDIS_LOCKED
{
    for (lk_redis_node *node = r->nodes; node != NULL; node = node->next)
        if (is_unused_locked(node))
            lk_redis_net_leave_locked(node->net);
}

lk_redis_node *lk_redis_node_at_locked(lk_redis *r, const char *peer)
{
    lk_redis_node *unused = NULL;
    size_t count = 0;
    for (lk_redis_node *node = r->nodes; node != NULL; node = node->next, count++) {
        if (strcmp(lk_redis_net_peer(node->net), peer) == 0)
            return node;
        if (is_unused_locked(node) && lk_redis_net_is_at_rest_locked(node->net))
            unused = node;
    }
    leave_unused_locked(r); /* for who comes next */
    if (unused == NULL)
        return count < NODES_MAX ? lk_redis_node_new(r, peer) : NULL;
    lk_redis_server_time_init(&unused->time, &r->shared, r->set.clock_drift);
    lk_redis_net_move_locked(unused->net, peer);
    return unused;
}

static void give_slot_locked(lk_redis *r, uint16_t slot, lk_redis_node *to) LK_REDIS_LOCKED
{
    lk_redis_node *const from = LK_READ(r->map[slot]);
    if (from == to)
        return;
    if (lk_redis_net_forget_slot_locked(from->net, slot)) /* who has it now is listened to */
        lk_redis_net_subscribe_locked(to->net, slot, true);
    from->slots--;
    to->slots++;
    LK_WRITE(r->map[slot], to);
}

/* Who waits for a connection chooses anew; and who has slots is to have one, once it is asked for. */
static void remapped_locked(lk_redis *r) LK_REDIS_LOCKED
{
    for (lk_redis_node *node = r->nodes; node != NULL; node = node->next)
        lk_redis_net_set_idle_locked(node->net, node->slots == 0);
    atomic_fetch_add_explicit(&r->shared.maps, 1, memory_order_release);
    pthread_cond_broadcast(&r->shared.changed);
}

void lk_redis_on_map_locked(void *self, const lk_redis_map *map)
{
    lk_redis *const r = ((lk_redis_node *)self)->r;
    lk_redis_node *named[LK_REDIS_MASTERS_MAX];
    for (size_t i = 0; i < map->masters; i++) {
        named[i] = lk_redis_node_at_locked(r, map->peer[i]);
        if (named[i] != NULL)
            named[i]->is_named = true;
    }
    for (unsigned slot = 0; slot < LK_REDIS_SLOTS; slot++) {
        const uint16_t master = map->master[slot];
        if (master > 0 && named[master - 1] != NULL)
            give_slot_locked(r, (uint16_t)slot, named[master - 1]);
    }
    for (size_t i = 0; i < map->masters; i++)
        if (named[i] != NULL)
            named[i]->is_named = false;
    remapped_locked(r);
}

void lk_redis_heed_locked(lk_redis_node *node, uint16_t slot, const redisReply *reply)
{
    lk_redis *const r = node->r;
    const lk_redis_fault fault = lk_redis_reply_fault(reply);
    char peer[LK_REDIS_PEER_MAX];
    if (r->map == NULL) {
        if (fault == LK_REDIS_FAULT_MOVED && !lk_redis_recovery_is_unwritten_locked(r, reply))
            lk_redis_net_moved_locked(node->net, reply);
        return;
    }
    if (fault == LK_REDIS_FAULT_TRANSIENT && strncmp(reply->str, "CLUSTERDOWN", 11) == 0)
        lk_redis_net_want_map_locked(node->net);
    if (fault != LK_REDIS_FAULT_MOVED)
        return;
    lk_redis_node *const to = strncmp(reply->str, "MOVED ", 6) == 0 &&
                                      lk_redis_redirection(reply->str, lk_redis_net_peer(node->net), peer)
                                  ? lk_redis_node_at_locked(r, peer)
                                  : NULL;
    if (to == NULL) { /* it is a replica by now */
        lk_redis_pipeline_fail_locked(node->commands, "it is not the master");
        return;
    }
    give_slot_locked(r, slot, to);
    remapped_locked(r);
}

void lk_redis_heed(lk_redis_node *node, uint16_t slot, const redisReply *reply)
{
    lk_redis_lock(&node->r->shared);
    lk_redis_heed_locked(node, slot, reply);
    lk_redis_unlock(&node->r->shared);
}

/* ------------------------------------------------------------------ migrating slots ---- */

/* Whether that is where its key has gone; then `to` is who has it, and else what it was. */
static bool is_elsewhere_locked(lk_redis_node *at, const redisReply *reply,
                                lk_redis_node **to) LK_REDIS_LOCKED
{
    char peer[LK_REDIS_PEER_MAX];
    if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "ASK ", 4) != 0 ||
        !lk_redis_redirection(reply->str, lk_redis_net_peer(at->net), peer))
        return false;
    lk_redis_node *const found = lk_redis_node_at_locked(at->r, peer);
    if (found == NULL)
        return false;
    *to = found;
    lk_redis_net_wanted_locked(found->net); /* which it may not have been, without slots */
    return true;
}

static bool is_elsewhere(lk_redis_node *at, const redisReply *reply, lk_redis_node **to)
{
    lk_redis_lock(&at->r->shared);
    const bool is = is_elsewhere_locked(at, reply, to);
    lk_redis_unlock(&at->r->shared);
    return is;
}

/* To a server that is to serve it though it doesn't have the slot yet. */
static lk_redis_outcome ask_behind(lk_redis_node *node, lk_redis_call *call, const lk_redis_command *a,
                                   locker_error *err)
{
    const lk_redis_command both[] = {LK_REDIS_COMMAND("ASKING"), *a};
    call->map = 0; /* it is this one */
    const lk_redis_outcome outcome = lk_redis_ask(node->commands, call, both, 2, err);
    if (call->replies[0] != NULL)
        freeReplyObject(call->replies[0]);
    call->replies[0] = call->replies[1];
    call->replies[1] = NULL;
    return outcome;
}

lk_redis_outcome lk_redis_migrating_ask(lk_redis *r, uint16_t slot, lk_redis_call *call,
                                        const lk_redis_command *a, locker_error *err)
{
    for (unsigned hop = 0;; hop++) {
        lk_redis_node *at = lk_redis_node_for(r, slot, call);
        lk_redis_outcome outcome = lk_redis_ask(at->commands, call, a, 1, err);
        if (outcome == LK_REDIS_CALL_REMAPPED)
            continue;
        if (outcome == LK_REDIS_CALL_ANSWERED && is_elsewhere(at, call->reply, &at)) {
            lk_redis_call_clear(call);
            outcome = ask_behind(at, call, a, err);
        }
        if (outcome != LK_REDIS_CALL_ANSWERED)
            return outcome;
        const lk_redis_fault fault = lk_redis_reply_fault(call->reply);
        if ((fault != LK_REDIS_FAULT_MOVED && fault != LK_REDIS_FAULT_MIGRATING) || hop == LK_REDIS_HOPS_MAX)
            return outcome;
        lk_redis_heed(at, slot, call->reply);
        lk_redis_call_clear(call);
    }
}

/* A command that goes around. */
typedef struct {
    lk_redis *r;
    lk_redis_node *at;
    uint16_t slot;
    unsigned hops;
    lk_redis_migrating_done done;
    void *context;
    size_t len;
    char bytes[];
} errand;

static void answered_locked(void *context, redisReply *reply) LK_REDIS_LOCKED;

static void end_locked(errand *e, redisReply *reply) LK_REDIS_LOCKED
{
    if (e->done != NULL)
        e->done(e->context, reply, e->at->commands);
    free(e);
}

/* `behind`: ASKING. */
static void go_locked(errand *e, lk_redis_node *to, bool behind) LK_REDIS_LOCKED
{
    static const lk_redis_command asking = {1, {"ASKING"}, {6}};
    e->at = to;
    if (to->commands->state != LK_REDIS_UP)
        lk_redis_net_wanted_locked(to->net); /* for who asks next */
    char *room = NULL;
    if (!behind || lk_redis_submit_command_locked(to->commands, &asking, NULL, NULL))
        room = lk_redis_room_locked(to->commands, e->len);
    if (room != NULL)
        memcpy(room, e->bytes, e->len);
    if (room == NULL || !lk_redis_submit_locked(to->commands, room + e->len, answered_locked, e)) {
        end_locked(e, NULL);
        return;
    }
    if (!e->r->shared.closing)
        lk_redis_attend(e->r); /* it may be another's connection than the one that is pumped */
}

static void answered_locked(void *context, redisReply *reply)
{
    errand *const e = context;
    const lk_redis_fault fault = reply != NULL ? lk_redis_reply_fault(reply) : LK_REDIS_FAULT_NONE;
    lk_redis_node *to;
    if ((fault != LK_REDIS_FAULT_MOVED && fault != LK_REDIS_FAULT_MIGRATING) ||
        e->hops++ == LK_REDIS_HOPS_MAX) {
        end_locked(e, reply);
    } else if (is_elsewhere_locked(e->at, reply, &to)) {
        go_locked(e, to, true);
    } else {
        lk_redis_heed_locked(e->at, e->slot, reply);
        go_locked(e, lk_redis_node_of(e->r, e->slot), false);
    }
}

void lk_redis_migrating_submit_locked(lk_redis *r, uint16_t slot, const lk_redis_command *a,
                                      lk_redis_migrating_done done, void *context)
{
    lk_redis_node *const at = lk_redis_node_of(r, slot);
    errand *const e = malloc(sizeof *e + lk_redis_command_room(a));
    if (e == NULL) {
        if (done != NULL)
            done(context, NULL, at->commands);
        return;
    }
    *e = (errand){.r = r, .slot = slot, .done = done, .context = context};
    e->len = (size_t)(lk_redis_command_put(a, e->bytes) - e->bytes);
    go_locked(e, at, false);
}

/* The first waiter of a queue, which is read to notify it. */
typedef struct {
    lk_redis *r;
    uint16_t slot;
    char lock[];
} summons;

/* Copy 32 hex digits from a text that has a space behind them. Return false for another text. */
static bool read_name(const char *text, char name[LK_REDIS_VALUE_LEN + 1])
{
    if (strspn(text, "0123456789abcdef") != LK_REDIS_VALUE_LEN || text[LK_REDIS_VALUE_LEN] != ' ')
        return false;
    memcpy(name, text, LK_REDIS_VALUE_LEN);
    name[LK_REDIS_VALUE_LEN] = '\0';
    return true;
}

/* Notify the waiter "instance value ttl numbers owner", by a message that hands no lock over. */
static void first_known_locked(void *context, redisReply *reply, lk_redis_pipeline *on) LK_REDIS_LOCKED
{
    summons *const s = context;
    const redisReply *const first =
        reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 ? reply->element[0] : NULL;
    char inst[LK_REDIS_VALUE_LEN + 1], value[LK_REDIS_VALUE_LEN + 1], tag[sizeof(uint64_t) + 1] = "";
    (void)on;
    if (first != NULL && first->type == REDIS_REPLY_STRING && read_name(first->str, inst) &&
        read_name(first->str + LK_REDIS_VALUE_LEN + 1, value)) {
        const size_t room = strlen(s->lock) + LK_REDIS_VALUE_LEN + 16;
        char channel[LK_REDIS_CHANNEL_MAX], *const text = malloc(room);
        *lk_redis_tag_put(tag, lk_redis_slot_tag(&s->r->slots, s->slot)) = '\0';
        (void)snprintf(channel, sizeof channel, "locker:wake:%s%s", inst, tag);
        if (text != NULL)
            (void)snprintf(text, room, "%s 0/0 0 %s", value, s->lock);
        const lk_redis_command a = LK_REDIS_COMMAND("SPUBLISH", channel, text != NULL ? text : "");
        if (text != NULL)
            lk_redis_migrating_submit_locked(s->r, s->slot, &a, NULL, NULL);
        free(text);
    }
    free(s);
}

void lk_redis_migrating_call_first_locked(lk_redis *r, uint16_t slot, lk_redis_keys *keys)
{
    summons *const s = malloc(sizeof *s + keys->len + 1);
    if (s == NULL)
        return;
    *s = (summons){.r = r, .slot = slot};
    memcpy(s->lock, keys->lock, keys->len + 1);
    const lk_redis_command a =
        LK_REDIS_COMMAND("ZRANGE", lk_redis_keys_companion(keys, LK_REDIS_QUEUE), "0", "0");
    lk_redis_migrating_submit_locked(r, slot, &a, first_known_locked, s);
}
