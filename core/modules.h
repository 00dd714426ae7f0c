/* modules.h: drivers as modules: shared objects in a directory of the library's own. */
#pragma once

#include <locker/driver.h>

/** What registry.c uses of modules.c; a build without modules has none, and no dlopen(). */
typedef struct lk_module_loader {
    /** The index-th module that has a description; NULL past the last. Loads nothing. */
    const locker_driver_info *(*at)(size_t index);
    /** Load the module that describes this scheme, else this name, and answer its driver, or NULL when there
     * is none. OK, UNSUPPORTED, INVALID or NOMEM. */
    locker_status (*find)(const char *word, const locker_driver **driver, locker_error *err);
    /** The directory, or what is wrong with it, for an error's text. */
    const char *(*where)(void);
} lk_module_loader;

/** Written by the build; NULL: without modules. */
extern const lk_module_loader *const lk_modules;

/** By dlopen(). */
extern const lk_module_loader lk_modules_by_dlopen;
