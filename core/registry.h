/* registry.h: the drivers that there are: built into the library, or modules that are loaded when they are
 * asked for. */
#pragma once

#include <locker/driver.h>

bool lk_driver_has_scheme(const locker_driver *driver, const char *scheme);

/** The driver of this scheme, else of this name; a module is loaded. `shown` is what an error may say of it.
 * OK, UNSUPPORTED (there is none, or its module can't be used), INVALID (its table) or NOMEM. */
locker_status lk_driver_for(const char *word, const char *shown, const locker_driver **driver,
                            locker_error *err);
