/*
 * server_clock.h: what is known of the clock by which the service ends leases, beside one that runs evenly: its lead, which
 * steps. Slews are many small steps.
 */
#pragma once

#include <stdint.h>

/** The clock runs evenly from the beginning on. */
void lk_sim_server_clock_begin(void);
/** From now on it shows so much more than one that ran evenly. */
void lk_sim_server_clock_leads(int64_t lead_ns);
/** By so much at most it has gained between two moments since then: no lease that was confirmed since then has ended sooner
 * than that before its time. */
int64_t lk_sim_server_clock_gained(int64_t since);
/** When all leases of so much are over that were confirmed before it was last set back; 0: it never was. */
int64_t lk_sim_server_clock_caught_up(int64_t lease_ns);
