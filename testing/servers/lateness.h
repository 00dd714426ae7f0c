/* lateness.h: how long the machine kept the threads of a test, and the servers that it started, from running. A test that missed a
 * time limit is run again only if this explains by how much it missed it (timely.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Begin a measurement: lk_lateness_ms() counts from here on. */
void lk_lateness_mark(void);

/** Measure also the processes that the parent's main thread has started, from the next mark on. */
void lk_lateness_of_siblings(void);

/** True if the processors had something to do for more than a quarter of the time since the mark, or if that is not known. */
bool lk_lateness_is_busy(void);

/** Estimate how late the test may be, in ms, since the mark:
 * - the time that its own threads, and the slowest thread of each of its child processes, waited for a processor;
 * - for threads and children that have ended, whose waiting times are gone, 10 times the processor time that they used;
 * - the time that a hypervisor took a processor away, or any task of the machine waited for a disk or for memory.
 * A thread that sleeps adds nothing: a wake-up that never came is not lateness. INT64_MAX if the kernel does not count this. */
int64_t lk_lateness_ms(void);
