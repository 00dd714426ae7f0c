/* model.c: what the interface promises, as states; see model.h. */
#include "model.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longer than any lease, and the repetition of a release, in random.c's scripts. */
static const int64_t calm_after_ms = 90000;

void model_wrong(model *m, const char *format, ...)
{
    va_list args;
    if (m->wrong[0] != '\0')
        return;
    va_start(args, format);
    (void)vsnprintf(m->wrong, sizeof m->wrong, format, args);
    va_end(args);
}

void model_disturb(model *m, int64_t now)
{
    m->disturbed = now;
}

static bool lives(const model_handle *h)
{
    return h->held != NULL && !h->unlocked && h->seen != LOCKER_STATE_LOST;
}

bool model_is_calm(const model *m, int64_t now)
{
    for (int i = 0; i < MODEL_HOSTS; i++)
        if (m->cut[i])
            return false;
    for (int i = 0; i < MODEL_HANDLES; i++)
        if (lives(&m->handles[i]) && m->handles[i].robbed)
            return false; /* it may be lost at the service, and not know */
    return !m->faults && now - m->disturbed > calm_after_ms;
}

bool model_is_held(const model *m, int key, int64_t now)
{
    if (m->stranger_until[key] > now)
        return true;
    for (int i = 0; i < MODEL_HANDLES; i++)
        if (lives(&m->handles[i]) && m->handles[i].key == key)
            return true;
    return false;
}

/* Whether another before it in the list has the same grant. */
static bool is_counted(const model *m, const model_handle *h)
{
    for (const model_handle *other = m->handles; other < h; other++)
        if (lives(other) && other->key == h->key && other->token == h->token)
            return true;
    return false;
}

size_t model_holders(const model *m, int key, int64_t now)
{
    size_t n = m->stranger_until[key] > now;
    for (const model_handle *h = m->handles; h < m->handles + MODEL_HANDLES; h++)
        n += lives(h) && h->key == key && !is_counted(m, h);
    return n;
}

bool model_has_room(const model *m, int key, const locker_lock_options *o, int64_t now)
{
    int32_t permits = 0;
    if (m->stranger_until[key] > now && !(m->stranger_shares[key] && o->mode == LOCKER_SHARED))
        return false;
    for (int i = 0; i < MODEL_HANDLES; i++) {
        const model_handle *h = &m->handles[i];

        if (!lives(h) || h->key != key)
            continue;
        if (h->permits != o->permits ||
            (o->permits == 0 && (h->mode != LOCKER_SHARED || o->mode != LOCKER_SHARED)))
            return false;
        permits++;
    }
    return o->permits == 0 || permits < o->permits;
}

model_handle *model_place(model *m)
{
    for (int i = 0; i < MODEL_HANDLES; i++) {
        if (m->handles[i].taken)
            continue;
        m->handles[i] = (model_handle){.taken = true};
        return &m->handles[i];
    }
    return NULL;
}

void model_rob(model *m, int key, int host)
{
    for (int i = 0; i < MODEL_HANDLES; i++) {
        model_handle *h = &m->handles[i];

        if (lives(h) && (key < 0 || h->key == key) && (host < 0 || h->host == host) && m->cut[h->host])
            h->robbed = true;
    }
}

/* ------------------------------------------------------------------ locking ---- */

static bool enters_again(const model_handle *a, const model_handle *b)
{
    return a->host == b->host && a->owner != NULL && b->owner != NULL && strcmp(a->owner, b->owner) == 0;
}

static bool is_taken(const model *m, const model_handle *h)
{
    for (const model_handle *other = m->handles; other < m->handles + MODEL_HANDLES; other++)
        if (other != h && lives(other) && other->key == h->key && other->token == h->token)
            return true;
    return false;
}

/* Whether the two may hold a key at once. */
static bool go_together(const model_handle *a, const model_handle *b)
{
    if (a->mode == LOCKER_SHARED && b->mode == LOCKER_SHARED)
        return true;
    return a->permits > 0 && a->permits == b->permits && a->slot != b->slot;
}

