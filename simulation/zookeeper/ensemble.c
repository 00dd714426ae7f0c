/* ensemble.c: what zookeeper.h offers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"

/* ------------------------------------------------------------------ life ---- */

static void set_default(int32_t *value, int32_t otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static void fill_in(lk_simzk_setup *setup)
{
    set_default(&setup->tick_ms, 2000);
    set_default(&setup->init_limit, 10);
    set_default(&setup->sync_limit, 5);
    set_default(&setup->min_timeout_ms, 2 * setup->tick_ms);
    set_default(&setup->max_timeout_ms, 20 * setup->tick_ms);
    set_default(&setup->container_check_ms, 60000);
}

lk_simzk *lk_simzk_new(const lk_simzk_setup *setup)
{
    lk_simzk *const z = lk_simzk_alloc(sizeof *z);
    z->setup = *setup;
    z->serial = LK_SIMZK_OWN;
    fill_in(&z->setup);
    for (int channel = 0; channel < LK_SIMZK_CHANNELS; channel++)
        for (int from = 0; from < LK_SIMZK_SERVERS_MAX; from++)
            for (int to = 0; to < LK_SIMZK_SERVERS_MAX; to++)
                lk_list_init(&z->links[channel][from][to]);
    for (int i = 0; i < setup->servers; i++) {
        lk_simzk_server *const s = &z->servers[i];
        s->z = z;
        s->id = i;
        lk_list_init(&s->connections);
        lk_list_init(&s->waiting);
        lk_simzk_server_start(s);
    }
    return z;
}

void lk_simzk_free(lk_simzk *z)
{
    if (z == NULL)
        return;
    for (int i = 0; i < z->setup.servers; i++)
        if (z->servers[i].running)
            lk_simzk_server_crash(&z->servers[i], false);
    for (int i = 0; i < z->setup.servers; i++) {
        lk_simzk_drop_all(z, i);
        lk_simzk_history_free(&z->servers[i].log);
    }
    free(z);
}

/* ------------------------------------------------------------------ time ---- */

int64_t lk_simzk_now(const lk_simzk *z)
{
    return z->now;
}

/* The server for which something is due first; NULL: there is none. */
static lk_simzk_server *find_due(lk_simzk *z, int64_t *due)
{
    lk_simzk_server *first = NULL;
    *due = INT64_MAX;
    for (int i = 0; i < z->setup.servers; i++) {
        const int64_t of_server = lk_simzk_server_due(&z->servers[i]);
        if (of_server < *due) {
            *due = of_server;
            first = &z->servers[i];
        }
    }
    return first;
}

int64_t lk_simzk_due(const lk_simzk *z)
{
    int64_t due;
    (void)find_due((lk_simzk *)(uintptr_t)z, &due);
    return due;
}

void lk_simzk_advance(lk_simzk *z, int64_t now_ns)
{
    int64_t due;
    for (lk_simzk_server *s; (s = find_due(z, &due)) != NULL && due <= now_ns;) {
        z->now = due > z->now ? due : z->now;
        lk_simzk_server_tick(s);
        lk_simzk_server_settle(s);
    }
    z->now = now_ns;
    for (int i = 0; i < z->setup.servers; i++)
        lk_simzk_server_settle(&z->servers[i]);
}

/* ------------------------------------------------------------------ what waits ---- */

size_t lk_simzk_waiting(const lk_simzk *z, lk_simzk_link link)
{
    return z->counts[link.channel][link.from][link.to];
}

bool lk_simzk_deliver(lk_simzk *z, lk_simzk_link link)
{
    lk_simzk_server *const to = &z->servers[link.to];
    if (to->stopped)
        return false;
    lk_simzk_message *const message = lk_simzk_fetch(z, link);
    if (message == NULL)
        return false;
    lk_simzk_server_receive(to, link, message);
    lk_simzk_message_free(message);
    lk_simzk_server_settle(to);
    return true;
}

/* Deliver the first message that can be, in a fixed order of links. False: there is none. */
static bool deliver_any(lk_simzk *z)
{
    for (int channel = 0; channel < LK_SIMZK_CHANNELS; channel++)
        for (int from = 0; from < z->setup.servers; from++)
            for (int to = 0; to < z->setup.servers; to++)
                if (z->counts[channel][from][to] > 0 &&
                    lk_simzk_deliver(z, (lk_simzk_link){(lk_simzk_channel)channel, from, to}))
                    return true;
    return false;
}

void lk_simzk_settle(lk_simzk *z)
{
    while (deliver_any(z)) {
    }
}

void lk_simzk_break(lk_simzk *z, int one, int other)
{
    const lk_simzk_channel channels[] = {LK_SIMZK_VOTES, LK_SIMZK_QUORUM};
    for (size_t i = 0; i < 2; i++) {
        lk_simzk_drop(z, (lk_simzk_link){channels[i], one, other});
        lk_simzk_drop(z, (lk_simzk_link){channels[i], other, one});
    }
    lk_simzk_server_cut(&z->servers[one], other);
    lk_simzk_server_cut(&z->servers[other], one);
    lk_simzk_server_settle(&z->servers[one]);
    lk_simzk_server_settle(&z->servers[other]);
}

/* ------------------------------------------------------------------ servers ---- */

void lk_simzk_stop(lk_simzk *z, int server)
{
    z->servers[server].stopped = z->servers[server].running;
}

void lk_simzk_continue(lk_simzk *z, int server)
{
    z->servers[server].stopped = false;
}

void lk_simzk_crash(lk_simzk *z, int server, bool written)
{
    if (z->servers[server].running)
        lk_simzk_server_crash(&z->servers[server], written);
}

void lk_simzk_start(lk_simzk *z, int server, bool with_data)
{
    lk_simzk_server *const s = &z->servers[server];
    if (s->running)
        return;
    if (!with_data) {
        lk_simzk_history_truncate(&s->log, 0);
        s->accepted_epoch = s->current_epoch = 0;
    }
    s->election = (lk_simzk_election){0};
    lk_simzk_server_start(s);
}

static const lk_simzk_server *find_leader(const lk_simzk *z)
{
    const lk_simzk_server *leader = NULL;
    for (int i = 0; i < z->setup.servers; i++) {
        const lk_simzk_server *const s = &z->servers[i];
        if (s->running && s->role == LK_SIMZK_LEADING && s->serves &&
            (leader == NULL || s->leading.epoch > leader->leading.epoch))
            leader = s;
    }
    return leader;
}

int lk_simzk_leader(const lk_simzk *z)
{
    const lk_simzk_server *const leader = find_leader(z);
    return leader != NULL ? leader->id : -1;
}

/* The first node below that one that lasts; NULL: there is none. */
static const lk_simzk_node *lasting(const lk_simzk_node *of)
{
    for (size_t i = 0; i < of->count; i++) {
        const lk_simzk_node *const child = of->children[i];
        const lk_simzk_node *const found = child->container ? lasting(child) : child;
        if (found != NULL && strcmp(child->path, "/zookeeper") != 0)
            return found;
    }
    return NULL;
}

bool lk_simzk_left(const lk_simzk *z, char *text, size_t room)
{
    const lk_simzk_server *const leader = find_leader(z);
    const lk_simzk_node *const node = leader != NULL ? lasting(lk_simzk_tree_find(&leader->tree, "/")) : NULL;
    const size_t sessions = leader != NULL ? leader->tree.session_count : 0;
    if (leader == NULL)
        (void)snprintf(text, room, "no leader");
    else if (node != NULL)
        (void)snprintf(text, room, "%s", node->path);
    else
        (void)snprintf(text, room, "%zu sessions", sessions);
    return leader == NULL || node != NULL || sessions > 0;
}

bool lk_simzk_serves(const lk_simzk *z, int server)
{
    return z->servers[server].running && z->servers[server].serves;
}

int64_t lk_simzk_applied(const lk_simzk *z, int server)
{
    return z->servers[server].tree.zxid;
}

bool lk_simzk_has_session(const lk_simzk *z, int64_t session)
{
    const lk_simzk_server *const leader = find_leader(z);
    return leader != NULL && lk_simzk_tracker_has(&leader->tracker, session);
}

void lk_simzk_count_children(lk_simzk *z, const char *path, int32_t cversion)
{
    for (int i = 0; i < z->setup.servers; i++) {
        lk_simzk_node *const node =
            z->servers[i].running ? lk_simzk_tree_find(&z->servers[i].tree, path) : NULL;
        if (node != NULL)
            node->cversion = cversion;
    }
}

/* ------------------------------------------------------------------ clients ---- */

lk_simzk_connection *lk_simzk_connect(lk_simzk *z, int server, const lk_simzk_hello *hello)
{
    lk_simzk_server *const s = &z->servers[server];
    if (!s->running)
        return NULL;
    lk_simzk_connection *const c = lk_simzk_alloc(sizeof *c);
    c->z = z;
    c->server = server;
    c->refs = 2; /* the client's and the server's */
    c->open = true;
    c->hello = *hello;
    c->on_answer = z->setup.on_answer;
    c->context = z->setup.context;
    lk_list_init(&c->inputs);
    lk_list_init(&c->answers);
    lk_list_append(&s->connections, &c->link);
    s->has_inputs = true;
    lk_simzk_server_settle(s);
    return c;
}

void lk_simzk_send(lk_simzk_connection *c, const lk_simzk_request *request)
{
    lk_simzk_server *const s = &c->z->servers[c->server];
    if (!c->open)
        return;
    lk_simzk_input *const input = lk_simzk_alloc(sizeof *input);
    input->body = lk_simzk_body_new(request);
    lk_list_append(&c->inputs, &input->link);
    s->has_inputs = true;
    lk_simzk_server_settle(s);
}

lk_simzk_answer *lk_simzk_receive(lk_simzk_connection *c)
{
    lk_simzk_parcel *const parcel = lk_simzk_connection_take(c);
    return parcel != NULL ? &parcel->answer : NULL;
}

bool lk_simzk_is_closed(const lk_simzk_connection *c)
{
    return !c->open && lk_list_empty(&c->answers);
}

void lk_simzk_disconnect(lk_simzk_connection *c)
{
    if (c == NULL)
        return;
    c->on_answer = NULL;
    if (c->open)
        lk_simzk_hang_up(&c->z->servers[c->server], c);
    for (lk_list *link; (link = lk_list_take(&c->inputs)) != NULL;) {
        lk_simzk_input *const input = LK_CONTAINER(link, lk_simzk_input, link);
        lk_simzk_body_unref(input->body);
        free(input);
    }
    lk_simzk_connection_unref(c);
}
