/* cluster.c: see cluster.h; and the commands CLUSTER ... and ASKING. */
#include "cluster.h"

#include <stdio.h>
#include <string.h>

#include "call.h"
#include "commands.h"
#include "view.h"

/* ------------------------------------------------------------------ what it is told ---- */

void lk_sr_cluster_join(lk_sr_server *server, const lk_sr_cluster_setup *setup)
{
    struct lk_sr_view *view = lk_sr_make(sizeof *view);
    view->count = (int)setup->count;
    view->myself = (int)setup->myself;
    view->tells = setup->tells;
    view->context = setup->context;
    for (int i = 0; i < view->count; i++) {
        lk_sr_peer *peer = &view->peers[i];
        const lk_sr_node *node = &setup->nodes[i];
        (void)snprintf(peer->id, sizeof peer->id, "%s", node->id);
        (void)snprintf(peer->host, sizeof peer->host, "%s", node->host);
        peer->port = node->port;
        peer->master = node->master;
    }
    memset(view->owner, -1, sizeof view->owner);
    memset(view->migrating, -1, sizeof view->migrating);
    memset(view->importing, -1, sizeof view->importing);
    server->view = view;
}

static bool is_mine_or_my_masters(const struct lk_sr_view *view, int owner)
{
    return owner >= 0 && (owner == view->myself || owner == view->peers[view->myself].master);
}

/* Who had subscribed in it by me is told to do so elsewhere, even where that is here again. */
static void give_slot(lk_sr_server *server, unsigned slot, int node)
{
    struct lk_sr_view *view = server->view;
    if (is_mine_or_my_masters(view, view->owner[slot]))
        lk_sr_shard_leave(server, slot);
    view->owner[slot] = (int8_t)node;
}

void lk_sr_cluster_assign(lk_sr_server *server, unsigned first, unsigned last, int node)
{
    struct lk_sr_view *view = server->view;
    for (unsigned slot = first; slot <= last; slot++) {
        if (view->owner[slot] == node || view->importing[slot] >= 0)
            continue;
        if (view->owner[slot] == view->myself)
            view->migrating[slot] = -1;
        give_slot(server, slot, node);
    }
}

void lk_sr_cluster_replace(lk_sr_server *server, int master, int replica)
{
    struct lk_sr_view *view = server->view;
    for (unsigned slot = 0; slot < LK_SR_SLOTS; slot++) {
        if (view->owner[slot] == master)
            give_slot(server, slot, replica);
        if (view->migrating[slot] == master)
            view->migrating[slot] = (int8_t)replica;
        if (view->importing[slot] == master)
            view->importing[slot] = (int8_t)replica;
    }
    for (int i = 0; i < view->count; i++)
        if (view->peers[i].master == master)
            view->peers[i].master = replica;
    view->peers[replica].master = -1;
    view->peers[master].master = replica;
}

void lk_sr_cluster_set_down(lk_sr_server *server, bool down)
{
    server->view->down = down;
}

int lk_sr_cluster_owner(const lk_sr_server *server, unsigned slot)
{
    return server->view->owner[slot];
}

void lk_sr_cluster_hear(lk_sr_server *server, lk_sr_text channel, lk_sr_text message, bool shard)
{
    (void)lk_sr_deliver(server, channel, message, shard);
}

/* ------------------------------------------------------------------ commands ---- */

/* False: it is no node, which was answered. */
static bool is_node(lk_sr_call *call)
{
    if (call->server->view == NULL)
        lk_sr_reply_error(call->out, "This instance has cluster support disabled");
    return call->server->view != NULL;
}

void lk_sr_asking(lk_sr_call *call)
{
    if (!is_node(call))
        return;
    if (!call->script)
        call->client->asking = true;
    lk_sr_reply_status(call->out, "OK");
}

void lk_sr_cluster_myid(lk_sr_call *call)
{
    if (is_node(call))
        lk_sr_reply_bulk(call->out, lk_sr_word(call->server->view->peers[call->server->view->myself].id));
}

void lk_sr_cluster_keyslot(lk_sr_call *call)
{
    if (is_node(call))
        lk_sr_reply_integer(call->out, lk_sr_slot_of(call->argv[2]));
}

static bool read_slot(lk_sr_call *call, unsigned *slot)
{
    int64_t number;
    if (!lk_sr_integer(call->argv[2], &number) || number < 0 || number >= LK_SR_SLOTS) {
        lk_sr_reply_error(call->out, "Invalid or out of range slot");
        return false;
    }
    *slot = (unsigned)number;
    return true;
}

static size_t keys_in_slot(const lk_sr_server *server, unsigned slot)
{
    size_t count = 0;
    LK_LIST_EACH(link, &server->spaces[0].keys)
        count += lk_sr_slot_of(lk_sr_view(&LK_CONTAINER(link, lk_sr_key, link)->name)) == slot;
    return count;
}

void lk_sr_cluster_countkeysinslot(lk_sr_call *call)
{
    int64_t slot;
    if (!is_node(call) || !lk_sr_call_integer(call, 2, &slot))
        return;
    if (slot < 0 || slot >= LK_SR_SLOTS)
        lk_sr_reply_error(call->out, "Invalid slot");
    else
        lk_sr_reply_integer(call->out, (int64_t)keys_in_slot(call->server, (unsigned)slot));
}

