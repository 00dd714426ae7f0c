/* bystander.c: a locker beside a load on its service, which locks and unlocks a key of its own all the time. How long its calls take
 * is what the load costs others. The time for which its threads could run and had no processor is the machine's, and is left out. */
#include "bench.h"

static const int64_t pause_ns = 2 * LK_BENCH_MS;

void lk_bystander(lk_bench *b, const char *uri)
{
    locker *l = lk_open_or_fail(b, uri);
    lk_unlock_or_fail(b, lk_lock_or_fail(b, l, "bench:beside", NULL)); /* first-time costs */
    lk_bench_crew_ready(b);
    while (atomic_load(&b->crew->mark) == 0) {
        const int64_t from = lk_bench_now(), late = lk_bench_late();
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, "bench:beside", NULL));
        lk_bench_crew_sample(b, lk_bench_now() - from - (lk_bench_late() - late));
        lk_bench_sleep(pause_ns);
    }
    (void)locker_close(l);
}

void lk_bystander_end(lk_bench *b)
{
    atomic_store(&b->crew->mark, 1);
}