static model_handle holder_in_way(int way)
{
    if (way < 2)
        return (model_handle){.mode = way == 0 ? LOCKER_EXCLUSIVE : LOCKER_SHARED};
    return (model_handle){.permits = 1 + (way - 2) / MODEL_PERMITS, .slot = (way - 2) % MODEL_PERMITS};
}

static int way_of(const model_handle *h)
{
    if (h->permits > 0)
        return 2 + (h->permits - 1) * MODEL_PERMITS + h->slot;
    return h->mode == LOCKER_SHARED ? 1 : 0;
}

/* The greatest token that was given to one who can't hold the key beside this one. A grant whose answer came late may have a
 * lesser token than others beside it. */
static uint64_t last_before(const model *m, const model_handle *h)
{
    uint64_t last = 0;
    for (int way = 0; way < MODEL_WAYS; way++) {
        const model_handle other = holder_in_way(way);
        if (!go_together(h, &other) && m->last_token[h->key][way] > last)
            last = m->last_token[h->key][way];
    }
    return last;
}

uint64_t model_last_token(const model *m, int key)
{
    return last_before(m, &(model_handle){.key = key});
}

static void give_token(model *m, const model_handle *to, int64_t now)
{
    uint64_t *const last = &m->last_token[to->key][way_of(to)];
    if (to->token > *last)
        *last = to->token;
    for (int i = 0; i < MODEL_HANDLES; i++) {
        model_handle *h = &m->handles[i];

        if (lives(h) && h->key == to->key && h->token < to->token && h->overtaken == 0 && !go_together(h, to))
            h->overtaken = now;
    }
}

void model_stranger(model *m, int key, locker_mode mode, uint64_t token, int64_t now)
{
    m->stranger_shares[key] = mode == LOCKER_SHARED;
    give_token(m, &(model_handle){.key = key, .mode = mode, .token = token}, now);
}

/* Readers of one host may have one grant. */
static bool ride_together(const model_handle *a, const model_handle *b)
{
    return a->host == b->host && a->mode == LOCKER_SHARED && b->mode == LOCKER_SHARED && a->renewed &&
           b->renewed && a->ttl_ms == b->ttl_ms;
}

/* A new token is greater than those before, unless an owner has entered again, or a reader rides: then it is the same lock. */
static void check_token(model *m, model_handle *h, int64_t now)
{
    const uint64_t last = last_before(m, h);
    for (int i = 0; i < MODEL_HANDLES; i++) {
        const model_handle *other = &m->handles[i];

        if (other == h || !lives(other) || other->key != h->key || other->token != h->token ||
            !(enters_again(h, other) || ride_together(h, other)))
            continue;
        h->robbed = h->robbed || other->robbed;
        h->overtaken = other->overtaken;
        return;
    }
    if (h->token > last && !is_taken(m, h))
        give_token(m, h, now);
    else
        model_wrong(m, "key %d: a grant has token %llu, and %llu was given before", h->key,
                    (unsigned long long)h->token, (unsigned long long)last);
}

static void check_refusal(model *m, int host, int key, const locker_lock_options *o, bool others,
                          locker_status status, int64_t began, int64_t now)
{
    bool disturbed = m->faults || m->cut[host] || !model_is_calm(m, now);
    if (status == LOCKER_BUSY && o->wait_ms != 0)
        model_wrong(m, "a call that waits answered busy");
    if (status == LOCKER_BUSY && !disturbed && !others && model_has_room(m, key, o, now))
        model_wrong(m, "key %d: busy, and there is room, for which nobody waits", key);
    if (status == LOCKER_CONFIG && m->mixed[key])
        return;
    if (status == LOCKER_TIMEOUT && (o->wait_ms <= 0 || now < began + o->wait_ms))
        model_wrong(m, "a call with wait_ms %lld timed out after %lld ms", (long long)o->wait_ms,
                    (long long)(now - began));
    if (status == LOCKER_CANCELED && (o->cancel == NULL || !locker_cancel_fired(o->cancel)))
        model_wrong(m, "a call that nobody canceled answered canceled");
    if (status == LOCKER_CLOSED && m->open[host])
        model_wrong(m, "a call answered closed, and its locker is open");
    if (status != LOCKER_BUSY && status != LOCKER_TIMEOUT && status != LOCKER_CANCELED &&
        status != LOCKER_CLOSED && !disturbed)
        model_wrong(m, "a call answered %s, and nothing was wrong", locker_status_name(status));
    if (status == LOCKER_LOST || status == LOCKER_UNKNOWN || status == LOCKER_FORKED)
        model_wrong(m, "a lock call answered %s, which it never should", locker_status_name(status));
}

