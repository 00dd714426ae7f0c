/* wait.h: the clock of leases and histories, and waiting for what nothing can signal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** CLOCK_BOOTTIME in ns. */
int64_t lk_now_ns(void);

/** Sleeps for so many ms. For faults and work that are to last; to wait for something there is lk_until(). */
void lk_pause_ms(int64_t ms);

/** Calls `is_so` every few ms until it says true (answers true) or `ms` have passed (false). */
bool lk_until(bool (*is_so)(void *context), void *context, int64_t ms);
