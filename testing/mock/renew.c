/* renew.c: renewals: of leases, one by one, and by a session's heartbeat. */
#include "flight.h"

/* One lease's renewal, or its part of a heartbeat. Answers whether the service heard of it. */
static bool renew_one_locked(locker_mock *m, lk_mock_host *h, locker_claim *grant, size_t together)
    LK_REQUIRES(m->mutex)
{
    lk_mock_flight f = lk_mock_take_off_locked(m, h, LOCKER_OP_RENEW, grant->key, grant, LOCKER_NEVER);
    locker_status status = f.refusal;
    int64_t until = 0;
    f.call.token = grant->token;
    f.call.together = together;
    if (f.arrives)
        status = lk_mock_extend_locked(m, grant, &until);
    else if (status == LOCKER_LOST)
        lk_mock_take_away_locked(m, grant);
    if (f.silent)
        status = LOCKER_UNAVAILABLE;
    if (status == LOCKER_OK && f.fault.delay_ms > 0)
        lk_mock_reply_later_locked(m, grant, f.asked + f.fault.delay_ms * LK_MS, until);
    else if (status == LOCKER_OK)
        h->svc->lease_extended(h->svc, grant, until);
    else if (status == LOCKER_LOST)
        h->svc->lease_lost(h->svc, grant, "the service reports another holder, or none");
    if (f.fault.what == LOCKER_FAULT_LOSE_LOCK)
        lk_mock_take_away_locked(m, grant);
    (void)lk_mock_land_locked(m, &f, status);
    return f.arrives;
}

void lk_mock_renew(void *self, locker_claim *const *grants, size_t count)
{
    lk_mock_host *h = self;
    locker_mock *m = h->mock;
    lk_mutex_lock(&m->mutex);
    for (size_t i = 0; i < count; i++)
        (void)renew_one_locked(m, h, grants[i], count);
    lk_mutex_unlock(&m->mutex);
}

static bool is_kept_locked(const locker_mock *m, const lk_mock_place *p) LK_REQUIRES(m->mutex)
{
    (void)m;
    return p->answered && p->claim->renewed;
}

void lk_mock_beat_locked(locker_mock *m, lk_mock_host *h)
{
    size_t together = 0;
    bool heard = false;
    LK_EACH(const lk_mock_place, p, of_host, &h->claims)
        together += is_kept_locked(m, p);
    LK_EACH_SAFE(const lk_mock_place, p, of_host, &h->claims)
        heard = (is_kept_locked(m, p) && renew_one_locked(m, h, p->claim, together)) || heard;
    if ((heard || together == 0) && h->session_until != LOCKER_NEVER)
        h->session_until = lk_mock_now(m) + h->session_ns;
    if (lk_list_empty(&h->claims)) /* nothing to keep it up for */
        h->session_until = h->beat_at = LOCKER_NEVER;
}
