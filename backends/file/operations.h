/* operations.h: what the driver's table has of acquire.c, release.c and inspect.c. */
#pragma once

#include <locker/driver.h>

locker_status lk_file_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_file_withdraw(void *self, locker_claim *claim);
locker_status lk_file_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_file_pass(void *self, locker_claim *from, locker_claim *to);
locker_status lk_file_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err);
locker_status lk_file_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err);
