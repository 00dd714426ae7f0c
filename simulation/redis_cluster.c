/* redis_cluster.c: see redis_cluster.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "redis/cluster.h"
#include "redis/replication.h"
#include "redis/view.h"
#include "redis_cluster.h"
#include "redis_locks.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

static const int64_t bus_ns = MS / 10;        /* from node to node */
static const int64_t gossip_ns = 100 * MS;    /* until all know at most */
static const int64_t timeout_ns = 1000 * MS;  /* cluster-node-timeout */
static const int64_t writable_ns = 2000 * MS; /* until a master that has begun anew serves */
static const int64_t again_ns = 50 * MS;

/* A slot with keys of the run. */
typedef struct {
    unsigned number;
    unsigned place; /* who has it */
    bool is_moving;
    unsigned to; /* another place; what follows is of a move */
    bool is_given;
    unsigned steps;
    int64_t until;
    int64_t came_at; /* it has been there since then, wholly; 0: always */
} slot;

typedef struct {
    lk_sim_redis redis;
    char id[LK_SR_ID_LEN + 1], address[LK_SR_HOST_MAX];
    bool is_cut;
    int64_t cut_at; /* lately */
    int64_t up_at;  /* before that it finds that the cluster is down */
} node;

static struct {
    node at[LK_SIM_NODES];
    bool has_replicas;
    unsigned master[LK_SIM_PLACES]; /* which node */
    slot slots[LK_SIM_CLUSTER_SLOTS];
} cluster;

static unsigned number_of(const lk_sim_redis *redis)
{
    unsigned i = 0;
    while (&cluster.at[i].redis != redis)
        i++;
    return i;
}

static unsigned other_of(unsigned number)
{
    return (number + LK_SIM_PLACES) % LK_SIM_NODES;
}

static bool is_reached(const node *n)
{
    return !n->redis.service.silent && !n->redis.service.refuses && !n->is_cut;
}

lk_sim_redis *lk_sim_cluster_node(unsigned number)
{
    return &cluster.at[number].redis;
}

lk_sim_redis *lk_sim_cluster_master(unsigned place)
{
    return &cluster.at[cluster.master[place]].redis;
}

bool lk_sim_cluster_is_well(const lk_sim_redis *redis)
{
    const node *const n = &cluster.at[number_of(redis)];
    return is_reached(n) && lk_sim_now() >= n->up_at;
}

/* ------------------------------------------------------------------ what nodes tell each other ---- */

typedef struct {
    unsigned from, to;
    bool shard;
    size_t channel, len;
    char bytes[];
} word;

static void word_comes(void *context)
{
    word *const w = context;
    node *const n = &cluster.at[w->to];
    if (is_reached(n) && is_reached(&cluster.at[w->from])) {
        lk_sim_redis_advance(&n->redis);
        lk_sr_cluster_hear(n->redis.server, (lk_sr_text){w->bytes, w->channel},
                           (lk_sr_text){w->bytes + w->channel, w->len}, w->shard);
        lk_sim_redis_settle(&n->redis);
    }
    free(w);
}

static void tells(void *context, lk_sr_text channel, lk_sr_text message, bool shard)
{
    const unsigned from = number_of(context);
    for (unsigned to = 0; to < LK_SIM_NODES; to++) {
        if (to == from || (shard && to != other_of(from)))
            continue;
        word *const w = lk_sim_alloc(sizeof *w + channel.len + message.len);
        *w = (word){.from = from, .to = to, .shard = shard, .channel = channel.len, .len = message.len};
        memcpy(w->bytes, channel.data, channel.len);
        memcpy(w->bytes + channel.len, message.data, message.len);
        lk_sim_at(lk_sim_now() + bus_ns, word_comes, w);
    }
}

