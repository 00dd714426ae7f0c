/*
 * redis_cluster.c: nodes of a simulated Redis Cluster held against those of a real one: two nodes, and a slot that moves from one
 * to the other and back while the same random commands are sent to both clusters. All is to be answered with the same bytes: in
 * a slot that stays, that is about to move, of which half has moved, and that has moved.
 *
 *     simulation_redis_cluster [--sequences N] [--first N] [--seed N] [--verbose] [--plant NAME]
 *
 * --plant makes the simulated cluster another one on purpose.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orders.h"
#include "redis_pair.h"
#include "redis_words.h"
#include "servers/port.h"
#include "servers/wait.h"
#include "simulation/redis/cluster.h"

enum { NODES = 2, FLIGHTS = 50, SLOT = 15495 /* of "a" */, PATIENCE_MS = 20000, KEYS_MOVED = 6 };

static const int64_t first_us = INT64_C(1700000000000000), apart_us = INT64_C(100000000000);

/* What may be found in the slot. */
static const char *const moved[KEYS_MOVED] = {"a",
                                              "{a}:locker:queue",
                                              "locker:fence:{20200}",
                                              "{a}:locker:info",
                                              "{a}:locker:fence",
                                              "{a}:locker:broken:00000000000000010000000000000001"};

/* What lockers do not ask for on one server. */
static const char *const of_clusters[] = {
    "CLUSTER SLOTS",
    "CLUSTER SLOTS",
    "CLUSTER MYID",
    "CLUSTER KEYSLOT %K",
    "CLUSTER COUNTKEYSINSLOT 15495",
    "CLUSTER COUNTKEYSINSLOT %n",
    "CLUSTER SETSLOT 15495 IMPORTING nobody",
    "CLUSTER",
    "SELECT %b",
    "REPLICAOF 127.0.0.1 1",
    "ASKING",
    "MSETNX a 1 {a}x 2",
    "DEL a {a}:locker:queue",
    "DEL a b",
    "EXISTS a {a}:locker:queue {a}:locker:info",
    "EVAL return(redis.call('GET',ARGV[1])) 1 %k %K",
    "EVAL return(redis.call('GET',ARGV[1])) 0 %K",
    "EVAL return(redis.pcall('SET',ARGV[1],'1')) 1 a %K",
    "EVAL return(redis.pcall('SPUBLISH',ARGV[1],'x')) 1 a {a}wake",
    "EVAL return(redis.pcall('SPUBLISH',ARGV[1],'x')) 1 a b",
    /* Redis 8 and Valkey end the channels of a slot that goes at another moment, and redirect who leaves one; Valkey takes more
     * words of SETSLOT; keys that are over count for longer. */
    "SSUBSCRIBE {a}wake",
    "SSUBSCRIBE {a}wake {a}other",
    "SPUBLISH {a}wake %v",
    "SPUBLISH {a}wake %v",
    "SPUBLISH b %v",
    "PUBSUB SHARDNUMSUB {a}wake {a}other",
    "SUNSUBSCRIBE {a}wake",
    "SUNSUBSCRIBE {a}other",
    "CLUSTER SETSLOT %n STABLE now",
    "EVAL return(redis.call('DBSIZE')) %n a",
};
enum { OF_7_0_ALONE = 10 };

/* Where the slot is. `from` has it; OPEN: keys may have gone to the other node. */
typedef enum { STAYS, BEGINS, OPEN } stage;

typedef struct sequence sequence;
typedef struct {
    sequence *s;
    redis_pair pair;
    int barrier; /* a connection that hears when all messages to the node have come */
    char port[8], bus[8];
    char id[LK_SCRATCH_PATH];
} node;

struct sequence {
    node nodes[NODES];
    int64_t calls[OPEN + 1]; /* commands that were sent at each stage */
    int from;
    stage stage;
    bool verbose, published, locks_only;
    const char *planted;
    drawing drawing;
    words words;
    lk_sr_bytes bytes;
    uint64_t moves, keys_moved, redirected;
    char wrong[256];
};

static bool fails(sequence *s, const char *why)
{
    (void)snprintf(s->wrong, sizeof s->wrong, "%s", why);
    return false;
}

static bool is_planted(const sequence *s, const char *name)
{
    return s->planted != NULL && strcmp(s->planted, name) == 0;
}