/* ------------------------------------------------------------------ CLUSTER SLOTS ---- */

static void put_peer(const lk_sr_peer *peer, lk_sr_bytes *out)
{
    lk_sr_reply_array(out, 4);
    lk_sr_reply_bulk(out, lk_sr_word(peer->host));
    lk_sr_reply_integer(out, peer->port);
    lk_sr_reply_bulk(out, lk_sr_word(peer->id));
    lk_sr_reply_array(out, 0); /* other names of it */
}

static void put_range(const struct lk_sr_view *view, int owner, unsigned first, unsigned last,
                      lk_sr_bytes *out)
{
    size_t nodes = 1;
    for (int i = 0; i < view->count; i++)
        nodes += view->peers[i].master == owner;
    lk_sr_reply_array(out, 2 + nodes);
    lk_sr_reply_integer(out, first);
    lk_sr_reply_integer(out, last);
    put_peer(&view->peers[owner], out);
    for (int i = 0; i < view->count; i++)
        if (view->peers[i].master == owner)
            put_peer(&view->peers[i], out);
}

/* Behind the last slot of a range. */
static unsigned range_end(const struct lk_sr_view *view, unsigned first)
{
    unsigned end = first + 1;
    while (end < LK_SR_SLOTS && view->owner[end] == view->owner[first])
        end++;
    return end;
}

void lk_sr_cluster_slots(lk_sr_call *call)
{
    const struct lk_sr_view *view = call->server->view;
    size_t ranges = 0;
    if (!is_node(call))
        return;
    for (unsigned first = 0; first < LK_SR_SLOTS; first = range_end(view, first))
        ranges += view->owner[first] >= 0;
    lk_sr_reply_array(call->out, ranges);
    for (unsigned first = 0, end; first < LK_SR_SLOTS; first = end) {
        end = range_end(view, first);
        if (view->owner[first] >= 0)
            put_range(view, view->owner[first], first, end - 1, call->out);
    }
}

/* ------------------------------------------------------------------ CLUSTER SETSLOT ---- */

/* The node of that name, which has to be a master; below 0: it is not, which was answered. */
static int read_master(lk_sr_call *call, const char *unknown)
{
    const struct lk_sr_view *view = call->server->view;
    int node = 0;
    while (node < view->count && !lk_sr_same(call->argv[4], lk_sr_word(view->peers[node].id)))
        node++;
    if (node < view->count && view->peers[node].master < 0)
        return node;
    if (node == view->count)
        lk_sr_reply_error(call->out, "%s %.*s", unknown, LK_SR_SHOWN(call->argv[4]));
    else
        lk_sr_reply_error(call->out, "Target node is not a master");
    return -1;
}

/* `moving`: the view's `migrating` or `importing`. */
static bool set_moving(lk_sr_call *call, unsigned slot, int8_t *moving)
{
    const int node = read_master(call, "I don't know about node");
    if (node >= 0)
        moving[slot] = (int8_t)node;
    return node >= 0;
}

static bool set_migrating(lk_sr_call *call, unsigned slot)
{
    struct lk_sr_view *view = call->server->view;
    if (view->owner[slot] == view->myself)
        return set_moving(call, slot, view->migrating);
    lk_sr_reply_error(call->out, "I'm not the owner of hash slot %u", slot);
    return false;
}

static bool set_importing(lk_sr_call *call, unsigned slot)
{
    struct lk_sr_view *view = call->server->view;
    if (view->owner[slot] != view->myself)
        return set_moving(call, slot, view->importing);
    lk_sr_reply_error(call->out, "I'm already the owner of hash slot %u", slot);
    return false;
}

static bool set_node(lk_sr_call *call, unsigned slot)
{
    struct lk_sr_view *view = call->server->view;
    const int node = read_master(call, "Unknown node");
    const size_t keys = keys_in_slot(call->server, slot);
    if (node < 0)
        return false;
    if (view->owner[slot] == view->myself && node != view->myself && keys > 0) {
        lk_sr_reply_error(call->out,
                          "Can't assign hashslot %u to a different node while I still hold keys for this "
                          "hash slot.",
                          slot);
        return false;
    }
    if (keys == 0)
        view->migrating[slot] = -1;
    give_slot(call->server, slot, node);
    if (node == view->myself)
        view->importing[slot] = -1;
    return true;
}

void lk_sr_cluster_setslot(lk_sr_call *call)
{
    unsigned slot;
    bool good = true;
    if (!is_node(call))
        return;
    struct lk_sr_view *view = call->server->view;
    if (lk_sr_is_replica(call->server)) {
        lk_sr_reply_error(call->out, "Please use SETSLOT only with masters.");
        return;
    }
    if (!read_slot(call, &slot))
        return;
    const bool named = call->argc == 5;
    if (named && lk_sr_is(call->argv[3], "migrating")) {
        good = set_migrating(call, slot);
    } else if (named && lk_sr_is(call->argv[3], "importing")) {
        good = set_importing(call, slot);
    } else if (named && lk_sr_is(call->argv[3], "node")) {
        good = set_node(call, slot);
    } else if (call->argc == 4 && lk_sr_is(call->argv[3], "stable")) {
        view->migrating[slot] = view->importing[slot] = -1;
    } else {
        lk_sr_reply_error(call->out,
                          "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP");
        return;
    }
    if (good)
        lk_sr_reply_status(call->out, "OK");
}
