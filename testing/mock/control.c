/* control.c: what a test does to the service. */
#include <string.h>

#include "flight.h"

locker_status locker_mock_on(locker_mock *mock, const locker_fault *fault, locker_error *err)
{
    if (mock == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "the mock passed to locker_mock_on is NULL");
    lk_mutex_lock(&mock->mutex);
    const locker_status status = lk_script_add(mock->script, fault, err);
    lk_mutex_unlock(&mock->mutex);
    return status;
}

locker_status locker_mock_script(locker_mock *mock, const char *text, locker_error *err)
{
    if (mock == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "the mock passed to locker_mock_script is NULL");
    lk_mutex_lock(&mock->mutex);
    const locker_status status = lk_script_parse(mock->script, text, err);
    lk_mutex_unlock(&mock->mutex);
    return status;
}

void locker_mock_forget(locker_mock *mock)
{
    lk_mutex_lock(&mock->mutex);
    lk_script_clear(mock->script);
    lk_mutex_unlock(&mock->mutex);
}

locker_status locker_mock_lose(locker_mock *mock, const char *key)
{
    const locker_break_options all = LOCKER_BREAK_OPTIONS_INIT;
    lk_mutex_lock(&mock->mutex);
    const lk_mock_entry *const entry = lk_mock_find_locked(mock, key);
    const size_t lost =
        entry != NULL ? lk_mock_rob_locked(mock, entry, &all, "the service took the lock away") : 0;
    lk_mutex_unlock(&mock->mutex);
    return lost > 0 ? LOCKER_OK : LOCKER_INVALID;
}

void locker_mock_lose_all(locker_mock *mock, const locker *l)
{
    lk_mutex_lock(&mock->mutex);
    for (lk_mock_host *h = mock->hosts; h != NULL; h = h->next)
        if (h->svc != NULL && (l == NULL || h->l == l))
            lk_mock_end_session_locked(mock, h);
    lk_mutex_unlock(&mock->mutex);
}

void locker_mock_disconnect(locker_mock *mock, const locker *l)
{
    lk_mutex_lock(&mock->mutex);
    mock->down = mock->down || l == NULL;
    for (lk_mock_host *h = mock->hosts; h != NULL; h = h->next)
        if (h->svc != NULL && (l == NULL || h->l == l))
            lk_mock_cut_locked(mock, h);
    lk_mutex_unlock(&mock->mutex);
}

void locker_mock_reconnect(locker_mock *mock, const locker *l)
{
    lk_mutex_lock(&mock->mutex);
    mock->down = mock->down && l != NULL;
    for (lk_mock_host *h = mock->hosts; h != NULL; h = h->next)
        if (h->svc != NULL && (l == NULL || h->l == l))
            lk_mock_mend_locked(mock, h);
    lk_mutex_unlock(&mock->mutex);
}

locker_status locker_mock_take_as(locker_mock *mock, const char *key, const char *owner, locker_mode mode,
                                  int32_t permits, int64_t ttl_ms, uint64_t *token)
{
    locker_status status = LOCKER_NOMEM;
    uint64_t given = 0;
    if (mock == NULL || key == NULL || key[0] == '\0' || strlen(key) > LOCKER_KEY_MAX || owner == NULL ||
        ttl_ms < 0 || permits < 0 || permits > LOCKER_PERMITS_MAX ||
        (mode != LOCKER_EXCLUSIVE && (mode != LOCKER_SHARED || permits > 0)))
        return LOCKER_INVALID;
    lk_mutex_lock(&mock->mutex);
    const int64_t until = ttl_ms > 0 ? lk_time_after(lk_mock_now(mock), ttl_ms * LK_MS) : LOCKER_NEVER;
    lk_mock_entry *const entry = lk_mock_entry_locked(mock, key, strlen(key));
    if (entry != NULL)
        status = lk_mock_take_locked(mock, entry, owner, mode, permits, until, &given);
    lk_mutex_unlock(&mock->mutex);
    if (status == LOCKER_OK && token != NULL)
        *token = given;
    return status;
}

locker_status locker_mock_take(locker_mock *mock, const char *key, const char *owner, int64_t ttl_ms,
                               uint64_t *token)
{
    const locker_status status = locker_mock_take_as(mock, key, owner, LOCKER_EXCLUSIVE, 0, ttl_ms, token);
    return status == LOCKER_CONFIG ? LOCKER_BUSY : status;
}

/* The foreign client that has held the key for the longest time. NULL: none does. */
static lk_mock_grant *foreign_locked(const locker_mock *m, const lk_mock_entry *entry) LK_REQUIRES(m->mutex)
{
    lk_mock_grant *oldest = NULL;
    (void)m;
    LK_EACH(lk_mock_grant, g, link, &entry->grants)
        if (g->foreign && (oldest == NULL || g->token < oldest->token))
            oldest = g;
    return oldest;
}

locker_status locker_mock_leave(locker_mock *mock, const char *key)
{
    lk_mutex_lock(&mock->mutex);
    const lk_mock_entry *const entry = lk_mock_find_locked(mock, key);
    lk_mock_grant *const grant = entry != NULL ? foreign_locked(mock, entry) : NULL;
    if (grant != NULL)
        lk_mock_free_locked(mock, grant);
    lk_mutex_unlock(&mock->mutex);
    return grant != NULL ? LOCKER_OK : LOCKER_INVALID;
}

void locker_mock_wake(locker_mock *mock, const char *key)
{
    lk_mutex_lock(&mock->mutex);
    for (lk_mock_entry *entry = mock->entries; entry != NULL; entry = entry->next) {
        if (key != NULL && strcmp(key, entry->key) != 0)
            continue;
        LK_EACH(const lk_mock_place, p, link, &entry->queue)
            p->host->svc->wake(p->host->svc, p->claim);
    }
    lk_mutex_unlock(&mock->mutex);
}
