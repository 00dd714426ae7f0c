/* release.c: the ends of a claim: released with an answer, handed on inside the process, or withdrawn.
 *
 * The lock is dropped by an explicit unlock before the descriptor is closed: a forked child may have a copy
 * of it, and then closing alone would not end the lock. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "lockfile.h"
#include "sweep.h"
#include "watch.h"

/* Drop the lock and close. Closing is what wakes waiters, but not while a forked child has a copy of the
 * descriptor: so when somebody waits, the file is touched as well, which every waiter's watch sees. */
static int let_go(lk_file *self, lk_file_claim *c)
{
    const int code = lk_file_range_lock(c->fd, F_UNLCK, 0);
    if (lk_file_range_locked(c->fd, 1))
        futimens(c->fd, NULL);
    lk_file_close(self, c);
    return code;
}

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
    const int looked = lk_file_look(self, c);
    if (looked == 0 && !broken)
        lk_file_sweep_own(self, c);
    const int unlocked = let_go(self, c);
    if (broken || looked == ESTALE)
        return lk_lost(err,
                       "the lock of \"%s\" was broken: its file in %.150s was replaced, moved or removed",
                       grant->key, self->path);
    if (looked != 0 || unlocked != 0) {
        const int code = looked != 0 ? looked : unlocked;
        return locker_error_set(err, LOCKER_UNKNOWN, code,
                                "let go of the lock of \"%s\", but can't tell whether it was still ours: %s",
                                grant->key, strerror(code));
    }
    return LOCKER_OK;
}

locker_status lk_file_pass(void *self_, locker_claim *from, locker_claim *to)
{
    lk_file *self = self_;
    lk_file_claim *f = from->data;
    lk_file_claim *t = to->data;
    if (self->sync) /* flushing the record blocks, which is not allowed here */
        return LOCKER_BUSY;
    uint64_t token = from->token;
    if (lk_file_record_grant(f->fd, self->template, &token, to->owner, false) != 0)
        return LOCKER_BUSY;
    /* As with a grant, the look comes behind the write: a forced unlock reads the greatest token after it has
     * replaced the file. So either it reads ours, or this look sees that the file is gone; and one that has
     * read whose it is, and not replaced it yet, is seen by its byte. */
    if (lk_file_range_locked(f->fd, 2) || lk_file_look(self, f) != 0)
        return LOCKER_BUSY; /* broken: release finds that out and says so */
    lk_mutex_lock(&self->mutex);
    if (lk_file_broken_locked(self, f)) {
        lk_mutex_unlock(&self->mutex);
        return LOCKER_BUSY;
    }
    *t = (lk_file_claim){
        .claim = to, .state = LK_FILE_HELD, .fd = f->fd, .id = f->id, .hash = f->hash, .slot = f->slot};
    t->deep = f->deep;
    t->fresh = f->fresh;
    t->looked = f->looked;
    lk_list_remove(&f->link);
    lk_list_append(&self->claims, &t->link);
    if (f->wd != 0)
        lk_file_watch_pass_locked(self, f, t);
    f->slot = NULL;
    f->state = LK_FILE_NONE;
    f->fd = -1;
    lk_mutex_unlock(&self->mutex);
    to->token = token;
    to->valid_until = LOCKER_NEVER;
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
    if (held)
        (void)let_go(self, c);
    else
        lk_file_close(self, c);
}
