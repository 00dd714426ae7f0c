/*
 * handle.c: the handle, a closure that unlocks.
 *
 * Unlocking takes the lease out of the keeper first, then hands the grant to the next of the local FIFO where
 * the driver can do that, else has the driver release it. Handing over is bounded in number and time, so that
 * contenders of other processes get their turn.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

enum { PASSES_AT_MOST = 64 };
static const int64_t passing_at_most = 10 * LK_MS;
static const uint8_t any_loss = LK_LOST_IT | LK_LOST_ALL;

/* ------------------------------------------------------------------ releasing ---- */

static bool may_pass_locked(locker *l, const lk_claim *from, int64_t now)
{
    const lk_key *key = from->key;
    const lk_claim *to = key->first;

    return l->driver->pass != NULL && to != NULL && to->busy_with == LK_IDLE &&
           (to->events & LK_CANCELED) == 0 && !l->closing && key->passed < PASSES_AT_MOST &&
           now - key->passing_since < passing_at_most && from->pub.ttl_ns == to->pub.ttl_ns &&
           from->pub.renewed && to->pub.renewed;
}

/* Hand the grant to the first of the FIFO. True: `from` is gone. */
static bool pass_locked(locker *l, lk_claim *from, int64_t now)
{
    lk_key *key = from->key;
    lk_claim *to = key->first;
    lk_wait *wait;
    locker_status status;

    if (!may_pass_locked(l, from, now))
        return false;
    wait = to->wait;
    lk_busy_begin_locked(l, to, LK_IN_PASS);
    from->pub.valid_until = atomic_load_explicit(&from->valid_until, memory_order_relaxed);
    (void)pthread_mutex_unlock(&l->mutex);
    status = l->driver->pass(l->self, &from->pub, &to->pub);
    (void)pthread_mutex_lock(&l->mutex);
    lk_busy_end_locked(l, to);
    if (status == LOCKER_OK) {
        to->events |= from->events & any_loss; /* it is the same grant */
        if (lk_grant_locked(l, to, to->pub.granted_at != 0 ? to->pub.granted_at : lk_now(l))) {
            key->passed++;
            l->stats.handed_over++;
        } else {
            key->holder = NULL; /* what was handed over is lost again: it contends like everybody else */
            lk_promote_locked(l, key);
        }
    }
    lk_rouse_locked(l, wait); /* it may have wanted to give up meanwhile */
    return status == LOCKER_OK;
}

/* Out of the keeper's hands; a renewal that is inside the driver ends first. False: it was lost meanwhile. */
static bool take_out_locked(locker *l, lk_claim *claim, int64_t now)
{
    lk_phase_set_locked(claim, LK_RELEASING);
    lk_heap_remove_locked(l, claim);
    lk_busy_wait_locked(l, claim);
    lk_held_remove_locked(l, claim);
    lk_histogram_add(&l->stats.hold, now - claim->pub.granted_at);
    return (claim->events & any_loss) == 0;
}

/* The driver has let go of what was held. */
static void next_locked(locker *l, const lk_claim *claim)
{
    lk_key *key = claim->key;

    if (key->holder == claim)
        key->holder = NULL;
    lk_promote_locked(l, key);
}

static locker_status told_lost(const lk_claim *claim, locker_error *err)
{
    return locker_error_set(err, LOCKER_LOST, 0, "'%s' was lost before it was unlocked: %s", claim->pub.key,
                            claim->lost_why != NULL ? claim->lost_why
                                                    : "its lease could not be renewed in time");
}

/* Hand it over, or have it released. */
static locker_status give_locked(locker *l, lk_claim *claim, int64_t now, locker_error *err)
{
    locker_status status = LOCKER_OK;

    lk_busy_begin_locked(l, claim, LK_IN_RELEASE);
    if (pass_locked(l, claim, now)) {
        if ((claim->events & any_loss) != 0)
            status = told_lost(claim, err);
    } else {
        claim->pub.valid_until = atomic_load_explicit(&claim->valid_until, memory_order_relaxed);
        (void)pthread_mutex_unlock(&l->mutex);
        status = l->driver->release(l->self, &claim->pub, lk_later(now, l->command_timeout_ns), err);
        (void)pthread_mutex_lock(&l->mutex);
        next_locked(l, claim);
    }
    lk_busy_end_locked(l, claim);
    return status;
}

