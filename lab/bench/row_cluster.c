/* row_cluster.c: row cluster: lock + unlock at a Redis Cluster of three masters, beside the same at one server: one thread, and 64
 * with keys of their own. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "servers/cluster.h"

enum { KEYS = 64, ALONE = 0, CLUSTER = 1, SIDES = 2 };

static lk_cluster cluster;

typedef struct {
    char uri[LK_SERVER_TEXT];
    int64_t cycles;                /* of the one thread */
    locker *l;                     /* that the threads share */
    int64_t (*asked)(lk_bench *b); /* what its servers were asked so far */
} side;

/* How many commands of these kinds it was sent, by clients alone: what scripts call is counted by Redis, too. */
static int64_t asked_of(const lk_server *server, const char *const *names)
{
    char answer[16384], line[40];
    int64_t total = 0;
    if (!lk_server_ask(server, "INFO commandstats", answer, sizeof answer))
        return 0;
    for (; *names != NULL; names++) {
        (void)snprintf(line, sizeof line, "cmdstat_%s:calls=", *names);
        const char *at = strstr(answer, line);
        total += at != NULL ? strtoll(at + strlen(line), NULL, 10) : 0;
    }
    return total;
}

/* Where nobody waits no script sets a lock but the first of its slot. */
static int64_t asked_of_server(lk_bench *b)
{
    static const char *const names[] = {"set", "incr", "evalsha", "eval", NULL};
    return asked_of(&b->server.own, names);
}

/* Of its masters; the others are sent nothing while it is measured. There all locks are taken by scripts. */
static int64_t asked_of_cluster(lk_bench *b)
{
    static const char *const names[] = {"evalsha", "eval", "asking", "cluster|slots", NULL};
    int64_t total = 0;
    (void)b;
    for (int i = 0; i < LK_CLUSTER_MASTERS; i++)
        total += asked_of(&cluster.node[i], names);
    return total;
}

static void key_of(size_t index, char key[32])
{
    (void)snprintf(key, 32, "bench:own:%zu", index);
}

/* Of all keys in turn, so of all masters. */
static void one_thread(lk_bench *b, int member, const void *arg)
{
    const side *s = arg;
    locker *l = lk_open_or_fail(b, s->uri);
    char key[32];
    (void)member;
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    for (int64_t i = 0; i < s->cycles; i++) {
        key_of((size_t)(i % KEYS), key);
        const int64_t from = lk_bench_now();

        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu) / (double)s->cycles / LK_BENCH_US;
    (void)locker_close(l);
}

static void own_key(lk_bench *b, size_t index, void *arg)
{
    const side *s = arg;
    uint64_t cycles = 0;
    char key[32];
    key_of(index, key);
    while (!lk_bench_crew_stopped(b)) {
        lk_unlock_or_fail(b, lk_lock_or_fail(b, s->l, key, NULL));
        cycles++;
    }
    b->crew->count[index] = cycles;
}

static void many_threads(lk_bench *b, int member, const void *arg)
{
    side s = *(const side *)arg;
    s.l = lk_open_or_fail(b, s.uri);
    (void)member;
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, KEYS, own_key, &s));
    (void)locker_close(s.l);
}

typedef struct {
    lk_series p50[SIDES], cpu[SIDES], rate[SIDES], asked[SIDES];
} outcome;

static bool run_side(lk_bench *b, side *s, int which, outcome *o)
{
    lk_work work = {.members = 1, .cpu = b->client_cpu, .body = one_thread, .arg = s};
    s->cycles = lk_scale(b, 5000);
    if (!lk_bench_crew_run(b, &work))
        return false;
    lk_series_add(&o->p50[which], lk_bench_crew_quantile_us(b, 0.5));
    lk_series_add(&o->cpu[which], b->crew->value[0]);
    work.body = many_threads;
    work.duration = lk_scale(b, 2000) * LK_BENCH_MS;
    work.asked = s->asked;
    if (!lk_bench_crew_run(b, &work))
        return false;
    const double cycles = (double)lk_bench_crew_total(b, KEYS);
    lk_series_add(&o->rate[which], cycles / b->crew->value[LK_VALUE_SECONDS]);
    lk_series_add(&o->asked[which], cycles > 0 ? (double)b->crew->asked / cycles : 0);
    return true;
}

static bool run(lk_bench *b, outcome *o)
{
    char hosts[300];
    side sides[SIDES] = {{.asked = asked_of_server}, {.asked = asked_of_cluster}};
    (void)snprintf(sides[ALONE].uri, sizeof sides[ALONE].uri, "%s", b->server.uri);
    (void)snprintf(sides[CLUSTER].uri, sizeof sides[CLUSTER].uri, "redis+cluster://%s/",
                   lk_cluster_hosts(&cluster, 0, hosts, sizeof hosts));
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        (void)lk_bench_pin_process(cluster.node[i].pid, b->server_cpu);
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++)
        for (int which = 0; which < SIDES; which++)
            if (!run_side(b, &sides[which], which, o))
                return false;
    return true;
}

bool lk_row_cluster(lk_bench *b)
{
    static const lk_bench_figure
        one = {"cluster", "1 thread, lock + unlock, p50", "us", "one server", LK_GOAL_NONE, 0},
        used = {"cluster", "... client CPU for each cycle", "us", "one server", LK_GOAL_NONE, 0},
        many = {"cluster", "64 threads, own keys", "/s", "one server", LK_GOAL_NONE, 0},
        sent = {"cluster", "... commands sent for each cycle", "", "one server", LK_GOAL_NONE, 0};
    outcome o = {0};
    if (b->server.own.pid <= 0) {
        lk_bench_progress("cluster is left out: it takes servers of our own");
        return true;
    }
    const bool good = lk_cluster_start(&cluster, &(lk_cluster_setup){0});
    if (!good)
        lk_bench_progress("%s", cluster.error);
    const bool ran = good && run(b, &o);
    lk_cluster_remove(&cluster);
    if (!ran)
        return false;
    lk_bench_report(b, &one, &o.p50[ALONE], &o.p50[CLUSTER]);
    lk_bench_report(b, &used, &o.cpu[ALONE], &o.cpu[CLUSTER]);
    lk_bench_report(b, &many, &o.rate[ALONE], &o.rate[CLUSTER]);
    lk_bench_report(b, &sent, &o.asked[ALONE], &o.asked[CLUSTER]);
    return true;
}
