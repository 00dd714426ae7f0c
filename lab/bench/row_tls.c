/* row_tls.c: row tls: lock + unlock by TLS, beside the same by plain TCP: one thread, and 64 with keys of their own. */
#include "bench.h"
#include "servers/certificates.h"
#include "servers/port.h"

enum { PLAIN, TLS, SIDES };

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

static void open_one(lk_bench *b, int member, const void *arg)
{
    const lk_side *s = arg;
    (void)member;
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < s->cycles; i++) {
        const int64_t from = lk_bench_now();
        locker *l = lk_open_or_fail(b, s->uri);

        lk_bench_crew_sample(b, lk_bench_now() - from);
        (void)locker_close(l);
    }
}

static bool run_side(lk_bench *b, lk_side *s, lk_series *opened)
{
    const lk_work work = {.members = 1, .cpu = b->client_cpu, .body = open_one, .arg = s};
    if (!lk_side_run(b, s))
        return false;
    s->cycles = lk_scale(b, 100);
    if (!lk_bench_crew_run(b, &work))
        return false;
    lk_series_add(opened, lk_bench_crew_quantile_us(b, 0.5));
    return true;
}

bool lk_row_tls(lk_bench *b)
{
    static const lk_bench_figure figure = {"tls", "opening a locker, p50", "us", "plain TCP", LK_GOAL_NONE,
                                           0};
    lk_side sides[SIDES] = {{.keys = 1}, {.keys = 1}};
    lk_series opened[SIDES] = {0};
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
            if (!run_side(b, &sides[which], &opened[which]))
                return false;
    lk_sides_report(b, "tls", "plain TCP", &sides[PLAIN], &sides[TLS]);
    lk_bench_report(b, &figure, &opened[PLAIN], &opened[TLS]);
    return true;
}