/* The last handle of a grant is being unlocked. */
static locker_status release_locked(locker *l, lk_claim *claim, int64_t now, locker_error *err)
{
    locker_status status;

    if (take_out_locked(l, claim, now)) {
        status = give_locked(l, claim, now, err);
    } else {
        status = told_lost(claim, err);
        lk_withdraw_locked(l, claim);
        next_locked(l, claim);
    }
    lk_phase_set_locked(claim, status == LOCKER_LOST ? LK_LOST : LK_GONE);
    if (status == LOCKER_OK)
        l->stats.released++;
    else if (status == LOCKER_LOST)
        l->stats.lost++;
    else
        l->stats.unknown++;
    lk_claim_over_locked(l, claim);
    return status;
}

void lk_let_go_locked(locker *l, lk_claim *claim)
{
    (void)take_out_locked(l, claim, lk_now(l));
    lk_withdraw_locked(l, claim);
    next_locked(l, claim);
    lk_phase_set_locked(claim, LK_GONE);
    lk_claim_unref_locked(l, claim);
}

/* The handle is not unlocked, and the locker not being closed. */
static locker_status unlock_held_locked(locker *l, locker_handle *held, locker_error *err)
{
    lk_claim *claim = held->claim;
    int64_t now = lk_now(l);
    bool lost = lk_lease_over_locked(l, claim, now);
    locker_status status = LOCKER_OK;

    if (!lost && lk_in_callback(l))
        return locker_error_set(
            err, LOCKER_INVALID, 0,
            "'%s' can't be unlocked inside a callback of its locker: hand it to another thread",
            claim->pub.key);
    lk_unlocked_set_locked(held);
    claim->open_handles--;
    if (lost)
        return told_lost(claim, err);
    if (claim->open_handles > 0)
        return LOCKER_OK;
    l->calls++;
    status = release_locked(l, claim, now, err);
    lk_leave_locked(l);
    return status;
}

/* The locker is being closed, which is about to release what is held. The handle is closed from here on:
 * nobody is told CLOSED of a lock and goes on to see it HELD. */
static locker_status unlock_closing_locked(locker *l, locker_handle *held, locker_error *err)
{
    bool lost = lk_lease_over_locked(l, held->claim, lk_now(l));

    lk_unlocked_set_locked(held);
    held->claim->open_handles--;
    if (lost)
        return told_lost(held->claim, err);
    held->closed = true;
    return locker_error_set(err, LOCKER_CLOSED, 0, "the locker is being closed, which releases '%s'",
                            held->claim->pub.key);
}

static locker_status unlock_locked(locker *l, locker_handle *held, locker_error *err)
{
    const char *key = held->claim->pub.key;

    if (held->closed)
        return locker_error_set(err, LOCKER_CLOSED, 0, "'%s' was released when its locker was closed", key);
    if (held->unlocked)
        return locker_error_set(err, LOCKER_INVALID, 0, "'%s' was already unlocked by this handle", key);
    return l->closing ? unlock_closing_locked(l, held, err) : unlock_held_locked(l, held, err);
}

locker_status locker_unlock(locker_handle *held, locker_error *err)
{
    LK_NO_CANCEL;
    locker *l;
    locker_status status;

    if (held == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "locker_unlock needs a handle");
    l = held->l;
    if (lk_forked(l))
        return locker_error_set(err, LOCKER_FORKED, 0,
                                "the lock belongs to the parent process; nothing was unlocked");
    (void)lk_ok(err);
    (void)pthread_mutex_lock(&l->mutex);
    status = unlock_locked(l, held, err);
    (void)pthread_mutex_unlock(&l->mutex);
    return status;
}

/* ------------------------------------------------------------------ freeing ---- */

/* A handle is freed inside a callback, where nothing may wait for the service: released in the background,
 * without an answer. */
static void let_go_locked(locker *l, locker_handle *held)
{
    lk_claim *claim = held->claim;

    lk_unlocked_set_locked(held);
    claim->open_handles--;
    if (lk_lease_over_locked(l, claim, lk_now(l)) || claim->open_handles > 0)
        return;
    lk_let_go_locked(l, claim);
}

