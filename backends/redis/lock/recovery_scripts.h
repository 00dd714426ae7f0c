/* recovery_scripts.h: the Lua with which an instance with `recovery` runs. */
#pragma once

#include "scripts.h"

/* What scripts answer as errors: nothing is granted yet, for so many ms; and the server's clients recover within other ms. */
#define LK_REDIS_RECOVERING "RECOVERING "
#define LK_REDIS_RECOVERS   "RECOVERY "

extern const char *const lk_redis_recovery_meet_text; /* asked for by EVAL alone */

/* The scripts, in one allocation that begins at the answer. NULL: no memory. */
char *lk_redis_recovery_scripts_make(const char *text[LK_REDIS_SCRIPT_COUNT]);
