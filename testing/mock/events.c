/* events.c: what happens to the service in time: ends of leases and sessions, heartbeats, late answers; and
 * connections that break. */
#include <stdlib.h>

#include "internal.h"

/* ------------------------------------------------------------------ sessions and connections ---- */

/* Releases of the host's that did not arrive do. */
static void release_again_locked(locker_mock *m, const lk_mock_host *host) LK_REQUIRES(m->mutex)
{
    for (lk_mock_entry *entry = m->entries; entry != NULL; entry = entry->next)
        LK_EACH_SAFE(lk_mock_grant, g, link, &entry->grants)
            if (g->claim == NULL && g->host == host)
                lk_mock_free_locked(m, g);
}

void lk_mock_end_session_locked(locker_mock *m, lk_mock_host *host)
{
    host->session_until = host->beat_at = LOCKER_NEVER;
    LK_EACH(const lk_mock_place, p, of_host, &host->claims) {
        lk_mock_take_away_locked(m, p->claim);
        if (m->options.leases == LOCKER_MOCK_LEASES_SESSION && p->state == LK_MOCK_QUEUED) {
            lk_mock_leave_queue_locked(m, p->grant->entry, p->claim);
            host->svc->wake(host->svc, p->claim);
        }
    }
    release_again_locked(m, host);
    host->session_lost = host->cut;
    if (!host->cut)
        host->svc->lease_lost(host->svc, NULL, "the service has ended the session");
}

/* What was lost meanwhile and no renewal will show; and the waiters ask again. */
static void catch_up_locked(locker_mock *m, lk_mock_host *host) LK_REQUIRES(m->mutex)
{
    LK_EACH(const lk_mock_place, p, of_host, &host->claims) {
        if (p->answered && p->state == LK_MOCK_LOST && m->options.leases != LOCKER_MOCK_LEASES_RENEWED)
            host->svc->lease_lost(host->svc, p->claim,
                                  "the lock was taken away while the service was unreachable");
        if (!p->answered)
            host->svc->wake(host->svc, p->claim);
    }
}

void lk_mock_mend_locked(locker_mock *m, lk_mock_host *host)
{
    if (!host->cut)
        return;
    host->cut = false;
    release_again_locked(m, host);
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
static int64_t grant_due_locked(const locker_mock *m, const lk_mock_grant *g) LK_REQUIRES(m->mutex)
{
    const bool repeated = g->host != NULL && !g->host->cut;
    (void)m;
    return lk_time_earlier(g->until, repeated ? g->retry_at : LOCKER_NEVER);
}

static lk_mock_grant *first_due_locked(const locker_mock *m) LK_REQUIRES(m->mutex)
{
    lk_mock_grant *first = NULL;
    for (const lk_mock_entry *entry = m->entries; entry != NULL; entry = entry->next)
        LK_EACH(lk_mock_grant, g, link, &entry->grants)
            if (first == NULL || grant_due_locked(m, g) < grant_due_locked(m, first))
                first = g;
    return first;
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
    const lk_mock_grant *const first = first_due_locked(m);
    return first != NULL ? lk_time_earlier(at, grant_due_locked(m, first)) : at;
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

static void run_grant_locked(locker_mock *m, lk_mock_grant *grant) LK_REQUIRES(m->mutex)
{
    if (grant->claim != NULL)
        lk_mock_place_of(grant->claim)->state = LK_MOCK_LOST;
    lk_mock_free_locked(m, grant);
}

void lk_mock_run_due(locker_mock *m)
{
    lk_mutex_lock(&m->mutex);
    const int64_t at = next_due_locked(m);
    if (at <= lk_mock_now(m)) {
        lk_mock_host *h = m->hosts;
        while (h != NULL && host_due_locked(m, h) != at)
            h = h->next;
        if (m->replies != NULL && m->replies->at == at)
            tell_extension_locked(m);
        else if (h != NULL)
            run_host_locked(m, h);
        else
            run_grant_locked(m, first_due_locked(m));
    }
    lk_mutex_unlock(&m->mutex);
}
