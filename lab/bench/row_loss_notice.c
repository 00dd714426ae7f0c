/* row_loss_notice.c: how soon a holder is told of its loss: from the local deadline D to on_lost. Either
 * the lease is not renewed, or the server stops answering. */
#include <signal.h>

#include "bench.h"

enum { LOCKS = 100 };

static const int64_t ttl = 1000; /* ms */

typedef struct {
    _Atomic int64_t lost_at; /* ns; 0: not yet */
    int64_t deadline;
    locker_handle *held;
} lease;

static void note(locker_handle *lost, void *user)
{
    lease *x = user;
    (void)lost;
    atomic_store(&x->lost_at, lk_bench_now());
}

/* remaining_ms is rounded down, so a deadline is at most 1 ms too early, and the lag as much too long. */
static void note_deadlines(lease *leases)
{
    for (int i = 0; i < LOCKS; i++)
        leases[i].deadline = lk_bench_now() + locker_handle_remaining_ms(leases[i].held) * LK_BENCH_MS;
}

static void lag_body(lk_bench *b, int member, const void *arg)
{
    const bool *stopped = arg;
    locker *l = lk_open_or_fail(b, b->server.uri);
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    lease leases[LOCKS] = {0};
    (void)member;
    options.ttl_ms = ttl;
    options.no_renew = !*stopped;
    options.on_lost = note;
    lk_bench_crew_ready(b);
    for (int i = 0; i < LOCKS; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "bench:lag:%d", i);
        options.user = &leases[i];
        leases[i].held = lk_lock_or_fail(b, l, key, &options);
        lk_bench_sleep(3 * LK_BENCH_MS); /* spread over the time of a renewal */
    }
    if (*stopped) {
        (void)kill(b->server.own.pid, SIGSTOP);
        lk_bench_sleep(20 * LK_BENCH_MS); /* answers that are on their way arrive */
    }
    note_deadlines(leases);
    for (int i = 0; i < LOCKS; i++)
        while (atomic_load(&leases[i].lost_at) == 0)
            lk_bench_sleep(LK_BENCH_MS);
    if (*stopped)
        (void)kill(b->server.own.pid, SIGCONT);
    for (int i = 0; i < LOCKS; i++) {
        lk_bench_crew_sample(b, leases[i].lost_at - leases[i].deadline);
        locker_handle_free(leases[i].held);
    }
    (void)locker_close(l);
}

static bool run(lk_bench *b, bool stopped, const char *what)
{
    lk_bench_figure half = {"lag", what, "ms", NULL, LK_GOAL_NONE, 0},
                    most = {"lag", "... p99", "ms", NULL, LK_GOAL_AT_MOST, 50},
                    worst = {"lag", "... the longest", "ms", NULL, LK_GOAL_AT_MOST, 50};
    lk_series p50 = {0}, p99 = {0}, max = {0};
    lk_work work = {.members = 1, .cpu = b->client_cpu, .body = lag_body, .arg = &stopped};
    for (int round = 0; round < b->rounds; round++) {
        const bool good = lk_bench_crew_run(b, &work);

        if (stopped) /* a member that failed may have left it stopped */
            (void)kill(b->server.own.pid, SIGCONT);
        if (!good)
            return false;
        lk_series_add(&p50, lk_bench_crew_quantile_us(b, 0.5) / 1000);
        lk_series_add(&p99, lk_bench_crew_quantile_us(b, 0.99) / 1000);
        lk_series_add(&max, lk_bench_crew_quantile_us(b, 1) / 1000);
    }
    lk_bench_report(b, &half, NULL, &p50);
    lk_bench_report(b, &most, NULL, &p99);
    lk_bench_report(b, &worst, NULL, &max);
    return true;
}

bool lk_row_lag(lk_bench *b)
{
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    if (!run(b, false, "from the end of a lease to on_lost, p50"))
        return false;
    if (b->server.own.pid <= 0) {
        lk_bench_progress("lag with a stopped server is left out: the server isn't ours");
        return true;
    }
    return run(b, true, "the same, the server stopped, p50");
}
