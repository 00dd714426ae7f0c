/* inspect.c: show, and break, which puts a fresh file in the place of a locked one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "directory.h"
#include "fresh.h"
#include "holders.h"
#include "lk_time.h"
#include "lockfile.h"
#include "queue.h"
#include "range.h"
#include "watch.h"

enum { TRIES = 4 };

static const locker_break_options anybody = LOCKER_BREAK_OPTIONS_INIT;

static void describe_holder(const lk_file_record *record, locker_info *info)
{
    info->held = true;
    info->token = record->token;
    info->since_unix_ms = record->since_ms;
    memcpy(info->owner, record->owner, sizeof info->owner);
}

/* The lock is held, but no record names a holder: a holder is just coming or going, or the records were removed. The file's own record
 * names the latest holder, which may have released the lock. */
static void describe_unknown(locker_info *info)
{
    info->held = true;
    info->token = 0;
}

/* Tell of the holders whom `only` names. */
static locker_status describe_holders(const lk_file_holder *all, size_t count,
                                      const locker_break_options *only, locker_info *info, locker_error *err)
{
    const int32_t permits = count > 0 ? all[0].permits : 0;
    info->holders = calloc(count + 1, sizeof *info->holders);
    if (info->holders == NULL)
        return lk_out_of_memory(err);
    for (size_t i = 0; i < count; i++) {
        locker_holder *const holder = &info->holders[info->holders_len];
        if (!locker_break_names(only, all[i].owner, all[i].token))
            continue;
        *holder = (locker_holder){.token = all[i].token,
                                  .since_unix_ms = all[i].since_ms,
                                  .remaining_ms = -1,
                                  .slot = all[i].permits > 0 ? all[i].slot : -1};
        memcpy(holder->owner, all[i].owner, sizeof holder->owner);
        info->holders_len++;
    }
    locker_info_settle(info, permits > 0 ? LOCKER_EXCLUSIVE : LOCKER_SHARED, permits);
    return LOCKER_OK;
}

/* Whether one holds it who wasn't broken; where that can't be known, one does. */
static bool is_held_beside(const lk_file_tickets *t, int fd)
{
    lk_file_broken broken;
    const bool held = !lk_file_holders_broken(t, fd, &broken) || lk_file_is_shared(fd, &broken);
    free(broken.bytes);
    return held;
}

/* Who holds it beside others, and who waits. */
static locker_status describe_queue(const lk_file *self, const lk_file_id *id, int fd, bool shared,
                                    locker_info *info, locker_error *err)
{
    lk_file_tickets t = lk_file_tickets_of(self, id);
    lk_file_holder *all = NULL;
    size_t count = 0;
    locker_status status = LOCKER_OK;
    if (shared && !lk_file_holders_list(&t, LK_FILE_RECORD_HELD, fd, &all, &count))
        status = lk_out_of_memory(err);
    if (status == LOCKER_OK && count > 0)
        status = describe_holders(all, count, &anybody, info, err);
    else if (status == LOCKER_OK && shared && is_held_beside(&t, fd))
        describe_unknown(info);
    if (status == LOCKER_OK && !lk_file_queue_list(&t, info))
        status = lk_out_of_memory(err);
    free(all);
    lk_file_tickets_close(&t);
    return status;
}

locker_status lk_file_show(void *self_, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err)
{
    (void)until;
    lk_file *self = self_;
    lk_file_record record;
    locker_status status = lk_file_stay(self, err);
    if (status != LOCKER_OK)
        return status;
    lk_file_name name;
    lk_file_name_set(&name, self->prefix, key, key_len);
    const int fd = lk_file_open(self, &name, O_RDONLY);
    if (fd < 0 && errno != ENOENT)
        return lk_file_fail(self, "open", &name, errno, err);
    if (fd < 0) { /* never locked, or not lately */
        info->waiters = 0;
        return LOCKER_OK;
    }
    const short met = lk_file_range_met(fd, F_WRLCK, 0);
    if (met == LK_FILE_MET_UNKNOWN) {
        close(fd);
        return lk_file_unknown_use(self, &name, err);
    }
    int code = lk_file_record_read_steady(fd, &record);
    struct statx s;
    if (code == 0 && statx(fd, "", AT_EMPTY_PATH, STATX_INO, &s) != 0)
        code = errno;
    if (code == 0) {
        if (met == F_WRLCK)
            describe_holder(&record, info);
        info->token = record.token;
        const lk_file_id id = lk_file_id_of(&s);
        status = describe_queue(self, &id, fd, met == F_RDLCK, info, err);
    }
    close(fd);
    return code == 0 ? status : lk_file_fail(self, "read", &name, code, err);
}

static locker_status not_held(const lk_file *self, const lk_file_name *name, locker_error *err)
{
    return lk_invalid(err, "the lock of %.150s/%.150s has no holder", self->path, name->text);
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
    const int code = lk_file_record_read_steady(held, record);
    return code == 0 ? LOCKER_OK : lk_file_fail(self, "read", name, code, err);
}

static bool is_any(const locker_break_options *only)
{
    return only->token == 0 && only->owner == NULL;
}

/* Whether one still holds it beside others. */
static bool is_left(const lk_file *self, const lk_file_id *id, int held)
{
    lk_file_tickets t = lk_file_tickets_of(self, id);
    const bool left = is_held_beside(&t, held);
    lk_file_tickets_close(&t);
    return left;
}

