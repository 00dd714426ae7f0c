/* grant.c: locks a file, and makes that a grant: it is written into the file's record, and checked to be in the file at the name.
 *
 * One that shares the lock, or has a permit, holds it beside others (beside.c). It goes in through a gate, one at a time, so
 * that tokens grow, and slots are one's own; plain locks need none, as they have the file for themselves. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "beside.h"
#include "directory.h"
#include "fresh.h"
#include "grant.h"
#include "holders.h"
#include "lk_time.h"
#include "lockfile.h"
#include "queue.h"
#include "range.h"
#include "sweep.h"
#include "tokens.h"
#include "watch.h"

enum {
    POLL_BREAKER = 5 * LK_MS, /* while another breaks the lock, or is in the gate: twice as long each time */
    POLL_MAX = 100 * LK_MS,
    TRY_ROUNDS = 10,   /* of 100 ms: how long a try waits for a sweep that is late */
    FIRST_QUERIES = 16 /* of the kernel, for a free slot: before the broken holders are listed */
};

/* Write the grant into the record, with its token. The lock is ours, or the gate is. */
static locker_status write_grant(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    locker_claim *claim = c->claim;
    lk_file_record record;
    lk_file_reading reading;
    int code = lk_file_record_read(c->fd, &record, &reading);
    if (code != 0)
        return lk_file_fail(self, "read", name, code, err);
    if (reading == LK_FILE_RECORD_FOREIGN)
        return lk_denied(err,
                         "%.150s/%.150s is not a lock file but another program's file; move it away, or use "
                         "a directory only for locks",
                         self->path, name->text);
    if (reading == LK_FILE_RECORD_DAMAGED)
        self->svc->log(
            self->svc, LOCKER_LOG_WARN,
            "the record in %.150s/%.150s is damaged; its fencing tokens start again from the clock",
            self->path, name->text);
    c->fresh = reading == LK_FILE_RECORD_EMPTY;
    if (reading != LK_FILE_RECORD_GOOD) /* there may have been another file before it */
        code = lk_file_tokens_floor(self, name->hash, &record.token);
    if (code != 0)
        return lk_file_fail(self, "read the file .tokens for", name, code, err);
    code = lk_file_record_grant(c->fd, self->template, &record.token, claim->owner, self->sync);
    if (code != 0)
        return lk_file_fail(self, "write", name, code, err);
    claim->token = record.token;
    claim->valid_until = LOCKER_NEVER;
    return LOCKER_OK;
}

void lk_file_retry_later(const lk_file *self, lk_file_claim *c)
{
    c->breaker_ns = lk_time_earlier(2 * (c->breaker_ns == 0 ? POLL_BREAKER : c->breaker_ns), POLL_MAX);
    c->claim->retry_at = lk_file_now(self) + c->breaker_ns;
}

/* One who breaks the lock may have read the last holder's record and not replaced the file yet. It took its byte before it
 * read: either we see that, or it reads what we have written. */
static bool meets_breaker(const lk_file_claim *c)
{
    return lk_file_range_locked(c->fd, 2);
}

/* See that the locked file is the one at the name, and enter the grant, as one step for dispatch: a forced
 * unlock before it is seen here, one after it finds the grant listed. The token is in the record by then,
 * where a forced unlock looks for the greatest that was ever granted. */
static locker_status confirm_grant(lk_file *self, const lk_file_name *name, lk_file_claim *c,
                                   locker_error *err)
{
    lk_mutex_lock(&self->mutex);
    /* An event up to here is about an earlier grant of the name; one that comes later breaks this one. */
    lk_file_hear_locked(self);
    /* The watch comes before the look: what happens after that must be seen by it. */
    bool watched = self->dir_wd >= 0 || lk_file_watch_directory_locked(self);
    if (name->last == 0)
        lk_file_watch_drop_locked(self, c);
    else /* the watch on the directory doesn't see what happens below it */
        watched = (c->wd != 0 || lk_file_watch_add_locked(self, c)) &&
                  lk_file_watch_parts_locked(self, name) && watched;
    locker_status status = lk_file_confirm(self, name, &c->id, err);
    /* What was away is told but once, and then to those who hold. */
    if (status == LOCKER_OK && LK_READ(self->moved))
        status = LK_FILE_AGAIN;
    /* A break notifies holders when it is done. This claim does not hold yet and would miss that, so it begins again. */
    if (status == LOCKER_OK && !locker_claim_is_plain(c->claim) && lk_file_holder_is_broken(self, c))
        status = LK_FILE_AGAIN;
    if (status == LOCKER_OK) {
        c->state = LK_FILE_HELD;
        self->held++;
        lk_file_sweep_count_locked(self, c->fresh);
        if (lk_file_look_later_locked(self, watched))
            self->svc->attend(self->svc);
    }
    lk_mutex_unlock(&self->mutex);
    if (!watched)
        lk_file_watch_warn(self);
    return status;
}

