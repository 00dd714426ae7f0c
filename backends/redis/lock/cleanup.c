/* cleanup.c: what goes on without a caller: a lock, or a place in the queue, that nobody here wants any more
 * is given back in the background, again after each reconnection until its time is over. After that a lock
 * ends with its lease; a place, which would be handed the lock, has a minute. */
#include "cleanup.h"
#include "migrating.h"
#include "net/reply.h"
#include "node.h"
#include "script_call.h"

/* A value that is to be released, or withdrawn from the queue. Guarded by the mutex. */
typedef struct {
    lk_redis *r;
    lk_list link;
    lk_redis_keys keys;
    uint16_t slot;
    char value[LK_REDIS_VALUE_LEN + 1];
    char member[LK_REDIS_MEMBER_MAX]; /* to take out of the queue; "": none */
    int64_t deadline;                 /* given up then */
    int64_t retry_at;                 /* 0: at once */
    lk_redis_given_back what;
    bool sent, whole; /* awaiting its answer; send the script's text */
    unsigned hops;    /* how often it was sent to another server, in a row */
    bool migrating;   /* its slot is being migrated */
} lk_redis_cleanup;

static void remove_locked(lk_redis_cleanup *c) LK_REDIS_LOCKED
{
    lk_list_remove(&c->link);
    lk_redis_keys_clear(&c->keys);
    free(c);
}

static bool submit_locked(lk_redis_cleanup *c) LK_REDIS_LOCKED;

static lk_redis_node *node_of(const lk_redis_cleanup *c)
{
    return lk_redis_node_of(c->r, c->slot);
}

/* It, and its deadline, want watching: what was refused is known to whichever thread reads the answer. Another one may be
 * inside dispatch meanwhile, and have looked already. */
static void watch_locked(const lk_redis_cleanup *c) LK_REDIS_LOCKED
{
    const locker_services *svc = c->r->shared.svc;
    svc->attend(svc);
}

static void done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED;

static void migrating_done_locked(void *context, redisReply *reply, lk_redis_pipeline *on) LK_REDIS_LOCKED
{
    lk_redis_cleanup *const c = context;
    (void)on;
    if (reply == NULL &&
        !c->r->shared
             .closing) { /* there may be no connection to where its key has gone: it is not told when there is */
        c->retry_at = lk_redis_now(&c->r->shared) + LK_REDIS_AGAIN_NS;
        watch_locked(c);
    }
    if (reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1)
        lk_redis_migrating_call_first_locked(c->r, c->slot, &c->keys);
    done_locked(c, reply);
}

/* The lock, the place in its queue, and the info, each by itself. */
static void submit_migrating_locked(lk_redis_cleanup *c) LK_REDIS_LOCKED
{
    const lk_redis_command forget = LK_REDIS_COMMAND("DEL", lk_redis_keys_info(&c->keys));
    const lk_redis_command drop =
        LK_REDIS_COMMAND("EVAL", lk_redis_migrating_drop_text, "1", c->keys.lock, c->value);
    const lk_redis_command leave = LK_REDIS_COMMAND("ZREM", lk_redis_keys_queue(&c->keys), c->member);
    c->sent = true;
    if (c->member[0] != '\0')
        lk_redis_migrating_submit_locked(c->r, c->slot, &leave, NULL, NULL);
    if (c->what == LK_REDIS_NOTED)
        lk_redis_migrating_submit_locked(c->r, c->slot, &forget, NULL, NULL);
    lk_redis_migrating_submit_locked(c->r, c->slot, &drop, migrating_done_locked, c);
}

