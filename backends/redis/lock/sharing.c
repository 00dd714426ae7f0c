/* sharing.c: see sharing.h. */
#include "sharing.h"
#include "clock_gain.h"
#include "script_call.h"
#include "waiters.h"

lk_redis_outcome lk_redis_sharing_ask(lk_redis_node *node, lk_redis_call *call, lk_redis_keys *keys,
                                      const char *member, const char *old_counter, bool waits, bool known,
                                      locker_error *err)
{
    lk_redis *const r = node->r;
    char queue_ttl[LK_REDIS_NUMBER_MAX];
    (void)lk_redis_number_text(queue_ttl, (uint64_t)(lk_redis_queue_ns(r) / LK_MS));
    lk_redis_scripts_want(r);
    lk_redis_command a;
    lk_redis_script_begin(r, &a, LK_REDIS_SCRIPT_SHARED_ACQUIRE, keys, old_counter);
    LK_REDIS_ARGUMENTS(&a, member, waits ? "1" : "0", queue_ttl, known ? "1" : "0");
    return lk_redis_ask_script(node, call, LK_REDIS_SCRIPT_SHARED_ACQUIRE, &a, err);
}

lk_redis_sharing_answer lk_redis_sharing_read(locker_claim *claim, const redisReply *reply)
{
    lk_redis_sharing_answer s = {.what = LK_REDIS_MAKES_NO_SENSE};
    bool is = reply->type == REDIS_REPLY_ARRAY && reply->elements == 4;
    for (size_t i = 0; is && i < reply->elements; i++)
        is = reply->element[i]->type == REDIS_REPLY_INTEGER;
    if (!is)
        return s;
    const int64_t first = reply->element[1]->integer, second = reply->element[2]->integer,
                  third = reply->element[3]->integer;
    if (reply->element[0]->integer == 1 && first > 0 && second >= 0 && third > 0 &&
        (claim->permits == 0 || second < claim->permits)) {
        s = (lk_redis_sharing_answer){.what = LK_REDIS_IS_IN, .token = first};
        claim->slot = (int32_t)second;
        lk_redis_claim_of(claim)->epoch = (uint64_t)third;
    } else if (reply->element[0]->integer == 2) {
        s = (lk_redis_sharing_answer){
            .what = LK_REDIS_IS_OUT, .left_ms = first, .state = second, .counter = third};
    } else if (reply->element[0]->integer == 3) {
        s = (lk_redis_sharing_answer){.what = LK_REDIS_OTHER_USE, .permits = (int32_t)first};
    }
    return s;
}

void lk_redis_sharing_watch(lk_redis *r, lk_redis_claim *data)
{
    lk_redis_lock(&r->shared);
    data->noted = true;
    lk_redis_claims_add_locked(&r->claims, data);
    lk_redis_clock_look_back_locked(r, data);
    lk_redis_net_subscribe_locked(lk_redis_node_of(r, data->slot)->net, data->slot, true);
    lk_redis_unlock(&r->shared);
}
