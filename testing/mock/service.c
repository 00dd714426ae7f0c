/* service.c: the lock service itself: keys, who waits for them, leases and sessions.
 *
 * A key in which there is room is given to the next who waits at once, and that one is woken; its next attempt
 * finds the grant. So nobody overtakes, whatever the threads do. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const int64_t release_again_after = 1000 * LK_MS;

/* ------------------------------------------------------------------ names and entries ---- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

const char *lk_mock_intern_locked(locker_mock *m, const char *text)
{
    char *const *found = tfind(text, &m->name_tree, compare_texts);
    if (found != NULL)
        return *found;
    char *copy = strdup(text);
    if (copy != NULL && tsearch(copy, &m->name_tree, compare_texts) == NULL) {
        free(copy);
        copy = NULL;
    }
    return copy != NULL ? copy : "";
}

/* An entry is compared by its key's bytes, which stand at a fixed place in it. */
static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const lk_mock_entry *)a)->key, ((const lk_mock_entry *)b)->key);
}

/* Nobody else sees it yet. */
LK_UNCHECKED static lk_mock_entry *make_entry(const char *key, size_t length)
{
    lk_mock_entry *entry = calloc(1, sizeof *entry + length + 1);
    if (entry == NULL)
        return NULL;
    memcpy(entry->key, key, length);
    lk_list_init(&entry->grants);
    lk_list_init(&entry->queue);
    return entry;
}

lk_mock_entry *lk_mock_entry_locked(locker_mock *m, const char *key, size_t length)
{
    lk_mock_entry *fresh = make_entry(key, length);
    if (fresh == NULL)
        return NULL;
    lk_mock_entry **found = tsearch(fresh, &m->entry_tree, compare_entries);
    if (found == NULL || *found != fresh) {
        free(fresh);
        return found == NULL ? NULL : *found;
    }
    *m->entries_end = fresh;
    m->entries_end = &fresh->next;
    return fresh;
}

lk_mock_entry *lk_mock_find_locked(locker_mock *m, const char *key)
{
    lk_mock_entry *entry = m->entries;
    while (entry != NULL && strcmp(entry->key, key) != 0)
        entry = entry->next;
    return entry;
}

/* ------------------------------------------------------------------ chance ---- */

/* SplitMix64: https://prng.di.unimi.it/splitmix64.c */
static uint64_t random_locked(locker_mock *m) LK_REQUIRES(m->mutex)
{
    uint64_t z = m->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t lk_mock_token_locked(locker_mock *m)
{
    m->last_token += m->options.seed == 0 ? 1 : 1 + random_locked(m) % 1000;
    return m->last_token;
}

/* ------------------------------------------------------------------ queues ---- */

/* Who shares the key is told that somebody waits. */
static void tell_awaited_locked(const locker_mock *m, const lk_mock_entry *entry) LK_REQUIRES(m->mutex)
{
    (void)m;
    LK_EACH(const lk_mock_grant, g, link, &entry->grants)
        if (g->mode == LOCKER_SHARED && g->claim != NULL && lk_mock_place_of(g->claim)->answered)
            g->host->svc->awaited(g->host->svc, g->claim);
}

void lk_mock_enqueue_locked(const locker_mock *m, lk_mock_entry *entry, locker_claim *claim)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    if (lk_list_empty(&entry->queue))
        tell_awaited_locked(m, entry);
    p->state = LK_MOCK_QUEUED;
    lk_list_append(&entry->queue, &p->link);
}

static void unqueue_locked(const locker_mock *m, const locker_claim *claim) LK_REQUIRES(m->mutex)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    (void)m;
    lk_list_remove(&p->link);
    p->state = LK_MOCK_NEW;
}

/* One that is cut off hears of nothing, unless its place in the queue is a session's. */
static bool can_be_next_locked(const locker_mock *m, const locker_claim *claim) LK_REQUIRES(m->mutex)
{
    return m->options.leases == LOCKER_MOCK_LEASES_SESSION || !lk_mock_place_of(claim)->host->cut;
}

