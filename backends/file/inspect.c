/* inspect.c: show, and break, which puts a fresh file in the place of a locked one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "directory.h"
#include "lk_time.h"
#include "lockfile.h"
#include "queue.h"
#include "range.h"
#include "tokens.h"
#include "watch.h"

enum { TRIES = 4 };

/* Read a record that its holder may be writing at this moment: a torn one is whole a moment later. */
static int read_steady(int fd, lk_file_record *record)
{
    lk_file_reading reading = LK_FILE_RECORD_DAMAGED;
    int code = 0;
    for (int i = 0; i < TRIES && code == 0 && reading == LK_FILE_RECORD_DAMAGED; i++)
        code = lk_file_record_read(fd, record, &reading);
    return code;
}

static void describe_holder(const lk_file_record *record, locker_info *info)
{
    info->held = true;
    info->token = record->token;
    info->since_unix_ms = record->since_ms;
    memcpy(info->owner, record->owner, sizeof info->owner);
}

locker_status lk_file_show(void *self_, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err)
{
    (void)until;
    lk_file *self = self_;
    lk_file_record record;
    if (lk_file_moved(self))
        return lk_file_fail_moved(self, err);
    lk_file_name name;
    lk_file_name_set(&name, self->prefix, key, key_len);
    const int fd = lk_file_open(self, &name, O_RDONLY);
    if (fd < 0 && errno != ENOENT)
        return lk_file_fail(self, "open", &name, errno, err);
    if (fd < 0) { /* never locked, or not lately */
        info->waiters = 0;
        return LOCKER_OK;
    }
    const bool held = lk_file_range_locked(fd, 0);
    int code = read_steady(fd, &record);
    struct statx s;
    if (code == 0 && statx(fd, "", AT_EMPTY_PATH, STATX_INO, &s) != 0)
        code = errno;
    close(fd);
    if (code != 0)
        return lk_file_fail(self, "read", &name, code, err);
    if (held)
        describe_holder(&record, info);
    info->token = record.token;
    const lk_file_id id = lk_file_id_of(&s);
    return lk_file_queue_list(self, &id, info) ? LOCKER_OK : lk_out_of_memory(err);
}

static locker_status not_held(const lk_file *self, const lk_file_name *name, locker_error *err)
{
    return lk_invalid(err, "nobody holds the lock of %.150s/%.150s", self->path, name->text);
}

/* A new file under a name that no key has, locked: nobody gets it before its record is written. */
static int make_fresh(const lk_file *self, int parent, char temporary[LK_FILE_NEW_NAME])
{
    const int fd = lk_file_make(self, parent, temporary);
    if (fd < 0)
        return -1;
    const int code = lk_file_range_lock(fd, F_WRLCK, 0);
    if (code == 0)
        return fd;
    unlinkat(parent, temporary, 0);
    close(fd);
    errno = code;
    return -1;
}

static locker_status replace(lk_file *self, const lk_file_name *name, int parent, int held,
                             lk_file_record *record, locker_error *err)
{
    char temporary[LK_FILE_NEW_NAME];
    const int fresh = make_fresh(self, parent, temporary);
    if (fresh < 0)
        return lk_file_fail(self, "make a fresh file for", name, errno, err);
    locker_status status = LOCKER_OK;
    lk_file_record next = {.token = record->token};
    /* One that can't be read has no token: then as for a fresh file, which the next grant won't take it for. */
    int code = next.token == 0 ? lk_file_tokens_floor(self, name->hash, &next.token) : 0;
    /* A record before the name: the disk is not full, and a crash right after the rename loses no token. */
    if (code == 0)
        code = lk_file_record_write(fresh, self->template, &next, self->sync);
    lk_file_record now = {0};
    if (code == 0 &&
        (!lk_file_range_locked(held, 0) || read_steady(held, &now) != 0 || now.token != record->token))
        status = LK_FILE_AGAIN; /* it changed hands meanwhile: look whose it is */
    else if (code == 0 && renameat(parent, temporary, parent, name->text + name->last) != 0)
        code = errno;
    if (code != 0)
        status = lk_file_fail(self, "replace", name, code, err);
    if (status != LOCKER_OK) {
        unlinkat(parent, temporary, 0);
    } else if (read_steady(held, &now) == 0 && now.token > next.token) {
        /* Whoever was granted the old file had written its token there before it looked: here it is read. */
        next.token = now.token;
        code = lk_file_record_write(fresh, self->template, &next, self->sync);
        if (code != 0)
            status = lk_file_fail(self, "write", name, code, err);
    }
    lk_file_range_lock(fresh, F_UNLCK, 0);
    close(fresh);
    return status;
}