/* It knows what is so by now. */
static void hears(void *context)
{
    node *const n = context;
    if (!is_reached(n)) {
        lk_sim_at(lk_sim_now() + again_ns, hears, n);
        return;
    }
    lk_sim_redis_advance(&n->redis);
    for (unsigned place = 0; place < LK_SIM_PLACES; place++) {
        const unsigned master = cluster.master[place], other = other_of(master);
        if (n->redis.server->view->peers[master].master == (int)other)
            lk_sr_cluster_replace(n->redis.server, (int)other, (int)master);
    }
    for (unsigned i = 0; i < LK_SIM_CLUSTER_SLOTS; i++) {
        const slot *const s = &cluster.slots[i];
        lk_sr_cluster_assign(n->redis.server, s->number, s->number, (int)cluster.master[s->place]);
    }
    lk_sim_redis_settle(&n->redis);
}

static void all_hear(void)
{
    for (unsigned i = 0; i < LK_SIM_NODES; i++)
        lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw((uint64_t)gossip_ns), hears, &cluster.at[i]);
}

/* ------------------------------------------------------------------ masters ---- */

static void look_up(void *context)
{
    node *const n = context;
    lk_sim_redis_advance(&n->redis);
    lk_sr_cluster_set_down(n->redis.server, lk_sim_now() < n->up_at);
}

static void is_down_until(node *n, int64_t at)
{
    n->up_at = at;
    look_up(n);
    if (at != INT64_MAX)
        lk_sim_at(at, look_up, n);
}

void lk_sim_cluster_comes_up(lk_sim_redis *redis)
{
    node *const n = &cluster.at[number_of(redis)];
    if (n->up_at != INT64_MAX)
        is_down_until(n, lk_sim_now() + writable_ns);
}

static void has_heard_nobody(void *context)
{
    node *const n = context;
    if (n->is_cut && lk_sim_now() - n->cut_at >= timeout_ns)
        is_down_until(n, INT64_MAX);
}

void lk_sim_cluster_cut(lk_sim_redis *redis, bool is_cut)
{
    node *const n = &cluster.at[number_of(redis)];
    n->is_cut = is_cut;
    redis->halts = is_cut;
    if (is_cut) {
        n->cut_at = lk_sim_now();
        lk_sim_at(lk_sim_now() + timeout_ns, has_heard_nobody, n);
    } else if (n->up_at == INT64_MAX)
        is_down_until(n, lk_sim_now() + timeout_ns);
}

bool lk_sim_cluster_has_heir(unsigned place)
{
    bool is_still = true;
    for (unsigned i = 0; i < LK_SIM_CLUSTER_SLOTS; i++) {
        const slot *const s = &cluster.slots[i];
        is_still = is_still && !(s->is_moving && (s->place == place || s->to == place));
    }
    return is_still && lk_sim_cluster_master(place)->replica != NULL;
}

/* A key of a slot that had moved away, of which the replica had not heard. */
static void drop_strays(lk_sim_redis *redis)
{
    lk_sr_keyspace *const space = &redis->server->spaces[0];
    LK_LIST_EACH_SAFE(link, &space->keys) {
        lk_sr_key *const key = LK_CONTAINER(link, lk_sr_key, link);
        if (lk_sr_cluster_owner(redis->server, lk_sr_slot_of(lk_sr_view(&key->name))) !=
            (int)number_of(redis))
            lk_sr_keyspace_remove(space, key);
    }
}

/* Who holds a lock has subscribed at the server that had its slot, and does so at another one when he renews it. */
static void deafen(unsigned number)
{
    for (unsigned key = 0; key < LK_SIM_REDIS_KEYS; key++)
        if (lk_sr_slot_of(lk_sr_word(lk_sim_redis_key_names[key])) == number)
            lk_sim_judge_deafens(key);
}

void lk_sim_cluster_promote(unsigned place, bool is_planned)
{
    lk_sim_redis *const old = lk_sim_cluster_master(place), *const heir = old->replica;
    if (is_planned)
        lk_sim_redis_catch_up(old);
    lk_sim_redis_promote(old);
    lk_sim_tell("%s is the master in the place of %s", heir->service.host, old->service.host);
    cluster.master[place] = number_of(heir);
    hears(&cluster.at[number_of(heir)]);
    drop_strays(heir);
    for (unsigned i = 0; i < LK_SIM_CLUSTER_SLOTS; i++)
        if (cluster.slots[i].place == place)
            deafen(cluster.slots[i].number);
    all_hear();
}

