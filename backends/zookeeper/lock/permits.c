/* permits.c: one of a key's permits for a claim. Those who want one queue, as for a lock; who is at the head counts the permits
 * that are taken, and takes a free one (exchange.c) or is told when that changes. Nobody else takes any, so what was counted
 * can only have become less. It is so with Curator's InterProcessSemaphoreV2, too, with which ours share queue and permits. */
#include "attempt.h"

/* It has no place yet, so whoever is there was before it. */
static bool judge_look_locked(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    const lk_zk_usage *const u = &a->usage;
    const bool nobody = u->taken == 0 && u->ahead == 0;
    if (u->says > 0)
        return lk_zk_usage_refuse_locked(a, u->says);
    if (nobody && u->first[0] != '\0')
        return lk_zk_usage_refuse_locked(a, 0);
    a->looked = true;
    if (!a->claim->will_wait && u->taken + u->ahead >= a->claim->permits)
        a->status = LOCKER_BUSY;
    return a->status == LOCKER_OK;
}

/* The permits first: who takes one in between is missing in both lists, and not in both. */
static void ask_both_locked(lk_zk_attempt *a, bool fresh) LK_REQUIRES(*a->z->net)
{
    lk_zk_usage_ask_locked(a, LK_ZK_OF_PERMITS, fresh);
    lk_zk_usage_ask_locked(a, LK_ZK_OF_QUEUE, false);
}

bool lk_zk_permits_look_unlocking(lk_zk_attempt *a)
{
    a->usage = (lk_zk_usage){.rc = ZOK};
    a->used_up = false;
    ask_both_locked(a, !a->claim->will_wait);
    lk_zk_usage_ask_locked(a, LK_ZK_OF_KEY, false);
    return lk_zk_usage_await_unlocking(a) && (a->usage.unknown || judge_look_locked(a));
}

/* The holders of permits decide how many there are. While there are no holders, the first place in the queue does. */
bool lk_zk_permits_judge_unlocking(lk_zk_attempt *a, lk_zk_node *node)
{
    a->usage = (lk_zk_usage){.rc = ZOK};
    lk_zk_usage_ask_locked(a, LK_ZK_OF_PERMITS, false);
    if (!lk_zk_usage_await_unlocking(a))
        return false;
    if (a->usage.unknown)
        return lk_zk_is_up_locked(a->z->net) || lk_zk_attempt_wait_unlocking(a, lk_zk_await_up_unlocking);
    if (a->usage.says > 0)
        return lk_zk_usage_refuse_locked(a, a->usage.says);
    if (!a->usage.fits && node->step == LK_ZK_BEHIND && node->other != 0)
        return lk_zk_usage_refuse_locked(a, node->other);
    node->other = 0;
    return true;
}

bool lk_zk_permits_try_unlocking(lk_zk_attempt *a)
{
    a->usage = (lk_zk_usage){.rc = ZOK};
    ask_both_locked(a, false);
    if (!lk_zk_usage_await_unlocking(a))
        return false;
    if (a->usage.unknown || a->usage.taken + a->usage.ahead < a->claim->permits)
        return true;
    lk_zk_attempt_drop_locked(a);
    a->status = LOCKER_BUSY;
    return false;
}

bool lk_zk_permits_count_unlocking(lk_zk_attempt *a, lk_zk_node *node)
{
    a->usage = (lk_zk_usage){.rc = ZOK};
    if (!a->data->use_known)
        lk_zk_usage_ask_locked(a, LK_ZK_OF_KEY, false);
    lk_zk_usage_watch_locked(a);
    if (!lk_zk_usage_await_unlocking(a))
        return false;
    if (a->usage.unknown)
        return true;
    if (a->usage.says > 0)
        return lk_zk_usage_refuse_locked(a, a->usage.says);
    /* Once for each claim: who comes later to lock the key finds it in use. */
    if (!a->data->use_known && !lk_zk_usage_settle_unlocking(a, node))
        return false;
    /* Asked again; or FULL. Or it was: who reads for all threads may have heard that there is room before this one went on, and
     * the count of before has no slot that is free. */
    if (!a->data->use_known || node->step != LK_ZK_HEAD || a->usage.taken >= a->claim->permits)
        return true;
    if (node->held == LK_ZK_PLACE) /* else it is known already which one it may have been given */
        node->slot = a->usage.slot;
    node->makes_parent = node->makes_parent || a->usage.no_parent;
    lk_zk_node_take_locked(a->z, node);
    return true;
}
