/* inspect.c: the operations that look at the service: show, break, ping. */
#include <stdlib.h>
#include <string.h>

#include "flight.h"

static void describe_holder_locked(const locker_mock *m, const lk_mock_grant *g, locker_holder *holder)
    LK_REQUIRES(m->mutex)
{
    const int64_t session = g->host != NULL ? g->host->session_until : LOCKER_NEVER;
    const int64_t end = lk_time_earlier(g->until, session);
    (void)strncpy(holder->owner, g->owner, LOCKER_OWNER_MAX);
    holder->token = g->token;
    holder->since_unix_ms = g->since / LK_MS;
    holder->remaining_ms = end == LOCKER_NEVER ? -1 : (end - lk_mock_now(m)) / LK_MS;
    holder->slot = g->permits > 0 ? g->slot : -1;
}

/* Those who hold it and whom `only` names. */
static locker_status describe_holders_locked(const locker_mock *m, const lk_mock_entry *entry,
                                             const locker_break_options *only, locker_info *info)
    LK_REQUIRES(m->mutex)
{
    const lk_mock_grant *const first = lk_mock_first_grant_locked(m, entry);
    size_t n = 1; /* the first */
    info->token = entry->token;
    if (first == NULL)
        return LOCKER_OK;
    LK_EACH(const lk_mock_grant, g, link, &entry->grants)
        n++;
    info->holders = calloc(n, sizeof *info->holders);
    if (info->holders == NULL)
        return LOCKER_NOMEM;
    LK_EACH(const lk_mock_grant, g, link, &entry->grants)
        if (locker_break_names(only, g->owner, g->token))
            describe_holder_locked(m, g, &info->holders[info->holders_len++]);
    locker_info_settle(info, first->mode, first->permits);
    return LOCKER_OK;
}

static locker_status describe_queue_locked(const locker_mock *m, const lk_mock_entry *entry,
                                           locker_info *info) LK_REQUIRES(m->mutex)
{
    size_t n = 0;
    (void)m;
    LK_EACH(const lk_mock_place, p, link, &entry->queue)
        n++;
    info->waiters = (int64_t)n;
    info->queue = NULL;
    info->queue_stride = sizeof *info->queue;
    if (n == 0)
        return LOCKER_OK;
    info->queue = calloc(n, sizeof *info->queue);
    if (info->queue == NULL)
        return LOCKER_NOMEM;
    LK_EACH(const lk_mock_place, p, link, &entry->queue) {
        locker_waiter *const told = &info->queue[info->queue_len++];
        (void)strncpy(told->owner, p->claim->owner, LOCKER_OWNER_MAX);
        told->mode = p->claim->mode;
        told->permits = p->claim->permits;
    }
    return LOCKER_OK;
}

static const locker_break_options anybody = LOCKER_BREAK_OPTIONS_INIT;

static locker_status describe_locked(const locker_mock *m, const lk_mock_entry *entry, locker_info *info)
    LK_REQUIRES(m->mutex)
{
    info->waiters = 0;
    if (entry == NULL)
        return LOCKER_OK;
    const locker_status status = describe_holders_locked(m, entry, &anybody, info);
    return status == LOCKER_OK ? describe_queue_locked(m, entry, info) : status;
}

static locker_status break_locked(locker_mock *m, const lk_mock_entry *entry,
                                  const locker_break_options *only, locker_info *info, locker_error *err)
    LK_REQUIRES(m->mutex)
{
    if (entry == NULL || lk_list_empty(&entry->grants))
        return LOCKER_INVALID;
    const bool named = lk_mock_named_locked(m, entry, only, m->last_token) != NULL;
    locker_status status = describe_holders_locked(m, entry, named ? only : &anybody, info);
    if (status == LOCKER_OK)
        status = locker_break_check(only, info, err);
    if (status == LOCKER_OK)
        (void)lk_mock_rob_locked(m, entry, only, "it was broken");
    return status;
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
    if (status == LOCKER_INVALID && f.arrives && key != NULL)
        return locker_error_set(err, status, 0, "'%s' has no holder", key);
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
