/* cluster.c: a Redis Cluster; see cluster.h.
 *
 * It is made by its nodes' own commands: each is told of each, so that nobody waits for gossip. A master that has just been started
 * serves nothing for 2 s, which is as fast as it gets. */
#include "servers/cluster.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "servers/wait.h"

enum { PATIENCE_MS = 60000, BATCH = 1024, TEXT = 16384 };

static bool fails(lk_cluster *cluster, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fails(lk_cluster *cluster, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(cluster->error, sizeof cluster->error, format, args);
    va_end(args);
    return false;
}

unsigned lk_cluster_first(const lk_cluster *cluster, int share)
{
    const unsigned few = cluster->few > 0 ? cluster->few : LK_CLUSTER_SLOTS / LK_CLUSTER_MASTERS;
    const unsigned first[] = {0, (LK_CLUSTER_SLOTS - few) / 2, LK_CLUSTER_SLOTS - few, LK_CLUSTER_SLOTS};
    return first[share];
}

static bool runs(const lk_server *node)
{
    return node->pid > 0 && !node->frozen;
}

/* A command that answers with a line. */
static bool tell(lk_cluster *cluster, int node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool tell(lk_cluster *cluster, int node, const char *format, ...)
{
    char line[256], why[128];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(line, sizeof line - 2, format, args);
    va_end(args);
    memcpy(line + length, "\r\n", sizeof "\r\n");
    return lk_server_tell(&cluster->node[node], line, 1, why, sizeof why) ||
           fails(cluster, "node %d answered %.*s with '%s'", node, length, line, why);
}

/* ------------------------------------------------------------------ what nodes say ---- */

/* What one of them says of all. */
typedef struct {
    int master[LK_CLUSTER_NODES];     /* -1: it is one */
    uint64_t slots[LK_CLUSTER_NODES]; /* a sum of what it serves; 0: nothing */
    bool well;                        /* nobody who runs has failed, nobody is unknown */
} view;

static int number_of(const lk_cluster *cluster, const char *id)
{
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        if (strncmp(cluster->id[i], id, sizeof cluster->id[i] - 1) == 0)
            return i;
    return -1;
}

/* The words of a line of CLUSTER NODES: id, address, flags, master, ping, pong, epoch, link, slots. */
typedef struct {
    char *id, *flags, *master, *epoch, *slots;
} words;

static bool split(char *line, words *w)
{
    char *all[8], *rest = line;
    for (int i = 0; i < 8; i++) {
        all[i] = strsep(&rest, " ");
        if (all[i] == NULL)
            return false;
    }
    *w = (words){all[0], all[2], all[3], all[6], rest != NULL ? rest : line + strlen(line)};
    return true;
}

/* What is on its way is in brackets, and last. */
static uint64_t sum_of(const char *slots)
{
    const char *way = strstr(slots, " [");
    uint64_t sum = 0;
    for (; *slots != '\0' && *slots != '[' && slots != way; slots++)
        sum = sum * 31 + (unsigned char)*slots + 1;
    return sum;
}

static bool has_failed(const char *flags)
{
    return strstr(flags, "fail") != NULL || strstr(flags, "handshake") != NULL ||
           strstr(flags, "noaddr") != NULL;
}

static bool see(lk_cluster *cluster, int from, view *v)
{
    char text[TEXT], *rest = text;
    int known = 0;
    *v = (view){.well = true};
    if (!lk_server_ask(&cluster->node[from], "CLUSTER NODES", text, sizeof text))
        return false;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        words w;
        if (!split(line, &w))
            continue;
        const int i = number_of(cluster, w.id);
        if (i < 0)
            return false;
        v->well = v->well && !(has_failed(w.flags) && runs(&cluster->node[i]));
        v->master[i] = strstr(w.flags, "slave") != NULL ? number_of(cluster, w.master) : -1;
        v->slots[i] = sum_of(w.slots);
        known++;
    }
    return known == LK_CLUSTER_NODES;
}

static bool says(lk_cluster *cluster, int node, const char *question, const char *wanted)
{
    char answer[TEXT];
    return lk_server_ask(&cluster->node[node], question, answer, sizeof answer) &&
           strstr(answer, wanted) != NULL;
}

static bool agree(const lk_cluster *cluster, const view *a, const view *b)
{
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        if (a->slots[i] != b->slots[i] || (runs(&cluster->node[i]) && a->master[i] != b->master[i]))
            return false;
    return true;
}

static bool is_well(void *context)
{
    lk_cluster *cluster = context;
    view first, other;
    bool seen = false;
    for (int i = 0; i < LK_CLUSTER_NODES; i++) {
        if (!runs(&cluster->node[i]))
            continue;
        if (!see(cluster, i, &other) || !other.well ||
            !says(cluster, i, "CLUSTER INFO", "cluster_state:ok") ||
            !says(cluster, i, "CLUSTER INFO", "cluster_slots_assigned:16384"))
            return false;
        if (other.master[i] >= 0 && !says(cluster, i, "INFO replication", "master_link_status:up") &&
            runs(&cluster->node[other.master[i]]))
            return false;
        if (!seen)
            first = other;
        seen = true;
        if (!agree(cluster, &first, &other))
            return false;
    }
    for (int i = 0; seen && i < LK_CLUSTER_NODES; i++)
        seen = first.slots[i] == 0 || runs(&cluster->node[i]);
    return seen;
}

bool lk_cluster_await(lk_cluster *cluster)
{
    char text[TEXT] = "";
    if (lk_until(is_well, cluster, PATIENCE_MS))
        return true;
    for (int i = 0; i < LK_CLUSTER_NODES && text[0] == '\0'; i++)
        (void)lk_server_ask(&cluster->node[i], "CLUSTER NODES", text, sizeof text);
    fprintf(stderr, "%s\n", text);
    return fails(cluster, "the cluster's nodes do not agree on its state");
}

/* The line that a node has of itself. */
static bool own_line(lk_cluster *cluster, int node, char text[TEXT], words *w)
{
    char *rest = text;
    if (!lk_server_ask(&cluster->node[node], "CLUSTER NODES", text, TEXT))
        return false;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n"))
        if (split(line, w) && strstr(w->flags, "myself") != NULL)
            return true;
    return false;
}

/* The next range of a list of slots, as "1-5 7 [9->-..." has; false: there is none. */
static bool next_range(char **slots, unsigned *first, unsigned *last)
{
    char *word = strsep(slots, " "), *end;
    if (word == NULL || word[0] == '\0' || word[0] == '[')
        return false;
    *first = *last = (unsigned)strtoul(word, &end, 10);
    if (*end == '-')
        *last = (unsigned)strtoul(end + 1, NULL, 10);
    return true;
}

int lk_cluster_owner(lk_cluster *cluster, unsigned slot)
{
    unsigned long long latest = 0;
    int owner = -1;
    for (int i = 0; i < LK_CLUSTER_NODES; i++) {
        char text[TEXT];
        unsigned first, last;
        words w;
        if (!own_line(cluster, i, text, &w) || strstr(w.flags, "master") == NULL)
            continue;
        const unsigned long long epoch = strtoull(w.epoch, NULL, 10);
        while (next_range(&w.slots, &first, &last))
            if (slot >= first && slot <= last && (owner < 0 || epoch > latest)) {
                owner = i;
                latest = epoch;
            }
    }
    return owner;
}

int lk_cluster_replica(lk_cluster *cluster, int master)
{
    for (int i = 0; i < LK_CLUSTER_NODES; i++) {
        char text[TEXT];
        words w;
        if (own_line(cluster, i, text, &w) && strstr(w.flags, "slave") != NULL &&
            number_of(cluster, w.master) == master)
            return i;
    }
    return -1;
}

/* ------------------------------------------------------------------ beginning and end ---- */

static bool start_node(lk_cluster *cluster, int i, const lk_cluster_setup *setup)
{
    lk_server *node = &cluster->node[i];
    const lk_server_setup of_node = {.options = setup->options,
                                     .place = setup->places != NULL ? &setup->places[i] : NULL,
                                     .tick_ms =
                                         setup->timeout_ms > 0 ? setup->timeout_ms : LK_CLUSTER_TIMEOUT_MS,
                                     .certificates = setup->certificates};
    if (!lk_server_reserve(node, &lk_server_cluster, &of_node))
        return false;
    if (node->place.netns > 0) { /* where others may be, too */
        node->port += i;
        node->quorum_port = node->port + LK_CLUSTER_NODES;
    }
    return lk_server_launch(node, true);
}

static bool start_nodes(lk_cluster *cluster, const lk_cluster_setup *setup)
{
    bool good = true;
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        good = start_node(cluster, i, setup) && good;
    for (int i = 0; i < LK_CLUSTER_NODES; i++) {
        if (!good ||
            !lk_server_await(&cluster->node[i])) /* with another port, where another program has taken its */
            return fails(cluster, "%.255s", cluster->node[i].error);
        cluster->node[i].id = i + 1; /* others will know its port */
    }
    return good;
}

static bool introduce(lk_cluster *cluster)
{
    for (int i = 0; i < LK_CLUSTER_NODES; i++) {
        if (!lk_server_ask(&cluster->node[i], "CLUSTER MYID", cluster->id[i], sizeof cluster->id[i]) ||
            !tell(cluster, i, "CLUSTER SET-CONFIG-EPOCH %d", i + 1))
            return false;
        if (i < LK_CLUSTER_MASTERS &&
            !tell(cluster, i, "CLUSTER ADDSLOTSRANGE %u %u", lk_cluster_first(cluster, i),
                  lk_cluster_first(cluster, i + 1) - 1))
            return false;
    }
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        for (int k = 0; k < i; k++) {
            const lk_server *other = &cluster->node[k];
            if (!tell(cluster, i, "CLUSTER MEET %s %d %d", other->place.address, other->port,
                      other->quorum_port))
                return false;
        }
    return true;
}

static bool all_know_all(void *context)
{
    view v;
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        if (!see(context, i, &v) || !v.well)
            return false;
    return true;
}

bool lk_cluster_start(lk_cluster *cluster, const lk_cluster_setup *setup)
{
    memset(cluster, 0, sizeof *cluster);
    cluster->few = setup->few;
    if (!start_nodes(cluster, setup) || !introduce(cluster))
        return false;
    if (!lk_until(all_know_all, cluster, PATIENCE_MS))
        return fails(cluster, "the nodes do not discover each other");
    for (int i = 0; i < LK_CLUSTER_MASTERS; i++)
        if (!tell(cluster, i + LK_CLUSTER_MASTERS, "CLUSTER REPLICATE %s", cluster->id[i]))
            return false;
    return lk_cluster_await(cluster);
}

void lk_cluster_remove(lk_cluster *cluster)
{
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        lk_server_remove(&cluster->node[i]);
}

bool lk_cluster_heal(lk_cluster *cluster)
{
    for (int i = 0; i < LK_CLUSTER_NODES; i++) {
        lk_server_thaw(&cluster->node[i]);
        if (cluster->node[i].pid == 0 && !lk_server_launch(&cluster->node[i], true))
            return fails(cluster, "%.255s", cluster->node[i].error);
    }
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        if (!lk_server_await(&cluster->node[i]))
            return fails(cluster, "%.255s", cluster->node[i].error);
    return lk_cluster_await(cluster);
}

const char *lk_cluster_hosts(const lk_cluster *cluster, int first, char *text, size_t size)
{
    size_t at = 0;
    for (int i = 0; i < LK_CLUSTER_NODES && at < size; i++) {
        const lk_server *node = &cluster->node[(first + i) % LK_CLUSTER_NODES];
        at += (size_t)snprintf(text + at, size - at, "%s%s:%d", i > 0 ? "," : "", node->place.address,
                               node->port);
    }
    return text;
}

/* ------------------------------------------------------------------ failovers and moves ---- */

bool lk_cluster_fail_over(lk_cluster *cluster, int replica, const char *how)
{
    if (!tell(cluster, replica, "CLUSTER FAILOVER %s", how))
        return false;
    const int64_t end = lk_now_ns() + PATIENCE_MS * INT64_C(1000000);
    while (!says(cluster, replica, "INFO replication", "role:master")) {
        if (lk_now_ns() > end)
            return fails(cluster, "node %d does not become the master", replica);
        lk_pause_ms(5);
    }
    return lk_cluster_await(cluster);
}

/* The CRC16 of XMODEM, of what is in the first braces if that is something. */
unsigned lk_cluster_slot(const char *key)
{
    const char *open = strchr(key, '{'), *end = open != NULL ? strchr(open, '}') : NULL;
    const bool tagged = end != NULL && end > open + 1;
    const char *at = tagged ? open + 1 : key;
    size_t left = tagged ? (size_t)(end - at) : strlen(key);
    unsigned crc = 0;
    for (; left > 0; left--) {
        crc ^= (unsigned)(unsigned char)*at++ << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = ((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc % LK_CLUSTER_SLOTS;
}

/* The same of each slot of a range, in one flight: a node writes to its disk what it knows when it has read no more. (Not by a
 * script: Valkey, where replicas have to confirm it, dies of that.) */
static bool set_slots(lk_cluster *cluster, int node, const lk_move *range, unsigned last, const char *state,
                      int other)
{
    enum { LINE = 96 };
    const size_t count = last - range->slot + 1;
    char *lines = malloc(count * LINE), *at = lines, why[128] = "out of memory";
    for (unsigned slot = range->slot; lines != NULL && slot <= last; slot++)
        at += snprintf(at, LINE, "CLUSTER SETSLOT %u %s %s\r\n", slot, state, cluster->id[other]);
    const bool told = lines != NULL && lk_server_tell(&cluster->node[node], lines, count, why, sizeof why);
    free(lines);
    return told ||
           fails(cluster, "node %d answered CLUSTER SETSLOT %u %s with '%s'", node, range->slot, state, why);
}

static bool begin(lk_cluster *cluster, const lk_move *range, unsigned last)
{
    return set_slots(cluster, range->to, range, last, "IMPORTING", range->from) &&
           set_slots(cluster, range->from, range, last, "MIGRATING", range->to);
}

/* A node that heard nothing of the others for a while serves nobody for a moment. */
static bool migrate(lk_cluster *cluster, const lk_move *range, const char *keys)
{
    const lk_server *from = &cluster->node[range->from], *to = &cluster->node[range->to];
    const int64_t end = lk_now_ns() + PATIENCE_MS * INT64_C(1000000);
    char line[TEXT + 100], why[128];
    snprintf(line, sizeof line, "MIGRATE %s %d \"\" 0 5000 KEYS %s\r\n", to->place.address, to->port, keys);
    while (!lk_server_tell(from, line, 1, why, sizeof why)) {
        if (strstr(why, "CLUSTERDOWN") == NULL || lk_now_ns() > end)
            return fails(cluster, "MIGRATE of %.50s was answered with '%s'", keys, why);
        lk_pause_ms(5);
    }
    return true;
}

/* All keys of the range, those of a slot at a time. */
static bool move_keys(lk_cluster *cluster, const lk_move *range, unsigned last)
{
    char question[400], keys[TEXT];
    snprintf(question, sizeof question,
             "EVAL \"for slot = %u, %u do local keys = redis.call('CLUSTER', 'GETKEYSINSLOT', slot, 64) "
             "if #keys > 0 then return table.concat(keys, ' ') end end return ''\" 0",
             range->slot, last);
    for (;;) {
        if (!lk_server_ask(&cluster->node[range->from], question, keys, sizeof keys))
            return fails(cluster, "node %d does not list its keys: %.150s", range->from, keys);
        if (keys[0] == '\0')
            return true;
        if (!migrate(cluster, range, keys))
            return false;
    }
}

static bool end(lk_cluster *cluster, const lk_move *range, unsigned last)
{
    if (!set_slots(cluster, range->to, range, last, "NODE", range->to) ||
        !set_slots(cluster, range->from, range, last, "NODE", range->to))
        return false;
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        if (i != range->to && i != range->from && runs(&cluster->node[i]) &&
            !says(cluster, i, "INFO replication", "role:slave") &&
            !set_slots(cluster, i, range, last, "NODE", range->to))
            return false;
    return true;
}

bool lk_cluster_move_begin(lk_cluster *cluster, const lk_move *move)
{
    return begin(cluster, move, move->slot);
}

bool lk_cluster_move_key(lk_cluster *cluster, const lk_move *move, const char *key)
{
    const lk_server *from = &cluster->node[move->from], *to = &cluster->node[move->to];
    char question[300], answer[256];
    snprintf(question, sizeof question, "MIGRATE %s %d %s 0 5000", to->place.address, to->port, key);
    return (lk_server_ask(from, question, answer, sizeof answer) && strcmp(answer, "OK") == 0) ||
           fails(cluster, "MIGRATE of %.50s was answered with '%.150s'", key, answer);
}

bool lk_cluster_move_end(lk_cluster *cluster, const lk_move *move)
{
    return move_keys(cluster, move, move->slot) && end(cluster, move, move->slot);
}

bool lk_cluster_move_share(lk_cluster *cluster, int share, int to)
{
    lk_move range = {lk_cluster_first(cluster, share),
                     lk_cluster_owner(cluster, lk_cluster_first(cluster, share)), to};
    for (; range.slot < lk_cluster_first(cluster, share + 1); range.slot += BATCH) {
        const unsigned rest = lk_cluster_first(cluster, share + 1) - range.slot;
        const unsigned last = range.slot + (rest < BATCH ? rest : BATCH) - 1;
        if (!begin(cluster, &range, last) || !move_keys(cluster, &range, last) || !end(cluster, &range, last))
            return false;
    }
    return lk_cluster_await(cluster);
}

/* Each other slot of the share, by one command. */
static bool each_other(lk_cluster *cluster, int node, const char *what, int share)
{
    enum { DIGITS = 6 };
    const unsigned first = lk_cluster_first(cluster, share), last = lk_cluster_first(cluster, share + 1);
    char *const line = malloc(64 + (size_t)(last - first) * DIGITS), why[128] = "out of memory";
    int at = line != NULL ? sprintf(line, "CLUSTER %s", what) : 0;
    for (unsigned slot = first; line != NULL && slot < last; slot += 2)
        at += sprintf(line + at, " %u", slot);
    if (line != NULL)
        strcpy(line + at, "\r\n");
    const bool told = line != NULL && lk_server_tell(&cluster->node[node], line, 1, why, sizeof why);
    free(line);
    return told || fails(cluster, "node %d answered CLUSTER %s with '%s'", node, what, why);
}

static bool all_serve(void *context)
{
    lk_cluster *cluster = context;
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        if (runs(&cluster->node[i]) && (!says(cluster, i, "CLUSTER INFO", "cluster_state:ok") ||
                                        !says(cluster, i, "CLUSTER INFO", "cluster_slots_assigned:16384")))
            return false;
    return true;
}

/* Of two that say that a slot is theirs the one with the later epoch is believed. */
bool lk_cluster_scatter(lk_cluster *cluster, int share, int from, int to)
{
    char answer[128];
    if (!lk_server_ask(&cluster->node[to], "CLUSTER BUMPEPOCH", answer, sizeof answer))
        return fails(cluster, "node %d does not accept a later epoch: %.100s", to, answer);
    return each_other(cluster, from, "DELSLOTS", share) && each_other(cluster, to, "DELSLOTS", share) &&
           each_other(cluster, to, "ADDSLOTS", share) &&
           (lk_until(all_serve, cluster, PATIENCE_MS) ||
            fails(cluster, "the cluster's nodes do not agree on its state"));
}