/* Break those whom `only` names. False: there are none any more. */
static bool break_named(const lk_file_tickets *t, const lk_file_holder *all, size_t count,
                        const locker_break_options *only)
{
    bool any = false;
    for (size_t i = 0; i < count; i++)
        if (locker_break_names(only, all[i].owner, all[i].token))
            any = lk_file_holder_break(t->queue, &all[i]) || any;
    return any;
}

/* Byte 2 is ours. Those who hold beside others are broken by their records, and as long as one is left the file stays, for that one
 * holds it. When nobody is, there is a fresh file, so that what the broken ones still lock is in nobody's way. */
static locker_status break_beside(lk_file *self, const lk_file_name *name, int parent, int held,
                                  const lk_file_id *id, const lk_file_record *record,
                                  const locker_break_options *only, locker_info *broken, locker_error *err)
{
    lk_file_tickets t = lk_file_tickets_of(self, id);
    lk_file_holder *all = NULL;
    size_t count = 0, named = 0;
    locker_status status = LOCKER_OK;
    if (t.queue < 0 && t.code != ENOENT)
        status = lk_file_fail(self, "list the holders of", name, t.code, err);
    else if (!lk_file_holders_list(&t, LK_FILE_RECORD_HELD, held, &all, &count))
        status = lk_out_of_memory(err);
    for (size_t i = 0; status == LOCKER_OK && i < count; i++)
        named += locker_break_names(only, all[i].owner, all[i].token);
    if (status == LOCKER_OK && count > 0) {
        status = describe_holders(all, count, named > 0 ? only : &anybody, broken, err);
        if (status == LOCKER_OK)
            status = locker_break_check(only, broken, err);
    } else if (status == LOCKER_OK) {
        describe_unknown(broken);
        if (!is_any(only))
            status = locker_error_set(
                err, LOCKER_BUSY, 0,
                "%.150s/%.150s has a holder without a record, which may be about to unlock; run show again, "
                "or break the lock without naming a holder",
                self->path, name->text);
    }
    if (status == LOCKER_OK && count > 0 && !break_named(&t, all, count, only))
        status = LK_FILE_AGAIN;
    lk_file_tickets_close(&t);
    free(all);
    if (status == LOCKER_OK && (is_any(only) || !is_left(self, id, held))) {
        const locker_status replaced = lk_file_replace(self, name, parent, held, record, err);
        status = count == 0 ? replaced : LOCKER_OK; /* else who comes next does it */
    }
    return status;
}

static locker_status break_alone(lk_file *self, const lk_file_name *name, int parent, int held,
                                 const lk_file_record *record, const locker_break_options *only,
                                 locker_info *broken, locker_error *err)
{
    describe_holder(record, broken);
    const locker_status status = locker_break_check(only, broken, err);
    return status == LOCKER_OK ? lk_file_replace(self, name, parent, held, record, err) : status;
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
    short met;
    const int code = lk_file_range_take(held, F_WRLCK, 2, &met);
    if (code == EAGAIN)
        status = locker_error_set(err, LOCKER_UNAVAILABLE, code,
                                  "another call is breaking the lock of %.150s/%.150s; run show, then break "
                                  "again",
                                  self->path, name->text);
    else if (code != 0)
        status = lk_file_fail(self, "lock", name, code, err);
    else
        status = examine(self, name, held, &id, &record, err);
    if (status == LOCKER_OK) {
        met = lk_file_range_met(held, F_WRLCK, 0);
        if (met == LK_FILE_MET_UNKNOWN)
            status = lk_file_unknown_use(self, name, err);
        else
            status = met == F_RDLCK ? break_beside(self, name, parent, held, &id, &record, only, broken, err)
                                    : break_alone(self, name, parent, held, &record, only, broken, err);
    }
    if (status ==
        LOCKER_OK) /* those who wait, maybe for a file that is at no name any more, and those who were broken */
        lk_file_queue_leave(self, &id);
    lk_file_range_lock(held, F_UNLCK, 2); /* a child forked meanwhile may have a copy of the descriptor */
    close(held);
    return status;
}

locker_status lk_file_break(void *self_, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err)
{
    (void)until;
    lk_file *self = self_;
    locker_status status = lk_file_stay(self, err);
    if (status != LOCKER_OK)
        return status;
    lk_file_name name;
    lk_file_name_set(&name, self->prefix, key, key_len);
    status = LK_FILE_AGAIN;
    for (int i = 0; i < TRIES && status == LK_FILE_AGAIN; i++) {
        const int parent = lk_file_parent(self, &name, false);
        if (parent < 0)
            return errno == ENOENT ? not_held(self, &name, err)
                                   : lk_file_fail(self, "find", &name, errno, err);
        /* Of the turn before: the analyzer forgets the line behind it. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        free(broken->holders);
        *broken = (locker_info)LOCKER_INFO_INIT;
        status = break_once(self, &name, parent, only, broken, err);
        lk_file_parent_close(self, parent);
    }
    if (status == LK_FILE_AGAIN)
        return lk_unavailable(err,
                              "the lock of %.150s/%.150s got a new holder during each attempt to break it; "
                              "run show, then break again",
                              self->path, name.text);
    return status;
}