model_handle *model_lock_answered(model *m, int host, int key, const locker_lock_options *o, bool others,
                                  locker_status status, locker_handle *held, int64_t began, int64_t now)
{
    model_handle *h = o->user;
    if ((status == LOCKER_OK) != (held != NULL))
        model_wrong(m, "a lock call answered %s with%s a handle", locker_status_name(status),
                    held != NULL ? "" : "out");
    if (status != LOCKER_OK) {
        check_refusal(m, host, key, o, others, status, began, now);
        h->taken = false;
        return NULL;
    }
    h->held = held;
    h->key = key;
    h->host = host;
    h->owner = o->owner;
    h->mode = o->mode;
    h->permits = o->permits;
    h->slot = locker_handle_slot(held);
    if (o->permits > 0 ? h->slot < 0 || h->slot >= o->permits : h->slot != -1)
        model_wrong(m, "key %d: slot %d of %d permits", key, (int)h->slot, (int)o->permits);
    h->token = locker_handle_token(held);
    h->began_ms = began;
    h->granted_ms = now;
    h->ttl_ms = o->ttl_ms;
    h->renewed = !o->no_renew;
    h->unlocked = h->closed = !m->open[host]; /* granted while its locker was being closed */
    h->overtaken = 0;
    h->robbed = m->thieves;
    h->seen = LOCKER_STATE_HELD;
    check_token(m, h, now);
    return h;
}

/* ------------------------------------------------------------------ unlocking ---- */

static bool entered_by_others_too(const model *m, const model_handle *h)
{
    for (int i = 0; i < MODEL_HANDLES; i++) {
        const model_handle *other = &m->handles[i];

        if (other != h && lives(other) && other->key == h->key && other->token == h->token)
            return true;
    }
    return false;
}

void model_unlock_answered(model *m, model_handle *h, locker_status status, int64_t now)
{
    bool sure = !m->faults && !m->cut[h->host] && !h->robbed && model_is_calm(m, now);
    locker_state after = locker_handle_state(h->held);
    if (h->closed && status == LOCKER_LOST && after == LOCKER_STATE_LOST) { /* lost before it was closed */
        h->closed = false;
        h->unlocked = true;
        return;
    }
    if (h->closed || h->unlocked) {
        if (status != (h->closed ? LOCKER_CLOSED : LOCKER_INVALID))
            model_wrong(m, "unlocking a second time, or after close, answered %s",
                        locker_status_name(status));
        return;
    }
    if (h->seen == LOCKER_STATE_LOST && status != LOCKER_LOST)
        model_wrong(m, "key %d: it was lost, and unlocking answered %s", h->key, locker_status_name(status));
    if (h->seen != LOCKER_STATE_LOST && (sure || entered_by_others_too(m, h)) && status != LOCKER_OK)
        model_wrong(m, "key %d: it was held, nothing was wrong, and unlocking answered %s", h->key,
                    locker_status_name(status));
    if (status == LOCKER_OK && h->overtaken != 0 && !entered_by_others_too(m, h))
        model_wrong(m, "key %d: it was another's already, and unlocking answered ok", h->key);
    if (status != LOCKER_OK && status != LOCKER_LOST && status != LOCKER_UNKNOWN)
        model_wrong(m, "the first unlock answered %s", locker_status_name(status));
    if (after != (status == LOCKER_LOST ? LOCKER_STATE_LOST : LOCKER_STATE_UNLOCKED) && status != LOCKER_OK)
        model_wrong(m, "unlock answered %s, and the state is %s", locker_status_name(status),
                    locker_state_name(after));
    h->unlocked = true;
    h->seen = after;
    if (status != LOCKER_OK)
        model_disturb(m, now);
}

