/* release.c: the ends of a claim: released with an answer, or withdrawn.
 *
 * The lock is dropped by an explicit unlock before the descriptor is closed: a forked child may have a copy
 * of it, and then closing alone would not end the lock. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "holders.h"
#include "lockfile.h"
#include "queue.h"
#include "sweep.h"
#include "watch.h"

locker_status lk_file_release(void *self_, locker_claim *grant, int64_t until, locker_error *err)
{
    (void)until; /* nothing here waits for anybody */
    lk_file *self = self_;
    lk_file_claim *c = grant->data;
    lk_mutex_lock(&self->mutex);
    const bool broken = lk_file_broken_locked(self, c);
    lk_file_detach_locked(self, c);
    lk_mutex_unlock(&self->mutex);
    /* The proof that nobody else can have had the lock: our file is the one at the name, and no event says that
     * it, or the directory, was away: that is there before the kernel lets anybody make another one. */
    int looked = lk_file_look(self, c);
    /* And if others may have held it beside: nobody has broken our part. */
    if (looked == 0 && !broken && !locker_claim_is_plain(grant))
        looked = lk_file_holder_end(self, c);
    if (looked == 0 && !broken)
        lk_file_sweep_own(self, c);
    const int unlocked = lk_file_let_go(self, c, true);
    if (broken || looked == ESTALE)
        return lk_lost(err, "the lock of \"%s\" was broken, or its file in %.150s replaced, moved or removed",
                       grant->key, self->path);
    if (looked != 0 || unlocked != 0) {
        const int code = looked != 0 ? looked : unlocked;
        return locker_error_set(err, LOCKER_UNKNOWN, code,
                                "released the lock of \"%s\", but cannot check whether it was lost before: "
                                "%s",
                                grant->key, strerror(code));
    }
    return LOCKER_OK;
}

void lk_file_withdraw(void *self_, locker_claim *claim)
{
    lk_file *self = self_;
    lk_file_claim *c = claim->data;
    if (c->state == LK_FILE_NONE)
        return;
    lk_mutex_lock(&self->mutex);
    const bool held = c->state == LK_FILE_HELD;
    lk_file_detach_locked(self, c);
    lk_mutex_unlock(&self->mutex);
    (void)lk_file_let_go(self, c, held);
}