/* ------------------------------------------------------------------ the clusters ---- */

static bool start_node(sequence *s, int i)
{
    static const char *options[NODES][16];
    node *n = &s->nodes[i];
    n->s = s;
    n->barrier = -1;
    (void)snprintf(n->bus, sizeof n->bus, "%d", lk_free_port());
    const char *const with[] = {"--cluster-enabled",
                                "yes",
                                "--cluster-node-timeout",
                                "2000000000",
                                "--cluster-announce-ip",
                                "127.0.0.1",
                                "--cluster-port",
                                n->bus,
                                NULL};
    memcpy(options[i], with, sizeof with);
    char answer[256];
    if (!pair_start_node(&n->pair, i > 0 ? &s->nodes[0].pair : NULL, options[i]) ||
        !pair_command(&n->pair, i == 0 ? "CLUSTER ADDSLOTSRANGE 0 8191" : "CLUSTER ADDSLOTSRANGE 8192 16383",
                      answer, sizeof answer) ||
        !pair_command(&n->pair, i == 0 ? "CLUSTER SET-CONFIG-EPOCH 1" : "CLUSTER SET-CONFIG-EPOCH 2", answer,
                      sizeof answer) ||
        !pair_command(&n->pair, "CLUSTER MYID", answer, sizeof answer))
        return fails(s, n->pair.wrong);
    (void)snprintf(n->id, sizeof n->id, "%.40s", answer + 5);
    return true;
}

/* Each says so by itself; a master that has just begun waits for two seconds of the clock. */
static bool are_well(void *context)
{
    sequence *s = context;
    char answer[1024];
    *s->nodes[0].pair.clock += 100000;
    for (int i = 0; i < NODES; i++) {
        if (!pair_command(&s->nodes[i].pair, "CLUSTER INFO", answer, sizeof answer) ||
            strstr(answer, "cluster_state:ok") == NULL || strstr(answer, "cluster_known_nodes:2") == NULL)
            return false;
    }
    return true;
}

static bool start(sequence *s)
{
    char line[128], answer[256];
    for (int i = 0; i < NODES; i++) {
        if (!start_node(s, i))
            return false;
    }
    (void)snprintf(line, sizeof line, "CLUSTER MEET 127.0.0.1 %d %s", s->nodes[1].pair.real.port,
                   s->nodes[1].bus);
    if (!pair_command(&s->nodes[0].pair, line, answer, sizeof answer))
        return fails(s, s->nodes[0].pair.wrong);
    if (!lk_until(are_well, s, PATIENCE_MS))
        return fails(s, "the real nodes do not become a cluster");
    for (int i = 0; i < NODES; i++) {
        s->nodes[i].barrier = pair_connect(&s->nodes[i].pair.real);
        if (s->nodes[i].barrier < 0 || write(s->nodes[i].barrier, "SUBSCRIBE barrier\r\n", 19) != 19 ||
            read(s->nodes[i].barrier, answer, sizeof answer) <= 0)
            return fails(s, "the real node takes no subscription");
    }
    return true;
}

static void stop(sequence *s)
{
    for (int i = NODES - 1; i >= 0; i--) {
        if (s->nodes[i].s == NULL)
            continue;
        close(s->nodes[i].barrier);
        pair_stop(&s->nodes[i].pair);
    }
}

static void tells(void *context, lk_sr_text channel, lk_sr_text message, bool shard)
{
    const node *n = context;
    n->s->published = true;
    if (!shard)
        lk_sr_cluster_hear(n->s->nodes[n == &n->s->nodes[0]].pair.simulated, channel, message, false);
}

/* What a node has told the other one has arrived there, by its messages or by its gossip: that comes behind it. */
static bool is_told(sequence *s)
{
    char text[256], answer[64];
    for (int i = 0; i < NODES && s->published; i++) {
        if (!pair_command(&s->nodes[i].pair, "PUBLISH barrier x", answer, sizeof answer))
            return fails(s, s->nodes[i].pair.wrong);
        for (int j = 0; j < NODES; j++) {
            if (read(s->nodes[j].barrier, text, sizeof text) <= 0)
                return fails(s, "the real nodes tell each other nothing");
        }
    }
    s->published = false;
    return true;
}

