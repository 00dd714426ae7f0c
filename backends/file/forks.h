/* forks.h: what a fork's child does not keep of an instance, whatever it does. */
#pragma once

#include "instance.h"

/* From here on a child lets go of what waits in the instance. False: out of memory. */
bool lk_file_forks_join(lk_file *self);
/* The instance is being closed. NULL, or one that has not joined, is fine. */
void lk_file_forks_leave(lk_file *self);
