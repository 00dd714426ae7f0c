/* module.c: the one symbol of a driver that is built as a module. LOCKER_MODULE_DRIVER is its table. */
#include <locker/driver.h>

extern const locker_driver LOCKER_MODULE_DRIVER;

LOCKER_API extern const locker_driver *const locker_module;
const locker_driver *const locker_module = &LOCKER_MODULE_DRIVER;