static void done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    lk_redis_cleanup *c = context;
    c->sent = false;
    if (reply == NULL)
        return; /* sent again once there is a connection */
    switch (lk_redis_reply_fault(reply)) {
    case LK_REDIS_FAULT_NOSCRIPT:
        c->whole = true;
        if (!submit_locked(c))
            watch_locked(c);
        break;
    case LK_REDIS_FAULT_MIGRATING:
        c->migrating = !c->migrating && c->r->map != NULL && c->what != LK_REDIS_SHARING;
        if (c->migrating) {
            submit_migrating_locked(c);
            break;
        }
        /* fall through */
    case LK_REDIS_FAULT_TRANSIENT:
    case LK_REDIS_FAULT_REFUSED:
        lk_redis_heed_locked(node_of(c), c->slot, reply);
        c->retry_at = lk_redis_now(&c->r->shared) + LK_REDIS_AGAIN_NS;
        watch_locked(c);
        break;
    case LK_REDIS_FAULT_MOVED:
        lk_redis_heed_locked(node_of(c), c->slot, reply);
        if (c->r->map == NULL || c->hops++ == LK_REDIS_HOPS_MAX || !submit_locked(c)) {
            c->hops = 0; /* it goes with the next connection, or after a pause */
            c->retry_at = lk_redis_now(&c->r->shared) + LK_REDIS_AGAIN_NS;
        }
        watch_locked(c); /* another server's connection is pumped now */
        break;
    case LK_REDIS_FAULT_DENIED:
        LK_WRITE(c->r->trusted, false);
        remove_locked(c);
        break;
    default:
        remove_locked(c);
    }
}

static bool submit_locked(lk_redis_cleanup *c) LK_REDIS_LOCKED
{
    char least[LK_REDIS_FENCE_DIGITS + 1];
    const bool shares = c->what == LK_REDIS_SHARING;
    const lk_redis_script script = shares ? LK_REDIS_SCRIPT_SHARED_RELEASE : LK_REDIS_SCRIPT_RELEASE;
    lk_redis_command a;
    lk_redis_script_begin(c->r, &a, script, &c->keys,
                          c->what == LK_REDIS_NOTED ? lk_redis_keys_info(&c->keys) : NULL);
    if (c->whole)
        lk_redis_script_spell_out(c->r, &a, script);
    LK_REDIS_ARGUMENTS(&a, c->value, c->member, "0");
    if (c->r->recovery.mark != NULL)
        lk_redis_command_text(&a, "0"); /* it gives back what is its own alone */
    if (c->r->recovery.mark != NULL && shares)
        lk_redis_command_text(&a, "");
    lk_redis_command_text(&a, lk_redis_fence_least_text(&node_of(c)->fences, least));
    if (c->r->recovery.mark != NULL)
        lk_redis_command_text(&a, c->r->recovery.life);
    c->sent = lk_redis_submit_command_locked(node_of(c)->commands, &a, done_locked, c);
    return c->sent;
}

void lk_redis_cleanup_start_locked(lk_redis *r, lk_redis_keys *keys, uint16_t slot, uint64_t value,
                                   lk_redis_given_back what, const locker_claim *queued)
{
    lk_redis_cleanup *c = calloc(1, sizeof *c);
    if (c == NULL) {
        lk_redis_keys_clear(keys);
        return;
    }
    c->r = r;
    c->keys = *keys;
    c->slot = slot;
    c->what = what;
    keys->lock = NULL;
    lk_redis_value_text(&r->values, value, c->value);
    if (queued != NULL)
        lk_redis_member_text(r->values.name, queued, c->value, c->member);
    c->deadline = lk_time_after(lk_redis_now(&r->shared),
                                lk_time_later(r->set.cleanup_ns, queued != NULL ? 60 * LK_S : 0));
    lk_list_prepend(&r->cleanups, &c->link);
    if (!submit_locked(c))
        watch_locked(c);
}

int64_t lk_redis_cleanups_run_locked(lk_redis *r, int64_t now)
{
    int64_t next_time = LOCKER_NEVER;
    LK_EACH_SAFE(lk_redis_cleanup, c, link, &r->cleanups) {
        if (c->sent)
            continue;
        if (now >= c->deadline) {
            remove_locked(c);
            continue;
        }
        if (node_of(c)->commands->state == LK_REDIS_UP && now >= c->retry_at && submit_locked(c))
            continue;
        next_time = lk_time_earlier(next_time, c->retry_at > now ? lk_time_earlier(c->retry_at, c->deadline)
                                                                 : c->deadline);
    }
    return next_time;
}

void lk_redis_cleanups_free(lk_redis *r)
{
    LK_EACH_SAFE(lk_redis_cleanup, c, link, &r->cleanups)
        remove_locked(c);
}
