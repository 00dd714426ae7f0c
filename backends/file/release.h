/* release.h: the ends of a claim. */
#pragma once

#include <locker/driver.h>

#include "claim.h"
#include "instance.h"

locker_status lk_file_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_file_pass(void *self, locker_claim *from, locker_claim *to);
void lk_file_withdraw(void *self, locker_claim *claim);
/* The claim neither holds nor waits any more; its descriptor is still open. */
void lk_file_detach_locked(lk_file *self, lk_file_claim *c);
