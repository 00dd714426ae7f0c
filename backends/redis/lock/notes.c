/* notes.c: telling others who holds what.
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
 * In a Cluster, a note whose slot has moved or is being migrated is sent again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "instance.h"
#include "net/command.h"

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
        lk_redis_attend(r);
}

void lk_redis_note_forget_locked(lk_redis *r, lk_redis_claim *data)
{
    drain_locked(&r->notes);
    if (lk_list_linked(&data->note))
        lk_list_remove(&data->note);
}

void lk_redis_noted_locked(lk_redis *r, lk_redis_claim *data, bool now)
{
    data->noted = true;
    lk_redis_claims_add_locked(&r->claims, data);
    lk_redis_clock_look_back_locked(r, data);
    lk_redis_net_subscribe_locked(lk_redis_node_of(r, data->slot)->net, data->slot, now);
}

/* Of a cluster: a note in flight. It finds its claim by the number of its value. */
typedef struct {
    lk_redis *r;
    uint64_t number;
    uint16_t slot;
} errand;

/* If the slot has moved, or is being migrated, note the grant again, unless it is being given back or has ended. */
static void answered_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    errand *const e = context;
    lk_redis *const r = e->r;
    lk_redis_claim *const data = lk_redis_claims_find_locked(&r->claims, e->number);
    const lk_redis_fault fault = reply != NULL && data != NULL && lk_redis_claim_is_held(data)
                                     ? lk_redis_reply_fault(reply)
                                     : LK_REDIS_FAULT_NONE;
    const bool migrates = fault == LK_REDIS_FAULT_MIGRATING;
    if (migrates)
        data->note_at = lk_redis_now(&r->shared) + again_ns;
    if (migrates || fault == LK_REDIS_FAULT_MOVED) {
        lk_redis_heed_locked(lk_redis_node_of(r, e->slot), e->slot, reply);
        lk_redis_note_grant(r, data);
    }
    free(e);
}

static bool note_locked(lk_redis *r, lk_redis_claim *data) LK_REDIS_LOCKED
{
    if (lk_redis_node_of(r, data->slot)->commands->state != LK_REDIS_UP)
        return false;
    char value[LK_REDIS_VALUE_LEN + 1], info[LK_REDIS_INFO_MAX];
    lk_redis_keys keys;
    errand *const e = r->map != NULL ? malloc(sizeof *e) : NULL;
    bool submitted = false;
    if (e != NULL)
        *e = (errand){r, data->number, data->slot};
    if (lk_redis_keys_of_claim(r, &keys, data->core)) {
        lk_redis_value_text(&r->values, data->number, value);
        const lk_redis_command a = LK_REDIS_COMMAND("EVAL", lk_redis_note_text, "2", keys.lock,
                                                    lk_redis_keys_companion(&keys, LK_REDIS_INFO), value,
                                                    lk_redis_info_text(r, data, info));
        submitted = lk_redis_submit_command_locked(lk_redis_node_of(r, data->slot)->commands, &a,
                                                   e != NULL ? answered_locked : NULL, e);
        lk_redis_keys_clear(&keys);
    }
    if (!submitted) {
        free(e);
        return false;
    }
    lk_list_remove(&data->note);
    lk_redis_noted_locked(r, data, false);
    return true;
}

/* Submit the notes of grants made at `until` or before; answers when the oldest of the others was made, or
 * `until` when there is none. False: there is no connection, or no memory. */
static bool submit_all_locked(lk_redis *r, int64_t until, int64_t *oldest) LK_REDIS_LOCKED
{
    bool all = true;
    *oldest = LOCKER_NEVER;
    drain_locked(&r->notes);
    LK_EACH_SAFE(lk_redis_claim, data, note, &r->notes.grants) {
        const int64_t at = lk_time_later(data->since, data->note_at);
        if (at > until)
            *oldest = lk_time_earlier(*oldest, at);
        else if (data->valid_until <= lk_redis_now(&r->shared))
            lk_list_remove(&data->note); /* others may have the lock */
        else if (!note_locked(r, data))
            all = false;
        if (!all && r->map == NULL) /* which has other servers */
            break;
    }
    return all;
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
        lk_redis_clock_ask_locked(node, node->commands, now);
    if (!submit_all_locked(r, now - note_after_ns, &oldest))
        n->look_at = now + again_ns;
    else if (!lk_list_empty(&n->grants) || n->active) /* by itself: a wake-up for each lock would be dear */
        n->look_at = (n->active ? lk_time_earlier(oldest, now) : oldest) + note_after_ns;
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
