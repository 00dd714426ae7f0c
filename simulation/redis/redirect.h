/* redirect.h: whether a node may serve a request, by the slots of its keys. */
#pragma once

#include "state.h"

/** False: another node is to be asked, or nobody can serve it now, which was answered. */
bool lk_sr_is_served_here(lk_sr_call *call);

/** Why a script may not give this command; NULL: it may. */
const char *lk_sr_refused_elsewhere(const lk_sr_call *call);
