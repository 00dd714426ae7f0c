/*
 * grant_info.c: telling others who holds what, and knowing the server's time.
 *
 * A lock's value says nothing to a person, so its info does: "value since_ms token instance owner". Most
 * locks are given back before anybody could look, so a grant is noted only when it is some milliseconds old,
 * by the keeper, and all that are due travel together. The info names the value that it is about, so one that
 * is out of date is told from one that is not; and it is written only while the lock has that value, so that
 * one which comes late does not stand in for the next holder's. Whoever looks at a lock waits a moment for
 * its info (inspect.c).
 *
 * The instance names the channel on which the holder hears that its lock was broken. So whose grant is noted
 * listens from then on: its claim is found by its value, and its locker subscribes.
 *
 * The counter of fencing numbers of a key starts at the server's time. Asking for it would cost each grant a
 * round trip, so it is known from the handshake and asked for again now and then.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

static const int64_t note_after_ns = 5 * LK_MS;      /* a grant as old as this is noted */
static const int64_t again_ns = 100 * LK_MS;         /* without a connection: how soon to look again */
static const int64_t time_again_ns = 10 * LK_S;      /* the server's time is asked for so often */
static const int64_t time_most_s = INT64_C(1) << 32; /* in us it is below 2^53, as all numbers */
static const int64_t time_stale_ns = 60 * LK_S;      /* ... and not relied on any longer */
/* Two weeks: longer than any lease. */
static const char note_lua[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[2], ARGV[2], 'EX', 1209600) end";

/* ------------------------------------------------------------------ the list ---- */

static void insert_locked(struct lk_notes *n, struct lk_claim_data *data)
{
    data->note_next = n->first;
    data->note_link = &n->first;
    if (n->first != NULL)
        n->first->note_link = &data->note_next;
    n->first = data;
    n->active = true;
}

static void remove_locked(struct lk_claim_data *data)
{
    *data->note_link = data->note_next;
    if (data->note_next != NULL)
        data->note_next->note_link = data->note_link;
    data->note_link = NULL;
    data->note_next = NULL;
}

/* Sequentially consistent, as all uses of `pushed` and `ticking`: who pushes and then sees `ticking` set is
 * seen by the keeper, which looks once more after it cleared it. */
static void drain_locked(struct lk_notes *n)
{
    if (atomic_load(&n->pushed) == NULL)
        return;
    struct lk_claim_data *next;
    for (struct lk_claim_data *data = atomic_exchange(&n->pushed, NULL); data != NULL; data = next) {
        next = data->note_next;
        insert_locked(n, data);
    }
}

static void tick(struct lk_redis *r)
{
    if (!atomic_load(&r->notes.ticking) && !atomic_exchange(&r->notes.ticking, true))
        r->svc->attend(r->svc);
}

void lk_note_grant(struct lk_redis *r, struct lk_claim_data *data)
{
    struct lk_claim_data *top = atomic_load(&r->notes.pushed);
    do {
        data->note_next = top;
    } while (!atomic_compare_exchange_weak(&r->notes.pushed, &top, data));
    tick(r);
}

void lk_note_grant_locked(struct lk_redis *r, struct lk_claim_data *data)
{
    insert_locked(&r->notes, data);
    tick(r);
}

void lk_note_forget_locked(struct lk_redis *r, struct lk_claim_data *data)
{
    drain_locked(&r->notes);
    if (data->note_link != NULL)
        remove_locked(data);
}

/* ------------------------------------------------------------------ the notes ---- */

static bool submit_locked(struct lk_redis *r, struct lk_claim_data *data)
{
    locker_claim *claim = lk_claim_of(data);
    char value[LK_VALUE_LEN + 1], info[2 * LK_VALUE_LEN + LOCKER_OWNER_MAX + 64];
    struct lk_keys keys;
    struct lk_argv a = {0};
    if (!lk_keys_init(&keys, r->set.name_space, claim->key, claim->key_len))
        return false;
    lk_value_text(r, data->number, value);
    (void)snprintf(info, sizeof(info), "%s %" PRIu64 " %" PRIu64 " %s %.*s", value,
                   lk_server_us(r, data->since) / 1000, data->fence > 0 ? data->fence + data->passes : 0,
                   r->instance, LOCKER_OWNER_MAX, claim->owner);
    lk_argv_text(&a, "EVAL");
    lk_argv_text(&a, note_lua);
    lk_argv_text(&a, "2");
    lk_argv_add(&a, keys.lock, keys.lock_len);
    lk_argv_add(&a, keys.info, keys.info_len);
    lk_argv_text(&a, value);
    lk_argv_text(&a, info);
    const bool submitted = lk_submit_argv_locked(r, &a, NULL, NULL);
    lk_keys_clear(&keys);
    if (submitted) {
        remove_locked(data);
        data->noted = true;
        lk_claims_add_locked(r, claim);
        r->sub.wanted = true;
    }
    return submitted;
}

