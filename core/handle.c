/* handle.c: the handle, a closure that unlocks. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "changed.h"
#include "claim.h"
#include "clock.h"
#include "error.h"
#include "fork.h"
#include "frame.h"
#include "handle.h"
#include "lease.h"
#include "lifetime.h"
#include "lk_wakeup.h"
#include "no_cancel.h"
#include "refs.h"
#include "release.h"

/* ------------------------------------------------------------------ unlocking ---- */

/* The handle is not unlocked, and the locker not being closed. */
static locker_status unlock_held_unlocking(locker *l, locker_handle *held, locker_error *err)
    LK_REQUIRES(l->mutex)
{
    lk_claim *claim = held->claim;
    const int64_t now = lk_now(l);
    const bool lost = lk_lease_over_locked(l, claim, now);
    locker_status status = LOCKER_OK;
    if (!lost && lk_in_callback(l))
        return locker_error_set(
            err, LOCKER_INVALID, 0,
            "'%s' can't be unlocked inside a callback of its locker: hand it to another thread",
            claim->pub.key);
    lk_unlocked_set_locked(held);
    claim->open_handles--;
    if (lost)
        return lk_told_lost_locked(l, claim, err);
    if (claim->open_handles > 0)
        return LOCKER_OK;
    l->calls++;
    status = lk_release_unlocking(l, claim, now, err);
    lk_leave_locked(l);
    return status;
}

/* The locker is being closed, which is about to release what is held. The handle is closed from here on:
 * nobody is told CLOSED of a lock and goes on to see it HELD. */
static locker_status unlock_closing_locked(locker *l, locker_handle *held, locker_error *err)
    LK_REQUIRES(l->mutex)
{
    const bool lost = lk_lease_over_locked(l, held->claim, lk_now(l));
    lk_unlocked_set_locked(held);
    held->claim->open_handles--;
    if (lost)
        return lk_told_lost_locked(l, held->claim, err);
    held->closed = true;
    return locker_error_set(err, LOCKER_CLOSED, 0, "the locker is being closed, which releases '%s'",
                            held->claim->pub.key);
}

static locker_status unlock_unlocking(locker *l, locker_handle *held, locker_error *err) LK_REQUIRES(l->mutex)
{
    const char *key = held->claim->pub.key;
    if (held->closed)
        return locker_error_set(err, LOCKER_CLOSED, 0, "'%s' was released when its locker was closed", key);
    if (held->unlocked)
        return locker_error_set(err, LOCKER_INVALID, 0, "'%s' was already unlocked by this handle", key);
    return l->closing ? unlock_closing_locked(l, held, err) : unlock_held_unlocking(l, held, err);
}

locker_status locker_unlock(locker_handle *held, locker_error *err)
{
    LK_NO_CANCEL;

    if (held == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "locker_unlock needs a handle");
    locker *l = held->l;
    if (lk_forked(l))
        return locker_error_set(err, LOCKER_FORKED, 0,
                                "the lock belongs to the parent process; nothing was unlocked");
    (void)lk_ok(err);
    lk_mutex_lock(&l->mutex);
    const locker_status status = unlock_unlocking(l, held, err);
    lk_mutex_unlock(&l->mutex);
    return status;
}

/* ------------------------------------------------------------------ freeing ---- */

/* A handle is freed inside a callback, where nothing may wait for the service: released in the background,
 * without an answer. */
static void let_go_unlocking(locker *l, locker_handle *held) LK_REQUIRES(l->mutex)
{
    lk_claim *claim = held->claim;
    lk_unlocked_set_locked(held);
    claim->open_handles--;
    if (lk_lease_over_locked(l, claim, lk_now(l)) || claim->open_handles > 0)
        return;
    lk_let_go_unlocking(l, claim);
}

static void forget_locked(locker *l, locker_handle *held) LK_REQUIRES(l->mutex)
{
    locker_handle **link = &held->claim->handles;
    while (*link != held)
        link = &(*link)->sibling;
    *link = held->sibling;
    lk_claim_unref_locked(l, held->claim);
}

/* Free a handle that is told and unlocked; the caller holds the mutex, which is released. */
static void destroy_and_unlock(locker *l, locker_handle *held) LK_RELEASE(l->mutex)
{
    const int fd = atomic_load_explicit(&held->lost_fd, memory_order_relaxed);
    const bool separate = held != &held->claim->first_handle;
    forget_locked(l, held);
    if (separate)
        free(held);
    lk_mutex_unlock(&l->mutex);
    lk_handle_gone(l);
    if (fd >= 0)
        (void)close(fd);
}

