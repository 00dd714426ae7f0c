/* row_permits_file.c: row fpermit: one of 1,500 permits on files, of which the others are held. Bare is the same permit while none of
 * the others is held. */
#include <stdlib.h>

#include "bench.h"

enum { PERMITS = 1500 };

static const char key[] = "bench/permits";

typedef struct {
    char directory[LK_SCRATCH_PATH], uri[96];
    int64_t held; /* by others of the process */
} plan;

static void body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    locker *others = lk_open_or_fail(b, p->uri), *l = lk_open_or_fail(b, p->uri);
    locker_handle **held = calloc((size_t)p->held + 1, sizeof *held);
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    (void)member;
    options.permits = PERMITS;
    if (held == NULL)
        lk_bench_crew_fail(b, "out of memory");
    for (int64_t i = 0; i < p->held; i++)
        held[i] = lk_lock_or_fail(b, others, key, &options);
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < lk_scale(b, 20); i++) {
        const int64_t from = lk_bench_now();
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, &options));
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    for (int64_t i = 0; i < p->held; i++)
        lk_unlock_or_fail(b, held[i]);
    (void)locker_close(l);
    (void)locker_close(others);
    free(held);
}

bool lk_row_fpermit(lk_bench *b)
{
    static const lk_bench_figure half = {"fpermit",
                                         "lock + unlock of the last of 1,500 permits, p50",
                                         "ms",
                                         "the first",
                                         LK_GOAL_AT_MOST,
                                         5},
                                 longest = {"fpermit", "... the longest", "ms", "the first", LK_GOAL_NONE, 0};
    lk_series p50[2] = {0}, most[2] = {0};
    plan p;
    char why[256];
    bool good = lk_scratch_make("permits", p.directory, why, sizeof why);
    if (!good) {
        lk_bench_progress("%s", why);
        return false;
    }
    (void)snprintf(p.uri, sizeof p.uri, "file://%s/locks", p.directory);
    for (int round = 0; round < b->rounds && good; round++) {
        for (int ours = 0; ours < 2 && good; ours++) {
            p.held = ours != 0 ? lk_scale(b, PERMITS) - 1 : 0;
            const lk_work work = {.members = 1, .cpu = b->client_cpu, .body = body, .arg = &p};
            good = lk_bench_crew_run(b, &work);
            if (!good)
                break;
            lk_series_add(&p50[ours], lk_bench_crew_quantile_us(b, 0.5) / 1000);
            lk_series_add(&most[ours], lk_bench_crew_quantile_us(b, 1) / 1000);
        }
    }
    lk_scratch_remove(p.directory);
    if (!good)
        return false;
    lk_bench_report(b, &half, &p50[0], &p50[1]);
    lk_bench_report(b, &longest, &most[0], &most[1]);
    return true;
}