static void forget_locked(locker *l, locker_handle *held)
{
    locker_handle **link = &held->claim->handles;

    while (*link != held)
        link = &(*link)->sibling;
    *link = held->sibling;
    lk_claim_unref_locked(l, held->claim);
}

/* Free a handle that is told and unlocked; the caller holds the mutex, which is released. */
static void destroy_and_unlock(locker *l, locker_handle *held)
{
    int fd = atomic_load_explicit(&held->lost_fd, memory_order_relaxed);
    bool separate = held != &held->claim->first_handle;

    forget_locked(l, held);
    if (separate)
        free(held);
    (void)pthread_mutex_unlock(&l->mutex);
    lk_handle_gone(l);
    if (fd >= 0)
        (void)close(fd);
}

static void close_lost_fd(int fd)
{
    LK_NO_CANCEL;

    (void)close(fd);
}

/* The claim goes with its last handle, which no thread but this one can reach. Nothing here can block, so
 * only what ends in the kernel holds a cancellation back. */
static void destroy_alone(locker *l, locker_handle *held)
{
    int fd = atomic_load_explicit(&held->lost_fd, memory_order_relaxed);
    lk_claim *claim = held->claim;

    if (held != &claim->first_handle)
        free(held);
    lk_claim_free(l, claim);
    lk_handle_gone(l);
    if (fd >= 0)
        close_lost_fd(fd);
}

void lk_handle_told_locked(locker *l, locker_handle *held)
{
    if (!held->freed)
        return;
    destroy_and_unlock(l, held); /* the keeper runs, so the locker has another reference: its user's */
    (void)pthread_mutex_lock(&l->mutex);
}

/* The handle may be held, and others know of its claim. */
static void free_known(locker *l, locker_handle *held)
{
    LK_NO_CANCEL;

    (void)pthread_mutex_lock(&l->mutex);
    if (!held->unlocked && !l->closing) {
        if (lk_in_callback(l))
            let_go_locked(l, held);
        else
            (void)unlock_held_locked(l, held, NULL);
    }
    if (held->in_callback && lk_in_callback(l)) {
        held->freed = true; /* inside its own callback: the keeper frees it afterwards */
        (void)pthread_mutex_unlock(&l->mutex);
        return;
    }
    while (held->in_callback)
        lk_await_locked(l);
    destroy_and_unlock(l, held);
}

void locker_handle_free(locker_handle *held)
{
    if (held == NULL || lk_forked(held->l))
        return; /* in a fork's child the memory belongs to structures that another thread may have been
                   changing */
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
    locker_state state;

    if (held == NULL)
        return LOCKER_STATE_UNLOCKED;
    if (lk_forked(held->l))
        return LOCKER_STATE_LOST;
    state = lk_claim_state(held->l, held->claim);
    if (state != LOCKER_STATE_LOST && atomic_load_explicit(&held->unlocked, memory_order_relaxed))
        return LOCKER_STATE_UNLOCKED;
    return state;
}

int64_t locker_handle_remaining_ms(const locker_handle *held)
{
    locker_state state = locker_handle_state(held);
    int64_t until, left;

    if (state == LOCKER_STATE_LOST || state == LOCKER_STATE_UNLOCKED)
        return 0;
    until = atomic_load_explicit(&held->claim->valid_until, memory_order_relaxed);
    if (until == LOCKER_NEVER)
        return -1;
    left = until - lk_now(held->l);
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
    const uint64_t one = 1;
    locker *l;
    int fd;

    if (held == NULL || lk_forked(held->l)) {
        errno = EINVAL;
        return -1;
    }
    l = held->l;
    (void)pthread_mutex_lock(&l->mutex);
    fd = atomic_load_explicit(&held->lost_fd, memory_order_relaxed);
    if (fd < 0) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        atomic_store_explicit(&held->lost_fd, fd, memory_order_relaxed);
        if (fd >= 0 && held->claim->phase == LK_LOST && write(fd, &one, sizeof one) < 0) {
            /* EAGAIN can't be: the counter was 0. */
        }
    }
    (void)pthread_mutex_unlock(&l->mutex);
    return fd;
}
