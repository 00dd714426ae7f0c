/* acquire.h: one attempt. */
#pragma once

#include <locker/driver.h>

locker_status lk_file_acquire(void *self, locker_claim *claim, locker_error *err);
