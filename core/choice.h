/* choice.h: the service that locker_open_default() opens, and what named it. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "lk_error.h"

/** Either `uri` or `file` with `profile` is set. */
typedef struct {
    const char *uri;      /**< NULL: `file` is set */
    const char *file;     /**< an INI file; NULL: `uri` is set */
    const char *profile;  /**< the section of `file` */
    bool is_users;        /**< `file` was found by HOME or XDG_CONFIG_HOME */
    const char *origin;   /**< what named `uri` or `file`, for messages */
    char text[PATH_MAX];  /**< what the pointers above may point to */
    char named[PATH_MAX]; /**< likewise, `origin` */
} lk_choice;

/** Choose the service: LOCKER_URI, else the configuration file (lk_choose_file), else the embedded default. OK or CONFIG. */
locker_status lk_choose(lk_choice *choice, locker_error *err);

/** Choose the configuration file `file`; NULL: LOCKER_CONFIG, else the user's file, else /etc/locker.conf. `profile` NULL:
 * LOCKER_PROFILE, else "default". OK or CONFIG; CONFIG too where there is no usual file. */
locker_status lk_choose_file(lk_choice *choice, const char *file, const char *profile, locker_error *err);
