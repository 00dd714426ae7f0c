/* handoff.c: a lock that goes from one process to another, for the rows that time it through liblocker. */
#include "bench.h"

const int64_t lk_handoff_sleep = 3 * LK_BENCH_MS;

void lk_handoff(lk_bench *b, int member, const char *uri, const char *key, int64_t times, int64_t sleep)
{
    locker *l = lk_open_or_fail(b, uri);
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < times; i++) {
        if (member == LK_GIVER) {
            locker_handle *held = lk_lock_or_fail(b, l, key, NULL);
            lk_bench_crew_give_turn(b, LK_TAKER);
            lk_bench_crew_wait_turn(b, LK_GIVER);
            lk_bench_sleep(sleep);
            b->crew->mark = lk_bench_now();
            lk_unlock_or_fail(b, held);
            lk_bench_crew_wait_turn(b, LK_GIVER);
        } else {
            lk_bench_crew_wait_turn(b, LK_TAKER);
            lk_bench_crew_give_turn(b, LK_GIVER);
            locker_handle *held = lk_lock_or_fail(b, l, key, NULL);
            lk_bench_crew_sample(b, lk_bench_now() - b->crew->mark);
            lk_unlock_or_fail(b, held);
            lk_bench_crew_give_turn(b, LK_GIVER);
        }
    }
    (void)locker_close(l);
}
