/* row_etcd_others.c: rows ectl and ego: what people lock with on etcd otherwise: etcdctl lock, a process each, beside `locker run`;
 * and Go's concurrency.Mutex on a session that it keeps (go/mutex.go), beside a locker. */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "bench.h"

extern char **environ;

static const int64_t ttl = 10000; /* ms: those of Go's have as long */

/* ------------------------------------------------------------------ ectl ---- */

#ifdef LOCKER_BENCH_TOOL
typedef struct {
    bool ours;
    int64_t times;
} plan;

/* Its exit status; -1: it could not be started. */
static int run(const char *const *argv)
{
    pid_t pid;
    int how = 0;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ) != 0)
        return -1;
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static void command_body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    char uri[LK_SERVER_TEXT], endpoint[64];
    const char *const ours[] = {LOCKER_BENCH_TOOL, "run", "--uri", uri, "command", "--", "true", NULL};
    const char *const theirs[] = {"etcdctl", endpoint, "lock", "bench/command-etcdctl", "true", NULL};
    const char *const *argv = p->ours ? ours : theirs;
    (void)member;
    (void)setenv("ETCDCTL_API", "3", 1);
    (void)lk_bench_etcd_server_uri(uri, b->etcd.own.port, ttl);
    (void)snprintf(endpoint, sizeof endpoint, "--endpoints=127.0.0.1:%d", b->etcd.own.port);
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < p->times; i++) {
        const int64_t from = lk_bench_now();
        const int how = run(argv);
        if (how != 0)
            lk_bench_crew_fail(b, "%s ended with status %d", argv[0], how);
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
}

bool lk_row_ectl(lk_bench *b)
{
    static const lk_bench_figure half = {"ectl",         "locker run KEY -- true, p50", "ms",
                                         "etcdctl lock", LK_GOAL_RATIO_AT_MOST,         1};
    lk_series p50[2] = {0};
    if (system("command -v etcdctl >/dev/null") != 0) {
        lk_bench_progress("ectl is left out: there is no etcdctl; script/setup etcd installs it");
        return true;
    }
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            const plan p = {.ours = ours != 0, .times = lk_scale(b, 50)};
            const lk_work work = {.members = 1, .cpu = b->client_cpu, .body = command_body, .arg = &p};
            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&p50[ours], lk_bench_crew_quantile_us(b, 0.5) / 1000);
        }
    }
    lk_bench_report(b, &half, &p50[0], &p50[1]);
    return true;
}
#endif

/* ------------------------------------------------------------------ ego ---- */

#ifndef LOCKER_BENCH_GO

bool lk_row_ego(lk_bench *b)
{
    (void)b;
    lk_bench_progress(
        "ego is left out: this build has no Go; script/setup go, and configure with -DLOCKER_BENCH_GO=ON");
    return true;
}

#else

enum { THREADS = LK_SIDE_KEYS };

/* How it is called, behind its endpoint. What it prints goes to the crew's values, in this order. */
typedef struct {
    char arguments[64];
    const char *names[2];
} call;

static void go_body(lk_bench *b, int member, const void *arg)
{
    const call *c = arg;
    char command[512], name[32];
    double value;
    (void)member;
    (void)snprintf(command, sizeof command, "exec '%s' 127.0.0.1:%d %s", LOCKER_BENCH_GO, b->etcd.own.port,
                   c->arguments);
    lk_bench_crew_ready(b);
    FILE *const from = popen(command, "re");
    if (from == NULL)
        lk_bench_crew_fail(b, "%s: %s", LOCKER_BENCH_GO, strerror(errno));
    while (fscanf(from, "%31s %lf", name, &value) == 2)
        for (size_t i = 0; i < sizeof c->names / sizeof c->names[0]; i++)
            if (c->names[i] != NULL && strcmp(name, c->names[i]) == 0)
                b->crew->value[i] = value;
    if (pclose(from) != 0)
        lk_bench_crew_fail(b, "%s %s failed", LOCKER_BENCH_GO, c->arguments);
}

static bool go_run(lk_bench *b, const call *c)
{
    const lk_work work = {.members = 1, .cpu = b->client_cpu, .body = go_body, .arg = c};
    return lk_bench_crew_run(b, &work);
}

static bool go_side(lk_bench *b, lk_side *go)
{
    call one = {.names = {"p50_ns", "cpu_ns"}}, many = {.names = {"rate"}};
    (void)snprintf(one.arguments, sizeof one.arguments, "one %lld", (long long)lk_scale(b, 5000));
    (void)snprintf(many.arguments, sizeof many.arguments, "many %d %lld", THREADS,
                   (long long)lk_scale(b, 2000));
    if (!go_run(b, &one))
        return false;
    lk_series_add(&go->p50, b->crew->value[0] / LK_BENCH_US);
    lk_series_add(&go->cpu, b->crew->value[1] / LK_BENCH_US);
    if (!go_run(b, &many))
        return false;
    lk_series_add(&go->rate, b->crew->value[0]);
    return true;
}

static void handoff_body(lk_bench *b, int member, const void *arg)
{
    char uri[LK_SERVER_TEXT];
    lk_handoff(b, member, lk_bench_etcd_server_uri(uri, b->etcd.own.port, ttl), "hand", *(const int64_t *)arg,
               lk_handoff_sleep);
}

static bool handoffs(lk_bench *b, lk_series *go, lk_series *ours)
{
    const int64_t times = lk_scale(b, 300);
    call c = {.names = {"p50_ns"}};
    const lk_work work = {.members = 2, .cpu = b->client_cpu, .body = handoff_body, .arg = &times};
    (void)snprintf(c.arguments, sizeof c.arguments, "handoff %lld %lld", (long long)times,
                   (long long)(lk_handoff_sleep / LK_BENCH_MS));
    if (!go_run(b, &c))
        return false;
    lk_series_add(go, b->crew->value[0] / LK_BENCH_US);
    if (!lk_bench_crew_run(b, &work))
        return false;
    lk_series_add(ours, lk_bench_crew_quantile_us(b, 0.5));
    return true;
}

bool lk_row_ego(lk_bench *b)
{
    static const lk_bench_figure hand = {
        "ego", "hand-off to a sleeping waiter, p50", "us", "Go's Mutex", LK_GOAL_NONE, 0};
    lk_side go = {.keys = 1}, ours = {.keys = 1};
    lk_series handed[2] = {0};
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    (void)lk_bench_etcd_server_uri(ours.uri, b->etcd.own.port, ttl);
    for (int round = 0; round < b->rounds; round++)
        if (!go_side(b, &go) || !lk_side_run(b, &ours) || !handoffs(b, &handed[0], &handed[1]))
            return false;
    lk_sides_report(b, "ego", "Go's Mutex", &go, &ours);
    lk_bench_report(b, &hand, &handed[0], &handed[1]);
    return true;
}

#endif