void lk_sim_cluster_follows(unsigned place)
{
    lk_sim_redis *const master = lk_sim_cluster_master(place);
    node *const old = &cluster.at[other_of(number_of(master))];
    hears(old);
    if (old->up_at == INT64_MAX)
        is_down_until(old, lk_sim_now());
    lk_sim_redis_replicate(master, &old->redis);
}

/* ------------------------------------------------------------------ slots ---- */

static slot *slot_of(const char *name)
{
    const unsigned number = lk_sr_slot_of(lk_sr_word(name));
    return number == cluster.slots[0].number ? &cluster.slots[0] : &cluster.slots[1];
}

static lk_sim_redis *source(const slot *s)
{
    return lk_sim_cluster_master(s->place);
}

static const lk_sr_key *living(const lk_sim_redis *redis, lk_sr_text name)
{
    const lk_sr_key *const key = lk_sr_keyspace_find(&redis->server->spaces[0], name);
    return key != NULL && (key->expires_ms < 0 || lk_sr_clock_ms(redis->server) <= key->expires_ms) ? key
                                                                                                    : NULL;
}

bool lk_sim_cluster_find(const char *name, lk_sim_redis **at, bool *is_asking)
{
    const slot *const s = slot_of(name);
    *at = source(s);
    *is_asking = false;
    if (s->is_moving && !s->is_given) {
        lk_sim_redis_advance(*at);
        *is_asking = living(*at, lk_sr_word(name)) == NULL;
        *at = *is_asking ? lk_sim_cluster_master(s->to) : *at;
    }
    return lk_sim_cluster_is_well(source(s)) && lk_sim_cluster_is_well(*at);
}

bool lk_sim_cluster_is_moving(unsigned which)
{
    return cluster.slots[which].is_moving;
}

unsigned lk_sim_cluster_place(unsigned which, int64_t *since)
{
    *since = cluster.slots[which].came_at;
    return cluster.slots[which].place;
}

void lk_sim_cluster_hurry(unsigned which)
{
    cluster.slots[which].until = lk_sim_now();
}

/* To a node: CLUSTER SETSLOT. */
static void order(lk_sim_redis *redis, unsigned number, const char *what, const lk_sim_redis *named)
{
    char text[16], answer[128];
    (void)snprintf(text, sizeof text, "%u", number);
    const char *const argv[] = {"CLUSTER", "SETSLOT", text, what, cluster.at[number_of(named)].id};
    lk_sim_redis_ask(redis, false, 5, argv, answer, sizeof answer);
    lk_sim_tell("slot %u: %s %s %s", number, redis->service.host, what, named->service.host);
    if (strcmp(answer, "+OK\r\n") != 0)
        lk_sim_fail("slot %u: %s %s at %s is answered %s", number, what, named->service.host,
                    redis->service.host, answer);
}

static bool is_of(const lk_sr_key *key, const slot *s)
{
    return lk_sr_slot_of(lk_sr_view(&key->name)) == s->number;
}

/* One of those that are still there, any; NULL: there is none. */
static const lk_sr_key *any_key(const slot *s)
{
    const lk_sr_key *found = NULL;
    unsigned count = 0;
    LK_LIST_EACH(link, &source(s)->server->spaces[0].keys) {
        const lk_sr_key *const key = LK_CONTAINER(link, lk_sr_key, link);
        if (is_of(key, s) && lk_sim_draw(++count) == 0)
            found = key;
    }
    return found;
}