static void close_lost_fd(int fd)
{
    LK_NO_CANCEL;

    (void)close(fd);
}

/* The claim goes with its last handle, which no thread but this one can reach. Nothing here can block, so only what
 * ends in the kernel holds a cancellation back. */
static void destroy_alone(locker *l, locker_handle *held)
{
    const int fd = atomic_load_explicit(&held->lost_fd, memory_order_relaxed);
    lk_claim *claim = held->claim;
    if (held != &claim->first_handle)
        free(held);
    lk_claim_free(l, claim);
    lk_handle_gone(l);
    if (fd >= 0)
        close_lost_fd(fd);
}

static void tell_unlocking(locker *l, locker_handle *held) LK_REQUIRES(l->mutex)
{
    const int fd = atomic_load_explicit(&held->lost_fd, memory_order_relaxed);
    held->told = true;
    if (fd >= 0)
        lk_wakeup_ring(fd);
    if (held->on_lost == NULL || held->unlocked)
        return;
    held->in_callback = true;
    lk_mutex_unlock(&l->mutex);
    held->on_lost(held, held->user);
    lk_mutex_lock(&l->mutex);
    held->in_callback = false;
    lk_changed_locked(l);
}

void lk_handle_tell_unlocking(locker *l, locker_handle *held)
{
    tell_unlocking(l, held);
    if (!held->freed)
        return;
    destroy_and_unlock(l, held); /* the keeper runs, so the locker has another reference: its user's */
    lk_mutex_lock(&l->mutex);
}

/* The handle may be held, and others know of its claim. */
static void free_known(locker *l, locker_handle *held)
{
    LK_NO_CANCEL;

    lk_mutex_lock(&l->mutex);
    if (!held->unlocked && !l->closing) {
        if (lk_in_callback(l))
            let_go_unlocking(l, held);
        else
            (void)unlock_held_unlocking(l, held, NULL);
    }
    if (held->in_callback && lk_in_callback(l)) {
        held->freed = true; /* inside its own callback: the keeper frees it afterwards */
        lk_mutex_unlock(&l->mutex);
        return;
    }
    while (held->in_callback)
        lk_await_unlocking(l);
    destroy_and_unlock(l, held);
}

void locker_handle_free(locker_handle *held)
{
    if (held == NULL || lk_forked(held->l))
        return; /* in a fork's child the memory belongs to structures that another thread may have been changing */
    if (atomic_load_explicit(&held->claim->alone, memory_order_acquire))
        destroy_alone(held->l, held);
    else
        free_known(held->l, held);
}

void locker_cleanup(void *held)
{
    locker_handle_free(held);
}

/* ------------------------------------------------------------------ asking ---- */

locker_state locker_handle_state(const locker_handle *held)
{
    if (held == NULL)
        return LOCKER_STATE_UNLOCKED;
    if (lk_forked(held->l))
        return LOCKER_STATE_LOST;
    const locker_state state = lk_claim_state(held->l, held->claim);
    if (state != LOCKER_STATE_LOST && atomic_load_explicit(&held->unlocked, memory_order_relaxed))
        return LOCKER_STATE_UNLOCKED;
    return state;
}

int64_t locker_handle_remaining_ms(const locker_handle *held)
{
    const locker_state state = locker_handle_state(held);
    if (state == LOCKER_STATE_LOST || state == LOCKER_STATE_UNLOCKED)
        return 0;
    const int64_t until = atomic_load_explicit(&held->claim->valid_until, memory_order_relaxed);
    if (until == LOCKER_NEVER)
        return -1;
    const int64_t left = until - lk_now(held->l);
    return left > 0 ? left / LK_MS : 0;
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

const char *locker_handle_owner(const locker_handle *held)
{
    return held == NULL ? "" : held->claim->pub.owner;
}

int locker_handle_fd(locker_handle *held)
{
    LK_NO_CANCEL;

    if (held == NULL || lk_forked(held->l)) {
        errno = EINVAL;
        return -1;
    }
    locker *l = held->l;
    lk_mutex_lock(&l->mutex);
    int fd = atomic_load_explicit(&held->lost_fd, memory_order_relaxed);
    if (fd < 0) {
        fd = lk_wakeup_new();
        atomic_store_explicit(&held->lost_fd, fd, memory_order_relaxed);
        if (fd >= 0 && held->claim->phase == LK_LOST)
            lk_wakeup_ring(fd);
    }
    lk_mutex_unlock(&l->mutex);
    return fd;
}
