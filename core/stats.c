/* stats.c: counters and distributions. */
#include "frame.h"
#include "lk_sized.h"

void lk_histogram_add(locker_histogram *h, int64_t ns)
{
    const uint64_t us = ns < 0 ? 0 : (uint64_t)ns / 1000;
    unsigned i = us == 0 ? 0 : 64 - (unsigned)__builtin_clzll(us);
    if (i >= LOCKER_HISTOGRAM_BUCKETS)
        i = LOCKER_HISTOGRAM_BUCKETS - 1;
    h->bucket[i]++;
    h->count++;
    h->sum_us += us;
    if (us > h->max_us)
        h->max_us = us;
}

uint64_t locker_histogram_quantile(const locker_histogram *h, double q)
{
    uint64_t seen = 0;
    if (h == NULL || h->count == 0)
        return 0;
    for (unsigned i = 0; i < LOCKER_HISTOGRAM_BUCKETS; i++) {
        seen += h->bucket[i];
        if ((double)seen >= q * (double)h->count && seen > 0)
            return UINT64_C(1) << i < h->max_us ? UINT64_C(1) << i : h->max_us;
    }
    return h->max_us;
}

locker_status locker_stats(const locker *l, locker_statistics *stats)
{
    locker *mutable = (locker *)(uintptr_t)l;
    if (l == NULL || stats == NULL || !lk_sized_is(stats->size, offsetof(locker_statistics, wait)))
        return LOCKER_INVALID;
    if (lk_forked(l))
        return LOCKER_FORKED;
    lk_mutex_lock(&mutable->mutex);
    lk_sized_give(stats, stats->size, &l->stats, sizeof l->stats);
    lk_mutex_unlock(&mutable->mutex);
    return LOCKER_OK;
}
