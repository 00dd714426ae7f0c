/* grant.h: what the driver granted becomes a lock that is held: the only way to one. */
#pragma once

#include "state.h"

/** The driver has granted: enter it into the held list and the keeper, unless what came meanwhile says that the grant
 * proves nothing. False: it does, the driver has withdrawn, and the claim is as before. */
bool lk_grant_unlocking(locker *l, lk_claim *claim, int64_t now) LK_REQUIRES(l->mutex);
