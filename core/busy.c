/* busy.c: having the driver withdraw. */
#include <string.h>

#include "busy.h"

void lk_withdraw_unlocking(locker *l, lk_claim *claim)
{
    lk_busy_begin_unlocking(l, claim, LK_IN_RELEASE);
    lk_mutex_unlock(&l->mutex);
    l->driver->withdraw(l->self, &claim->pub);
    lk_mutex_lock(&l->mutex);
    lk_busy_end_unlocking(l, claim);
    memset(claim->pub.data, 0, l->driver->claim_size);
    claim->pub.granted_at = 0;
}
