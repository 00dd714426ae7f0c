/* handle.c: the handle, a closure that unlocks, and what is told of its loss. */
#include <errno.h>

#include "claim.h"
#include "frame.h"
#include "grant.h"
#include "lease.h"
#include "lifetime.h"
#include "lk_wakeup.h"
#include "parts.h"

/* Mark the handle as unlocked. OK with *last: it was the last one of its grant, which is to be released. */
static locker_status mark_unlocked_locked(locker *l, locker_handle *held, int64_t now, bool *last,
                                          locker_error *err) LK_REQUIRES(l->mutex)
{
    lk_claim *claim = held->claim;
    const char *key = claim->pub.key;
    *last = false;
    if (held->ended == LK_CLOSED)
        return locker_error_set(err, LOCKER_CLOSED, 0, "'%s' was released when its locker was closed", key);
    if (held->ended != LK_OPEN)
        return lk_invalid(err, "'%s' was already unlocked by this handle", key);
    const bool lost = lk_lease_over_locked(l, claim, now);
    if (!lost && !l->closing && lk_in_callback(l))
        return lk_invalid(
            err, "'%s' cannot be unlocked inside a callback of its locker; unlock it in another thread", key);
    LK_WRITE(held->ended, LK_UNLOCKED);
    claim->open_handles--;
    if (lost)
        return lk_told_lost_locked(l, claim, err);
    if (l->closing) {
        LK_WRITE(held->ended, LK_CLOSED); /* now: a user who is told CLOSED must not see the handle HELD */
        return locker_error_set(err, LOCKER_CLOSED, 0, "the locker is being closed, which releases '%s'",
                                key);
    }
    *last = claim->open_handles == 0;
    if (!*last) {
        LK_WRITE(held->ended, LK_COUNTED_OUT);
        held->notice = LK_TOLD;
    }
    return LOCKER_OK;
}

static locker_status unlock_unlocking(locker *l, locker_handle *held, locker_error *err) LK_REQUIRES(l->mutex)
{
    const int64_t now = lk_now(l);
    bool last;
    locker_status status = mark_unlocked_locked(l, held, now, &last, err);
    if (!last)
        return status;
    l->calls++;
    status = lk_release_unlocking(l, held->claim, now, err);
    lk_leave_locked(l);
    return status;
}

/* Release in the background, without an answer: for callbacks, where nothing may wait, and for calls whose time is over. */
static void let_go_unlocking(locker *l, locker_handle *held) LK_REQUIRES(l->mutex)
{
    lk_claim *claim = held->claim;
    LK_WRITE(held->ended, LK_UNLOCKED);
    claim->open_handles--;
    if (!lk_lease_over_locked(l, claim, lk_now(l)) && claim->open_handles == 0)
        lk_let_go_unlocking(l, claim);
}

/* Return true if `status` says more about several keys than `than`: a loss first, then what is not known, then any failure. */
static bool tells_more(locker_status status, locker_status than)
{
    if (status == LOCKER_OK || than == LOCKER_LOST)
        return false;
    return than == LOCKER_OK || status == LOCKER_LOST || (status == LOCKER_UNKNOWN && than != LOCKER_UNKNOWN);
}

/* The answer for several parts, of which one has `status` and `why`. */
static void add_answer(locker_status *answer, locker_error *err, locker_status status,
                       const locker_error *why)
{
    if (!tells_more(status, *answer))
        return;
    *answer = status;
    if (err != NULL)
        *err = *why;
}

/* Begin to unlock a part. True: the driver is to release its grant. */
static bool part_begin_unlocking(locker *l, locker_handle *part, int64_t now, locker_status *status,
                                 locker_error *err) LK_REQUIRES(l->mutex)
{
    bool last;
    *status = LOCKER_OK;
    if (lk_in_callback(l) && part->ended == LK_OPEN && !l->closing &&
        !lk_lease_over_locked(l, part->claim, now)) {
        let_go_unlocking(l, part);
        return false;
    }
    *status = mark_unlocked_locked(l, part, now, &last, err);
    return last && lk_release_begin_unlocking(l, part->claim, now, status, err);
}

