/* sizes.c: the sizes that public structs have had. What a program or a driver was compiled with only grows at its end, and
 * ends on 8 bytes without padding, so what an older one lacks is never garbage. Who appends a member adds the new size
 * behind those that releases had, which stay. What tests are made of has sizes.c of its own in testing/. */
#include <locker/instrument.h>

#include "lk_sized.h"

/* What tells its size, and may grow. */
LK_SIZED_PIN(locker_options, log_user, 64);
LK_SIZED_PIN(locker_lock_options, permits, 80);
LK_SIZED_PIN(locker_info, holder_stride, 232);
LK_SIZED_PIN(locker_break_options, reserved, 32);
LK_SIZED_PIN(locker_semantics, permits_most, 104);
LK_SIZED_PIN(locker_driver_info, problem, 72);
LK_SIZED_PIN(locker_statistics, rode, 824);
LK_SIZED_PIN(locker_services, lease_shortened, 88);
LK_SIZED_PIN(locker_driver_config, secret_files, 128); /* 112 before password_file */
LK_SIZED_PIN(locker_driver, keep_over_exec, 232); /* 216 before begin_release, 224 before keep_over_exec */
LK_SIZED_PIN(locker_clock, hooks, 48);
LK_SIZED_PIN(locker_driver_options, clock, 32);

/* What core makes, and others only read through a pointer or with a stride. */
LK_SIZED_PIN(locker_claim, slot, 120);
LK_SIZED_PIN(locker_waiter, permits, 136);
LK_SIZED_PIN(locker_holder, slot, 160);

/* What never grows: it has no size. */
LK_SIZED_PIN(locker_error, text, 520);
LK_SIZED_PIN(locker_parameter, help, 48);
LK_SIZED_PIN(locker_value, text, 24);
LK_SIZED_PIN(locker_host, name, 16);
LK_SIZED_PIN(locker_histogram, bucket, 344);
LK_SIZED_PIN(struct locker_clock_hooks, done, 24);
LK_SIZED_PIN(struct locker_decorator, decorate, 8);
