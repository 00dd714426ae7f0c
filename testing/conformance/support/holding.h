/* holding.h: what tests do with a lock over and over, each with its check. */
#pragma once

#include "expect.h"

/** Options that wait at most wait_ms. */
locker_lock_options lk_wait_options(int64_t wait_ms);

/** Unlocks, checks that the answer is OK, and frees. */
void lk_give(locker_handle *held);

/** The same where a machine that is late may have lost it, or may not hear in time (timely.h): a short lease that is renewed,
 * a short command_timeout. Answers whether it was OK. */
bool lk_give_unless_late(locker_handle *held);

/** Checks that unlocking answers LOST, and frees. */
void lk_give_lost(locker_handle *held);

/** Fails the test unless a try answers BUSY. */
void lk_expect_busy(locker *l, const char *key);

/** Closes it and checks the answer. */
void lk_close_locker(locker *l);