void model_host_closed(model *m, int host)
{
    m->open[host] = false;
    m->cut[host] = false;
    for (int i = 0; i < MODEL_HANDLES; i++) {
        model_handle *h = &m->handles[i];

        if (h->held == NULL || h->host != host || h->unlocked)
            continue;
        h->unlocked = h->closed = true;
        h->seen = locker_handle_state(h->held);
    }
}

/* ------------------------------------------------------------------ looking ---- */

static bool is_readable(locker_handle *held)
{
    struct pollfd p = {.fd = locker_handle_fd(held), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* What time and the lack of trouble say of a handle that lives. */
static void check_lease(model *m, const model_handle *h, locker_state state, int64_t now)
{
    int64_t left = locker_handle_remaining_ms(h->held);
    bool over = !h->renewed && now - h->granted_ms >= h->ttl_ms;
    if (state == LOCKER_STATE_LOST ? left != 0 : left == 0)
        model_wrong(m, "key %d: %s with %lld ms left", h->key, locker_state_name(state), (long long)left);
    if (over && state != LOCKER_STATE_LOST)
        model_wrong(m, "key %d: a lease of %lld ms that nobody renews is %s after %lld ms", h->key,
                    (long long)h->ttl_ms, locker_state_name(state), (long long)(now - h->granted_ms));
    if (h->seen != LOCKER_STATE_LOST && (h->renewed || now - h->began_ms < h->ttl_ms) &&
        model_is_calm(m, now) && !h->robbed && state != LOCKER_STATE_HELD)
        model_wrong(m, "key %d: %s, and nothing was wrong", h->key, locker_state_name(state));
}

static void look_at(model *m, model_handle *h, int64_t now)
{
    locker_state state = locker_handle_state(h->held);
    int told = atomic_load(&h->told);
    if (h->seen == LOCKER_STATE_LOST && state != LOCKER_STATE_LOST)
        model_wrong(m, "key %d: it was lost, and is %s again", h->key, locker_state_name(state));
    if (h->unlocked && state != LOCKER_STATE_LOST && state != LOCKER_STATE_UNLOCKED)
        model_wrong(m, "key %d: unlocked, and %s", h->key, locker_state_name(state));
    if (!h->unlocked)
        check_lease(m, h, state, now);
    if (!h->unlocked && told != (state == LOCKER_STATE_LOST))
        model_wrong(m, "key %d: %s, and on_lost was called %d times", h->key, locker_state_name(state), told);
    if (!h->unlocked && is_readable(h->held) != (state == LOCKER_STATE_LOST))
        model_wrong(m, "key %d: %s, and the descriptor says otherwise", h->key, locker_state_name(state));
    if (lives(h) && state != LOCKER_STATE_LOST && m->leases && h->overtaken != 0 &&
        now - h->overtaken > h->ttl_ms)
        model_wrong(m, "key %d: another has it, and it is %s for longer than its lease", h->key,
                    locker_state_name(state));
    if (told > 1)
        model_wrong(m, "key %d: on_lost was called %d times", h->key, told);
    if (!h->unlocked && state == LOCKER_STATE_LOST && h->seen != LOCKER_STATE_LOST && h->renewed)
        model_disturb(m, now);
    h->seen = state;
}

static void check_exclusion(model *m)
{
    for (int i = 0; i < MODEL_HANDLES; i++) {
        for (int j = i + 1; j < MODEL_HANDLES; j++) {
            const model_handle *a = &m->handles[i], *b = &m->handles[j];

            if (lives(a) && lives(b) && a->key == b->key && a->token != b->token && !a->robbed &&
                !b->robbed && !go_together(a, b))
                model_wrong(m, "key %d: two hold it, with tokens %llu and %llu", a->key,
                            (unsigned long long)a->token, (unsigned long long)b->token);
        }
    }
}

void model_look(model *m, int64_t now)
{
    for (int i = 0; i < MODEL_HANDLES; i++)
        if (m->handles[i].held != NULL)
            look_at(m, &m->handles[i], now);
    check_exclusion(m);
}
