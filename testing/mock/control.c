/* control.c: what a test does to the service. */
#include <string.h>

#include "flight.h"

locker_status locker_mock_on(locker_mock *mock, const locker_fault *fault, locker_error *err)
{
    if (mock == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "locker_mock_on needs a mock");
    lk_mutex_lock(&mock->mutex);
    const locker_status status = lk_script_add(mock->script, fault, err);
    lk_mutex_unlock(&mock->mutex);
    return status;
}

locker_status locker_mock_script(locker_mock *mock, const char *text, locker_error *err)
{
    if (mock == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "locker_mock_script needs a mock");
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

static void tell_loss_locked(const locker_mock *m, locker_claim *claim) LK_REQUIRES(m->mutex)
{
    const lk_mock_host *h = lk_mock_place_of(claim)->host;
    (void)m;
    if (!h->cut)
        h->svc->lease_lost(h->svc, claim, "the service has taken it away");
}

locker_status locker_mock_lose(locker_mock *mock, const char *key)
{
    locker_status status = LOCKER_INVALID;
    lk_mutex_lock(&mock->mutex);
    lk_mock_slot *slot = lk_mock_find_locked(mock, key);
    if (slot != NULL && slot->held) {
        locker_claim *holder = slot->holder;
        status = LOCKER_OK;
        if (holder != NULL) {
            lk_mock_take_away_locked(mock, holder);
            tell_loss_locked(mock, holder);
        } else {
            lk_mock_free_locked(mock, slot);
        }
    }
    lk_mutex_unlock(&mock->mutex);
    return status;
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

locker_status locker_mock_take(locker_mock *mock, const char *key, const char *owner, int64_t ttl_ms,
                               uint64_t *token)
{
    locker_status status = LOCKER_OK;
    if (key == NULL || key[0] == '\0' || strlen(key) > LOCKER_KEY_MAX || owner == NULL || ttl_ms < 0)
        return LOCKER_INVALID;
    lk_mutex_lock(&mock->mutex);
    lk_mock_slot *slot = lk_mock_slot_locked(mock, key, strlen(key));
    if (slot == NULL) {
        status = LOCKER_NOMEM;
    } else if (slot->held) {
        status = LOCKER_BUSY;
    } else {
        slot->held = slot->foreign = true;
        slot->owner = lk_mock_intern_locked(mock, owner);
        slot->token = lk_mock_token_locked(mock);
        slot->since = lk_mock_now(mock);
        slot->until = ttl_ms > 0 ? lk_mock_now(mock) + ttl_ms * LK_MS : LOCKER_NEVER;
        if (token != NULL)
            *token = slot->token;
    }
    lk_mutex_unlock(&mock->mutex);
    return status;
}

locker_status locker_mock_leave(locker_mock *mock, const char *key)
{
    lk_mutex_lock(&mock->mutex);
    lk_mock_slot *slot = lk_mock_find_locked(mock, key);
    const bool foreign = slot != NULL && slot->held && slot->foreign;
    if (foreign)
        lk_mock_free_locked(mock, slot);
    lk_mutex_unlock(&mock->mutex);
    return foreign ? LOCKER_OK : LOCKER_INVALID;
}

void locker_mock_wake(locker_mock *mock, const char *key)
{
    lk_mutex_lock(&mock->mutex);
    for (lk_mock_slot *slot = mock->slots; slot != NULL; slot = slot->next) {
        if (key != NULL && strcmp(key, slot->key) != 0)
            continue;
        for (locker_claim *c = slot->first; c != NULL; c = lk_mock_place_of(c)->next)
            lk_mock_place_of(c)->host->svc->wake(lk_mock_place_of(c)->host->svc, c);
    }
    lk_mutex_unlock(&mock->mutex);
}
