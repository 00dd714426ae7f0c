/* script_call.h: a command that a script gives: what it may not do there, and running it. */
#pragma once

#include "state.h"

/** `call` has no command yet. */
void lk_sr_script_call(lk_sr_call *call);