void lk_file_reset(lk_file *self, lk_file_claim *c, bool locked)
{
    lk_mutex_lock(&self->mutex);
    lk_file_detach_locked(self, c);
    lk_mutex_unlock(&self->mutex);
    c->joined = false;
    (void)lk_file_let_go(self, c, locked);
}

/* Those who share the file, or have permits, keep the claim out of it, or use it otherwise: but for those who were broken, for
 * whose file there is a fresh one then. */
locker_status lk_file_kept_out(lk_file *self, const lk_file_name *name, const lk_file_claim *c,
                               int32_t in_use, locker_error *err)
{
    const int32_t wanted = c->claim->permits;
    if (in_use == LK_FILE_USE_UNKNOWN)
        return lk_file_unknown_use(self, name, err);
    const bool waited_for = in_use != wanted && lk_file_range_locked(c->fd, 1);
    const locker_status status = waited_for ? LOCKER_BUSY : lk_file_leave_broken(self, name, c, err);
    if (in_use == wanted)
        /* A waiting claim keeps its place over a break and over a list that cannot be made: it tries again. */
        return c->claim->will_wait && status != LK_FILE_AGAIN ? LOCKER_BUSY : status;
    if (status != LOCKER_BUSY)
        return status;
    /* The use of a file that has been replaced says nothing about the key. */
    const locker_status confirmed = lk_file_confirm(self, name, &c->id, err);
    return confirmed == LOCKER_OK ? locker_other_use(err, in_use, wanted) : confirmed;
}

/* Lock the file for the claim alone. A try waits longer for a sweep, which holds nothing, than one that will ask again. */
static locker_status take_alone(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    short met;
    int code = lk_file_range_take(c->fd, F_WRLCK, 0, &met);
    for (int i = 1; i < TRY_ROUNDS && code == EAGAIN && met == F_UNLCK && !c->claim->will_wait; i++)
        code = lk_file_range_take(c->fd, F_WRLCK, 0, &met);
    if (code == EAGAIN && met == F_RDLCK)
        return lk_file_kept_out(self, name, c, lk_file_use_of_others(c->fd), err);
    if (code == EAGAIN)
        return LOCKER_BUSY;
    const locker_status status =
        code == 0 ? write_grant(self, name, c, err) : lk_file_fail(self, "lock", name, code, err);
    return status == LOCKER_OK && meets_breaker(c) ? LK_FILE_MET_BREAKER : status;
}

/* ------------------------------------------------------------------ beside others ---- */

/* Go in through the gate. */
static locker_status enter_gate(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    const int code = lk_file_gate_enter(c->fd, !c->claim->will_wait);
    if (code == EAGAIN && c->claim->will_wait) {
        lk_file_retry_later(self, c);
        return LOCKER_BUSY;
    }
    if (code == EAGAIN)
        return lk_unavailable(err,
                              "cannot take a shared lock or permit of %.150s/%.150s: another call is just "
                              "taking one; if its process is stopped, end that process; then try again",
                              self->path, name->text);
    return code == 0 ? LOCKER_OK : lk_file_fail(self, "lock", name, code, err);
}

locker_status lk_file_join(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    if (c->claim->permits == 0 || c->joined)
        return LOCKER_OK;
    locker_status status = enter_gate(self, name, c, err);
    if (status != LOCKER_OK)
        return status;
    int32_t in_use;
    const int code = lk_file_use_join(c->fd, c->claim->permits, &in_use);
    lk_file_gate_leave(c->fd);
    if (code == EBUSY)
        return lk_file_kept_out(self, name, c, in_use, err);
    c->joined = code == 0;
    return code == 0 ? LOCKER_OK : lk_file_fail(self, "lock", name, code, err);
}

/* A breaker that was killed may not have notified the broken holders. So a claim that gets the slot of a broken holder notifies them
 * before its grant. */
