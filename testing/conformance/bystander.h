/* bystander.h: a locker that has nothing to do with a test's load. It holds a lock and locks and unlocks another key all the time.
 * Where other processes see the service, the bystander is a process of its own. */
#pragma once

#include "kit.h"

typedef struct lk_bystander lk_bystander;

/** Start a bystander and return when it holds its lock, whose lease is 3 s. */
lk_bystander *lk_bystander_start(lk_fixture *fixture);

/** Return when the bystander makes no calls any more, and let it go on. Meanwhile it holds its lock. */
void lk_bystander_rest(lk_bystander *bystander);
void lk_bystander_go_on(lk_bystander *bystander);

/** End the bystander, and print what it saw. Fail the test if its lease was lost or a call failed, or if a call took 50 ms and more
 * than the machine was late meanwhile. */
void lk_bystander_end(lk_bystander *bystander, const char *test);

/** The process of a bystander: the role "bystander". Return the exit code. */
int lk_bystander_serve(locker *l);
