/*
 * cleanup.c: what goes on without a caller: a lock, or a place in the queue, that nobody here wants any more
 * is given back in the background, again after each reconnection until its time is over. After that a lock
 * ends with its lease.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const int64_t again_ns = 100 * LK_MS;

static void remove_locked(struct lk_cleanup *c)
{
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    lk_keys_clear(&c->keys);
    free(c->member);
    free(c);
}

static bool submit_locked(struct lk_redis *r, struct lk_cleanup *c);

static void done_locked(struct lk_redis *r, void *context, redisReply *reply)
{
    struct lk_cleanup *c = context;
    c->sent = false;
    if (reply == NULL)
        return; /* sent again once there is a connection */
    switch (lk_reply_fault(reply)) {
    case LK_FAULT_NOSCRIPT:
        c->whole = true;
        (void)submit_locked(r, c);
        break;
    case LK_FAULT_TRANSIENT:
    case LK_FAULT_REFUSED:
        c->retry_at = lk_redis_now(r) + again_ns;
        break;
    case LK_FAULT_MOVED:
        lk_moved_locked(r, reply);
        break;
    case LK_FAULT_DENIED:
        atomic_store_explicit(&r->trusted, false, memory_order_relaxed);
        remove_locked(c);
        break;
    default:
        remove_locked(c);
    }
}

static bool submit_locked(struct lk_redis *r, struct lk_cleanup *c)
{
    struct lk_argv a;
    char least[24];
    (void)lk_number_text(least, atomic_load_explicit(&r->fence_least, memory_order_relaxed));
    lk_script_begin(r, &a, LK_SCRIPT_RELEASE, c->whole, &c->keys);
    lk_argv_add(&a, c->value, LK_VALUE_LEN);
    lk_argv_text(&a, c->member != NULL ? c->member : "");
    lk_argv_add(&a, "0", 1);
    lk_argv_text(&a, least);
    c->sent = lk_submit_argv_locked(r, &a, done_locked, c);
    return c->sent;
}

bool lk_cleanup_start_locked(struct lk_redis *r, struct lk_keys *keys, const char *value, const char *member)
{
    struct lk_cleanup *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        lk_keys_clear(keys);
        return false;
    }
    c->keys = *keys;
    keys->memory = NULL;
    memcpy(c->value, value, LK_VALUE_LEN + 1);
    c->member = member != NULL ? strdup(member)
                               : NULL; /* without it the queue's entry is skipped when its turn comes */
    c->deadline = lk_after(lk_redis_now(r), r->set.cleanup_ns);
    c->next = r->cleanups;
    c->link = &r->cleanups;
    if (c->next != NULL)
        c->next->link = &c->next;
    r->cleanups = c;
    if (!submit_locked(r, c))
        r->svc->attend(r->svc); /* its deadline wants watching */
    return true;
}

int64_t lk_cleanups_run_locked(struct lk_redis *r, int64_t now)
{
    int64_t next_time = LOCKER_NEVER;
    struct lk_cleanup *next;
    for (struct lk_cleanup *c = r->cleanups; c != NULL; c = next) {
        next = c->next;
        if (c->sent)
            continue;
        if (now >= c->deadline) {
            remove_locked(c);
            continue;
        }
        if (r->conn.state == LK_CONN_UP && now >= c->retry_at && submit_locked(r, c))
            continue;
        next_time =
            lk_earlier(next_time, c->retry_at > now ? lk_earlier(c->retry_at, c->deadline) : c->deadline);
    }
    return next_time;
}

void lk_cleanups_free_locked(struct lk_redis *r)
{
    struct lk_cleanup *next;
    for (struct lk_cleanup *c = r->cleanups; c != NULL; c = next) {
        next = c->next;
        lk_keys_clear(&c->keys);
        free(c->member);
        free(c);
    }
    r->cleanups = NULL;
}
