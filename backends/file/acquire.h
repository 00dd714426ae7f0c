/* acquire.h: one attempt. */
#ifndef LK_FILE_ACQUIRE_H
#define LK_FILE_ACQUIRE_H

#include <locker/driver.h>

locker_status lk_file_acquire(void *self, locker_claim *claim, locker_error *err);

#endif
