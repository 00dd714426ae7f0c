/*
 * seams.h: what stands for the system in the simulation. The objects of core and the drivers are taken as they are built,
 * and what they want of the system is given another name in them (objcopy --redefine-syms, seams.txt): NAME becomes
 * lk_sim_NAME. script/check sees that they want nothing else (seams.txt names what is let through, too).
 */
#pragma once

#include <time.h>

#include "fibers.h"

/** The process whose code runs; outside of all fibers the one that was set. */
lk_sim_process *lk_sim_here(void);
void lk_sim_stand_in(lk_sim_process *process);

/** The true time of an absolute one of this process' steady clocks. */
int64_t lk_sim_true_of_spec(const struct timespec *at);
/** The true time at which a span of the process' clock, from now on, is over; below 0: never. */
int64_t lk_sim_true_after(int64_t span);

/** Something happened that must not: the run has failed. It doesn't return. */
void lk_sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/** Where lk_sim_fail() goes. */
extern void (*lk_sim_on_fail)(const char *why);
