/* start.h: starting a locker, once it is known what it shall be. */
#pragma once

#include "config.h"

/** Open with a finished configuration. */
locker_status lk_open(lk_config *config, const locker_options *options, const locker_clock *clock,
                      locker **out, locker_error *err);