locker_status lk_parts_unlock(locker *l, locker_handle *const *parts, size_t count, locker_error *err)
{
    locker_claim *grants[LOCKER_KEYS_MAX];
    size_t sent = 0;
    locker_status answer = LOCKER_OK, status;
    locker_error why;
    lk_mutex_lock(&l->mutex);
    const int64_t now = lk_now(l);
    const bool counts = !l->closing; /* else nothing is released here */
    l->calls += counts;
    while (count-- > 0) /* the first of the keys last: who waits for them all comes by it */
        if (part_begin_unlocking(l, parts[count], now, &status, &why))
            grants[sent++] = &parts[count]->claim->pub;
        else
            add_answer(&answer, err, status, &why);
    lk_releases_begin_unlocking(l, grants, sent);
    for (size_t i = 0; i < sent; i++) {
        status = lk_release_end_unlocking(l, lk_claim_of(grants[i]),
                                          lk_time_after(now, l->command_timeout_ns), &why);
        add_answer(&answer, err, status, &why);
        lk_releases_send_unlocking(l, grants + i + 1, sent - i - 1);
    }
    if (counts)
        lk_leave_locked(l);
    lk_mutex_unlock(&l->mutex);
    return answer == LOCKER_OK ? lk_ok(err) : answer;
}

locker_status locker_unlock(locker_handle *held, locker_error *err)
{
    LK_NO_CANCEL;
    if (held == NULL)
        return lk_invalid(err, "locker_unlock needs a handle");
    if (lk_forked(held->l))
        return locker_error_set(err, LOCKER_FORKED, 0,
                                "the lock belongs to the parent process; nothing was unlocked");
    if (held->several != NULL)
        return held->several->unlock(held->several, err);
    (void)lk_ok(err);
    lk_mutex_lock(&held->l->mutex);
    const locker_status status = unlock_unlocking(held->l, held, err);
    lk_mutex_unlock(&held->l->mutex);
    return status;
}

void lk_part_let_go(locker_handle *part)
{
    locker *const l = part->l;
    lk_mutex_lock(&l->mutex);
    if (part->ended == LK_OPEN && !l->closing)
        let_go_unlocking(l, part);
    lk_mutex_unlock(&l->mutex);
}

void lk_part_await(locker_handle *part)
{
    locker *const l = part->l;
    lk_mutex_lock(&l->mutex);
    while (part->notice == LK_TELLING && !lk_in_callback(l))
        lk_await_unlocking(l);
    lk_mutex_unlock(&l->mutex);
}

/* It is free already. */
static void count_out(locker *l, int lost_fd) LK_EXCLUDES(l->mutex)
{
    lk_locker_owe(l, -1);
    if (lost_fd >= 0) {
        LK_NO_CANCEL;
        (void)close(lost_fd);
    }
}

/* Free a handle that is told and unlocked; the caller holds the mutex, which is released. */
static void destroy_and_unlock(locker *l, locker_handle *held) LK_RELEASE(l->mutex)
{
    const int fd = LK_READ(held->lost_fd);
    lk_claim *const claim = held->claim;
    locker_handle **link = &claim->handles;
    while (*link != held)
        link = &(*link)->sibling;
    *link = held->sibling;
    if (held != &claim->first_handle)
        free(held);
    lk_claim_unref_locked(l, claim);
    lk_mutex_unlock(&l->mutex);
    count_out(l, fd);
}

/* The claim goes with its last handle, which no thread but this one can reach. Nothing here can block, so only what
 * ends in the kernel holds a cancellation back. */
static void destroy_alone(locker *l, locker_handle *held)
{
    const int fd = LK_READ(held->lost_fd);
    lk_claim *claim = held->claim;
    if (held != &claim->first_handle)
        free(held);
    lk_claim_free(l, claim);
    count_out(l, fd);
}

