/*
 * storm.c: the simulated ensemble of ZooKeeper servers under random faults, by seed.
 *
 *     simulation_zookeeper_storm [--seeds N] [--seed N]
 *
 * Clients create and delete nodes, while messages, disks and commits are late, and servers are stopped,
 * crashed, started and cut off. Whatever happens: of two servers that serve, one has what the other has, and
 * maybe more; no client is answered less than it was before; what was answered stays. When all is well again,
 * all have the same, and no node of a session that has ended. The same seed does the same twice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "orders.h"
#include "simulation/zookeeper/state.h"

enum {
    SERVERS = 3,
    CLIENTS = 6,
    STEPS = 3000,
    TICK_MS = 200,
    SESSION_MS = 1200,
    CALM_MS = 60000,
    WRITES_MAX = 16384
};

typedef struct {
    lk_simzk_connection *connection;
    lk_simzk_hello hello;
    int32_t xid;
} client;

typedef struct {
    lk_simzk *z;
    uint64_t random, trace, deliveries, elections;
    client clients[CLIENTS];
    bool cut[SERVERS];
    int64_t written[WRITES_MAX]; /* zxids of writes that were answered OK */
    size_t count;
    const char *wrong; /* NULL: nothing */
} storm;

/* SplitMix64: https://prng.di.unimi.it/splitmix64.c */
static uint64_t draw(storm *s, uint64_t below)
{
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static void note(storm *s, uint64_t what)
{
    s->trace = (s->trace ^ what) * UINT64_C(0x100000001b3);
}

/* ------------------------------------------------------------------ deliveries ---- */

static bool deliver(storm *s, int channel, int from, int to)
{
    const lk_simzk_link link = {(lk_simzk_channel)channel, from, to};
    if ((from != to && (s->cut[from] || s->cut[to])) || !lk_simzk_deliver(s->z, link))
        return false;
    s->deliveries++;
    return true;
}

static void deliver_some(storm *s)
{
    for (uint64_t left = draw(s, 40); left > 0; left--)
        (void)deliver(s, (int)draw(s, LK_SIMZK_CHANNELS), (int)draw(s, SERVERS), (int)draw(s, SERVERS));
}

static void deliver_all(storm *s)
{
    for (bool any = true; any;) {
        any = false;
        for (int channel = 0; channel < LK_SIMZK_CHANNELS; channel++)
            for (int i = 0; i < SERVERS * SERVERS; i++)
                while (deliver(s, channel, i / SERVERS, i % SERVERS))
                    any = true;
    }
}

/* ------------------------------------------------------------------ clients ---- */

static void leave(client *c)
{
    lk_simzk_disconnect(c->connection);
    c->connection = NULL;
}

static void hear(storm *s, client *c, const lk_simzk_answer *answer)
{
    note(s, (uint64_t)answer->kind << 32 | (uint32_t)answer->error);
    note(s, (uint64_t)answer->zxid);
    if (answer->kind == LK_SIMZK_WELCOME) {
        c->hello.session = answer->session; /* 0: it has expired, and the next one is new */
        c->hello.password = answer->password;
    } else if (answer->kind == LK_SIMZK_REPLY) {
        if (answer->zxid < c->hello.seen)
            s->wrong = "a client is answered less than it was before";
        c->hello.seen = answer->zxid;
        if (answer->error == LK_SIMZK_OK && answer->path != NULL && s->count < WRITES_MAX)
            s->written[s->count++] = answer->stat.czxid;
    }
}

static void hear_all(storm *s)
{
    for (int i = 0; i < CLIENTS; i++) {
        client *const c = &s->clients[i];
        for (lk_simzk_answer *answer;
             c->connection != NULL && (answer = lk_simzk_receive(c->connection)) != NULL;) {
            hear(s, c, answer);
            lk_simzk_answer_free(answer);
        }
        if (c->connection != NULL && lk_simzk_is_closed(c->connection))
            leave(c);
    }
}

static void ask(storm *s, client *c)
{
    static const lk_simzk_ace anyone = {31, "world", "anyone"};
    static const char *const paths[] = {"/a", "/b", "/c", "/d"};
    static const lk_simzk_kind kinds[] = {LK_SIMZK_CREATE2, LK_SIMZK_CREATE2, LK_SIMZK_DELETE, LK_SIMZK_PING,
                                          LK_SIMZK_LIST,    LK_SIMZK_GET,     LK_SIMZK_SET};
    const lk_simzk_kind kind = kinds[draw(s, sizeof kinds / sizeof *kinds)];
    lk_simzk_send(c->connection, &(lk_simzk_request){.xid = ++c->xid,
                                                     .op = {.kind = kind,
                                                            .path = paths[draw(s, 4)],
                                                            .data = {NULL, -1},
                                                            .acl = {&anyone, 1},
                                                            .mode = (int32_t)draw(s, 4),
                                                            .version = -1,
                                                            .watch = true}});
}

static void act(storm *s)
{
    client *const c = &s->clients[draw(s, CLIENTS)];
    if (c->connection == NULL)
        c->connection = lk_simzk_connect(s->z, (int)draw(s, SERVERS), &c->hello);
    else if (draw(s, 60) == 0)
        leave(c);
    else
        ask(s, c);
}

/* ------------------------------------------------------------------ faults ---- */

static void harm(storm *s)
{
    const int server = (int)draw(s, SERVERS);
    switch (draw(s, 7)) {
    case 0:
        lk_simzk_stop(s->z, server);
        break;
    case 1:
        lk_simzk_crash(s->z, server, draw(s, 2) == 0);
        break;
    case 2:
        s->cut[server] = true;
        break;
    case 3:
        lk_simzk_break(s->z, server, (server + 1) % SERVERS);
        break;
    case 4:
        s->cut[server] = false;
        break;
    default:
        lk_simzk_continue(s->z, server);
        lk_simzk_start(s->z, server, true);
        break;
    }
}

static void heal(storm *s)
{
    for (int i = 0; i < SERVERS; i++) {
        s->cut[i] = false;
        lk_simzk_continue(s->z, i);
        lk_simzk_start(s->z, i, true);
    }
}

/* ------------------------------------------------------------------ judging ---- */

static bool is_prefix(const lk_simzk_history *one, const lk_simzk_history *other)
{
    const size_t count = one->count < other->count ? one->count : other->count;
    return count == 0 ||
           one->items[count - 1] == other->items[count - 1]; /* what comes before is theirs, too */
}

static void judge_step(storm *s)
{
    for (int i = 1; i < SERVERS; i++)
        for (int k = 0; k < i; k++)
            if (lk_simzk_serves(s->z, i) && lk_simzk_serves(s->z, k) &&
                !is_prefix(&s->z->servers[i].tree.history, &s->z->servers[k].tree.history))
                s->wrong = "two servers that serve have different histories";
}

static bool has_session(const lk_simzk_tree *tree, int64_t session)
{
    for (size_t i = 0; i < tree->session_count; i++)
        if (tree->sessions[i].id == session)
            return true;
    return false;
}

static bool has_written(const lk_simzk_history *history, int64_t zxid)
{
    const size_t at = lk_simzk_history_until(history, zxid);
    return at > 0 && history->items[at - 1]->zxid == zxid;
}

static void judge_end(storm *s)
{
    const lk_simzk_tree *const tree = &s->z->servers[0].tree;
    for (int i = 0; i < SERVERS; i++)
        if (!lk_simzk_serves(s->z, i) || s->z->servers[i].tree.history.count != tree->history.count)
            s->wrong = "when all is well again, not all servers have the same";
    for (size_t i = 0; i < s->count; i++)
        if (!has_written(&tree->history, s->written[i]))
            s->wrong = "what was answered is not there";
    LK_LIST_EACH(link, &tree->ephemerals)
        if (!has_session(tree, LK_CONTAINER(link, lk_simzk_node, special)->owner))
            s->wrong = "a node of a session that has ended is there";
    if (tree->session_count > 0) /* their clients have gone for long */
        s->wrong = "a session has not ended";
    s->elections = (uint64_t)(tree->zxid >> 32);
}

/* ------------------------------------------------------------------ a seed ---- */

static void advance(storm *s, uint64_t by_ms)
{
    lk_simzk_advance(s->z, lk_simzk_now(s->z) + (int64_t)by_ms * LK_SIMZK_MS);
}

static void rage(storm *s)
{
    for (int i = 0; i < STEPS && s->wrong == NULL; i++) {
        const uint64_t drawn = draw(s, 1000);
        if (drawn < 700)
            act(s);
        else if (drawn < 710)
            harm(s);
        else if (drawn < 714)
            heal(s);
        advance(s, draw(s, 30));
        deliver_some(s);
        if (draw(s, 3) == 0)
            deliver_all(s);
        hear_all(s);
        judge_step(s);
    }
}

static void calm(storm *s)
{
    heal(s);
    for (int i = 0; i < CLIENTS; i++)
        leave(&s->clients[i]);
    for (int64_t left = CALM_MS; left > 0; left -= 50) {
        advance(s, 50);
        deliver_all(s);
    }
}

static storm *run(uint64_t seed)
{
    storm *const s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    s->random = seed;
    lk_simzk_setup setup = {.servers = SERVERS, .tick_ms = TICK_MS};
    for (int i = 0; i < SERVERS; i++)
        setup.clocks[i] = (lk_simzk_clock){(int64_t)draw(s, 1000000000), (int32_t)draw(s, 20000) - 10000};
    s->z = lk_simzk_new(&setup);
    for (int i = 0; i < CLIENTS; i++)
        s->clients[i].hello.timeout_ms = SESSION_MS;
    rage(s);
    if (s->wrong == NULL) {
        calm(s);
        judge_end(s);
    }
    for (int i = 0; i < CLIENTS; i++)
        leave(&s->clients[i]);
    lk_simzk_free(s->z);
    return s;
}

static bool is_well(uint64_t seed, uint64_t *deliveries, uint64_t *elections)
{
    storm *const one = run(seed), *const other = run(seed);
    if (one->wrong == NULL && one->trace != other->trace)
        one->wrong = "the same seed does not do the same twice";
    if (one->wrong != NULL)
        (void)printf("seed %llu: %s\n", (unsigned long long)seed, one->wrong);
    const bool well = one->wrong == NULL;
    *deliveries += one->deliveries + other->deliveries;
    *elections += one->elections;
    free(one);
    free(other);
    return well;
}

int main(int argc, char **argv)
{
    orders o = {.usage = "[--seeds N] [--seed N]", .first = 1, .count = 100};
    uint64_t deliveries = 0, elections = 0;
    if (!read_orders(&o, argc, argv))
        return usage(&o, argv[0]);
    const clock_t began = clock();
    for (uint64_t seed = o.first; seed < o.first + o.count; seed++)
        if (!is_well(seed, &deliveries, &elections))
            return 1;
    (void)printf("%llu seeds, each twice, with %llu deliveries and %llu elections in %.1f s: all is well\n",
                 (unsigned long long)o.count, (unsigned long long)deliveries, (unsigned long long)elections,
                 (double)(clock() - began) / CLOCKS_PER_SEC);
    return 0;
}
