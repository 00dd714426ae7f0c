/*
 * test_network.h: a network of a test's own (servers/network.h), in which the members of an ensemble can be
 * cut off from each other. The test's own process is at its hub; all of it ends with the process.
 */
#pragma once

#include "servers/network.h"

/** Makes it and moves the process there, which must have one thread. Where that can't be done the program
 * ends as skipped, or as failed where skips are refused. The answer lasts as long as the process. */
const lk_network *lk_test_network(void);

/** Drops what comes to a place from another, until it is mended. */
void lk_test_drop(const lk_place *to, const lk_place *from);
void lk_test_mend(const lk_place *to);