/* The handle may be held, and others know of its claim. */
static void free_known(locker *l, locker_handle *held)
{
    LK_NO_CANCEL;
    lk_mutex_lock(&l->mutex);
    if (held->ended == LK_OPEN && !l->closing) {
        if (lk_in_callback(l))
            let_go_unlocking(l, held);
        else
            (void)unlock_unlocking(l, held, NULL);
    }
    if (held->notice == LK_TELLING && lk_in_callback(l)) {
        held->notice = LK_FREED;
        lk_mutex_unlock(&l->mutex);
        return;
    }
    while (held->notice == LK_TELLING)
        lk_await_unlocking(l);
    destroy_and_unlock(l, held);
}

void locker_handle_free(locker_handle *held)
{
    if (held == NULL || lk_forked(held->l))
        return; /* in a fork's child the memory belongs to structures that another thread may have been changing */
    if (held->several != NULL)
        held->several->free(held->several);
    else if (atomic_load_explicit(&held->claim->alone, memory_order_acquire))
        destroy_alone(held->l, held);
    else
        free_known(held->l, held);
}

void locker_cleanup(void *held)
{
    locker_handle_free(held);
}

/* Free it, too, if it was freed in its own callback. */
static void tell_unlocking(locker *l, locker_handle *held) LK_REQUIRES(l->mutex)
{
    const int fd = LK_READ(held->lost_fd);
    held->notice = LK_TOLD;
    if (fd >= 0)
        lk_wakeup_ring(fd);
    if (held->on_lost == NULL || held->ended != LK_OPEN)
        return;
    held->notice = LK_TELLING;
    lk_mutex_unlock(&l->mutex);
    held->on_lost(held, held->user);
    lk_mutex_lock(&l->mutex);
    const bool freed = held->notice == LK_FREED;
    held->notice = LK_TOLD;
    lk_changed_locked(l);
    if (!freed)
        return;
    destroy_and_unlock(l, held); /* the keeper runs, so the locker has another reference: its user's */
    lk_mutex_lock(&l->mutex);
}

/* The first of the claim's handles that has not been told. */
static locker_handle *untold_locked(const locker *l, const lk_claim *claim) LK_REQUIRES(l->mutex)
{
    locker_handle *handle = claim->handles;
    (void)l;
    while (handle != NULL && handle->notice == LK_TOLD)
        handle = handle->sibling;
    return handle;
}

/* The driver's side of the claim is counted until the end. */
void lk_losses_tell_unlocking(locker *l)
{
    for (lk_list *link; (link = lk_list_take(&l->lost)) != NULL;) {
        lk_claim *const claim = LK_CONTAINER(link, lk_claim, link);
        for (locker_handle *handle; (handle = untold_locked(l, claim)) != NULL;)
            tell_unlocking(l, handle); /* a callback may free handles, so the list is read anew */
        lk_withdraw_unlocking(l, claim);
        const char *const why = lk_lost_why_locked(l, claim);
        lk_mutex_unlock(&l->mutex);
        l->services.log(&l->services, LOCKER_LOG_ERROR, "lost the lock '%s': %s", claim->pub.key, why);
        lk_mutex_lock(&l->mutex);
        lk_claim_unref_locked(l, claim);
    }
}

locker_state locker_handle_state(const locker_handle *held)
{
    if (held == NULL)
        return LOCKER_STATE_UNLOCKED;
    if (lk_forked(held->l))
        return LOCKER_STATE_LOST;
    if (held->several != NULL)
        return held->several->state(held->several);
    const locker_state state = lk_claim_state(held->l, held->claim);
    const uint8_t ended = LK_READ(held->ended);
    if (ended != LK_OPEN && (state != LOCKER_STATE_LOST || ended == LK_COUNTED_OUT))
        return LOCKER_STATE_UNLOCKED;
    return state;
}

int64_t locker_handle_remaining_ms(const locker_handle *held)
{
    const locker_state state = locker_handle_state(held);
    if (state == LOCKER_STATE_LOST || state == LOCKER_STATE_UNLOCKED)
        return 0;
    if (held->several != NULL)
        return held->several->remaining_ms(held->several);
    const int64_t until = LK_READ(held->claim->valid_until);
    return until == LOCKER_NEVER ? -1 : lk_time_left(lk_now(held->l), until) / LK_MS;
}

