/* stats.h: counters and distributions. */
#ifndef LK_STATS_H
#define LK_STATS_H

#include <locker/locker.h>

void lk_histogram_add(locker_histogram *h, int64_t ns);

#endif
