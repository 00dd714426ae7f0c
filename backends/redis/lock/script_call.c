/* script_call.c: see script_call.h. */
#include "script_call.h"

#include "net/reply.h"

void lk_redis_script_begin(const lk_redis *r, lk_redis_command *a, lk_redis_script which, bool whole,
                           const lk_redis_keys *keys)
{
    a->argc = 0;
    if (whole || r->sha[which][0] == '\0') {
        lk_redis_command_add(a, "EVAL", 4);
        lk_redis_command_text(a, lk_redis_script_text[which]);
    } else {
        lk_redis_command_add(a, "EVALSHA", 7);
        lk_redis_command_add(a, r->sha[which], LK_REDIS_HASH_LEN);
    }
    const bool looks = which == LK_REDIS_SCRIPT_SHOW || which == LK_REDIS_SCRIPT_BREAK;
    lk_redis_command_add(a, looks ? "4" : "3", 1);
    lk_redis_command_add(a, keys->lock, keys->lock_len);
    lk_redis_command_add(a, keys->queue, keys->queue_len);
    lk_redis_command_add(a, keys->fence, keys->fence_len);
    if (looks)
        lk_redis_command_add(a, keys->info, keys->info_len);
}

lk_redis_outcome lk_redis_ask_script(lk_redis *r, lk_redis_call *call, lk_redis_script which,
                                     const lk_redis_keys *keys, const lk_redis_command *fill,
                                     locker_error *err)
{
    lk_redis_command a;
    lk_redis_least_text least;
    for (bool whole = false;;) {
        call->only = lk_redis_net_connection(r->net); /* before its least number */
        const char *text = lk_redis_fence_least_text(&r->least, &least);
        lk_redis_script_begin(r, &a, which, whole, keys);
        for (int i = 0; i < fill->argc; i++)
            lk_redis_command_add(&a, fill->argv[i], fill->len[i]);
        lk_redis_command_text(&a, text);
        const lk_redis_outcome outcome = lk_redis_ask(r->net, call, &a, err);
        if (outcome == LK_REDIS_CALL_STALE)
            continue;
        if (outcome != LK_REDIS_CALL_ANSWERED ||
            lk_redis_reply_fault(call->reply) != LK_REDIS_FAULT_NOSCRIPT || whole)
            return outcome;
        freeReplyObject(call->reply);
        whole = true;
    }
}
