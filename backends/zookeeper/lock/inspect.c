/* inspect.c: what a key's queue looks like, and a round trip. */
#include <string.h>

#include "look.h"

static const locker_break_options anybody = LOCKER_BREAK_OPTIONS_INIT;

static locker_status describe_queue(const lk_zk_look *i, locker_info *info, locker_error *err)
{
    if (i->count == 0)
        return LOCKER_OK;
    info->queue = calloc(i->count, sizeof *info->queue);
    info->queue_stride = sizeof *info->queue;
    if (info->queue == NULL)
        return lk_out_of_memory(err);
    for (size_t n = 0; n < i->count; n++) {
        const lk_zk_entry *const e = &i->entries[n];
        const bool read = n < i->read;
        if (e->holds || (read && !e->there))
            continue;
        info->waiters++;
        if (!read)
            continue;
        locker_waiter *const told = &info->queue[info->queue_len++];
        memcpy(told->owner, e->owner, sizeof e->owner);
        told->mode = e->shares ? LOCKER_SHARED : LOCKER_EXCLUSIVE;
        told->permits = e->permits > 0 ? e->permits : i->of_permits ? info->permits : 0;
    }
    return LOCKER_OK;
}

locker_status lk_zk_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                         locker_error *err)
{
    lk_zk_look i;
    lk_zk_look_begin(&i, self, key, key_len, until);
    info->waiters = 0;
    locker_status status = lk_zk_look_unlocking(&i, LK_ZK_SHOWN_MAX, err);
    if (status == LOCKER_OK)
        status = lk_zk_look_describe(&i, &anybody, info, err);
    if (status == LOCKER_OK)
        status = describe_queue(&i, info, err);
    lk_zk_look_end(&i);
    return status;
}

static void ping_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_look *i = context;
    if (!lk_zk_unknown(reply->rc))
        lk_zk_confirm_locked(z->net, reply->sent);
    /* What a check answers when it was ordered: where there is no such root, or it isn't ours to read, too. A
     * refused login, and what the client library says on its own, is no answer. */
    i->rc = reply->rc == ZNONODE || reply->rc == ZNOAUTH ? ZOK : reply->rc;
    lk_zk_call_answered_locked(&i->call);
}

/* A request that the leader has to order: a server that is cut off from it doesn't answer. */
locker_status lk_zk_ping(void *self, int64_t until, locker_error *err)
{
    lk_zk_look i;
    locker_status status;
    lk_zk_look_begin(&i, self, "", 0, until);
    if (lk_zk_await_up_unlocking(i.z->net, &i.call, until) == LK_ZK_DONE)
        (void)lk_zk_call_expect_locked(&i.call, lk_zk_check_locked(i.z->net, "/", ping_done_locked, &i));
    status = lk_zk_look_await_unlocking(&i, "waiting for an answer", err);
    lk_zk_look_end(&i);
    return status;
}
