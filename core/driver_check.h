/* driver_check.h: whether core can work with a driver's table. */
#pragma once

#include <locker/driver.h>

/** OK or INVALID. */
locker_status lk_driver_check(const locker_driver *driver, locker_error *err);

/** Copy a table that was checked, and what it promises, which may be of another release. CONFIG: it needs what we don't
 * have. INVALID: its size is none. */
locker_status lk_driver_take(locker_driver *own, locker_semantics *promises, const locker_driver *given,
                             locker_error *err);
