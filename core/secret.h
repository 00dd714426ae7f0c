/* secret.h: secrets that stand in files. locker_secret_read() of driver.h is defined here, too. */
#pragma once

#include "config.h"

/** Read the secret of the parameter `name` from the file, whose path it then takes the place of. `again`: where it can be read
 * later, or NULL; the caller's. */
locker_status lk_secret_take(lk_config *config, const char *name, char **path, char **again,
                             locker_error *err);
