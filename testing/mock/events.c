/* events.c: what happens to the service in time: ends of leases and sessions, heartbeats, late answers; and
 * connections that break. */
#include <stdlib.h>

#include "internal.h"

/* ------------------------------------------------------------------ sessions and connections ---- */

void lk_mock_end_session_locked(locker_mock *m, lk_mock_host *host)
{
    host->session_until = host->beat_at = LOCKER_NEVER;
    for (locker_claim *c = host->claims; c != NULL; c = lk_mock_place_of(c)->host_next) {
        lk_mock_take_away_locked(m, c);
        if (m->options.leases == LOCKER_MOCK_LEASES_SESSION && lk_mock_place_of(c)->state == LK_MOCK_QUEUED) {
            lk_mock_leave_queue_locked(m, lk_mock_place_of(c)->slot, c);
            host->svc->wake(host->svc, c);
        }
    }
    for (lk_mock_slot *slot = m->slots; slot != NULL; slot = slot->next)
        if (slot->held && slot->holder == NULL && slot->host == host)
            lk_mock_free_locked(m, slot);
    host->session_lost = host->cut;
    if (!host->cut)
        host->svc->lease_lost(host->svc, NULL, "the service has ended the session");
}

/* What was lost meanwhile and no renewal will show; and the waiters ask again. */
static void catch_up_locked(locker_mock *m, lk_mock_host *host) LK_REQUIRES(m->mutex)
{
    for (locker_claim *c = host->claims; c != NULL; c = lk_mock_place_of(c)->host_next) {
        const lk_mock_place *p = lk_mock_place_of(c);
        if (p->answered && p->state == LK_MOCK_LOST && m->options.leases != LOCKER_MOCK_LEASES_RENEWED)
            host->svc->lease_lost(host->svc, c, "it was taken away while the service was out of reach");
        if (!p->answered)
            host->svc->wake(host->svc, c);
    }
}

void lk_mock_mend_locked(locker_mock *m, lk_mock_host *host)
{
    if (!host->cut)
        return;
    host->cut = false;
    for (lk_mock_slot *slot = m->slots; slot != NULL; slot = slot->next)
        if (slot->held && slot->holder == NULL && slot->host == host)
            lk_mock_free_locked(m, slot);
    if (host->svc == NULL)
        return;
    if (host->session_lost) {
        host->session_lost = false;
        host->svc->lease_lost(host->svc, NULL, "the service has ended the session");
    }
    catch_up_locked(m, host);
    if (host->session_until != LOCKER_NEVER)
        lk_mock_beat_locked(m, host);
    host->svc->suspect(host->svc, false);
}

/* ------------------------------------------------------------------ what becomes due ---- */

/* A release is repeated when its host is there to do it. */
static int64_t slot_due_locked(const locker_mock *m, const lk_mock_slot *slot) LK_REQUIRES(m->mutex)
{
    const bool repeated = slot->retry_at != LOCKER_NEVER && slot->host != NULL && !slot->host->cut;
    (void)m;
    return !slot->held ? LOCKER_NEVER
                       : lk_time_earlier(slot->until, repeated ? slot->retry_at : LOCKER_NEVER);
}

static int64_t host_due_locked(const locker_mock *m, const lk_mock_host *h) LK_REQUIRES(m->mutex)
{
    (void)m;
    return lk_time_earlier(h->beat_at, h->session_until);
}

static int64_t next_due_locked(const locker_mock *m) LK_REQUIRES(m->mutex)
{
    int64_t at = m->replies != NULL ? m->replies->at : LOCKER_NEVER;
    for (const lk_mock_host *h = m->hosts; h != NULL; h = h->next)
        at = lk_time_earlier(at, host_due_locked(m, h));
    for (const lk_mock_slot *slot = m->slots; slot != NULL; slot = slot->next)
        at = lk_time_earlier(at, slot_due_locked(m, slot));
    return at;
}

int64_t lk_mock_next_due(locker_mock *m)
{
    lk_mutex_lock(&m->mutex);
    const int64_t at = next_due_locked(m);
    lk_mutex_unlock(&m->mutex);
    return at;
}

static void tell_extension_locked(locker_mock *m) LK_REQUIRES(m->mutex)
{
    lk_mock_reply *reply = m->replies;
    const locker_services *svc = lk_mock_place_of(reply->grant)->host->svc;
    m->replies = reply->next;
    svc->lease_extended(svc, reply->grant, reply->until);
    free(reply);
}

static void run_host_locked(locker_mock *m, lk_mock_host *h) LK_REQUIRES(m->mutex)
{
    if (h->session_until <= lk_mock_now(m) && h->session_until <= h->beat_at) {
        lk_mock_end_session_locked(m, h);
        return;
    }
    h->beat_at = lk_time_after(h->beat_at, h->session_ns / 3);
    if (!h->cut)
        lk_mock_beat_locked(m, h);
}

static void run_slot_locked(locker_mock *m, lk_mock_slot *slot) LK_REQUIRES(m->mutex)
{
    if (slot->holder != NULL)
        lk_mock_place_of(slot->holder)->state = LK_MOCK_LOST;
    lk_mock_free_locked(m, slot);
}

void lk_mock_run_due(locker_mock *m)
{
    lk_mutex_lock(&m->mutex);
    const int64_t at = next_due_locked(m);
    if (at <= lk_mock_now(m)) {
        lk_mock_host *h = m->hosts;
        lk_mock_slot *slot = m->slots;
        while (h != NULL && host_due_locked(m, h) != at)
            h = h->next;
        while (slot != NULL && slot_due_locked(m, slot) != at)
            slot = slot->next;
        if (m->replies != NULL && m->replies->at == at)
            tell_extension_locked(m);
        else if (h != NULL)
            run_host_locked(m, h);
        else if (slot != NULL)
            run_slot_locked(m, slot);
    }
    lk_mutex_unlock(&m->mutex);
}
