/* several.c: several keys by one call, and by one handle.
 *
 * The keys are taken one after the other in the order of their bytes, which is the same for everybody: who waits for a key has
 * none that stands behind it, so no circle of waiters can close (E. W. Dijkstra's ordering of resources, EWD310). */
#include <string.h>
#include <sys/epoll.h>

#include "frame.h"
#include "lk_fd.h"
#include "lk_sized.h"
#include "parts.h"

/* It may be freed inside on_lost. */
static void tell_loss(locker_handle *part, void *user)
{
    lk_several *const all = user;
    int stage = LK_TAKING;
    (void)part;
    if (atomic_compare_exchange_strong(&all->stage, &stage, LK_MISSING) || stage != LK_TAKEN ||
        !atomic_compare_exchange_strong(&all->stage, &stage, LK_SETTLED) || all->on_lost == NULL)
        return;
    all->on_lost(&all->head, all->user);
}

static void free_parts(lk_several *all)
{
    while (all->count > 0)
        locker_handle_free(all->parts[--all->count]);
}

/* Release what was taken in the background, as a call for one key whose time is over withdraws its claim. */
static void let_parts_go(lk_several *all)
{
    for (size_t i = all->count; i-- > 0;)
        lk_part_let_go(all->parts[i]);
    free_parts(all);
}

/* The worse of the two: what is lost is lost, and what is unlocked is neither held nor in doubt. */
static locker_state worse(locker_state a, locker_state b)
{
    static const int rank[] = {[LOCKER_STATE_HELD] = 0,
                               [LOCKER_STATE_SUSPECT] = 1,
                               [LOCKER_STATE_UNLOCKED] = 2,
                               [LOCKER_STATE_LOST] = 3};
    return rank[a] > rank[b] ? a : b;
}

static locker_state state_of(const lk_several *all)
{
    locker_state state = LOCKER_STATE_HELD;
    for (size_t i = 0; i < all->count; i++)
        state = worse(state, locker_handle_state(all->parts[i]));
    return state;
}

/* A call for several keys. */
typedef struct {
    locker *l;
    const char *const *keys; /* in order, each once */
    size_t n;
    const locker_lock_options *options;
    locker_lock_options each; /* those of each part */
    int64_t start, deadline;
} request;

/* Take each key in turn. OK: all were taken; one may have been lost meanwhile. */
static locker_status take_each(const request *r, lk_several *all, locker_error *err)
{
    atomic_store(&all->stage, LK_TAKING);
    while (all->count < r->n) {
        const locker_status status =
            lk_lock(r->l, r->keys[all->count], &r->each, false, r->deadline, &all->parts[all->count], err);
        if (status != LOCKER_OK)
            return status;
        all->count++;
    }
    all->head.claim = all->parts[0]->claim;
    return LOCKER_OK;
}

/* True: none of them was lost before all were taken; from here on a loss is told. */
static bool settle(lk_several *all)
{
    int stage = LK_TAKING;
    return state_of(all) != LOCKER_STATE_LOST && /* which the keeper may not have come to yet */
           atomic_compare_exchange_strong(&all->stage, &stage, LK_TAKEN);
}

/* A key was lost before the last was taken. True: the call takes all of them again. A try has one command_timeout for that, and
 * does not repeat what ended because leases that are not renewed are too short. */
static bool may_begin_again(const request *r)
{
    return r->options->wait_ms != 0 ||
           (!r->options->no_renew && lk_now(r->l) < lk_time_after(r->start, r->l->command_timeout_ns));
}

static locker_status lost_early(const request *r, locker_status status, locker_error *err)
{
    return locker_error_set(
        err, status, 0, "a key of the %zu keys from '%s' to '%s' was lost before the last key was locked%s",
        r->n, r->keys[0], r->keys[r->n - 1],
        r->options->no_renew ? ", because its lease is not renewed; set a longer ttl, or allow renewal" : "");
}

/* OK: all are taken, and none was lost meanwhile. */
static locker_status take(const request *r, lk_several *all, locker_error *err)
{
    for (bool again = false;; again = true) {
        const locker_status status = take_each(r, all, err);
        if (status != LOCKER_OK)
            return again && status == LOCKER_TIMEOUT ? lost_early(r, status, err) : status;
        if (settle(all))
            return LOCKER_OK;
        if (!may_begin_again(r))
            return lost_early(r, LOCKER_UNAVAILABLE, err);
        let_parts_go(all);
    }
}

static int64_t remaining_ms(const lk_several *all)
{
    int64_t least = -1;
    for (size_t i = 0; i < all->count; i++) {
        const int64_t left = locker_handle_remaining_ms(all->parts[i]);
        if (left >= 0 && (least < 0 || left < least))
            least = left;
    }
    return least;
}

/* An epoll is readable when one of those that it watches is. */
static int watch_parts(const lk_several *all)
{
    const int epoll = lk_fd_high(epoll_create1(EPOLL_CLOEXEC));
    for (size_t i = 0; epoll >= 0 && i < all->count; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        const int fd = locker_handle_fd(all->parts[i]);
        if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
            (void)close(epoll);
            return -1;
        }
    }
    return epoll;
}