static bool agree(sequence *s)
{
    for (int i = 0; i < NODES; i++) {
        if (!pair_agrees(&s->nodes[i].pair)) {
            (void)snprintf(s->wrong, sizeof s->wrong, "node %d, %.200s", i, s->nodes[i].pair.wrong);
            return false;
        }
        s->redirected += s->nodes[i].pair.expected.len > 4 && s->nodes[i].pair.expected.data[0] == '-';
    }
    return is_told(s);
}

/* ------------------------------------------------------------------ a slot that moves ---- */

/* To both of the node; answers of the simulated and of the real one are compared. */
static bool order(sequence *s, int i, const char *what, int node_named)
{
    char line[160];
    redis_pair *pair = &s->nodes[i].pair;
    (void)snprintf(line, sizeof line, "CLUSTER SETSLOT %d %s%s%s\r\n", SLOT, what, node_named >= 0 ? " " : "",
                   node_named >= 0 ? s->nodes[node_named].id : "");
    if (s->verbose)
        (void)printf("node %d: %s", i, line);
    lk_sr_client *client = lk_sr_connect(pair->simulated, "orders", NULL);
    const int fd = pair_connect(&pair->real);
    const bool good = pair_answers_agree(pair, fd, client, lk_sr_word(line));
    close(fd);
    lk_sr_disconnect(client);
    return good || fails(s, pair->wrong);
}

static bool migrate(sequence *s, const char *key)
{
    static const char *const answers[] = {"+OK", "+NOKEY",
                                          "-ERR Target instance replied with error: BUSYKEY"};
    char line[256], answer[256];
    redis_pair *from = &s->nodes[s->from].pair, *to = &s->nodes[1 - s->from].pair;
    (void)snprintf(line, sizeof line, "MIGRATE 127.0.0.1 %d %s 0 1000", to->real.port, key);
    const bool was_done = pair_command(from, line, answer, sizeof answer);
    const lk_sr_migration found = lk_sr_migrate(from->simulated, to->simulated, lk_sr_word(key));
    s->keys_moved += found == LK_SR_MIGRATED;
    if (s->verbose)
        (void)printf("%s from node %d: %s\n", line, s->from, answers[found]);
    if (strncmp(answer, answers[found], strlen(answers[found])) == 0 && was_done == (found != LK_SR_BUSY_KEY))
        return true;
    (void)snprintf(s->wrong, sizeof s->wrong, "%.60s: simulated %s, real %.100s", line, answers[found],
                   answer);
    return false;
}

static bool is_empty(sequence *s)
{
    char line[64], answer[64];
    (void)snprintf(line, sizeof line, "CLUSTER COUNTKEYSINSLOT %d", SLOT);
    return pair_command(&s->nodes[s->from].pair, line, answer, sizeof answer) &&
           strcmp(answer, ":0\r\n") == 0;
}

/* One step on: the target first, as redis-cli does it. */
static bool move_on(sequence *s)
{
    const int from = s->from, to = 1 - from;
    switch (s->stage) {
    case STAYS:
        s->stage = BEGINS;
        return order(s, to, "IMPORTING", from);
    case BEGINS:
        s->stage = OPEN;
        return order(s, from, "MIGRATING", to);
    default:
        break;
    }
    if (draw(&s->drawing, 5) > 0 || !is_empty(s))
        return migrate(s, moved[draw(&s->drawing, KEYS_MOVED)]);
    s->published = true; /* lest the other one takes the number of this change for another one's */
    if (!order(s, to, "NODE", to) || !is_told(s) || !order(s, from, "NODE", to))
        return false;
    s->stage = STAYS;
    s->from = to;
    s->moves++;
    return true;
}

