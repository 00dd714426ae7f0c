/* usage.c: how a key is used, and by whom. Locks of a key queue at its node, those who want one of its permits below that, so
 * neither stands in the other's way; each looks for the other when it comes. Who came first may stay: of two that see each
 * other the younger node's is refused, and a permit that is taken is older than any lock that sees it, because who takes one
 * has looked for locks before.
 *
 * Claims that want one of a key's permits queue, as for a lock. The claim at the head of the queue counts the permits that are
 * taken, and takes a free one (exchange.c) or is told when that changes. No other claim takes one, so what was counted can only have
 * become less. It is so with Curator's InterProcessSemaphoreV2, too, with which ours share queue and permits. */
#include <string.h>

#include "attempt.h"

static bool is_good(lk_zk_attempt *a, const lk_zk_reply *reply)
{
    if (lk_zk_unknown(reply->rc))
        a->usage.unknown = true;
    else if (reply->rc != ZOK && reply->rc != ZNONODE)
        a->usage.rc = reply->rc;
    return reply->rc == ZOK;
}

/* Which of the permits one has; none by a foreign client's. */
static void note_permit(lk_zk_attempt *a, const char *name, uint8_t *slots)
{
    int32_t permits, slot;
    a->usage.taken++;
    if (!lk_zk_read_permit(name, &permits, &slot)) {
        a->usage.says = a->usage.says != 0 ? a->usage.says : LK_ZK_FOREIGN;
    } else if (permits != a->claim->permits) {
        a->usage.says = permits;
    } else if (slot >= 0) {
        a->usage.fits = true;
        slots[slot / 8] |= (uint8_t)(1u << slot % 8);
    }
}

static void permits_listed_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_attempt *const a = context;
    uint8_t slots[LK_ZK_PERMITS_MAX / 8 + 1] = {0};
    (void)z;
    a->usage.no_parent = reply->rc == ZNONODE;
    if (is_good(a, reply))
        for (int32_t i = 0; i < reply->names->count; i++)
            note_permit(a, reply->names->data[i], slots);
    while (a->usage.slot < a->claim->permits && (slots[a->usage.slot / 8] >> a->usage.slot % 8 & 1) != 0)
        a->usage.slot++;
    lk_zk_call_answered_locked(&a->call);
}

/* The step is changed here, because the next answer may be that there is room. */
static void permits_counted_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_attempt *const a = context;
    permits_listed_locked(z, context, reply);
    if (a->usage.taken >= a->claim->permits && a->data->node != NULL && a->data->node->step == LK_ZK_HEAD)
        lk_zk_node_tell_locked(z, a->data->node, LK_ZK_NO_ROOM);
}

static void note_first(lk_zk_usage *u, const char *parent, const char *name, int32_t number)
{
    int32_t slot;
    if ((u->first[0] != '\0' && u->number <= number) || !lk_zk_join(u->first, parent, name))
        return;
    u->number = number;
    if (!lk_zk_read_permit(name, &u->first_says, &slot))
        u->first_says = LK_ZK_FOREIGN;
}

static void locks_listed_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_attempt *const a = context;
    int32_t number;
    (void)z;
    if (is_good(a, reply))
        for (int32_t i = 0; i < reply->names->count; i++)
            if (lk_zk_contender(reply->names->data[i], &number) != LK_ZK_NO_CONTENDER)
                note_first(&a->usage, a->key, reply->names->data[i], number);
    a->usage.first_says = 0;
    lk_zk_call_answered_locked(&a->call);
}

