/* row_tls.c: row tls: lock + unlock by TLS, beside the same by plain TCP: one thread, and 64 with keys of their own. */
#include "bench.h"
#include "servers/certificates.h"
#include "servers/port.h"

enum { KEYS = 64, PLAIN = 0, TLS = 1, SIDES = 2 };

typedef struct {
    char uri[LK_SERVER_TEXT];
    int64_t cycles; /* of the one thread */
    locker *l;      /* that the threads share */
} side;

/* Our server takes TLS at a port of its own from now on, with certificates that are made for it. */
static bool speak_tls(lk_bench *b, char uri[LK_SERVER_TEXT])
{
    const lk_server *server = &b->server.own;
    const int port = lk_free_port();
    char why[256] = "", question[480];
    if (!lk_certificate_make(server->directory, &(lk_certificate){.name = "ca", .authority = true}, why,
                             sizeof why) ||
        !lk_certificate_make(server->directory,
                             &(lk_certificate){.name = "server", .by = "ca", .names = "IP:127.0.0.1"}, why,
                             sizeof why)) {
        lk_bench_progress("%s", why);
        return false;
    }
    (void)snprintf(
        question, sizeof question,
        "CONFIG SET tls-cert-file %s/server.crt tls-key-file %s/server.key tls-ca-cert-file %s/ca.crt "
        "tls-auth-clients no tls-port %d",
        server->directory, server->directory, server->directory, port);
    (void)snprintf(uri, LK_SERVER_TEXT, "rediss://127.0.0.1:%d/0?tls_ca=%s/ca.crt", port, server->directory);
    if (lk_server_ask(server, question, why, sizeof why))
        return true;
    lk_bench_progress("the server can't speak TLS: %s", why);
    return false;
}

static void one_thread(lk_bench *b, int member, const void *arg)
{
    const side *s = arg;
    locker *l = lk_open_or_fail(b, s->uri);
    (void)member;
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    for (int64_t i = 0; i < s->cycles; i++) {
        const int64_t from = lk_bench_now();

        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, "bench:one", NULL));
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
    (void)snprintf(key, sizeof key, "bench:own:%zu", index);
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

static void open_one(lk_bench *b, int member, const void *arg)
{
    const side *s = arg;
    (void)member;
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < s->cycles; i++) {
        const int64_t from = lk_bench_now();
        locker *l = lk_open_or_fail(b, s->uri);

        lk_bench_crew_sample(b, lk_bench_now() - from);
        (void)locker_close(l);
    }
}

typedef struct {
    lk_series p50[SIDES], cpu[SIDES], rate[SIDES], opened[SIDES];
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
    if (!lk_bench_crew_run(b, &work))
        return false;
    lk_series_add(&o->rate[which], (double)lk_bench_crew_total(b, KEYS) / b->crew->value[LK_VALUE_SECONDS]);
    work.body = open_one;
    work.duration = 0;
    s->cycles = lk_scale(b, 100);
    if (!lk_bench_crew_run(b, &work))
        return false;
    lk_series_add(&o->opened[which], lk_bench_crew_quantile_us(b, 0.5));
    return true;
}

bool lk_row_tls(lk_bench *b)
{
    static const lk_bench_figure
        one = {"tls", "1 thread, lock + unlock, p50", "us", "plain TCP", LK_GOAL_NONE, 0},
        used = {"tls", "... client CPU for each cycle", "us", "plain TCP", LK_GOAL_NONE, 0},
        many = {"tls", "64 threads, own keys", "/s", "plain TCP", LK_GOAL_NONE, 0},
        opened = {"tls", "opening a locker, p50", "us", "plain TCP", LK_GOAL_NONE, 0};
    side sides[SIDES] = {0};
    outcome o = {0};
    if (b->server.own.pid <= 0) {
        lk_bench_progress("tls is left out: it takes a server of our own");
        return true;
    }
    (void)snprintf(sides[PLAIN].uri, sizeof sides[PLAIN].uri, "%s", b->server.uri);
    if (!speak_tls(b, sides[TLS].uri))
        return false;
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++)
        for (int which = 0; which < SIDES; which++)
            if (!run_side(b, &sides[which], which, &o))
                return false;
    lk_bench_report(b, &one, &o.p50[PLAIN], &o.p50[TLS]);
    lk_bench_report(b, &used, &o.cpu[PLAIN], &o.cpu[TLS]);
    lk_bench_report(b, &many, &o.rate[PLAIN], &o.rate[TLS]);
    lk_bench_report(b, &opened, &o.opened[PLAIN], &o.opened[TLS]);
    return true;
}