int64_t locker_handle_ttl_ms(const locker_handle *held)
{
    return held == NULL || !held->l->driver->semantics->leases ? -1 : held->claim->pub.ttl_ns / LK_MS;
}

uint64_t locker_handle_token(const locker_handle *held)
{
    return held == NULL ? 0 : held->claim->pub.token;
}

const char *locker_handle_key(const locker_handle *held)
{
    return held == NULL ? "" : held->claim->pub.key;
}

int32_t locker_handle_slot(const locker_handle *held)
{
    return held == NULL || held->claim->pub.permits == 0 ? -1 : held->claim->pub.slot;
}

/* The part that has the index-th key. */
static const locker_handle *part_at(const locker_handle *held, size_t index)
{
    if (held == NULL || held->several == NULL)
        return index == 0 ? held : NULL;
    return index < held->several->count ? held->several->parts[index] : NULL;
}

size_t locker_handle_count(const locker_handle *held)
{
    if (held == NULL)
        return 0;
    return held->several != NULL ? held->several->count : 1;
}

const char *locker_handle_key_at(const locker_handle *held, size_t index)
{
    const locker_handle *const part = part_at(held, index);
    return part != NULL ? part->claim->pub.key : NULL;
}

uint64_t locker_handle_token_at(const locker_handle *held, size_t index)
{
    return locker_handle_token(part_at(held, index));
}

const char *locker_handle_owner(const locker_handle *held)
{
    return held == NULL ? "" : held->claim->pub.owner;
}

bool locker_keeps_over_exec(const locker *l)
{
    return l != NULL && l->driver->keep_over_exec != NULL;
}

static locker_status keep_unlocking(locker *l, const locker_handle *part, locker_error *err)
    LK_REQUIRES(l->mutex)
{
    lk_claim *const claim = part->claim;
    locker_status status;
    lk_busy_begin_unlocking(l, claim, LK_IN_KEEP);
    if (part->ended != LK_OPEN) {
        status = lk_invalid(err, "'%s' was already unlocked by this handle", claim->pub.key);
    } else if (lk_lease_over_locked(l, claim, lk_now(l))) {
        status = lk_lost(err, "'%s' was lost: %s", claim->pub.key, lk_lost_why_locked(l, claim));
    } else {
        lk_mutex_unlock(&l->mutex);
        status = l->driver->keep_over_exec(l->self, &claim->pub, err);
        lk_mutex_lock(&l->mutex);
    }
    lk_busy_end_unlocking(l, claim);
    return status;
}

locker_status locker_handle_keep_over_exec(locker_handle *held, locker_error *err)
{
    LK_NO_CANCEL;
    if (held == NULL)
        return lk_invalid(err, "locker_handle_keep_over_exec needs a handle");
    locker *const l = held->l;
    locker_status status = lk_enter(l, "locker_handle_keep_over_exec", err);
    if (status != LOCKER_OK)
        return status;
    if (!locker_keeps_over_exec(l))
        status = lk_unsupported(err,
                                "the %s driver cannot keep a lock over exec: the lock ends with "
                                "its process, or soon after",
                                l->driver->name);
    lk_mutex_lock(&l->mutex);
    for (size_t i = 0; status == LOCKER_OK && i < locker_handle_count(held); i++)
        status = keep_unlocking(l, part_at(held, i), err);
    lk_leave_locked(l);
    lk_mutex_unlock(&l->mutex);
    return status == LOCKER_OK ? lk_ok(err) : status;
}

int locker_handle_fd(locker_handle *held)
{
    LK_NO_CANCEL;
    if (held == NULL || lk_forked(held->l)) {
        errno = EINVAL;
        return -1;
    }
    if (held->several != NULL)
        return held->several->open_fd(held->several);
    locker *l = held->l;
    lk_mutex_lock(&l->mutex);
    int fd = LK_READ(held->lost_fd);
    if (fd < 0) {
        fd = lk_wakeup_new();
        LK_WRITE(held->lost_fd, fd);
        if (fd >= 0 && held->claim->phase == LK_LOST && held->ended != LK_COUNTED_OUT)
            lk_wakeup_ring(fd);
    }
    lk_mutex_unlock(&l->mutex);
    return fd;
}
