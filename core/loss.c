/* loss.c: telling what was lost. */
#include "loss.h"
#include "busy.h"
#include "claim.h"
#include "handle.h"
#include "refs.h"

/* The first of the claim's handles that has not been told. A callback may free handles, so the list is read anew each
 * time. */
static locker_handle *untold_locked(const locker *l, const lk_claim *claim) LK_REQUIRES(l->mutex)
{
    locker_handle *handle = claim->handles;
    (void)l;
    while (handle != NULL && handle->told)
        handle = handle->sibling;
    return handle;
}

static void tell_claim_unlocking(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex)
{
    locker_handle *handle;
    while ((handle = untold_locked(l, claim)) != NULL) {
        claim->refs++;
        lk_handle_tell_unlocking(l, handle);
        lk_claim_unref_locked(l, claim);
    }
}

void lk_losses_tell_unlocking(locker *l)
{
    while (!lk_list_empty(&l->lost)) {
        lk_claim *const claim = LK_CONTAINER(lk_list_first(&l->lost), lk_claim, link);

        lk_list_remove(&claim->link);
        tell_claim_unlocking(l, claim);
        lk_withdraw_unlocking(l, claim);
        const char *const why = lk_lost_why_locked(l, claim);
        lk_mutex_unlock(&l->mutex);
        l->services.log(&l->services, LOCKER_LOG_ERROR, "lost the lock '%s': %s", claim->pub.key, why);
        lk_mutex_lock(&l->mutex);
        lk_claim_unref_locked(l, claim);
    }
}
