/* contract_checker.h: stands between core and the driver under test, and holds the driver to the contract
 * of driver.h.
 *
 * To core the checker is a driver; to the driver it is core. The driver never sees core's claims: it gets
 * copies of its own, each at the end of pages of its own, which become inaccessible when it lets go of the
 * claim. So a driver that touches a claim later, or writes past its claim_size, is caught in the act.
 *
 * What it sees it prints at once as "contract: CHECK: text" and counts; run.c fails the test. A machine that kept the threads of the test
 * from running makes operations late, too: for `late` and `blocks` run.c first asks whether its measured lateness explains the time
 * (timely.h). The checks:
 *
 *   answer       an operation answered what its contract doesn't have, or an error without one line of text
 *   changed      acquire changed what is core's in the claim
 *   late         an operation that has a deadline came back long after it
 *   blocks       an operation that may not block took long, or has not ended long after its process was
 *                stopped and went on
 *   valid-until  a lease that ends later than the lease time after its request was sent, or no lease where
 *                semantics.leases is true, or one where it is false
 *   token        a fencing token that is not greater than those of grants that came before it was asked for
 *   retry-at     a time for the next attempt that was over when the attempt began
 *   pass         pass answered BUSY and changed something, or made the lease longer
 *   wake         wake for a claim that is not enrolled
 *   slot         a permit's slot that is below 0, or not below the number of permits
 *   not-granted  lease_extended, lease_shortened or lease_lost for a claim that is no grant, or awaited for a claim
 *                that is neither shared and enrolled nor a shared grant
 *   gone         a service was called for a claim that the driver had let go of, or never had
 *   after-close  a service was called after close, or after open had failed
 *   touched      memory of a claim was touched after letting go of it, or past claim_size
 *   core         a claim that was still the driver's when it was closed, or that was released, withdrawn or
 *                passed when it was not, or a callback of the application inside log: a defect of core, not
 *                of the driver */
#pragma once

#include <locker/driver.h>

/** The driver under test, as a table for core, with the checker before it. One driver a process; the table
 * lives for ever. NULL: out of memory. */
const locker_driver *lk_checker_driver(const locker_driver *driver);

/** A group begins, with an empty service: tokens of an earlier one are forgotten. */
void lk_checker_forget(void);

/** A test begins: nothing has been seen, and touches of claims are caught from now on. */
void lk_checker_begin(void);

/** Return the number of breaches since lk_checker_begin(), without those of time. Any thread. */
unsigned lk_checker_breaches(void);

/** Return by how many ms an operation exceeded its time limit since lk_checker_begin(): the greatest such time, or 0. Any thread. */
int64_t lk_checker_missed_ms(void);

/** A test has ended: gives the signals back. */
void lk_checker_end(void);

/** A test hangs: print what the driver's operations and answers tell of that, as "conformance: look at ...". False: they tell
 * nothing. */
bool lk_checker_tell_hang(void);

/** For the locker's options: where core tells the lines that the driver logs. */
void lk_checker_told(locker_log_level level, const char *text, void *user);

/** How often core has called dispatch so far. */
unsigned long lk_checker_dispatches(void);
