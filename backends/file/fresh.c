/* fresh.c: puts a fresh file in the place of one that is held: nobody can take a kernel lock from another process, so the holder's
 * file is at no name any more. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "directory.h"
#include "fresh.h"
#include "holders.h"
#include "lockfile.h"
#include "queue.h"
#include "range.h"
#include "tokens.h"

/* A new file under a name that no key has, locked: nobody gets it before its record is written. As a whole, as a sweep locks one
 * that it removes: who comes meanwhile waits for the end of that, and isn't told that somebody has the lock for himself. */
static int make_fresh(const lk_file *self, int parent, char temporary[LK_FILE_NEW_NAME])
{
    const int fd = lk_file_make(self, parent, temporary);
    if (fd < 0)
        return -1;
    const int code = lk_file_whole_lock(fd, F_WRLCK);
    if (code == 0)
        return fd;
    unlinkat(parent, temporary, 0);
    close(fd);
    errno = code;
    return -1;
}

locker_status lk_file_replace(lk_file *self, const lk_file_name *name, int parent, int held,
                              const lk_file_record *record, locker_error *err)
{
    char temporary[LK_FILE_NEW_NAME];
    const int fresh = make_fresh(self, parent, temporary);
    if (fresh < 0)
        return lk_file_fail(self, "create a new file in place of", name, errno, err);
    locker_status status = LOCKER_OK;
    lk_file_record next = {.token = record->token};
    /* One that can't be read has no token: then as for a fresh file, which the next grant won't take it for. */
    int code = next.token == 0 ? lk_file_tokens_floor(self, name->hash, &next.token) : 0;
    /* A record before the name: the disk is not full, and a crash right after the rename loses no token. */
    if (code == 0)
        code = lk_file_record_write(fresh, self->template, &next, self->sync);
    lk_file_record now = {0};
    if (code == 0 && (!lk_file_range_locked(held, 0) || lk_file_record_read_steady(held, &now) != 0 ||
                      now.token != record->token))
        status = LK_FILE_AGAIN; /* it changed hands meanwhile: look whose it is */
    else if (code == 0 && renameat(parent, temporary, parent, name->text + name->last) != 0)
        code = errno;
    if (code != 0)
        status = lk_file_fail(self, "replace", name, code, err);
    if (status != LOCKER_OK) {
        unlinkat(parent, temporary, 0);
    } else if (lk_file_record_read_steady(held, &now) == 0 && now.token > next.token) {
        /* Whoever was granted the old file had written its token there before it looked: here it is read. */
        next.token = now.token;
        code = lk_file_record_write(fresh, self->template, &next, self->sync);
        if (code != 0)
            status = lk_file_fail(self, "write", name, code, err);
    }
    (void)lk_file_whole_lock(fresh, F_UNLCK);
    close(fresh);
    return status;
}

int lk_file_list_broken(const lk_file *self, const lk_file_claim *c, lk_file_tickets *t,
                        lk_file_broken *broken)
{
    *broken = (lk_file_broken){0};
    *t = lk_file_tickets_of(self, &c->id);
    if (t->queue < 0)
        return t->code != ENOENT ? t->code : 0;
    return lk_file_holders_broken(t, c->fd, broken) ? 0 : ENOMEM;
}

/* OK: every holder of a share or a permit was broken. BUSY: a holder was not. */
static locker_status see_all_broken(const lk_file *self, const lk_file_name *name, const lk_file_claim *c,
                                    locker_error *err)
{
    lk_file_tickets t;
    lk_file_broken broken;
    const int code = lk_file_list_broken(self, c, &t, &broken);
    const bool all = code == 0 && broken.count > 0 && !lk_file_is_shared(c->fd, &broken);
    free(broken.bytes);
    lk_file_tickets_close(&t);
    if (code != 0)
        return lk_file_fail(self, "list the broken holders of", name, code, err);
    return all ? LOCKER_OK : LOCKER_BUSY;
}

/* Byte 2 is ours: whoever is on the way in sees that, and begins anew. */
static locker_status replace_broken(lk_file *self, const lk_file_name *name, const lk_file_claim *c,
                                    locker_error *err)
{
    locker_status status = see_all_broken(self, name, c, err);
    lk_file_record record;
    if (status == LOCKER_OK) {
        status = LOCKER_BUSY;
        const int parent = lk_file_parent(self, name, false);
        if (parent >= 0 && lk_file_record_read_steady(c->fd, &record) == 0 &&
            lk_file_compare(self, name, &c->id) == 0)
            status = lk_file_replace(self, name, parent, c->fd, &record, err);
        if (parent >= 0)
            lk_file_parent_close(self, parent);
    }
    return status == LOCKER_OK ? LK_FILE_AGAIN : status;
}

locker_status lk_file_leave_broken(lk_file *self, const lk_file_name *name, const lk_file_claim *c,
                                   locker_error *err)
{
    short met;
    /* Looked at first, because nobody comes in while byte 2 is locked. */
    locker_status status = see_all_broken(self, name, c, err);
    if (status != LOCKER_OK)
        return status;
    const int code = lk_file_range_take(c->fd, F_WRLCK, 2, &met);
    if (code != 0)
        return code == EAGAIN ? LK_FILE_MET_BREAKER : lk_file_fail(self, "lock", name, code, err);
    status = replace_broken(self, name, c, err);
    (void)lk_file_range_lock(c->fd, F_UNLCK, 2);
    if (status == LK_FILE_AGAIN)
        lk_file_queue_leave(self, &c->id);
    return status;
}
