/* service.c: the lock service itself: keys, who holds them, who waits, leases and sessions, and what becomes
 * due.
 *
 * A lock that becomes free is given to the next who waits at once, and that one is woken; its next attempt
 * finds the grant. So nobody overtakes, whatever the threads do. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const int64_t release_again_after = 1000 * LK_MS;

/* ------------------------------------------------------------------ names and slots ---- */

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

/* A slot is compared by its key's bytes, which stand at a fixed place in it. */
static int compare_slots(const void *a, const void *b)
{
    return strcmp(((const lk_mock_slot *)a)->key, ((const lk_mock_slot *)b)->key);
}

/* Nobody else sees it yet. */
LK_UNCHECKED static lk_mock_slot *make_slot(const char *key, size_t length)
{
    lk_mock_slot *slot = calloc(1, sizeof *slot + length + 1);
    if (slot == NULL)
        return NULL;
    memcpy(slot->key, key, length);
    slot->until = slot->retry_at = LOCKER_NEVER;
    slot->owner = "";
    return slot;
}

lk_mock_slot *lk_mock_slot_locked(locker_mock *m, const char *key, size_t length)
{
    lk_mock_slot *fresh = make_slot(key, length);
    if (fresh == NULL)
        return NULL;
    lk_mock_slot **found = tsearch(fresh, &m->slot_tree, compare_slots);
    if (found == NULL || *found != fresh) {
        free(fresh);
        return found == NULL ? NULL : *found;
    }
    *m->slots_end = fresh;
    m->slots_end = &fresh->next;
    return fresh;
}

lk_mock_slot *lk_mock_find_locked(locker_mock *m, const char *key)
{
    lk_mock_slot *slot = m->slots;
    while (slot != NULL && strcmp(slot->key, key) != 0)
        slot = slot->next;
    return slot;
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

void lk_mock_enqueue_locked(locker_mock *m, lk_mock_slot *slot, locker_claim *claim)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    (void)m;
    p->state = LK_MOCK_QUEUED;
    p->next = NULL;
    p->prev = slot->last;
    if (slot->last != NULL)
        lk_mock_place_of(slot->last)->next = claim;
    else
        slot->first = claim;
    slot->last = claim;
}

static void unqueue_locked(const locker_mock *m, lk_mock_slot *slot, const locker_claim *claim)
    LK_REQUIRES(m->mutex)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    (void)m;
    if (p->prev != NULL)
        lk_mock_place_of(p->prev)->next = p->next;
    else
        slot->first = p->next;
    if (p->next != NULL)
        lk_mock_place_of(p->next)->prev = p->prev;
    else
        slot->last = p->prev;
    p->prev = p->next = NULL;
    p->state = LK_MOCK_NEW;
}

/* Who gets a free lock: the first, or with a seed any. One that is cut off hears of nothing, unless its place
 * in the queue is a session's. */
static bool can_be_next_locked(const locker_mock *m, const locker_claim *claim) LK_REQUIRES(m->mutex)
{
    return m->options.leases == LOCKER_MOCK_LEASES_SESSION || !lk_mock_place_of(claim)->host->cut;
}

static locker_claim *next_locked(locker_mock *m, const lk_mock_slot *slot) LK_REQUIRES(m->mutex)
{
    locker_claim *chosen = NULL;
    uint64_t n = 0;
    for (locker_claim *c = slot->first; c != NULL; c = lk_mock_place_of(c)->next) {
        if (!can_be_next_locked(m, c))
            continue;
        n++;
        if (chosen == NULL || (m->options.seed != 0 && !m->options.queue && random_locked(m) % n == 0))
            chosen = c;
    }
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

static void start_lease_locked(const locker_mock *m, lk_mock_slot *slot, const locker_claim *claim)
    LK_REQUIRES(m->mutex)
{
    if (m->options.leases == LOCKER_MOCK_LEASES_RENEWED)
        slot->until = lk_time_after(lk_mock_now(m), claim->ttl_ns);
}

void lk_mock_grant_locked(locker_mock *m, lk_mock_slot *slot, locker_claim *claim)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    p->state = LK_MOCK_GRANTED;
    slot->held = true;
    slot->foreign = false;
    slot->holder = claim;
    slot->host = p->host;
    slot->owner = lk_mock_intern_locked(m, claim->owner);
    slot->token = lk_mock_token_locked(m);
    slot->since = lk_mock_now(m);
    slot->until = slot->retry_at = LOCKER_NEVER;
    start_lease_locked(m, slot, claim);
}