/* Submit the notes of grants made at `until` or before; answers when the oldest of the others was made, or
 * `until` when there is none. False: there is no connection, or no memory. */
static bool submit_all_locked(struct lk_redis *r, int64_t until, int64_t *oldest)
{
    struct lk_claim_data *next;
    bool submitted = true;
    *oldest = LOCKER_NEVER;
    drain_locked(&r->notes);
    for (struct lk_claim_data *data = r->notes.first; data != NULL && submitted; data = next) {
        next = data->note_next;
        if (data->since > until)
            *oldest = lk_earlier(*oldest, data->since);
        else if (data->valid_until <= lk_redis_now(r))
            remove_locked(data); /* others may have the lock */
        else
            submitted = submit_locked(r, data);
    }
    return submitted;
}

void lk_notes_flush_locked(struct lk_redis *r)
{
    int64_t oldest;
    (void)submit_all_locked(r, LOCKER_NEVER, &oldest);
}

/* It was asked for at time_sent, and may have been read long after, when the process was stopped. In between
 * the server was at `us`, and what is known of its time, if anything is, is changed by no more than that
 * demands. */
static void take_time_locked(struct lk_redis *r, void *context, redisReply *reply)
{
    int64_t us, at = lk_redis_now(r);
    (void)context;
    if (reply == NULL || !lk_server_time(reply, &us))
        return;
    const int64_t ahead = atomic_load_explicit(&r->server_ahead_us, memory_order_relaxed);
    const int64_t then = ahead != INT64_MIN ? (us - ahead) * LK_US : at;
    if (then < at)
        at = then > r->notes.time_sent ? then : r->notes.time_sent;
    lk_server_time_set(r, us, at);
}

static void ask_time_locked(struct lk_redis *r, int64_t now)
{
    struct lk_argv a = {0};
    if (now - r->notes.time_sent < time_again_ns)
        return;
    lk_argv_text(&a, "TIME");
    if (lk_submit_argv_locked(r, &a, take_time_locked, NULL))
        r->notes.time_sent = now;
}

int64_t lk_notes_run_locked(struct lk_redis *r, int64_t now)
{
    struct lk_notes *n = &r->notes;
    int64_t oldest;
    if (!atomic_load(&n->ticking))
        return LOCKER_NEVER;
    if (n->look_at == 0)
        n->look_at = now + note_after_ns;
    if (now < n->look_at)
        return n->look_at;
    ask_time_locked(r, now);
    if (!submit_all_locked(r, now - note_after_ns, &oldest))
        n->look_at = now + again_ns;
    else if (n->first != NULL || n->active) /* it goes on by itself: a wake-up for each lock would be dear */
        n->look_at = lk_earlier(oldest, now) + note_after_ns;
    else
        n->look_at = 0;
    n->active = false;
    if (n->look_at != 0)
        return n->look_at;
    atomic_store(&n->ticking, false);
    if (atomic_load(&n->pushed) == NULL || atomic_exchange(&n->ticking, true))
        return LOCKER_NEVER; /* what is pushed from here on calls for attention */
    n->look_at = now + note_after_ns;
    return n->look_at;
}

/* ------------------------------------------------------------------ the server's time ---- */

bool lk_server_time(const redisReply *reply, int64_t *us)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING || reply->element[1]->type != REDIS_REPLY_STRING)
        return false;
    const long long seconds = strtoll(reply->element[0]->str, NULL, 10);
    const long long rest = strtoll(reply->element[1]->str, NULL, 10);
    if (seconds <= 0 || seconds > time_most_s || rest < 0 || rest >= 1000000)
        return false;
    *us = seconds * 1000000 + rest;
    return true;
}

void lk_server_time_set(struct lk_redis *r, int64_t us, int64_t at)
{
    atomic_store_explicit(&r->server_ahead_us, us - at / LK_US, memory_order_relaxed);
    atomic_store_explicit(&r->server_asked, at, memory_order_relaxed);
    r->notes.time_sent = at;
}

uint64_t lk_server_us(const struct lk_redis *r, int64_t at)
{
    const int64_t ahead = atomic_load_explicit(&r->server_ahead_us, memory_order_relaxed);
    if (ahead == INT64_MIN)
        return 0;
    const int64_t us = at / LK_US + ahead;
    return us > 0 ? (uint64_t)us : 0;
}

uint64_t lk_fence_floor(const struct lk_redis *r, int64_t now)
{
    const uint64_t us = lk_server_us(r, now);
    if (now - atomic_load_explicit(&r->server_asked, memory_order_relaxed) > time_stale_ns)
        return 0;
    return us;
}
