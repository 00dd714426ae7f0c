/*
 * release.c: the ends of a claim: released with an answer, handed on inside the process, or withdrawn.
 *
 * The lock is dropped by an explicit unlock before the descriptor is closed: a forked child may have a copy
 * of it, and then closing alone would not end the lock.
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void lk_file_detach_locked(lk_file *self, lk_file_claim *c)
{
    lk_file_watch_drop_locked(self, c);
    if (c->slot != NULL)
        lk_file_slot_give_locked(&self->slots, c->slot);
    c->slot = NULL;
    if (c->state == LK_FILE_HELD)
        self->held--;
    c->state = LK_FILE_NONE;
    c->notified = false;
    c->broken = false;
}

/* Drop the lock and close. Closing is what wakes waiters, but not while a forked child has a copy of the
 * descriptor: so when somebody waits, the file is touched as well, which every waiter's watch sees. */
static int let_go(int fd)
{
    int code = lk_file_range_lock(fd, F_UNLCK, 0);
    if (lk_file_range_locked(fd, 1))
        futimens(fd, NULL);
    close(fd);
    return code;
}

locker_status lk_file_release(void *self_, locker_claim *grant, int64_t until, locker_error *err)
{
    (void)until; /* nothing here waits for anybody */
    lk_file *self = self_;
    lk_file_claim *c = locker_claim_private(grant);
    lk_file_name name;
    lk_file_name_set(&name, self->prefix, grant->key, grant->key_len);

    pthread_mutex_lock(&self->mutex);
    lk_file_detach_locked(self, c);
    pthread_mutex_unlock(&self->mutex);
    /* The proof: as long as our file is the one at the name, nobody else had the lock. */
    int compared = lk_file_compare(self, &name, c->device, c->inode);
    int unlocked = let_go(c->fd);
    c->fd = -1;
    if (compared == ESTALE)
        return locker_error_set(err, LOCKER_LOST, 0,
                                "the lock was broken: its file %.150s/%.150s was replaced, moved or removed",
                                self->path, name.text);
    if (compared != 0 || unlocked != 0) {
        int code = compared != 0 ? compared : unlocked;
        return locker_error_set(err, LOCKER_UNKNOWN, code,
                                "let go of the lock file %.120s/%.120s, but can't tell whether it was still "
                                "ours: %s",
                                self->path, name.text, strerror(code));
    }
    return LOCKER_OK;
}

locker_status lk_file_pass(void *self_, locker_claim *from, locker_claim *to)
{
    lk_file *self = self_;
    lk_file_claim *f = locker_claim_private(from);
    lk_file_claim *t = locker_claim_private(to);
    if (self->sync) /* flushing the record blocks, which is not allowed here */
        return LOCKER_BUSY;

    lk_file_name name;
    lk_file_name_set(&name, self->prefix, from->key, from->key_len);
    if (lk_file_compare(self, &name, f->device, f->inode) != 0)
        return LOCKER_BUSY; /* broken: release finds that out and says so */
    lk_file_record record = {0};
    lk_file_record_next(&record, from->token);
    memcpy(record.owner, to->owner, strnlen(to->owner, LOCKER_OWNER_MAX));
    if (lk_file_record_write(f->fd, self->template, &record, false) != 0)
        return LOCKER_BUSY;

    pthread_mutex_lock(&self->mutex);
    if (f->broken) {
        pthread_mutex_unlock(&self->mutex);
        return LOCKER_BUSY;
    }
    bool watch = f->watch != NULL;
    *t = (lk_file_claim){.claim = to,
                         .state = LK_FILE_HELD,
                         .fd = f->fd,
                         .device = f->device,
                         .inode = f->inode,
                         .hash = f->hash,
                         .slot = f->slot};
    t->slot->claim = t;
    if (watch) {
        lk_file_watch_drop_locked(self, f);
        lk_file_watch_add_locked(self, t);
    }
    f->slot = NULL;
    f->state = LK_FILE_NONE;
    f->fd = -1;
    pthread_mutex_unlock(&self->mutex);
    to->token = record.token;
    to->valid_until = LOCKER_NEVER;
    return LOCKER_OK;
}

void lk_file_withdraw(void *self_, locker_claim *claim)
{
    lk_file *self = self_;
    lk_file_claim *c = locker_claim_private(claim);
    if (c->state == LK_FILE_NONE)
        return;
    pthread_mutex_lock(&self->mutex);
    bool held = c->state == LK_FILE_HELD;
    lk_file_detach_locked(self, c);
    pthread_mutex_unlock(&self->mutex);
    if (held)
        let_go(c->fd);
    else
        close(c->fd);
    c->fd = -1;
}