static locker_status find_slot_of_broken(lk_file *self, const lk_file_name *name, lk_file_claim *c,
                                         locker_error *err)
{
    lk_file_broken broken;
    lk_file_tickets t;
    int code = lk_file_list_broken(self, c, &t, &broken);
    if (code == 0)
        c->claim->slot = lk_file_permit_find(self, c, &broken, INT32_MAX);
    if (code == 0 && broken.count > 0 && c->claim->slot >= 0)
        code = lk_file_tickets_tell_broken(&t);
    free(broken.bytes);
    lk_file_tickets_close(&t);
    if (code == 0)
        return LOCKER_OK;
    c->claim->slot = -1; /* a waiting claim keeps its place and tries again */
    return c->claim->will_wait ? LOCKER_OK
                               : lk_file_fail(self, "list the broken holders of", name, code, err);
}

/* The list of broken holders takes one of all holders, so it is made only where a few queries found no free slot. Behind it all slots
 * are searched, even if it is empty: a broken holder that lets go before the list is made isn't in it, and its slot is free. */
static locker_status find_slot(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    static const lk_file_broken none;
    c->claim->slot = lk_file_permit_find(self, c, &none, FIRST_QUERIES);
    const locker_status status = c->claim->slot < 0 ? find_slot_of_broken(self, name, c, err) : LOCKER_OK;
    if (status != LOCKER_OK)
        return status;
    if (c->claim->slot < 0)
        return LOCKER_BUSY;
    lk_file_permit_note(self, c, c->claim->slot + 1);
    return LOCKER_OK;
}

/* Byte 0 is ours, to read, and so is the gate: nobody else comes in, or has it alone. */
static locker_status take_place(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    const locker_claim *const claim = c->claim;
    locker_status status = claim->permits > 0 ? find_slot(self, name, c, err) : LOCKER_OK;
    if (status == LOCKER_OK)
        status = write_grant(self, name, c, err);
    if (status != LOCKER_OK)
        return status;
    const int code = lk_file_range_lock(
        c->fd, F_WRLCK, lk_file_holder_byte(claim->permits > 0 ? claim->slot : 0, claim->token));
    return code == 0 ? LOCKER_OK : lk_file_fail(self, "lock", name, code, err);
}

/* BUSY: it has no more of the file than before. */
static locker_status take_through_gate(lk_file *self, const lk_file_name *name, lk_file_claim *c,
                                       locker_error *err)
{
    const int32_t in_use = c->claim->permits == 0 ? lk_file_use_of_others(c->fd) : c->claim->permits;
    short met;
    if (in_use != c->claim->permits)
        return lk_file_kept_out(self, name, c, in_use, err);
    const int code = lk_file_range_take(c->fd, F_RDLCK, 0, &met);
    if (code == EAGAIN && met == LK_FILE_MET_UNKNOWN)
        return lk_file_unknown_use(self, name, err);
    if (code == EAGAIN)
        return c->claim->permits > 0 && c->state == LK_FILE_NONE ? locker_other_use(err, 0, c->claim->permits)
                                                                 : LOCKER_BUSY;
    if (code != 0)
        return lk_file_fail(self, "lock", name, code, err);
    const locker_status status = take_place(self, name, c, err);
    if (status == LOCKER_BUSY)
        (void)lk_file_range_lock(c->fd, F_UNLCK, 0);
    return status;
}

/* Who holds the file is written down before the claim does, so that a breaker finds it there, or is seen. */
static locker_status write_down(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    const int code = lk_file_queue_hold(self, c);
    if (code != 0)
        return lk_file_fail(self, "write the holder's record for", name, code, err);
    return meets_breaker(c) ? LK_FILE_MET_BREAKER : LOCKER_OK;
}

static locker_status take_beside(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    locker_status status = enter_gate(self, name, c, err);
    if (status != LOCKER_OK)
        return status;
    status = take_through_gate(self, name, c, err);
    lk_file_gate_leave(c->fd);
    return status == LOCKER_OK ? write_down(self, name, c, err) : status;
}

locker_status lk_file_take(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    const bool plain = locker_claim_is_plain(c->claim), came = c->ticket[0] == '\0';
    locker_status status = plain ? take_alone(self, name, c, err) : take_beside(self, name, c, err);
    if (status == LOCKER_BUSY)
        return status;
    if (status == LOCKER_OK)
        status = confirm_grant(self, name, c, err);
    if (status != LOCKER_OK) {
        lk_file_reset(self, c, true);
        if (came) /* it never stood in line */
            c->ticket[0] = '\0';
        return status;
    }
    if (!plain && c->ticket_fd >= 0) /* nobody waits for it any more */
        (void)lk_file_range_lock(c->fd, F_UNLCK, 1);
    lk_file_queue_granted(self, c);
    return status;
}
