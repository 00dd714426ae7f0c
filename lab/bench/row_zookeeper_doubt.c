/* row_zookeeper_doubt.c: row zdoubt: locks of other keys by a locker that has 1,140 keys in doubt. Each of those was asked for while
 * the server was stopped (SIGSTOP), so its call ended without an answer, and a place in the key's queue may be there. Measured from the
 * moment when the server goes on. Bare is the same locker before. */
#include <signal.h>

#include "bench.h"

enum { THREADS = 114, KEYS_OF_A_THREAD = 10, CYCLES = 2000, BEFORE = 0, AFTER };

static const int64_t session = 10000; /* ms */

static double cycles(lk_bench *b, locker *l)
{
    const int64_t count = lk_scale(b, CYCLES), from = lk_bench_now();
    for (int64_t i = 0; i < count; i++)
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, "bench-beside", NULL));
    return (double)count * LK_BENCH_S / (double)(lk_bench_now() - from);
}

static void try_thread(lk_bench *b, size_t index, void *arg)
{
    locker_handle *none = NULL;
    locker_error err;
    for (int64_t i = 0; i < lk_scale(b, KEYS_OF_A_THREAD); i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "bench-doubt-%zu-%lld", index, (long long)i);
        const locker_status status = locker_try_lock(arg, key, NULL, &none, &err);
        if (status != LOCKER_UNAVAILABLE)
            lk_bench_crew_fail(b, "a try at a stopped server: %s", locker_status_name(status));
    }
}

static void body(lk_bench *b, int member, const void *arg)
{
    char uri[LK_SERVER_TEXT], with[LK_SERVER_TEXT + 32];
    (void)snprintf(with, sizeof with, "%s&command_timeout=100ms",
                   lk_zoo_server_uri(uri, b->zoo.own.port, session));
    locker *l = lk_open_or_fail(b, with);
    (void)member;
    (void)arg;
    lk_bench_crew_ready(b);
    (void)cycles(b, l); /* first-time costs */
    b->crew->value[BEFORE] = cycles(b, l);
    (void)kill(b->zoo.own.pid, SIGSTOP);
    lk_threads_join(lk_threads_start(b, (size_t)lk_scale(b, THREADS), try_thread, l));
    (void)kill(b->zoo.own.pid, SIGCONT);
    b->crew->value[AFTER] = cycles(b, l);
    (void)locker_close(l);
}

bool lk_row_zdoubt(lk_bench *b)
{
    static const lk_bench_figure rate = {
        "zdoubt", "lock + unlock beside 1,140 keys in doubt", "/s", "before", LK_GOAL_RATIO_AT_LEAST, 0.9};
    lk_series rates[2] = {0};
    (void)lk_zoo_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        const lk_work work = {.members = 1, .cpu = b->client_cpu, .body = body};
        const bool good = lk_bench_crew_run(b, &work);
        lk_server_thaw(&b->zoo.own); /* whatever became of the member */
        if (!good)
            return false;
        for (int ours = 0; ours < 2; ours++)
            lk_series_add(&rates[ours], b->crew->value[ours]);
    }
    lk_bench_report(b, &rate, &rates[BEFORE], &rates[AFTER]);
    return true;
}