/* The real one's slot goes back to where it begins, in the way in which it goes. */
static bool bring_back(sequence *s)
{
    char line[160], answer[256];
    static const struct {
        int node;
        const char *what;
        int named;
    } commands[] = {{1, "IMPORTING", 0}, {0, "MIGRATING", 1}, {1, "NODE", 1}, {0, "NODE", 1}};
    for (int i = 0; i < NODES; i++) {
        if (!pair_command(&s->nodes[i].pair, "FLUSHALL", answer, sizeof answer) ||
            !pair_command(&s->nodes[i].pair, "CLUSTER SETSLOT 15495 STABLE", answer, sizeof answer))
            return fails(s, s->nodes[i].pair.wrong);
    }
    for (size_t i = 0; s->from == 0 && i < sizeof commands / sizeof commands[0]; i++) {
        (void)snprintf(line, sizeof line, "CLUSTER SETSLOT %d %s %s", SLOT, commands[i].what,
                       s->nodes[commands[i].named].id);
        if (!pair_command(&s->nodes[commands[i].node].pair, line, answer, sizeof answer))
            return fails(s, s->nodes[commands[i].node].pair.wrong);
        s->published = true;
        if (!is_told(s))
            return false;
    }
    s->from = 1;
    s->stage = STAYS;
    return true;
}

/* ------------------------------------------------------------------ a sequence ---- */

static bool begin(sequence *s, uint64_t seed)
{
    lk_sr_node known[NODES];
    for (int i = 0; i < NODES; i++)
        known[i] = (lk_sr_node){s->nodes[i].id, "127.0.0.1", s->nodes[i].pair.real.port, -1};
    if (!bring_back(s))
        return false;
    for (int i = 0; i < NODES; i++) {
        if (!pair_begin(&s->nodes[i].pair, seed + (uint64_t)i, s->drawing.clock_us))
            return fails(s, s->nodes[i].pair.wrong);
        lk_sr_server *simulated = s->nodes[i].pair.simulated;
        lk_sr_cluster_join(simulated, &(lk_sr_cluster_setup){.nodes = known,
                                                             .count = NODES,
                                                             .myself = (size_t)i,
                                                             .tells = tells,
                                                             .context = &s->nodes[i]});
        lk_sr_cluster_assign(simulated, 0, 8191, 0);
        lk_sr_cluster_assign(simulated, 8192, LK_SR_SLOTS - 1, 1);
    }
    return true;
}

static void draw_words(sequence *s)
{
    const size_t count = sizeof of_clusters / sizeof of_clusters[0] - (s->locks_only ? OF_7_0_ALONE : 0);
    if (draw(&s->drawing, 3) == 0)
        words_make(&s->drawing, of_clusters[draw(&s->drawing, count)], &s->words);
    else
        words_draw(&s->drawing, &s->words);
}

static void put_word(sequence *s, int i, int connection, lk_sr_bytes *simulated)
{
    const bool is_asking = lk_sr_is(lk_sr_view(&s->words.at[0]), "asking");
    words_put(&s->words, &s->bytes);
    if (!(is_asking && is_planted(s, "asking")))
        words_put(&s->words, simulated);
    s->calls[s->stage]++;
    if (!s->verbose)
        return;
    lk_sr_bytes line = {NULL, 0, 0};
    words_print(&s->words, &line);
    (void)printf("node %d, %d: %.*s\n", i, connection, (int)line.len, line.data);
    lk_sr_bytes_free(&line);
}

/* Now and then with a word before it that one has been sent here. */
static bool play_flight(sequence *s)
{
    const int i = draw(&s->drawing, 3) > 0 ? s->from : 1 - s->from,
              connection = (int)draw(&s->drawing, PAIR_CONNECTIONS);
    redis_pair *pair = &s->nodes[i].pair;
    if (pair->connections[connection].over)
        return true;
    s->bytes.len = 0;
    lk_sr_bytes planted = {NULL, 0, 0};
    if (draw(&s->drawing, i == s->from ? 10 : 2) == 0) {
        words_make(&s->drawing, "ASKING", &s->words);
        put_word(s, i, connection, &planted);
    }
    draw_words(s);
    put_word(s, i, connection, &planted);
    const bool good = pair_send(pair, connection, lk_sr_view(&s->bytes), lk_sr_view(&planted), 0);
    lk_sr_bytes_free(&planted);
    return good || fails(s, pair->wrong);
}

static bool play_time(sequence *s)
{
    static const int64_t steps_us[] = {300, 5000, 21000, 1000000, 40000000};
    int64_t left = steps_us[draw(&s->drawing, sizeof steps_us / sizeof steps_us[0])];
    if (s->verbose)
        (void)printf("%" PRId64 " us pass\n", left);
    while (left > 0) {
        const int64_t passed = pair_advance(&s->nodes[0].pair, left);
        if (passed < 0 || !pair_follow(&s->nodes[1].pair))
            return fails(s, "the real one does not go by our clock");
        left -= passed;
        if (!agree(s))
            return false;
    }
    s->drawing.clock_us = *s->nodes[0].pair.clock;
    return true;
}