/* Nobody makes a key anew where it is not. */
static void see_twice(const slot *s)
{
    LK_LIST_EACH(link, &lk_sim_cluster_master(s->to)->server->spaces[0].keys) {
        const lk_sr_key *const key = LK_CONTAINER(link, lk_sr_key, link);
        const lk_sr_text name = lk_sr_view(&key->name);
        if (is_of(key, s) && living(lk_sim_cluster_master(s->to), name) != NULL &&
            living(source(s), name) != NULL)
            lk_sim_fail("%.*s is at both nodes of a slot that moves", LK_SR_SHOWN(name));
    }
}

/* False: there is none left. */
static bool move_key(const slot *s)
{
    static const char *const answers[] = {"moved", "over", "busy"};
    lk_sim_redis *const from = source(s), *const to = lk_sim_cluster_master(s->to);
    char name[128];
    lk_sim_redis_advance(from);
    lk_sim_redis_advance(to);
    see_twice(s);
    const lk_sr_key *const key = any_key(s);
    if (key == NULL)
        return false;
    (void)snprintf(name, sizeof name, "%.*s", LK_SR_SHOWN(lk_sr_view(&key->name)));
    const lk_sr_migration done = lk_sr_migrate(from->server, to->server, lk_sr_word(name));
    lk_sim_tell("%s goes from %s to %s: %s", name, from->service.host, to->service.host, answers[done]);
    if (done == LK_SR_NOT_THERE) /* its time is over, and somebody has looked */
        lk_sr_keyspace_remove(&from->server->spaces[0],
                              lk_sr_keyspace_find(&from->server->spaces[0], lk_sr_word(name)));
    lk_sim_redis_settle(from);
    lk_sim_redis_settle(to);
    return true;
}

/* The target has it; the source is told so a moment later, or when it can be told. */
static void finish(void *context)
{
    slot *const s = context;
    lk_sim_redis *const from = lk_sim_cluster_master(s->to), *const to = source(s);
    if (!is_reached(&cluster.at[number_of(from)])) {
        lk_sim_at(lk_sim_now() + again_ns, finish, s);
        return;
    }
    order(from, s->number, "NODE", to);
    deafen(s->number);
    s->is_moving = s->is_given = false;
    s->came_at = lk_sim_now();
    all_hear();
}

static void step(void *context)
{
    slot *const s = context;
    lk_sim_redis *const from = source(s), *const to = lk_sim_cluster_master(s->to);
    const bool is_late = lk_sim_now() >= s->until;
    if (!is_reached(&cluster.at[number_of(from)]) || !is_reached(&cluster.at[number_of(to)])) {
        lk_sim_at(lk_sim_now() + again_ns, step, s);
        return;
    }
    if ((s->steps > 0 || is_late || lk_sim_draw(4) == 0) && !move_key(s) && is_late) {
        const unsigned place = s->place;
        order(to, s->number, "NODE", to);
        s->is_given = true;
        s->place = s->to;
        s->to = place;
        lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw(2 * MS), finish, s);
        return;
    }
    const int64_t pause = s->steps > 0 || is_late ? 5 * MS : 400 * MS;
    s->steps -= s->steps > 0;
    lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw((uint64_t)pause), step, s);
}

/* Both know that the other one is a master, and whose the slot is. */
static bool agree(const lk_sim_redis *from, const lk_sim_redis *to, unsigned number)
{
    const struct lk_sr_view *const a = from->server->view, *const b = to->server->view;
    return a->peers[number_of(to)].master < 0 && b->peers[number_of(from)].master < 0 &&
           a->owner[number] == (int)number_of(from) && b->owner[number] == (int)number_of(from);
}

bool lk_sim_cluster_move(unsigned which, unsigned steps, int64_t span_ns)
{
    slot *const s = &cluster.slots[which];
    const unsigned to = (s->place + 1 + steps % (LK_SIM_PLACES - 1)) % LK_SIM_PLACES;
    if (s->is_moving || !lk_sim_cluster_is_well(source(s)) ||
        !lk_sim_cluster_is_well(lk_sim_cluster_master(to)) ||
        !agree(source(s), lk_sim_cluster_master(to), s->number))
        return false;
    s->to = to;
    s->is_moving = true;
    s->steps = steps;
    s->until = lk_sim_now() + span_ns;
    order(lk_sim_cluster_master(to), s->number, "IMPORTING", source(s));
    order(source(s), s->number, "MIGRATING", lk_sim_cluster_master(to));
    lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw(5 * MS), step, s);
    return true;
}

