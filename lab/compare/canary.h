/* canary.h: how slow the machine is: a thread that sleeps a few ms again and again, and notes how late it
 * woke. A lease that ends because no thread got a processor is the machine's fault, not the service's. If the
 * machine was late, the scenario's own verdict does not count, but the history's verdict does. */
#pragma once

#include <stdint.h>

/** It sleeps so long at a time. */
enum { LK_CANARY_MS = 5 };

/** Start it; it lives as long as the process. Ends the program when it can't be started. */
void lk_canary_start(void);

/** How late it woke at worst since the last call, in ns; what it is late right now counts. */
int64_t lk_canary_worst(void);