/* A lock that is held and waited for, as there may be when the slot begins to move. */
static bool play_beginning(sequence *s)
{
    static const char *const lines[] = {"SET a %v PX 3600000", "ZADD {a}:locker:queue 5 %m", "INCRBY %f 64",
                                        "SET {a}:locker:info x PX 3600000"};
    bool good = true;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0] && good; i++) {
        lk_sr_bytes same = {NULL, 0, 0};
        s->bytes.len = 0;
        words_make(&s->drawing, lines[i], &s->words);
        put_word(s, s->from, 0, &same);
        good = pair_send(&s->nodes[s->from].pair, 0, lk_sr_view(&s->bytes), lk_sr_view(&same), 0) && agree(s);
        lk_sr_bytes_free(&same);
    }
    return good;
}

static bool play(sequence *s, uint64_t seed)
{
    s->drawing = (drawing){.random = seed,
                           .clock_us = first_us + (int64_t)seed * apart_us,
                           .theme = THEME_LOCKS,
                           .locks_only = s->locks_only,
                           .counter = "locker:fence:{20200}"};
    bool good = begin(s, seed) && (draw(&s->drawing, 4) == 0 || play_beginning(s));
    for (int i = 0; i < FLIGHTS && good; i++) {
        const uint64_t what = draw(&s->drawing, 8);
        good = what == 0 ? play_time(s) : what < 3 ? move_on(s) : play_flight(s);
        good = good && agree(s);
    }
    for (int i = 0; i < NODES; i++)
        pair_end(&s->nodes[i].pair);
    return good;
}

/* ------------------------------------------------------------------ the program ---- */

static void print_answer(const char *whose, const lk_sr_bytes *answer)
{
    (void)printf("  %s ", whose);
    for (size_t i = 0; i < answer->len; i++)
        (void)putchar(answer->data[i] >= ' ' && answer->data[i] <= '~' ? answer->data[i] : '.');
    (void)putchar('\n');
}

static int tell(const sequence *s, const char *program, uint64_t seed)
{
    (void)printf("sequence %" PRIu64 ": %s\n", seed, s->wrong);
    for (int i = 0; i < NODES; i++) {
        print_answer("simulated:", &s->nodes[i].pair.expected);
        print_answer("real:     ", &s->nodes[i].pair.got);
    }
    (void)printf("run it again: %s --seed %" PRIu64 " --verbose%s%s\n", program, seed,
                 s->planted != NULL ? " --plant " : "", s->planted != NULL ? s->planted : "");
    return 1;
}

static int run(sequence *s, const char *program, uint64_t first, uint64_t count)
{
    const int64_t began = lk_now_ns();
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!play(s, seed))
            return tell(s, program, seed);
    }
    (void)printf("%" PRIu64 " sequences, %" PRId64 " commands (%" PRId64 " while a slot moved), %" PRIu64
                 " keys and %" PRIu64 " slots moved in %.1f s, 0 differences\n",
                 count, s->calls[STAYS] + s->calls[BEGINS] + s->calls[OPEN], s->calls[OPEN], s->keys_moved,
                 s->moves, (double)(lk_now_ns() - began) / 1e9);
    if (count < 100 || (s->moves > count / 20 && s->keys_moved > count / 2))
        return 0;
    (void)printf("too little moves to show that the two agree\n");
    return 1;
}

int main(int argc, char **argv)
{
    static sequence s = {.from = 1};
    orders o = {.usage = "[--sequences N] [--first N] [--seed N] [--verbose] [--plant NAME]",
                .first = 1,
                .count = 300};
    if (!read_orders(&o, argc, argv))
        return usage(&o, argv[0]);
    s.verbose = o.verbose;
    s.planted = o.planted;
    int result = 1;
    if (start(&s)) {
        s.locks_only = pair_is_of_another_release(&s.nodes[0].pair);
        result = run(&s, argv[0], o.first, o.count);
    } else {
        (void)printf("%s\n", s.wrong);
    }
    words_clear(&s.words);
    lk_sr_bytes_free(&s.bytes);
    stop(&s);
    return result;
}
