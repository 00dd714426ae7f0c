/* clocks.c: each server's own clock. */
#include "state.h"

static int64_t local_ns(const lk_simzk_clock *clock, int64_t now)
{
    return clock->offset_ns + now + now / LK_SIMZK_MS * clock->ppm;
}

int64_t lk_simzk_clock_ms(const lk_simzk_server *s)
{
    return local_ns(&s->z->setup.clocks[s->id], s->z->now) / LK_SIMZK_MS;
}

int64_t lk_simzk_clock_when(const lk_simzk_server *s, int64_t ms)
{
    const lk_simzk_clock *const clock = &s->z->setup.clocks[s->id];
    if (ms == INT64_MAX)
        return ms;
    const int64_t wanted = ms * LK_SIMZK_MS, without = wanted - clock->offset_ns;
    int64_t at = without - without / LK_SIMZK_MS * clock->ppm;
    while (local_ns(clock, at) > wanted)
        at -= local_ns(clock, at) - wanted;
    while (local_ns(clock, at) < wanted)
        at += wanted - local_ns(clock, at);
    return at;
}
