/*
 * pass.c: a holder hands its lock on to a waiter of the same locker, without asking the server: the value
 * stays, the claim that it belongs to is another. Each hand-over takes the next fencing number; numbers are
 * reserved at the server with the first one after a grant, and the release says how far they were used. Other
 * processes don't starve: after LK_PASS_RESERVE - 1 hand-overs the lock is released.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* Tell the server who holds it now, and reserve numbers. Nobody waits for the answer. */
static bool note_locked(struct lk_redis *r, const locker_claim *to, const struct lk_claim_data *data)
{
    char value[LK_VALUE_LEN + 1], reserved[24], token[24];
    struct lk_keys keys;
    struct lk_argv a;
    if (!lk_keys_init(&keys, r->set.name_space, to->key, to->key_len))
        return false;
    lk_value_text(r, data->number, value);
    (void)snprintf(reserved, sizeof(reserved), "%" PRIu64, data->fence + LK_PASS_RESERVE - 1);
    (void)snprintf(token, sizeof(token), "%" PRIu64, data->fence + data->passes + 1);
    lk_script_begin(r, &a, LK_SCRIPT_NOTE, false, &keys);
    lk_argv_add(&a, value, LK_VALUE_LEN);
    lk_argv_text(&a, reserved);
    lk_argv_text(&a, token);
    lk_argv_text(&a, to->owner);
    const bool submitted = lk_submit_argv_locked(r, &a, NULL, NULL);
    lk_keys_clear(&keys);
    return submitted;
}

locker_status lk_redis_pass(void *self, locker_claim *from, locker_claim *to)
{
    struct lk_redis *r = self;
    struct lk_claim_data *giver = lk_claim_data(from), *taker = lk_claim_data(to);
    locker_status status = LOCKER_BUSY;
    pthread_mutex_lock(&r->lock);
    if (r->conn.state != LK_CONN_UP || from->ttl_ns != to->ttl_ns || !from->renewed || !to->renewed ||
        giver->passes >= LK_PASS_RESERVE - 1 || lk_redis_now(r) >= giver->valid_until - from->ttl_ns / 3)
        goto out;
    const bool note = r->set.fencing && (giver->passes == 0 || strcmp(from->owner, to->owner) != 0);
    if (note && !note_locked(r, to, giver))
        goto out;
    taker->number = giver->number;
    taker->fence = giver->fence;
    taker->passes = (uint8_t)(giver->passes + 1);
    taker->valid_until = giver->valid_until;
    taker->enrolled = giver->enrolled;
    taker->held = true;
    giver->held = false;
    taker->renewal = giver->renewal;
    giver->renewal = NULL;
    if (taker->renewal != NULL)
        *taker->renewal = to;
    if (giver->tabled) {
        lk_claims_remove_locked(r, from);
        lk_claims_add_locked(r, to);
    }
    to->token = r->set.fencing ? taker->fence + taker->passes : 0;
    to->valid_until = taker->valid_until;
    if (note)
        lk_pump_locked(r);
    status = LOCKER_OK;
out:
    pthread_mutex_unlock(&r->lock);
    return status;
}
