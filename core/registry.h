/* registry.h: the drivers, built in or modules loaded on demand; and whether core can work with a table. */
#pragma once

#include <locker/driver.h>

bool lk_driver_has_scheme(const locker_driver *driver, const char *scheme);

/** The driver of this scheme, else of this name; a module is loaded. `shown` is what an error may say of it.
 * OK, UNSUPPORTED (there is none, or its module can't be used), INVALID (its table) or NOMEM. */
locker_status lk_driver_for(const char *word, const char *shown, const locker_driver **driver,
                            locker_error *err);

/** The scheme that is written so, or nearly so (`exact` false), into scheme[32]. False: there is none. Loads no module. */
bool lk_driver_scheme_like(const char *word, bool exact, char scheme[32]);

/** Whether core can work with a driver's table: OK or INVALID. */
locker_status lk_driver_check(const locker_driver *driver, locker_error *err);

/** Copy a checked table and its promises. CONFIG: it needs a later release than ours. INVALID: its size. */
locker_status lk_driver_take(locker_driver *own, locker_semantics *promises, const locker_driver *given,
                             locker_error *err);

/** Where drivers that are modules come from; a build without modules has none, and no dlopen(). */
typedef struct lk_module_loader {
    /** The index-th module that has a description; NULL past the last. Loads nothing. */
    const locker_driver_info *(*at)(size_t index);
    /** Load the module of this scheme, else name: its driver, or NULL. OK, UNSUPPORTED, INVALID, NOMEM. */
    locker_status (*find)(const char *word, const locker_driver **driver, locker_error *err);
    /** The directory, or what is wrong with it, for an error's text. */
    const char *(*where)(void);
} lk_module_loader;

/** Written by the build; NULL: without modules. */
extern const lk_module_loader *const lk_modules;

/** By dlopen(): modules.c. */
extern const lk_module_loader lk_modules_by_dlopen;