static locker_claim *first_locked(const locker_mock *m, const lk_mock_entry *entry) LK_REQUIRES(m->mutex)
{
    LK_EACH(const lk_mock_place, p, link, &entry->queue)
        if (can_be_next_locked(m, p->claim))
            return p->claim;
    return NULL;
}

static bool luck_decides_locked(const locker_mock *m) LK_REQUIRES(m->mutex)
{
    return m->options.seed != 0 && !m->options.queue;
}

/* Whether one that shares would go past somebody who wants the key alone. */
static bool passes_a_writer_locked(const locker_mock *m, const lk_mock_entry *entry,
                                   const locker_claim *claim) LK_REQUIRES(m->mutex)
{
    LK_EACH(const lk_mock_place, p, link, &entry->queue) {
        if (p->claim == claim)
            return false;
        if (locker_claim_is_plain(p->claim) && can_be_next_locked(m, p->claim))
            return true;
    }
    return false;
}

static bool fits_locked(const locker_mock *m, const lk_mock_entry *entry, const locker_claim *claim)
    LK_REQUIRES(m->mutex)
{
    return lk_mock_has_room_locked(m, entry, claim->mode, claim->permits) &&
           (lk_list_empty(&entry->grants) || claim->permits > 0 || !passes_a_writer_locked(m, entry, claim));
}

/* Who enters first: the first, or with a seed any. */
static locker_claim *next_locked(locker_mock *m, const lk_mock_entry *entry) LK_REQUIRES(m->mutex)
{
    locker_claim *chosen = first_locked(m, entry);
    uint64_t n = 0;
    if (luck_decides_locked(m))
        LK_EACH(const lk_mock_place, p, link, &entry->queue)
            if (can_be_next_locked(m, p->claim) && random_locked(m) % ++n == 0)
                chosen = p->claim;
    return chosen;
}

/* ------------------------------------------------------------------ grants ---- */

/* A session keeps a lock, unless the lock is meant to end before. */
static int64_t lease_of_locked(const locker_mock *m, const locker_claim *claim) LK_REQUIRES(m->mutex)
{
    const int64_t session = lk_mock_place_of(claim)->host->session_ns;
    if (m->options.leases == LOCKER_MOCK_LEASES_NONE)
        return LOCKER_NEVER;
    if (m->options.leases == LOCKER_MOCK_LEASES_RENEWED || (!claim->renewed && claim->ttl_ns < session))
        return claim->ttl_ns;
    return session;
}

/* The service has heard of the host, which keeps its session. */
static void hear_locked(const locker_mock *m, lk_mock_host *h) LK_REQUIRES(m->mutex)
{
    if (m->options.leases != LOCKER_MOCK_LEASES_SESSION)
        return;
    if (h->session_until == LOCKER_NEVER)
        h->beat_at = lk_time_after(lk_mock_now(m), h->session_ns / 3);
    h->session_until = lk_time_after(lk_mock_now(m), h->session_ns);
}

static void start_lease_locked(const locker_mock *m, const locker_claim *claim) LK_REQUIRES(m->mutex)
{
    if (m->options.leases == LOCKER_MOCK_LEASES_RENEWED)
        lk_mock_place_of(claim)->grant->until = lk_time_after(lk_mock_now(m), claim->ttl_ns);
}

void lk_mock_grant_locked(locker_mock *m, locker_claim *claim)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    p->state = LK_MOCK_GRANTED;
    lk_mock_hold_locked(m, p->grant, lk_mock_token_locked(m));
    start_lease_locked(m, claim);
}

/* Held so that nobody else can hold it too. */
static bool is_shut_locked(const locker_mock *m, const lk_mock_entry *entry) LK_REQUIRES(m->mutex)
{
    const lk_mock_grant *const first = lk_mock_first_grant_locked(m, entry);
    return first != NULL && !lk_mock_has_room_locked(m, entry, first->mode, first->permits);
}

void lk_mock_admit_locked(locker_mock *m, lk_mock_entry *entry)
{
    while (!is_shut_locked(m, entry)) {
        locker_claim *const claim = next_locked(m, entry);
        if (claim == NULL || !fits_locked(m, entry, claim))
            return;
        unqueue_locked(m, claim);
        lk_mock_grant_locked(m, claim);
        lk_mock_place_of(claim)->host->svc->wake(lk_mock_place_of(claim)->host->svc, claim);
    }
}