/* Of the queue for permits: of a claim to one, who is before it; of a claim to a lock, the first. */
static void queue_listed_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_attempt *const a = context;
    const lk_zk_node *const own = a->claim->permits > 0 ? a->data->node : NULL;
    char queue[LK_ZK_PATH_MAX];
    int32_t number;
    (void)lk_zk_join(queue, a->key, LK_ZK_LOCKS);
    if (is_good(a, reply) && a->claim->permits > 0)
        lk_zk_queue_sweep_locked(z, a->parent, reply->names);
    for (int32_t i = 0; reply->rc == ZOK && i < reply->names->count; i++) {
        const char *const name = reply->names->data[i];
        const lk_zk_node *const ours = lk_zk_node_find_locked(z, name);
        const bool going = ours != NULL && ours->claim == NULL; /* its delete is ahead of what we send */
        if (going || lk_zk_contender(name, &number) == LK_ZK_NO_CONTENDER ||
            (own != NULL && number >= own->sequence))
            continue;
        a->used_up = a->used_up || lk_zk_used_up(number);
        a->usage.ahead++;
        if (a->claim->permits == 0)
            note_first(&a->usage, queue, name, number);
    }
    lk_zk_call_answered_locked(&a->call);
}

static void expect_locked(lk_zk_attempt *a, lk_zk_request *request) LK_REQUIRES(*a->z->net)
{
    if (!lk_zk_call_expect_locked(&a->call, request))
        a->usage.unknown = true;
}

typedef enum { OF_KEY, OF_PERMITS, OF_QUEUE } list_kind;

/* Ask for a list, whose answer goes into a->usage. More than one may be in flight. */
static void usage_ask_locked(lk_zk_attempt *a, list_kind kind, bool fresh) LK_REQUIRES(*a->z->net)
{
    static const lk_zk_done_fn done[] = {locks_listed_locked, permits_listed_locked, queue_listed_locked};
    static const char *const below[] = {NULL, LK_ZK_LEASES, LK_ZK_LOCKS};
    char path[LK_ZK_PATH_MAX];
    if (kind == OF_KEY)
        (void)strcpy(path, a->key);
    else
        (void)lk_zk_join(path, a->key, below[kind]);
    expect_locked(a, fresh ? lk_zk_list_fresh_locked(a->z->net, path, done[kind], a)
                           : lk_zk_list_locked(a->z->net, path, done[kind], a));
}

/* The same for permits. By the answer the place at the head is FULL, or the driver is notified when the permits change. */
static void usage_watch_locked(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    char path[LK_ZK_PATH_MAX];
    (void)lk_zk_join(path, a->key, LK_ZK_LEASES);
    expect_locked(a, lk_zk_list_told_locked(a->z->net, path, permits_counted_locked, a));
}

/* Wait for the answers. False: the attempt ends. True: they are there, unless usage.unknown says that it has to ask again. */
static bool usage_await_unlocking(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    if (a->call.pending > 0 && !lk_zk_attempt_wait_unlocking(a, lk_zk_await_unlocking))
        return false;
    if (a->usage.unknown)
        return !lk_zk_is_up_locked(a->z->net) || lk_zk_attempt_wait_unlocking(a, lk_zk_pause_unlocking);
    if (a->usage.rc != ZOK)
        a->status = lk_zk_error(a->usage.rc, "listing the contenders of a key", a->key, a->err);
    return a->status == LOCKER_OK;
}

static void first_read_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_attempt *const a = context;
    (void)z;
    if (is_good(a, reply))
        a->usage.first_czxid = reply->stat->czxid;
    lk_zk_call_answered_locked(&a->call);
}

/* Refuse the claim: somebody uses the key with so many permits, or as a lock (0), or as a semaphore (FOREIGN). Answers false. */
static bool usage_refuse_locked(lk_zk_attempt *a, int32_t in_use) LK_REQUIRES(*a->z->net)
{
    lk_zk_attempt_drop_locked(a);
    a->status = in_use >= 0 ? locker_other_use(a->err, in_use, a->claim->permits)
                            : lk_misconfigured(a->err, "another client uses the key as a semaphore, but this "
                                                       "call asks for a lock; use another key");
    return false;
}

/* Refuse the claim if the first of the other queue came before the claim's own place, whose age this asks for. Else note whether it is
 * known that nobody who came before uses the key otherwise. False: the attempt ends. */
