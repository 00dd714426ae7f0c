/* profile.h: a configuration from a file. */
#ifndef LK_PROFILE_H
#define LK_PROFILE_H

#include "config.h"

/** Read a profile into config. */
locker_status lk_config_profile(lk_config *config, const char *file, const char *name, locker_error *err);

#endif
