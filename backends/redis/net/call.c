/* call.c: see call.h. */
#include "call.h"

/* Wait for a connection. ANSWERED: there is one. Who has just been asked hurries, until an attempt has failed that began since:
 * one that began before tells nothing. */
static lk_redis_outcome wait_up_unlocking(const lk_redis_pipeline *p, const lk_redis_call *call,
                                          locker_error *err) LK_REDIS_LOCKED
{
    lk_redis_reconnect *rc = p->reconnect;
    int64_t since = LOCKER_NEVER;
    if (!call->patient && p->state != LK_REDIS_UP)
        since = lk_redis_reconnect_hurry_locked(rc);
    else if (p->state != LK_REDIS_UP && rc->state != LK_REDIS_RUNS)
        lk_redis_reconnect_want_locked(rc); /* a node of a cluster that nobody has asked for yet */
    while (p->state != LK_REDIS_UP) {
        if (call->caller != NULL && call->caller->interrupted)
            return LK_REDIS_CALL_INTERRUPTED;
        if (call->map != 0 && call->map != LK_READ(p->shared->maps))
            return LK_REDIS_CALL_REMAPPED;
        bool known = lk_redis_reconnect_failed_since_locked(rc, since);
        const bool over =
            lk_redis_now(p->shared) >= call->until || (call->prompt && known && rc->last.deserted);
        const bool refused = rc->last.permanent && rc->failures > 0 && (known || !call->prompt);
        if (over || refused) {
            if (err != NULL)
                *err = rc->last.error;
            if (!refused && rc->failed_at == 0 && LK_READ(p->connection) == 0)
                return LK_REDIS_CALL_LATE; /* nothing says that it is away: it was not asked for before */
            return refused ? LK_REDIS_CALL_REFUSED : LK_REDIS_CALL_AWAY;
        }
        lk_redis_wait_unlocking(p->shared, call->until);
        known = lk_redis_reconnect_failed_since_locked(rc, since);
        if (!call->patient && (call->prompt || !known) && p->state != LK_REDIS_UP)
            (void)lk_redis_reconnect_hurry_locked(rc);
    }
    return LK_REDIS_CALL_ANSWERED;
}

/* What is known of the connection that the call is sent on. */
static void send_on_locked(const lk_redis_pipeline *p, lk_redis_call *call) LK_REDIS_LOCKED
{
    call->on = LK_READ(p->connection); /* the mutex is held */
    call->era = lk_redis_era(p);
    call->server_us = p->server_us;
}

/* Append them, on a connection that they are for. ANSWERED: their op is there. */
static lk_redis_outcome append_unlocking(lk_redis_pipeline *p, lk_redis_call *call, const lk_redis_command *a,
                                         size_t count, lk_redis_op **op, locker_error *err) LK_REDIS_LOCKED
{
    const lk_redis_outcome up = wait_up_unlocking(p, call, err);
    if (up != LK_REDIS_CALL_ANSWERED)
        return up;
    send_on_locked(p, call);
    if (call->only != 0 && call->only != call->on)
        return LK_REDIS_CALL_STALE;
    *op = lk_redis_pipeline_append_locked(p, a, count, call->until, call->caller);
    if (*op == NULL) {
        lk_out_of_memory(err);
        return LK_REDIS_CALL_NOMEM;
    }
    call->sent = (*op)->sent;
    return LK_REDIS_CALL_ANSWERED;
}

/* Wait for the answers. Called with the mutex, returns without. */
static lk_redis_outcome finish_unlock(lk_redis_pipeline *p, lk_redis_call *call, lk_redis_op *op)
    LK_RELEASE(lk_redis_mutex)
{
    const lk_redis_outcome outcome = lk_redis_pipeline_await_unlock(p, op, call->caller, call->until);
    if (outcome != LK_REDIS_CALL_ANSWERED && outcome != LK_REDIS_CALL_CUT)
        return outcome;
    for (unsigned i = 0; i < op->count; i++)
        call->replies[i] = op->reply[i];
    if (outcome == LK_REDIS_CALL_ANSWERED)
        call->reply = call->replies[op->wanted - 1];
    op->count = 0; /* they are the caller's */
    lk_redis_op_return(&p->ops, op);
    return outcome;
}

static void start(lk_redis_call *call)
{
    call->reply = NULL;
    memset(call->replies, 0, sizeof call->replies);
    call->sent = 0;
}

lk_redis_outcome lk_redis_ask(lk_redis_pipeline *p, lk_redis_call *call, const lk_redis_command *a,
                              size_t count, locker_error *err)
{
    lk_redis_op *op;
    start(call);
    lk_redis_lock(p->shared);
    const lk_redis_outcome outcome = append_unlocking(p, call, a, count, &op, err);
    if (outcome == LK_REDIS_CALL_ANSWERED)
        return finish_unlock(p, call, op);
    lk_redis_unlock(p->shared);
    return outcome;
}

lk_redis_op *lk_redis_call_begin_locked(lk_redis_pipeline *p, lk_redis_call *call, const lk_redis_command *a)
{
    lk_redis_op *const op = p->state == LK_REDIS_UP ? lk_redis_pipeline_keep_locked(p, a, 1) : NULL;
    start(call);
    send_on_locked(p, call);
    if (op != NULL)
        call->sent = op->sent;
    return op;
}

lk_redis_outcome lk_redis_call_end(lk_redis_pipeline *p, lk_redis_call *call, lk_redis_op *op)
{
    lk_redis_lock(p->shared);
    lk_redis_pipeline_want_locked(p, op, call->until, call->caller);
    return finish_unlock(p, call, op);
}

const redisReply *lk_redis_call_peek(const lk_redis_op *op, bool *cut)
{
    const int state = atomic_load_explicit(&op->state, memory_order_acquire); /* reply was written before */
    *cut = state == LK_REDIS_OP_CUT;
    return state == LK_REDIS_OP_ANSWERED ? op->reply[0] : NULL;
}

void lk_redis_call_clear(lk_redis_call *call)
{
    for (size_t i = 0; i < LK_REDIS_FLIGHT_MAX; i++)
        if (call->replies[i] != NULL)
            freeReplyObject(call->replies[i]);
}

bool lk_redis_submit_command_locked(lk_redis_pipeline *p, const lk_redis_command *a, lk_redis_done done,
                                    void *context)
{
    char *room = lk_redis_room_locked(p, lk_redis_command_room(a));
    return room != NULL && lk_redis_submit_locked(p, lk_redis_command_put(a, room), done, context);
}
