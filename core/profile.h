/* profile.h: a configuration from a file. */
#pragma once

#include "config.h"

/** Read a profile into config. */
locker_status lk_config_profile(lk_config *config, const char *file, const char *name, locker_error *err);
