/* two_sides.c: lock + unlock in two ways, side by side: by one thread, and by 64 with keys of their own. */
#include "bench.h"

static void key_of(size_t index, char key[32])
{
    (void)snprintf(key, 32, "bench:own:%zu", index);
}

static void one_thread(lk_bench *b, int member, const void *arg)
{
    const lk_side *s = arg;
    locker *l = lk_open_or_fail(b, s->uri);
    char key[32];
    (void)member;
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    for (int64_t i = 0; i < s->cycles; i++) {
        key_of((size_t)i % s->keys, key);
        const int64_t from = lk_bench_now();

        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu) / (double)s->cycles / LK_BENCH_US;
    (void)locker_close(l);
}

static void own_key(lk_bench *b, size_t index, void *arg)
{
    const lk_side *s = arg;
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
    lk_side s = *(const lk_side *)arg;
    s.l = lk_open_or_fail(b, s.uri);
    (void)member;
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, LK_SIDE_KEYS, own_key, &s));
    (void)locker_close(s.l);
}

bool lk_side_run(lk_bench *b, lk_side *s)
{
    lk_work work = {.members = 1, .cpu = b->client_cpu, .body = one_thread, .arg = s};
    s->cycles = lk_scale(b, 5000);
    if (!lk_bench_crew_run(b, &work))
        return false;
    lk_series_add(&s->p50, lk_bench_crew_quantile_us(b, 0.5));
    lk_series_add(&s->cpu, b->crew->value[0]);
    work.body = many_threads;
    work.duration = lk_scale(b, 2000) * LK_BENCH_MS;
    work.asked = s->asked;
    if (!lk_bench_crew_run(b, &work))
        return false;
    const double cycles = (double)lk_bench_crew_total(b, LK_SIDE_KEYS);
    lk_series_add(&s->rate, cycles / b->crew->value[LK_VALUE_SECONDS]);
    if (s->asked != NULL)
        lk_series_add(&s->commands, cycles > 0 ? (double)b->crew->asked / cycles : 0);
    return true;
}

void lk_sides_report(lk_bench *b, const char *row, const char *than, const lk_side *other, const lk_side *one)
{
    const lk_bench_figure p50 = {row, "1 thread, lock + unlock, p50", "us", than, LK_GOAL_NONE, 0},
                          cpu = {row, "... client CPU for each cycle", "us", than, LK_GOAL_NONE, 0},
                          rate = {row, "64 threads, own keys", "/s", than, LK_GOAL_NONE, 0},
                          commands = {row, "... commands sent for each cycle", "", than, LK_GOAL_NONE, 0};
    lk_bench_report(b, &p50, &other->p50, &one->p50);
    lk_bench_report(b, &cpu, &other->cpu, &one->cpu);
    lk_bench_report(b, &rate, &other->rate, &one->rate);
    if (one->asked != NULL)
        lk_bench_report(b, &commands, &other->commands, &one->commands);
}