void lk_mock_free_locked(locker_mock *m, lk_mock_grant *grant)
{
    lk_mock_entry *const entry = grant->entry;
    lk_mock_unhold_locked(m, grant);
    lk_mock_admit_locked(m, entry);
}

void lk_mock_leave_queue_locked(locker_mock *m, lk_mock_entry *entry, locker_claim *claim)
{
    unqueue_locked(m, claim);
    lk_mock_admit_locked(m, entry);
}

/* There may be room though some wait: after a fault that said busy, or because they are cut off. */
static bool is_its_turn_locked(const locker_mock *m, const lk_mock_entry *entry, const locker_claim *claim)
    LK_REQUIRES(m->mutex)
{
    const locker_claim *const first = first_locked(m, entry);
    return first == NULL || first == claim || !m->options.queue;
}

/* How the key is used, by those who hold it or else by the first who waits; nobody: as is asked. */
static int32_t use_locked(const locker_mock *m, const lk_mock_entry *entry, int32_t asked)
    LK_REQUIRES(m->mutex)
{
    const lk_mock_grant *const grant = lk_mock_first_grant_locked(m, entry);
    const locker_claim *const first = first_locked(m, entry);
    return grant != NULL ? grant->permits : first != NULL ? first->permits : asked;
}

/* One that has no grant. */
static locker_status ask_locked(locker_mock *m, lk_mock_entry *entry, locker_claim *claim, locker_error *err)
    LK_REQUIRES(m->mutex)
{
    const bool queued = lk_mock_place_of(claim)->state == LK_MOCK_QUEUED;
    const int32_t use = use_locked(m, entry, claim->permits);
    if (use != claim->permits)
        return locker_other_use(err, use, claim->permits);
    if (fits_locked(m, entry, claim) && is_its_turn_locked(m, entry, claim)) {
        if (queued)
            unqueue_locked(m, claim);
        lk_mock_grant_locked(m, claim);
        lk_mock_admit_locked(m, entry);
        return LOCKER_OK;
    }
    if (claim->will_wait && !queued)
        lk_mock_enqueue_locked(m, entry, claim);
    return LOCKER_BUSY;
}

locker_status lk_mock_attempt_locked(locker_mock *m, lk_mock_host *host, locker_claim *claim,
                                     locker_error *err)
{
    const lk_mock_place *const p = lk_mock_place_of(claim);
    lk_mock_entry *const entry = lk_mock_entry_locked(m, claim->key, claim->key_len);
    locker_status status = LOCKER_OK;
    if (entry == NULL || (p->host == NULL && !lk_mock_adopt_locked(m, host, entry, claim)))
        return LOCKER_NOMEM;
    hear_locked(m, host);
    if (p->state == LK_MOCK_GRANTED)
        start_lease_locked(m, claim);
    else
        status = ask_locked(m, entry, claim, err);
    if (status != LOCKER_OK)
        return status;
    claim->token = p->grant->token;
    claim->slot = p->grant->slot;
    claim->valid_until = lk_time_after(claim->asked_at, lease_of_locked(m, claim));
    return LOCKER_OK;
}

locker_status lk_mock_take_locked(locker_mock *m, lk_mock_entry *entry, const char *owner, locker_mode mode,
                                  int32_t permits, int64_t until, uint64_t *token)
{
    if (use_locked(m, entry, permits) != permits)
        return LOCKER_CONFIG;
    if (!lk_mock_has_room_locked(m, entry, mode, permits) ||
        (!lk_list_empty(&entry->grants) && permits == 0 && passes_a_writer_locked(m, entry, NULL)))
        return LOCKER_BUSY;
    lk_mock_grant *const grant = calloc(1, sizeof *grant);
    if (grant == NULL)
        return LOCKER_NOMEM;
    grant->entry = entry;
    grant->owner = lk_mock_intern_locked(m, owner);
    grant->foreign = true;
    grant->mode = mode;
    grant->permits = permits;
    lk_mock_hold_locked(m, grant, lk_mock_token_locked(m));
    grant->until = until;
    *token = grant->token;
    return LOCKER_OK;
}

