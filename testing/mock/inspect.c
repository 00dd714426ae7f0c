/* inspect.c: the operations that look at the service: show, break, ping. */
#include <stdlib.h>
#include <string.h>

#include "flight.h"

static locker_status describe_locked(const locker_mock *m, const lk_mock_slot *slot, locker_info *info)
    LK_REQUIRES(m->mutex)
{
    size_t n = 0;
    info->waiters = 0;
    if (slot == NULL)
        return LOCKER_OK;
    info->token = slot->token;
    info->held = slot->held;
    if (slot->held) {
        int64_t end = slot->until;
        if (slot->host != NULL && slot->host->session_until < end)
            end = slot->host->session_until;
        (void)strncpy(info->owner, slot->owner, LOCKER_OWNER_MAX);
        info->since_unix_ms = slot->since / LK_MS;
        info->remaining_ms = end == LOCKER_NEVER ? -1 : (end - lk_mock_now(m)) / LK_MS;
    }
    for (const locker_claim *c = slot->first; c != NULL; c = lk_mock_place_of(c)->next)
        n++;
    info->waiters = (int64_t)n;
    info->queue = n > 0 ? calloc(n, sizeof *info->queue) : NULL;
    info->queue_stride = sizeof *info->queue;
    if (n > 0 && info->queue == NULL)
        return LOCKER_NOMEM;
    for (const locker_claim *c = slot->first; c != NULL; c = lk_mock_place_of(c)->next)
        (void)strncpy(info->queue[info->queue_len++].owner, c->owner, LOCKER_OWNER_MAX);
    return LOCKER_OK;
}

static locker_status break_locked(locker_mock *m, lk_mock_slot *slot, const locker_break_options *only,
                                  locker_info *info, locker_error *err) LK_REQUIRES(m->mutex)
{
    locker_claim *holder = slot != NULL ? slot->holder : NULL;
    if (slot == NULL || !slot->held)
        return LOCKER_INVALID;
    locker_status status = describe_locked(m, slot, info);
    if (status == LOCKER_OK)
        status = locker_break_check(only, info, err);
    if (status != LOCKER_OK)
        return status;
    if (holder == NULL) {
        lk_mock_free_locked(m, slot);
        return LOCKER_OK;
    }
    lk_mock_take_away_locked(m, holder);
    if (!lk_mock_place_of(holder)->host->cut)
        lk_mock_place_of(holder)->host->svc->lease_lost(lk_mock_place_of(holder)->host->svc, holder,
                                                        "it was broken");
    return LOCKER_OK;
}

/* `only`: of a break. */
static locker_status look(lk_mock_host *h, locker_op op, const char *key, const locker_break_options *only,
                          int64_t until, locker_info *info, locker_error *err)
{
    locker_mock *m = h->mock;
    lk_mutex_lock(&m->mutex);
    lk_mock_flight f = lk_mock_take_off_locked(m, h, op, key, NULL, until);
    locker_status status;
    if (!f.arrives)
        status = f.refusal;
    else if (op == LOCKER_OP_PING)
        status = LOCKER_OK;
    else if (op == LOCKER_OP_SHOW)
        status = describe_locked(m, lk_mock_find_locked(m, key), info);
    else
        status = break_locked(m, lk_mock_find_locked(m, key), only, info, err);
    f.call.token = info != NULL ? info->token : 0;
    lk_mutex_unlock(&m->mutex);
    bool interrupted;
    status = lk_mock_travel(m, &f, status, LOCKER_UNAVAILABLE, &interrupted);
    lk_mutex_lock(&m->mutex);
    (void)lk_mock_land_locked(m, &f, status);
    lk_mutex_unlock(&m->mutex);
    if (status == LOCKER_BUSY && f.arrives)
        return status;
    if (status == LOCKER_INVALID && f.arrives)
        return locker_error_set(err, status, 0, "nobody holds '%s'", key);
    return lk_mock_explain(&f, status, err);
}

locker_status lk_mock_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err)
{
    (void)key_len;
    return look(self, LOCKER_OP_SHOW, key, NULL, until, info, err);
}

locker_status lk_mock_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err)
{
    (void)key_len;
    return look(self, LOCKER_OP_BREAK, key, only, until, broken, err);
}

locker_status lk_mock_ping(void *self, int64_t until, locker_error *err)
{
    return look(self, LOCKER_OP_PING, NULL, NULL, until, NULL, err);
}