/* Whether `held` is the file at the name, is held, and by whom. */
static locker_status examine(const lk_file *self, const lk_file_name *name, int held, lk_file_id *id,
                             lk_file_record *record, locker_error *err)
{
    struct statx s;
    const locker_status status = lk_file_check(self, name, held, &s, err);
    if (status != LOCKER_OK)
        return status;
    *id = lk_file_id_of(&s);
    if (lk_file_compare(self, name, id) != 0)
        return LK_FILE_AGAIN;
    if (!lk_file_range_locked(held, 0))
        return not_held(self, name, err);
    const int code = read_steady(held, record);
    return code == 0 ? LOCKER_OK : lk_file_fail(self, "read", name, code, err);
}

/* What is looked at and what is replaced are in one directory, whatever is at its path by now. */
static locker_status break_once(lk_file *self, const lk_file_name *name, int parent,
                                const locker_break_options *only, locker_info *broken, locker_error *err)
{
    lk_file_record record = {.since_ms = -1};
    const int held = lk_file_open_in(self, parent, name, O_RDWR);
    if (held < 0)
        return errno == ENOENT ? not_held(self, name, err) : lk_file_fail(self, "open", name, errno, err);
    locker_status status;
    lk_file_id id;
    const int code = lk_file_range_take(held, F_WRLCK, 2);
    if (code == EAGAIN)
        status = locker_error_set(err, LOCKER_UNAVAILABLE, code,
                                  "the lock of %.150s/%.150s is being broken by another; look again",
                                  self->path, name->text);
    else if (code != 0)
        status = lk_file_fail(self, "lock", name, code, err);
    else
        status = examine(self, name, held, &id, &record, err);
    if (status == LOCKER_OK) {
        describe_holder(&record, broken);
        status = locker_break_check(only, broken, err);
    }
    if (status == LOCKER_OK)
        status = replace(self, name, parent, held, &record, err);
    if (status == LOCKER_OK) /* they wait for a file that is at no name any more */
        lk_file_queue_poke(self, &id);
    lk_file_range_lock(held, F_UNLCK, 2); /* a child forked meanwhile may have a copy of the descriptor */
    close(held);
    return status;
}

locker_status lk_file_break(void *self_, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err)
{
    (void)until;
    lk_file *self = self_;
    if (lk_file_moved(self))
        return lk_file_fail_moved(self, err);
    lk_file_name name;
    lk_file_name_set(&name, self->prefix, key, key_len);
    locker_status status = LK_FILE_AGAIN;
    for (int i = 0; i < TRIES && status == LK_FILE_AGAIN; i++) {
        const int parent = lk_file_parent(self, &name, false);
        if (parent < 0)
            return errno == ENOENT ? not_held(self, &name, err)
                                   : lk_file_fail(self, "find", &name, errno, err);
        status = break_once(self, &name, parent, only, broken, err);
        lk_file_parent_close(self, parent);
    }
    if (status == LK_FILE_AGAIN)
        return lk_unavailable(err, "the lock of %.150s/%.150s changes hands too fast to be broken; try again",
                              self->path, name.text);
    return status;
}
