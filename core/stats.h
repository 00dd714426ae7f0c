/* stats.h: counters and distributions. */
#pragma once

#include <locker/locker.h>

void lk_histogram_add(locker_histogram *h, int64_t ns);
