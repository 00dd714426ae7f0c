/* config_finish.h: checking a configuration, and filling in what was not said. */
#pragma once

#include "config.h"

/** Check the parameters against the tables, fill values, read the password file. */
locker_status lk_config_finish(lk_config *config, const locker_options *options, locker_error *err);