static bool usage_settle_unlocking(lk_zk_attempt *a, const lk_zk_node *own) LK_REQUIRES(*a->z->net)
{
    if (a->usage.first[0] != '\0') {
        expect_locked(a, lk_zk_get_locked(a->z->net, a->usage.first, first_read_locked, a));
        if (!usage_await_unlocking(a))
            return false;
        if (a->usage.first_czxid == 0)
            a->usage.unknown = true; /* it has gone: to a permit, or the next of its queue is older, too */
        else if (a->usage.first_czxid < own->czxid)
            return usage_refuse_locked(a, a->usage.first_says);
    }
    a->data->use_known = !a->usage.unknown;
    return true;
}

bool lk_zk_check_lock_unlocking(lk_zk_attempt *a, const lk_zk_node *node)
{
    a->usage = (lk_zk_usage){.rc = ZOK};
    /* The queue first: who takes a permit in between is in both lists, and not in none. */
    usage_ask_locked(a, OF_QUEUE, false);
    usage_ask_locked(a, OF_PERMITS, false);
    if (!usage_await_unlocking(a))
        return false;
    if (a->usage.unknown)
        return true;
    return a->usage.taken > 0 ? usage_refuse_locked(a, a->usage.says) : usage_settle_unlocking(a, node);
}

/* It has no place yet, so whoever is there was before it. */
static bool judge_look_locked(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    const lk_zk_usage *const u = &a->usage;
    const bool nobody = u->taken == 0 && u->ahead == 0;
    if (u->says > 0)
        return usage_refuse_locked(a, u->says);
    if (nobody && u->first[0] != '\0')
        return usage_refuse_locked(a, 0);
    a->looked = true;
    if (!a->claim->will_wait && u->taken + u->ahead >= a->claim->permits)
        a->status = LOCKER_BUSY;
    return a->status == LOCKER_OK;
}

/* The permits first: who takes one in between is missing in both lists, and not in both. */
static void ask_both_locked(lk_zk_attempt *a, bool fresh) LK_REQUIRES(*a->z->net)
{
    usage_ask_locked(a, OF_PERMITS, fresh);
    usage_ask_locked(a, OF_QUEUE, false);
}

bool lk_zk_permits_look_unlocking(lk_zk_attempt *a)
{
    a->usage = (lk_zk_usage){.rc = ZOK};
    a->used_up = false;
    ask_both_locked(a, !a->claim->will_wait);
    usage_ask_locked(a, OF_KEY, false);
    return usage_await_unlocking(a) && (a->usage.unknown || judge_look_locked(a));
}

/* The holders of permits decide how many there are. While there are no holders, the first place in the queue does. */
bool lk_zk_permits_judge_unlocking(lk_zk_attempt *a, lk_zk_node *node)
{
    a->usage = (lk_zk_usage){.rc = ZOK};
    usage_ask_locked(a, OF_PERMITS, false);
    if (!usage_await_unlocking(a))
        return false;
    if (a->usage.unknown)
        return lk_zk_is_up_locked(a->z->net) || lk_zk_attempt_wait_unlocking(a, lk_zk_await_up_unlocking);
    if (a->usage.says > 0)
        return usage_refuse_locked(a, a->usage.says);
    if (!a->usage.fits && node->step == LK_ZK_BEHIND && node->other != 0)
        return usage_refuse_locked(a, node->other);
    node->other = 0;
    return true;
}

bool lk_zk_permits_try_unlocking(lk_zk_attempt *a)
{
    a->usage = (lk_zk_usage){.rc = ZOK};
    ask_both_locked(a, false);
    if (!usage_await_unlocking(a))
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
        usage_ask_locked(a, OF_KEY, false);
    usage_watch_locked(a);
    if (!usage_await_unlocking(a))
        return false;
    if (a->usage.unknown)
        return true;
    if (a->usage.says > 0)
        return usage_refuse_locked(a, a->usage.says);
    /* Once for each claim: who comes later to lock the key finds it in use. */
    if (!a->data->use_known && !usage_settle_unlocking(a, node))
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
