/* row_local_waiters.c: ten thousand threads of one process that want one key. One of them contends at the
 * service; the others wait in the process. */
#include "bench.h"

enum { CROWD = 10000 };

enum { ATTEMPTS_RATE, CONTENDERS, SERVED_RATE, ATTEMPTS_EACH, RESIDENT };

static const char key[] = "bench:many";

static void wait_thread(lk_bench *b, size_t index, void *arg)
{
    (void)index;
    lk_unlock_or_fail(b, lk_lock_or_fail(b, arg, key, NULL));
}

static void look(lk_bench *b, locker *l, locker_statistics *stats)
{
    *stats = (locker_statistics){.size = sizeof *stats};
    if (locker_stats(l, stats) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_stats failed");
}

static void many_body(lk_bench *b, int member, const void *arg)
{
    const size_t n = (size_t)lk_scale(b, CROWD);
    lk_bare *foreign = lk_bare_open(b);
    locker *l = lk_open_or_fail(b, b->server.uri);
    locker_info info = LOCKER_INFO_INIT;
    const int64_t resident = lk_bench_resident();
    double *value = b->crew->value;
    (void)member;
    (void)arg;
    lk_bare_hold(foreign, key, 600000);
    lk_threads *set = lk_threads_start(b, n, wait_thread, l);
    lk_until_waiting(b, l, n);
    value[RESIDENT] = (double)(lk_bench_resident() - resident) / (double)n;
    lk_bench_crew_ready(b);
    locker_statistics first;
    look(b, l, &first);
    int64_t from = lk_bench_now();
    lk_bench_crew_wait_halt(b);
    locker_statistics asleep;
    look(b, l, &asleep);
    value[ATTEMPTS_RATE] =
        (double)(asleep.attempts - first.attempts) / ((double)(lk_bench_now() - from) / LK_BENCH_S);
    locker_error err;
    if (locker_show(l, key, &info, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_show: %s", err.text);
    value[CONTENDERS] = (double)info.waiters;
    locker_info_clear(&info);
    lk_bare_delete(foreign, key);
    locker_statistics last;
    while (look(b, l, &last), last.acquired == 0) /* the foreign client tells nobody: until the next look */
        lk_bench_sleep(LK_BENCH_MS);
    from = lk_bench_now();
    lk_threads_join(set);
    value[SERVED_RATE] = (double)n / ((double)(lk_bench_now() - from) / LK_BENCH_S);
    look(b, l, &last);
    value[ATTEMPTS_EACH] =
        (double)(last.attempts - asleep.attempts) / (double)(last.acquired - last.handed_over);
    (void)locker_close(l);
    lk_bare_close(foreign);
}

bool lk_row_many(lk_bench *b)
{
    static const lk_bench_figure
        contenders =
            {"many", "10,000 threads on one key: contenders at the service", "", NULL, LK_GOAL_AT_MOST, 1},
        idle = {"many", "... attempts while it is held", "/s", NULL, LK_GOAL_NONE, 0},
        served = {"many", "... served once it is free", "/s", NULL, LK_GOAL_NONE, 0},
        each = {"many", "... attempts for each grant by the service", "", NULL, LK_GOAL_AT_MOST, 2},
        memory = {"many", "... resident memory for each waiting thread", "B", NULL, LK_GOAL_NONE, 0};
    lk_series all[RESIDENT + 1] = {0};
    lk_work work = {
        .members = 1, .duration = lk_scale(b, 3000) * LK_BENCH_MS, .cpu = b->client_cpu, .body = many_body};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        if (!lk_bench_crew_run(b, &work))
            return false;
        for (int i = 0; i <= RESIDENT; i++)
            lk_series_add(&all[i], b->crew->value[i]);
    }
    lk_bench_report(b, &contenders, NULL, &all[CONTENDERS]);
    lk_bench_report(b, &idle, NULL, &all[ATTEMPTS_RATE]);
    lk_bench_report(b, &served, NULL, &all[SERVED_RATE]);
    lk_bench_report(b, &each, NULL, &all[ATTEMPTS_EACH]);
    lk_bench_report(b, &memory, NULL, &all[RESIDENT]);
    return true;
}
