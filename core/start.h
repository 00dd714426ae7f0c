/* start.h: starting a locker, once it is known what it shall be. */
#ifndef LK_START_H
#define LK_START_H

#include "config.h"

/** Open with a finished configuration. */
locker_status lk_open(lk_config *config, const locker_options *options, const locker_clock *clock,
                      locker **out, locker_error *err);

#endif
