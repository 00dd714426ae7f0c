/* driver_check.h: whether core can work with a driver's table. */
#ifndef LK_DRIVER_CHECK_H
#define LK_DRIVER_CHECK_H

#include <locker/driver.h>

/** OK or INVALID. */
locker_status lk_driver_check(const locker_driver *driver, locker_error *err);

#endif
