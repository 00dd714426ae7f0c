/* inspect.c: show, break, ping and what a service promises. */
#include "claim.h"
#include "frame.h"
#include "lk_sized.h"
#include "share.h"

void locker_info_clear(locker_info *info)
{
    if (info == NULL)
        return;
    const locker_info cleared = LOCKER_INFO_INIT;
    free(info->queue);
    free(info->holders);
    if (lk_sized_is(info->size, offsetof(locker_info, queue_stride)))
        lk_sized_give(info, info->size, &cleared, sizeof cleared);
}

/* Our grant with that token; NULL: it is none of ours. */
static const lk_claim *own_grant_locked(const locker *l, const lk_key *key, uint64_t token)
    LK_REQUIRES(l->mutex)
{
    (void)l;
    if (key->holder != NULL)
        return key->holder->pub.token == token ? key->holder : NULL;
    LK_EACH(lk_claim, sharer, among, &key->sharers)
        if (sharer->pub.token == token)
            return sharer;
    return NULL;
}

/* A lock of ours that is meant to end, where services don't know when: the one shown, if the token is. */
static void tell_own_end(locker *l, const char *key, size_t length, locker_info *info)
{
    const locker_claim spelled = {.key = key, .key_len = length, .key_hash = locker_key_hash(key, length)};
    if (!info->held || info->remaining_ms >= 0 || info->token == 0)
        return;
    lk_mutex_lock(&l->mutex);
    const lk_key *found = lk_key_find_locked(l, &spelled);
    const lk_claim *const grant = found != NULL ? own_grant_locked(l, found, info->token) : NULL;
    if (grant != NULL && !grant->pub.renewed) {
        const int64_t until = LK_READ(grant->valid_until);
        info->remaining_ms = until == LOCKER_NEVER ? -1 : lk_time_left(lk_now(l), until) / LK_MS;
    }
    lk_mutex_unlock(&l->mutex);
}

/* Whoever comes to share the key after that asks the service, whether the word of it has come or not. */
static locker_status break_it(locker *l, const char *key, size_t length, const locker_break_options *only,
                              int64_t until, locker_info *broken, locker_error *err)
{
    const locker_claim spelled = {.key = key, .key_len = length, .key_hash = locker_key_hash(key, length)};
    const locker_status status = l->driver->break_lock(l->self, key, length, only, until, broken, err);
    lk_mutex_lock(&l->mutex);
    const lk_key *const found = lk_key_find_locked(l, &spelled);
    if (found != NULL)
        lk_shut_locked(l, found);
    lk_mutex_unlock(&l->mutex);
    return status;
}

/* What show and break have in common: both look. `only` is for break. */
static locker_status inspect(locker *l, const char *key, const locker_break_options *only, locker_info *info,
                             const char *what, locker_error *err)
{
    LK_NO_CANCEL;
    locker_info found = LOCKER_INFO_INIT;
    const bool sized = info == NULL || lk_sized_is(info->size, offsetof(locker_info, queue_stride));
    if (l == NULL || !sized)
        return lk_invalid(err, "%s needs a locker, and an info that starts from LOCKER_INFO_INIT", what);
    locker_status status = lk_enter(l, what, err);
    if (status != LOCKER_OK)
        return status;
    const locker_driver *d = l->driver;
    const int64_t until = lk_time_after(lk_now(l), l->command_timeout_ns);
    size_t length;
    status = lk_check_key(l, key, &length, err);
    if (only != NULL && d->break_lock == NULL)
        status = lk_unsupported(err, "the %s driver does not support %s", d->name, what);
    else if (status == LOCKER_OK && only != NULL)
        status = break_it(l, key, length, only, until, &found, err);
    else if (status == LOCKER_OK)
        status = d->show(l->self, key, length, until, &found, err);
    if (status == LOCKER_OK && only == NULL)
        tell_own_end(l, key, length, &found);
    lk_leave(l);
    if ((status != LOCKER_OK && status != LOCKER_BUSY) || info == NULL)
        locker_info_clear(&found);
    if (info != NULL)
        lk_sized_give(info, info->size, &found, sizeof found);
    return status == LOCKER_OK ? lk_ok(err) : status;
}

locker_status locker_show(locker *l, const char *key, locker_info *info, locker_error *err)
{
    if (info == NULL)
        return lk_invalid(err, "locker_show needs a pointer for the answer");
    return inspect(l, key, NULL, info, "locker_show", err);
}

locker_status locker_break(locker *l, const char *key, const locker_break_options *options,
                           locker_info *broken, locker_error *err)
{
    locker_break_options own = LOCKER_BREAK_OPTIONS_INIT;
    locker_status status = LOCKER_OK;
    if (options != NULL)
        status = LK_SIZED_TAKE(locker_break_options, &own, options, owner, err);
    return status == LOCKER_OK ? inspect(l, key, &own, broken, "locker_break", err) : status;
}

locker_status locker_ping(locker *l, int64_t *round_trip_us, locker_error *err)
{
    LK_NO_CANCEL;
    if (l == NULL)
        return lk_invalid(err, "locker_ping needs a locker");
    locker_status status = lk_enter(l, "locker_ping", err);
    if (status != LOCKER_OK)
        return status;
    const int64_t sent = lk_now(l);
    status = l->driver->ping(l->self, lk_time_after(sent, l->command_timeout_ns), err);
    if (round_trip_us != NULL)
        *round_trip_us = (lk_now(l) - sent) / 1000;
    lk_leave(l);
    return status == LOCKER_OK ? lk_ok(err) : status;
}

const char *locker_get_service(const locker *l)
{
    return l != NULL ? l->service : NULL;
}

const char *locker_get_origin(const locker *l)
{
    return l != NULL ? l->origin : NULL;
}

const locker_semantics *locker_get_semantics(const locker *l)
{
    return l != NULL ? l->driver->semantics : NULL;
}