/* ------------------------------------------------------------------ from the beginning to the end ---- */

static void join(unsigned number, const lk_sr_node *known, size_t count)
{
    node *const n = &cluster.at[number];
    lk_sr_cluster_join(
        n->redis.server,
        &(lk_sr_cluster_setup){
            .nodes = known, .count = count, .myself = number, .tells = tells, .context = &n->redis});
    for (unsigned place = 0; place < LK_SIM_PLACES; place++)
        lk_sr_cluster_assign(n->redis.server, place * LK_SR_SLOTS / LK_SIM_PLACES,
                             (place + 1) * LK_SR_SLOTS / LK_SIM_PLACES - 1, (int)place);
}

void lk_sim_cluster_begin(bool has_replicas, uint64_t *random)
{
    static const char *const hosts[LK_SIM_NODES] = {"redis-1.example", "redis-2.example", "redis-3.example",
                                                    "redis-4.example", "redis-5.example", "redis-6.example"};
    lk_sr_node known[LK_SIM_NODES];
    const unsigned count = has_replicas ? LK_SIM_NODES : LK_SIM_PLACES;
    memset(&cluster, 0, sizeof cluster);
    cluster.has_replicas = has_replicas;
    for (unsigned i = 0; i < LK_SIM_NODES; i++) {
        node *const n = &cluster.at[i];
        lk_sim_redis_begin(&n->redis, hosts[i], i > 0 ? &cluster.at[0].redis : NULL,
                           lk_sim_draw_from(random, UINT64_MAX));
        lk_sim_network_address(&n->redis.service, n->address, sizeof n->address);
        (void)snprintf(n->id, sizeof n->id, "%040u", i + 1);
        known[i] = (lk_sr_node){n->id, n->address, 6379, i < LK_SIM_PLACES ? -1 : (int)other_of(i)};
    }
    for (unsigned i = 0; i < LK_SIM_NODES; i++)
        join(i, known, count);
    for (unsigned place = 0; place < LK_SIM_PLACES; place++) {
        cluster.master[place] = place;
        if (has_replicas)
            lk_sim_redis_replicate(&cluster.at[place].redis, &cluster.at[other_of(place)].redis);
    }
    for (unsigned i = 0; i < LK_SIM_CLUSTER_SLOTS; i++) {
        slot *const s = &cluster.slots[i];
        s->number = lk_sr_slot_of(lk_sr_word(lk_sim_redis_key_names[2 * i]));
        s->place = (unsigned)lk_sr_cluster_owner(cluster.at[0].redis.server, s->number);
    }
}

void lk_sim_cluster_end(void)
{
    for (unsigned i = 0; i < LK_SIM_NODES; i++)
        lk_sim_redis_end(&cluster.at[i].redis);
}

const char *lk_sim_cluster_left(bool has_strangers)
{
    static char text[256];
    for (unsigned place = 0; place < LK_SIM_PLACES; place++) {
        lk_sim_redis *const master = lk_sim_cluster_master(place);
        const char *const what = lk_sim_redis_left(master, has_strangers);
        if (what != NULL)
            return what;
        LK_LIST_EACH(link, &master->server->spaces[0].keys) {
            const lk_sr_text name = lk_sr_view(&LK_CONTAINER(link, lk_sr_key, link)->name);
            for (unsigned other = 0; other < place; other++) {
                if (living(master, name) == NULL || living(lk_sim_cluster_master(other), name) == NULL)
                    continue;
                (void)snprintf(text, sizeof text, "%.*s is at two nodes", LK_SR_SHOWN(name));
                return text;
            }
        }
    }
    return NULL;
}
