/* script_call.c: see script_call.h. */
#include "script_call.h"
#include "net/reply.h"

void lk_redis_script_spell_out(const lk_redis *r, lk_redis_command *a, lk_redis_script which)
{
    lk_redis_command_set(a, 0, "EVAL");
    lk_redis_command_set(a, 1, r->script[which]);
}

void lk_redis_script_begin(const lk_redis *r, lk_redis_command *a, lk_redis_script which, lk_redis_keys *keys,
                           const char *fourth)
{
    static const char *const counts[] = {"3", "4", "5"};
    const char *const mark = r->recovery.mark;
    a->argc = 0;
    LK_REDIS_ARGUMENTS(a, "EVALSHA", r->sha[which], counts[(fourth != NULL) + (mark != NULL)], keys->lock,
                       lk_redis_keys_queue(keys), keys->fence);
    if (r->sha[which][0] == '\0')
        lk_redis_script_spell_out(r, a, which);
    if (fourth != NULL)
        lk_redis_command_text(a, fourth);
    if (mark != NULL)
        lk_redis_command_text(a, mark);
}

static const char *copy_life(lk_redis *r, char life[LK_REDIS_LIFE_MAX])
{
    lk_redis_lock(&r->shared);
    memcpy(life, r->recovery.life, LK_REDIS_LIFE_MAX);
    lk_redis_unlock(&r->shared);
    return life;
}

lk_redis_outcome lk_redis_ask_script(lk_redis_node *node, lk_redis_call *call, lk_redis_script which,
                                     lk_redis_command *a, locker_error *err)
{
    lk_redis *const r = node->r;
    const int last = a->argc;
    char least[LK_REDIS_FENCE_DIGITS + 1], life[LK_REDIS_LIFE_MAX];
    lk_redis_command_text(a, "");
    if (r->recovery.mark != NULL)
        lk_redis_command_text(a, "");
    for (bool whole = false;;) {
        /* before its least number, and its life of the server */
        call->only = atomic_load_explicit(&node->commands->connection, memory_order_acquire);
        lk_redis_command_set(a, last, lk_redis_fence_least_text(&node->fences, least));
        if (r->recovery.mark != NULL)
            lk_redis_command_set(a, last + 1, copy_life(r, life));
        const lk_redis_outcome outcome = lk_redis_ask(node->commands, call, a, 1, err);
        if (outcome == LK_REDIS_CALL_STALE)
            continue;
        if (outcome != LK_REDIS_CALL_ANSWERED ||
            lk_redis_reply_fault(call->reply) != LK_REDIS_FAULT_NOSCRIPT || whole)
            return outcome;
        freeReplyObject(call->reply);
        lk_redis_script_spell_out(r, a, which);
        whole = true;
    }
}