static int fd_of(lk_several *all)
{
    int before = atomic_load(&all->fd);
    if (before >= 0)
        return before;
    const int fd = watch_parts(all);
    if (fd < 0 || atomic_compare_exchange_strong(&all->fd, &before, fd))
        return fd;
    (void)close(fd); /* another thread was first */
    return before;
}

static locker_status unlock_all(lk_several *all, locker_error *err)
{
    if (lk_in_callback(all->head.l) && state_of(all) <= LOCKER_STATE_SUSPECT)
        return lk_invalid(err,
                          "'%s' and others cannot be unlocked inside a callback of their locker; "
                          "unlock them in another thread",
                          locker_handle_key(&all->head));
    if (atomic_exchange(&all->unlocked, true))
        return lk_invalid(err, "'%s' and others were already unlocked by this handle",
                          locker_handle_key(&all->head));
    atomic_store(&all->stage, LK_SETTLED);
    return lk_parts_unlock(all->head.l, all->parts, all->count, err);
}

static void free_all(lk_several *all)
{
    LK_NO_CANCEL;
    const int fd = atomic_load(&all->fd);
    atomic_store(&all->stage, LK_SETTLED);
    for (size_t i = 0; i < all->count; i++)
        lk_part_await(all->parts[i]); /* on_lost may be asking all of them */
    if (!atomic_exchange(&all->unlocked, true))
        (void)lk_parts_unlock(all->head.l, all->parts, all->count, NULL);
    free_parts(all);
    if (fd >= 0)
        (void)close(fd);
    free(all);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In order, each once. OK: *n is how many. */
static locker_status arrange(const locker *l, const char *const *keys, size_t *n, const char **ordered,
                             locker_error *err)
{
    size_t length, kept = 0;
    for (size_t i = 0; i < *n; i++) {
        const locker_status status = lk_check_key(l, keys[i], &length, err);
        if (status != LOCKER_OK)
            return status;
        ordered[i] = keys[i];
    }
    qsort(ordered, *n, sizeof *ordered, by_bytes);
    for (size_t i = 0; i < *n; i++)
        if (kept == 0 || strcmp(ordered[kept - 1], ordered[i]) != 0)
            ordered[kept++] = ordered[i];
    *n = kept;
    return LOCKER_OK;
}

static locker_status lock_all(locker *l, const char *const *keys, size_t n,
                              const locker_lock_options *options, locker_handle **out, locker_error *err)
{
    const char *ordered[LOCKER_KEYS_MAX];
    locker_status status = arrange(l, keys, &n, ordered, err);
    if (status != LOCKER_OK)
        return status;
    lk_several *const all = calloc(1, sizeof *all + n * sizeof *all->parts);
    if (all == NULL)
        return lk_out_of_memory(err);
    all->head.l = l;
    all->state = state_of;
    all->remaining_ms = remaining_ms;
    all->open_fd = fd_of;
    all->unlock = unlock_all;
    all->free = free_all;
    all->head.several = all;
    all->on_lost = options->on_lost;
    all->user = options->user;
    atomic_init(&all->fd, -1);
    const int64_t start = lk_now(l);
    request r = {l,
                 ordered,
                 n,
                 options,
                 *options,
                 start,
                 lk_deadline(start, options->wait_ms != 0 ? options->wait_ms : -1)};
    r.each.on_lost = tell_loss;
    r.each.user = all;
    *out = &all->head;
    status = take(&r, all, err);
    if (status == LOCKER_OK)
        return LOCKER_OK;
    *out = NULL;
    if (status != LOCKER_BUSY)
        let_parts_go(all); /* else the service answers: the keys are free again when the call returns */
    free_all(all);
    return status;
}

locker_status locker_lock_all(locker *l, const char *const *keys, size_t n,
                              const locker_lock_options *options, locker_handle **out, locker_error *err)
{
    static const locker_lock_options defaults = LOCKER_LOCK_OPTIONS_INIT;
    LK_NO_CANCEL;
    locker_lock_options own = defaults;
    if (out != NULL)
        *out = NULL;
    if (out == NULL || l == NULL || keys == NULL)
        return lk_invalid(err, "locker_lock_all needs a locker, keys and a pointer for the handle");
    if (n == 0 || n > LOCKER_KEYS_MAX)
        return lk_invalid(err, "locker_lock_all takes 1 to %d keys, not %zu", LOCKER_KEYS_MAX, n);
    locker_status status = lk_enter(l, "locker_lock_all", err); /* closing waits between two keys, too */
    if (status != LOCKER_OK)
        return status;
    if (options != NULL)
        status = LK_SIZED_TAKE(locker_lock_options, &own, options, label, err);
    if (status == LOCKER_OK)
        status = lock_all(l, keys, n, &own, out, err);
    lk_leave(l);
    return status;
}
