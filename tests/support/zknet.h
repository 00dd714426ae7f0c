/*
 * zknet.h: a network of a test's own, in which the members of an ensemble can be cut off from each other:
 * each of them in a network namespace of its own, on one bridge in another one, where the test's own process
 * goes. All of it ends with the process.
 */
#ifndef LK_TEST_ZKNET_H
#define LK_TEST_ZKNET_H

#include "zkserver.h"

/** The test's own address there. */
#define LK_ZKN_HERE "10.77.0.254"

/** Makes it and moves the process there, which must have one thread. */
void lk_zkn_make(struct lk_zks_site sites[LK_ZKS_ENSEMBLE], int tick_ms);

/** Drops what comes to a member from an address, until it is mended. */
void lk_zkn_drop(const struct lk_zks *to, const char *from);
void lk_zkn_mend(const struct lk_zks *member);

/** Tells that some tests are skipped, by a line for script/test to count; fails where skips are refused. */
void lk_zkn_tell_skipped(const char *tests, const char *what, const char *why);

#endif
