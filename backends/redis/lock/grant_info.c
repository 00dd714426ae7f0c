/* grant_info.c: telling others who holds what.
 *
 * A lock's value says nothing to a person, so its info does: "value since_ms token instance owner". Most
 * locks are given back before anybody could look, so a grant is noted only when it is some milliseconds old,
 * by the keeper, and all that are due travel together. The info names the value that it is about, so one that
 * is out of date is told from one that is not; and it is written only while the lock has that value, so that
 * one which comes late does not stand in for the next holder's. Whoever looks at a lock waits a moment for
 * its info (inspect.c).
 *
 * The instance names the channel on which the holder hears that its lock was broken. So whose grant is noted
 * listens from then on: its claim is found by its value, and its locker subscribes. */
#include <inttypes.h>
#include <stdio.h>

#include "grant_info.h"

static const int64_t note_after_ns = 5 * LK_MS; /* a grant as old as this is noted */
static const int64_t again_ns = 100 * LK_MS;    /* without a connection: how soon to look again */

/* Sequentially consistent, as all uses of `pushed` and `ticking`: who pushes and then sees `ticking` set is
 * seen by the keeper, which looks once more after it cleared it. */
static void drain_locked(lk_redis_notes *n) LK_REDIS_LOCKED
{
    if (atomic_load(&n->pushed) == NULL)
        return;
    lk_list *next;
    for (lk_list *link = atomic_exchange(&n->pushed, NULL); link != NULL; link = next) {
        next = link->next;
        lk_list_prepend(&n->grants, link);
        n->active = true;
    }
}

void lk_redis_note_grant(lk_redis *r, lk_redis_claim *data)
{
    lk_list *top = atomic_load(&r->notes.pushed);
    do {
        data->note.next = top;
    } while (!atomic_compare_exchange_weak(&r->notes.pushed, &top, &data->note));
    if (!atomic_load(&r->notes.ticking) && !atomic_exchange(&r->notes.ticking, true))
        r->shared.svc->attend(r->shared.svc);
}

void lk_redis_note_forget_locked(lk_redis *r, lk_redis_claim *data)
{
    drain_locked(&r->notes);
    if (lk_list_linked(&data->note))
        lk_list_remove(&data->note);
}

const char *lk_redis_info_text(lk_redis *r, const lk_redis_claim *data, char info[LK_REDIS_INFO_MAX])
{
    char value[LK_REDIS_VALUE_LEN + 1];
    const uint64_t fence = LK_READ(data->fence);
    lk_redis_value_text(&r->values, data->number, value);
    (void)snprintf(info, LK_REDIS_INFO_MAX, "%s %" PRIu64 " %" PRIu64 " %s %.*s", value,
                   lk_redis_server_us(&lk_redis_node_of(r, data->slot)->time, data->since) / 1000,
                   fence > 0 ? fence + data->passes : 0, r->values.name, LOCKER_OWNER_MAX, data->core->owner);
    return info;
}

static bool submit_locked(lk_redis *r, lk_redis_claim *data) LK_REDIS_LOCKED
{
    locker_claim *claim = data->core;
    const lk_redis_node *const node = lk_redis_node_of(r, data->slot);
    char value[LK_REDIS_VALUE_LEN + 1], info[LK_REDIS_INFO_MAX];
    lk_redis_keys keys;
    if (!lk_redis_keys_of_claim(r, &keys, claim))
        return false;
    lk_redis_value_text(&r->values, data->number, value);
    const lk_redis_command a =
        LK_REDIS_COMMAND("EVAL", lk_redis_note_text, "2", keys.lock, lk_redis_keys_info(&keys), value,
                         lk_redis_info_text(r, data, info));
    const bool submitted = lk_redis_submit_command_locked(node->commands, &a, NULL, NULL);
    lk_redis_keys_clear(&keys);
    if (submitted) {
        lk_list_remove(&data->note);
        data->noted = true;
        lk_redis_claims_add_locked(&r->claims, data);
        lk_redis_net_subscribe_locked(node->net, data->slot, false);
    }
    return submitted;
}

/* Submit the notes of grants made at `until` or before; answers when the oldest of the others was made, or
 * `until` when there is none. False: there is no connection, or no memory. */
static bool submit_all_locked(lk_redis *r, int64_t until, int64_t *oldest) LK_REDIS_LOCKED
{
    *oldest = LOCKER_NEVER;
    drain_locked(&r->notes);
    LK_EACH_SAFE(lk_redis_claim, data, note, &r->notes.grants) {
        if (data->since > until)
            *oldest = lk_time_earlier(*oldest, data->since);
        else if (data->valid_until <= lk_redis_now(&r->shared))
            lk_list_remove(&data->note); /* others may have the lock */
        else if (!submit_locked(r, data))
            return false;
    }
    return true;
}

void lk_redis_notes_flush_locked(lk_redis *r)
{
    int64_t oldest;
    (void)submit_all_locked(r, LOCKER_NEVER, &oldest);
}

int64_t lk_redis_notes_run_locked(lk_redis *r, int64_t now)
{
    lk_redis_notes *n = &r->notes;
    int64_t oldest;
    if (!atomic_load(&n->ticking))
        return LOCKER_NEVER;
    if (n->look_at == 0)
        n->look_at = now + note_after_ns;
    if (now < n->look_at)
        return n->look_at;
    for (lk_redis_node *node = r->nodes; node != NULL; node = node->next)
        lk_redis_server_time_ask_locked(&node->time, node->commands, now);
    if (!submit_all_locked(r, now - note_after_ns, &oldest))
        n->look_at = now + again_ns;
    else if (!lk_list_empty(&n->grants) || n->active) /* by itself: a wake-up for each lock would be dear */
        n->look_at = lk_time_earlier(oldest, now) + note_after_ns;
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
