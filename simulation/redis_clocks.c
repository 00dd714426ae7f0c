/* redis_clocks.c: see redis_clocks.h. */
#include "redis_clocks.h"

#include "world/seams.h"

#define MS INT64_C(1000000)

static const int64_t slews_each_ns = 10 * MS;

static struct {
    lk_sim_redis_clocks of;
    bool is_slewing, slews_all;
    int64_t slews_by_ns; /* so much each time */
} clocks;

void lk_sim_redis_clocks_begin(const lk_sim_redis_clocks *of)
{
    clocks.of = *of;
    clocks.is_slewing = false;
}

void lk_sim_redis_clocks_settle(void)
{
    clocks.is_slewing = false;
}

static void slews(void *context)
{
    (void)context;
    if (!clocks.is_slewing)
        return;
    if (clocks.of.may_set())
        clocks.of.set(clocks.slews_by_ns, clocks.slews_all);
    lk_sim_at(lk_sim_now() + slews_each_ns, slews, NULL);
}

static void ends_slew(void *context)
{
    (void)context;
    clocks.is_slewing = false;
}

bool lk_sim_redis_clocks_move(const lk_sim_fault *given)
{
    static const unsigned most_ms[] = {10, 200, 3000, 300000};
    lk_sim_fault fault = *given;
    uint64_t random = fault.detail;
    const int64_t sign = lk_sim_draw_from(&random, 2) == 0 && clocks.of.go_back ? -1 : 1;
    const bool all = !clocks.of.differ || lk_sim_draw_from(&random, 2) == 0;
    if (clocks.is_slewing || !clocks.of.may_set())
        return false;
    if (lk_sim_draw_from(&random, 3) == 0) {
        clocks.is_slewing = true;
        clocks.slews_by_ns = sign * (1 + (int64_t)lk_sim_draw_from(&random, 80)) * (slews_each_ns / 1000);
        clocks.slews_all = all;
        fault.span_ns += 500 * MS;
        lk_sim_tell("the clock slews by %lld in a thousand",
                    (long long)(clocks.slews_by_ns * 1000 / slews_each_ns));
        lk_sim_fault_lasts(&fault, all ? "a clock slews" : "the replica's clock slews", ends_slew, NULL);
        slews(NULL);
        return true;
    }
    const unsigned most = most_ms[lk_sim_draw_from(&random, 4)];
    const int64_t by_us = 1 + (int64_t)lk_sim_draw_from(&random, most * 1000);
    lk_sim_fault_strikes(&fault, all ? "a clock steps" : "the replica's clock steps");
    lk_sim_tell("by %lld us", (long long)(sign * by_us));
    clocks.of.set(sign * by_us * 1000, all);
    return true;
}
