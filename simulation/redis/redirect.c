/* redirect.c: whether a node may serve a request, by the slots of its keys. The order of the checks is that of Redis' getNodeByQuery(). */

#include "call.h"
#include "view.h"

typedef enum { HERE, CROSSES, UNSTABLE, DOWN, UNBOUND, ASK, MOVED } verdict;

/* What is found of a request's keys. */
typedef struct {
    unsigned slot;
    int owner;
    bool migrating, importing, several;
    size_t missing, existing;
} finding;

/* One whose time is over is none, and stays. */
static bool has_key(const lk_sr_server *server, lk_sr_text name)
{
    const lk_sr_key *key = lk_sr_keyspace_find(&server->spaces[0], name);
    return key != NULL && (key->expires_ms < 0 || lk_sr_clock_ms(server) <= key->expires_ms);
}

static void begin(finding *f, const lk_sr_server *server, lk_sr_text first)
{
    const struct lk_sr_view *view = server->view;
    *f = (finding){.slot = lk_sr_slot_of(first)};
    f->owner = view->owner[f->slot];
    f->migrating = f->owner == view->myself && view->migrating[f->slot] >= 0;
    f->importing = !f->migrating && view->importing[f->slot] >= 0;
}

/* HERE: nothing stands against it so far. */
static verdict look_at_keys(const lk_sr_call *call, lk_sr_places places, finding *f)
{
    const lk_sr_text first = call->argv[places.first];
    begin(f, call->server, first);
    if (f->owner < 0)
        return UNBOUND;
    for (size_t i = places.first; i <= places.last; i += places.step) {
        const bool another = !lk_sr_same(call->argv[i], first);
        if (another && lk_sr_slot_of(call->argv[i]) != f->slot)
            return CROSSES;
        f->several = f->several || another;
        if (has_key(call->server, call->argv[i]))
            f->existing++;
        else
            f->missing++;
    }
    return HERE;
}

static verdict judge(const lk_sr_call *call, finding *f)
{
    const struct lk_sr_view *view = call->server->view;
    const bool of_shard = (call->command->flags & LK_SR_SHARD) != 0;
    const lk_sr_places places = lk_sr_command_keys(call->command, call->argv, call->argc);
    if (view == NULL || places.first == 0)
        return HERE;
    const verdict found = look_at_keys(call, places, f);
    if (found != HERE)
        return found;
    if (view->down && !of_shard)
        return DOWN;
    if (f->migrating && f->missing > 0 && !of_shard)
        return f->existing > 0 ? UNSTABLE : ASK;
    if (f->importing && call->client->asking)
        return f->several && f->missing > 0 && !of_shard ? UNSTABLE : HERE;
    if (of_shard && view->peers[view->myself].master == f->owner)
        return HERE;
    return f->owner == view->myself ? HERE : MOVED;
}

bool lk_sr_is_served_here(lk_sr_call *call)
{
    finding f;
    const verdict found = judge(call, &f);
    if (found == HERE)
        return true;
    if (found == ASK || found == MOVED) {
        const struct lk_sr_view *view = call->server->view;
        const lk_sr_peer *peer = &view->peers[found == ASK ? view->migrating[f.slot] : f.owner];
        lk_sr_reply_error(call->out, "-%s %u %s:%d", found == ASK ? "ASK" : "MOVED", f.slot, peer->host,
                          peer->port);
    } else {
        lk_sr_reply_error(call->out, "%s",
                          found == CROSSES    ? "-CROSSSLOT Keys in request don't hash to the same slot"
                          : found == UNSTABLE ? "-TRYAGAIN Multiple keys request during rehashing of slot"
                          : found == DOWN     ? "-CLUSTERDOWN The cluster is down"
                                              : "-CLUSTERDOWN Hash slot not served");
    }
    return false;
}

const char *lk_sr_refused_elsewhere(const lk_sr_call *call)
{
    finding f;
    const verdict found = judge(call, &f);
    return found == HERE   ? NULL
           : found == DOWN ? "Script attempted to execute a command while the cluster is down"
                           : "Script attempted to access a non local key in a cluster node";
}