locker_status lk_mock_extend_locked(locker_mock *m, locker_claim *grant, int64_t *until)
{
    lk_mock_place *p = lk_mock_place_of(grant);
    if (p->state != LK_MOCK_GRANTED)
        return LOCKER_LOST;
    hear_locked(m, p->host);
    start_lease_locked(m, grant);
    *until = lk_time_after(lk_mock_now(m), lease_of_locked(m, grant));
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ the life of a claim ---- */

bool lk_mock_adopt_locked(locker_mock *m, lk_mock_host *host, lk_mock_entry *entry, locker_claim *claim)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    p->grant = calloc(1, sizeof *p->grant);
    if (p->grant == NULL)
        return false;
    p->grant->entry = entry;
    p->grant->claim = claim;
    p->grant->host = p->host = host;
    p->grant->owner = lk_mock_intern_locked(m, claim->owner);
    p->grant->mode = claim->mode;
    p->grant->permits = claim->permits;
    p->claim = claim;
    lk_list_prepend(&host->claims, &p->of_host);
    return true;
}

static void forget_locked(locker_mock *m, const locker_claim *claim) LK_REQUIRES(m->mutex)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    lk_mock_reply **link = &m->replies;
    lk_list_remove(&p->of_host);
    p->host = NULL;
    while (*link != NULL) {
        lk_mock_reply *reply = *link;
        if (reply->grant != claim) {
            link = &reply->next;
            continue;
        }
        *link = reply->next;
        free(reply);
    }
}

void lk_mock_take_away_locked(locker_mock *m, const locker_claim *claim)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    if (p->state != LK_MOCK_GRANTED)
        return;
    p->state = LK_MOCK_LOST;
    lk_mock_free_locked(m, p->grant);
}

/* Core hears of a loss only if it knows of the grant; else the claim asks again. */
static void rob_one_locked(locker_mock *m, lk_mock_grant *grant, const char *why) LK_REQUIRES(m->mutex)
{
    locker_claim *const claim = grant->claim;
    if (claim == NULL) {
        lk_mock_free_locked(m, grant);
        return;
    }
    const lk_mock_place *const p = lk_mock_place_of(claim);
    lk_mock_take_away_locked(m, claim);
    if (p->answered && !p->host->cut)
        p->host->svc->lease_lost(p->host->svc, claim, why);
}

size_t lk_mock_rob_locked(locker_mock *m, const lk_mock_entry *entry, const locker_break_options *only,
                          const char *why)
{
    const uint64_t newest = m->last_token; /* whoever enters meanwhile is none of them */
    size_t n = 0;
    for (lk_mock_grant *g; (g = lk_mock_named_locked(m, entry, only, newest)) != NULL; n++)
        rob_one_locked(m, g, why);
    return n;
}

locker_status lk_mock_end_locked(locker_mock *m, locker_claim *claim, bool arrives)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    lk_mock_grant *const grant = p->grant;
    const bool held = p->state == LK_MOCK_GRANTED;
    if (p->host == NULL)
        return LOCKER_LOST; /* it never got as far as the service */
    if (p->state == LK_MOCK_QUEUED)
        lk_mock_leave_queue_locked(m, grant->entry, claim);
    forget_locked(m, claim);
    p->grant = NULL;
    grant->claim = NULL;
    if (!held)
        free(grant);
    else if (arrives)
        lk_mock_free_locked(m, grant);
    else
        grant->retry_at = lk_time_after(lk_mock_now(m), release_again_after);
    return held ? LOCKER_OK : LOCKER_LOST;
}

void lk_mock_reply_later_locked(locker_mock *m, locker_claim *grant, int64_t at, int64_t until)
{
    lk_mock_reply *reply = malloc(sizeof *reply), **link = &m->replies;
    if (reply == NULL)
        return;
    while (*link != NULL && (*link)->at <= at)
        link = &(*link)->next;
    *reply = (lk_mock_reply){*link, grant, at, until};
    *link = reply;
}