void lk_mock_free_locked(locker_mock *m, lk_mock_slot *slot)
{
    locker_claim *claim = next_locked(m, slot);
    slot->held = slot->foreign = false;
    slot->holder = NULL;
    slot->host = NULL;
    slot->until = slot->retry_at = LOCKER_NEVER;
    if (claim == NULL)
        return;
    unqueue_locked(m, slot, claim);
    lk_mock_grant_locked(m, slot, claim);
    lk_mock_place_of(claim)->host->svc->wake(lk_mock_place_of(claim)->host->svc, claim);
}

void lk_mock_leave_queue_locked(locker_mock *m, lk_mock_slot *slot, locker_claim *claim)
{
    unqueue_locked(m, slot, claim);
    if (!slot->held)
        lk_mock_free_locked(m, slot);
}

/* A lock that nobody holds, though some may wait: after a fault that said busy, or because they are cut
 * off. */
static bool is_its_turn_locked(const locker_mock *m, const lk_mock_slot *slot, const locker_claim *claim)
    LK_REQUIRES(m->mutex)
{
    const locker_claim *first = slot->first;
    while (first != NULL && !can_be_next_locked(m, first))
        first = lk_mock_place_of(first)->next;
    return first == NULL || first == claim || !m->options.queue;
}

locker_status lk_mock_attempt_locked(locker_mock *m, lk_mock_host *host, locker_claim *claim)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    lk_mock_slot *slot = lk_mock_slot_locked(m, claim->key, claim->key_len);
    if (slot == NULL)
        return LOCKER_NOMEM;
    if (p->host == NULL)
        lk_mock_adopt_locked(m, host, slot, claim);
    hear_locked(m, host);
    if (p->state == LK_MOCK_GRANTED) {
        start_lease_locked(m, slot, claim);
    } else if (!slot->held && is_its_turn_locked(m, slot, claim)) {
        if (p->state == LK_MOCK_QUEUED)
            unqueue_locked(m, slot, claim);
        lk_mock_grant_locked(m, slot, claim);
    } else {
        if (claim->will_wait && p->state != LK_MOCK_QUEUED)
            lk_mock_enqueue_locked(m, slot, claim);
        return LOCKER_BUSY;
    }
    claim->token = slot->token;
    claim->valid_until = lk_time_after(claim->asked_at, lease_of_locked(m, claim));
    return LOCKER_OK;
}

locker_status lk_mock_extend_locked(locker_mock *m, locker_claim *grant, int64_t *until)
{
    lk_mock_place *p = lk_mock_place_of(grant);
    if (p->state != LK_MOCK_GRANTED)
        return LOCKER_LOST;
    hear_locked(m, p->host);
    start_lease_locked(m, p->slot, grant);
    *until = lk_time_after(lk_mock_now(m), lease_of_locked(m, grant));
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ the life of a claim ---- */

void lk_mock_adopt_locked(locker_mock *m, lk_mock_host *host, lk_mock_slot *slot, locker_claim *claim)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    (void)m;
    p->host = host;
    p->slot = slot;
    p->host_prev = NULL;
    p->host_next = host->claims;
    if (host->claims != NULL)
        lk_mock_place_of(host->claims)->host_prev = claim;
    host->claims = claim;
}

static void forget_locked(locker_mock *m, const locker_claim *claim) LK_REQUIRES(m->mutex)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    lk_mock_reply **link = &m->replies;
    if (p->host_prev != NULL)
        lk_mock_place_of(p->host_prev)->host_next = p->host_next;
    else
        p->host->claims = p->host_next;
    if (p->host_next != NULL)
        lk_mock_place_of(p->host_next)->host_prev = p->host_prev;
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

void lk_mock_take_away_locked(locker_mock *m, locker_claim *claim)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    if (p->state != LK_MOCK_GRANTED)
        return;
    p->state = LK_MOCK_LOST;
    lk_mock_free_locked(m, p->slot);
}

locker_status lk_mock_end_locked(locker_mock *m, locker_claim *claim, bool arrives)
{
    lk_mock_place *p = lk_mock_place_of(claim);
    lk_mock_slot *slot = p->slot;
    const locker_status status = p->state == LK_MOCK_GRANTED ? LOCKER_OK : LOCKER_LOST;
    if (p->host == NULL)
        return LOCKER_LOST; /* it never got as far as the service */
    if (p->state == LK_MOCK_QUEUED)
        lk_mock_leave_queue_locked(m, slot, claim);
    if (status == LOCKER_OK && arrives)
        lk_mock_free_locked(m, slot);
    forget_locked(m, claim);
    if (status == LOCKER_OK && !arrives) {
        slot->holder = NULL;
        slot->retry_at = lk_time_after(lk_mock_now(m), release_again_after);
    }
    return status;
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
