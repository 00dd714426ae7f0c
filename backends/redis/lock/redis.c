/* redis.c: the driver's table, and the life of an instance. */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "instance.h"

static const int64_t turn_ns = 50 * LK_MS;

/* Called when nothing else uses it any more. */
static void free_instance(lk_redis *r)
{
    for (const lk_redis_node *node = r->nodes; node != NULL; node = node->next)
        lk_redis_net_settle(node->net); /* while all else is there, other nodes' too */
    for (const lk_redis_node *node = r->nodes; node != NULL; node = node->next)
        lk_redis_net_free(node->net);
    lk_redis_cleanups_free(r);
    for (lk_redis_node *node = r->nodes, *next; node != NULL; node = next) {
        next = node->next;
        lk_redis_renewals_free(node);
        free(node);
    }
    lk_table_destroy(&r->claims);
    lk_redis_shared_destroy(&r->shared);
    lk_redis_recovery_clear(r);
    lk_redis_settings_clear(&r->set);
    free(r->map);
    free(r);
}

/* The last thread that was not waited for has left. */
static void on_left(void *self)
{
    lk_redis *r = ((lk_redis_node *)self)->r;
    if (atomic_fetch_sub(&r->staying, 1) == 1)
        free_instance(r);
}

static const lk_redis_owner owner = {
    .on_up = lk_redis_on_up_locked,
    .on_subscribed = lk_redis_on_subscribed_locked,
    .on_message = lk_redis_on_message_locked,
    .on_map = lk_redis_on_map_locked,
    .peers = lk_redis_peers_locked,
    .channel_of = lk_redis_channel_of,
    .slot_of = lk_redis_slot_of_channel,
    .on_left = on_left,
};

/* Two hosts that were restored from one snapshot of memory draw the same random bits; no two connections are the same. */
static void name_instance(lk_redis *r, const uint64_t random[2], uint64_t connection)
{
    lk_redis_values_init(&r->values, (const uint64_t[]){random[0] ^ connection, random[1]});
    (void)snprintf(r->channel, sizeof r->channel, "locker:wake:%s", r->values.name);
}

enum { RANDOM = 3 };

/* Nobody else sees it yet. It has no name. */
LK_UNCHECKED static bool make_parts(lk_redis *r, const locker_services *svc, uint64_t random[RANDOM])
{
    const size_t size = RANDOM * sizeof random[0];
    if (getrandom(random, size, 0) != (ssize_t)size || !lk_redis_shared_init(&r->shared, svc, random[2]))
        return false;
    lk_redis_slots_init(&r->slots);
    r->look_at = LOCKER_NEVER;
    lk_list_init(&r->cleanups);
    lk_list_init(&r->notes.grants);
    r->owner = &owner;
    r->script = r->set.target.cluster      ? lk_redis_cluster_text
                : r->recovery.mark != NULL ? lk_redis_recovery_text
                                           : lk_redis_one_text;
    const bool made = lk_redis_node_new(r, NULL) != NULL && lk_redis_nodes_init(r);
    if (!made && r->nodes != NULL) {
        lk_redis_net_settle(r->nodes->net);
        lk_redis_net_free(r->nodes->net);
    }
    if (!made)
        lk_redis_shared_destroy(&r->shared);
    return made;
}

static locker_status redis_open(const locker_driver_config *config, const locker_services *svc, void **self,
                                locker_error *err)
{
    lk_redis *r = calloc(1, sizeof *r);
    uint64_t random[RANDOM], connection = 0;
    if (r == NULL)
        return lk_out_of_memory(err);
    locker_status status = lk_redis_settings_init(&r->set, config, err);
    if (status == LOCKER_OK && !lk_redis_recovery_init(r))
        status = lk_out_of_memory(err);
    if (status == LOCKER_OK && !make_parts(r, svc, random)) {
        const int why = errno;
        status = locker_error_set(
            err, LOCKER_UNAVAILABLE, why,
            "cannot create the driver's descriptors: %s; raise the limit on open files (ulimit -n)",
            strerror(why));
    }
    if (status != LOCKER_OK) {
        lk_redis_recovery_clear(r);
        lk_redis_settings_clear(&r->set);
        free(r);
        return status;
    }
    const lk_redis_scripts scripts = {r->script, LK_REDIS_SCRIPTS_LOADED, r->sha};
    if (r->set.target.tls.on && r->set.target.tls.verify == LK_TLS_NONE)
        svc->log(svc, LOCKER_LOG_WARN,
                 "redis: tls_verify=none: the server's certificate is not checked, so any "
                 "host that can redirect the connection can pose as the server");
    status = lk_redis_net_connect(r->nodes->net, &scripts, &connection, err);
    name_instance(r, random, connection);
    if (status == LOCKER_OK)
        status = lk_redis_recovery_check(r, err);
    if (status != LOCKER_OK) {
        if (lk_redis_net_stop(r->nodes->net, lk_redis_now(&r->shared)))
            free_instance(r);
        return status;
    }
    *self = r;
    return LOCKER_OK;
}

/* Let one of them after the other get its answers, for some turns. */
static void drive_unlocking(lk_redis *r, int64_t until) LK_REDIS_LOCKED
{
    bool none = true;
    for (lk_redis_node *node = r->nodes; node != NULL; node = node->next) {
        if (!lk_redis_is_awaited_locked(node->commands))
            continue;
        none = false;
        lk_redis_drive_unlocking(node->commands, until);
    }
    if (none)
        lk_redis_wait_unlocking(&r->shared, until);
}

/* It drives the connections until the clean-ups are done. Nobody hands a lock to one that does not listen any
 * more, and what it was handed before is given back. */
static void redis_close(void *self)
{
    lk_redis *r = self;
    int64_t now = lk_redis_now(&r->shared);
    const int64_t until = lk_time_after(now, r->set.cleanup_ns);
    lk_redis_lock(&r->shared);
    const int64_t heard = now + lk_time_earlier(5 * turn_ns, r->set.cleanup_ns / 4);
    for (lk_redis_node *node = r->nodes; node != NULL; node = node->next)
        lk_redis_net_unsubscribe_unlocking(node->net, heard);
    for (; !lk_list_empty(&r->cleanups) && now < until; now = lk_redis_now(&r->shared)) {
        (void)lk_redis_cleanups_run_locked(r, now);
        drive_unlocking(r, lk_time_earlier(until, now + turn_ns));
    }
    lk_redis_unlock(&r->shared);
    unsigned left = 1; /* itself */
    atomic_store(&r->staying, 1);
    for (lk_redis_node *node = r->nodes, *next; node != NULL; node = next) {
        next = node->next;
        atomic_fetch_add(&r->staying, 1);
        left += lk_redis_net_stop(node->net, until);
    }
    if (atomic_fetch_sub(&r->staying, left) == left)
        free_instance(r);
}

static void redis_abandon(void *self)
{
    const lk_redis *const r = self;
    for (const lk_redis_node *node = r->nodes; node != NULL; node = node->next)
        lk_redis_net_abandon(node->net);
    close(r->shared.epoll_fd);
}

static int redis_descriptor(void *self)
{
    return ((const lk_redis *)self)->shared.epoll_fd;
}

static int64_t redis_dispatch(void *self)
{
    lk_redis *r = self;
    lk_redis_events events;
    int64_t next = LOCKER_NEVER;
    lk_redis_events_take(&r->shared, &events);
    lk_redis_lock(&r->shared);
    r->shared.dispatching = true;
    for (lk_redis_node *node = r->nodes; node != NULL; node = node->next)
        lk_redis_net_begin_turn_unlocking(node->net, &events);
    const int64_t now = lk_redis_now(&r->shared);
    next = lk_time_earlier(next, lk_redis_cleanups_run_locked(r, now));
    next = lk_time_earlier(next, lk_redis_notes_run_locked(r, now));
    next = lk_time_earlier(next, lk_redis_looks_run_locked(r, now));
    for (lk_redis_node *node = r->nodes; node != NULL; node = node->next) {
        next = lk_time_earlier(next, lk_redis_renewals_run_locked(node, now));
        next = lk_time_earlier(next, lk_redis_net_end_turn_unlocking(node->net, now));
    }
    r->shared.dispatching = false;
    lk_redis_unlock(&r->shared);
    return next;
}

/* A function of its own: each lock call checks its key, and nearly all need no stack for it. */
__attribute__((noinline)) static locker_status check_reserved(const char *key, size_t key_len,
                                                              locker_error *err)
{
    if (lk_redis_key_is_reserved(key, key_len))
        return lk_invalid(
            err, "the key begins with 'locker:', ends in ':locker:info', ':locker:queue', ':locker:fence' "
                 "or ':locker:recovery', or has ':locker:{', ':locker:shared:', ':locker:fence:{' or "
                 "':locker:recovery:{' in it, which is reserved for the Redis driver; choose another key");
    return LOCKER_OK;
}

static locker_status redis_check_key(void *self, const char *key, size_t key_len, locker_error *err)
{
    (void)self;
    return lk_redis_key_looks_reserved(key, key_len) ? check_reserved(key, key_len, err) : LOCKER_OK;
}

static const locker_semantics semantics = {
    .size = sizeof(locker_semantics),
    .driver = "redis",
    .scope = LOCKER_SCOPE_NETWORK,
    .fairness = LOCKER_FAIR_LOCAL,
    .leases = true,
    .tokens_persist = true,
    .survives_restart = true,
    .can_break = true,
    .shared = LOCKER_ORDER_LOCAL,
    .permits_most = LOCKER_PERMITS_MAX,
    .holder_dies = "Its lock ends with its lease, within the TTL.",
    .holder_stalls =
        "After its TTL it has lost the lock, and another client can get it. It is LOST when it continues. "
        "A write that it had begun may still follow, with an outdated fencing token.",
    .cut_off = "The holder keeps the lock until its local deadline and is then LOST. "
               "The server frees the lock a little later, when the TTL ends.",
    .service_restarts =
        "Locks last if the server keeps its data (appendonly, fsync always). If it restarts "
        "empty, the locks are gone, and holders are LOST at their next renewal. With recovery, "
        "holders keep their locks, and no other lock is granted for that time.",
    .failover = "Replication is asynchronous: a promoted replica may lack the last grants, so a lock "
                "may have two holders until the first renews. wait_replicas prevents this if it "
                "counts all replicas that may be promoted; recovery prevents it unless the old master "
                "still serves. A store that checks fencing tokens stays safe.",
    .token = "Grows with each grant of a key, also over failovers and a loss of all data, unless the "
             "server's clock was set back. Rarer cases: docs/promises.md. 0 with fencing=off.",
    .cost = "One round trip to lock and one to unlock. A release notifies "
            "one waiter. One command renews up to 256 leases.",
};

const locker_driver lk_redis_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "redis",
    .schemes = (const char *const[]){"redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel",
                                     "redis+cluster", "rediss+cluster", "valkey", "valkeys", "valkey+unix",
                                     "valkey+sentinel", "valkeys+sentinel", "valkey+cluster",
                                     "valkeys+cluster", NULL},
    .example = "redis://127.0.0.1:6379/0?ttl=30s",
#ifdef LOCKER_HAS_TLS
    .features = "",
#else
    .features = "no TLS (rediss://, valkeys://): it was built without OpenSSL",
#endif
    .caps = LOCKER_CAP_AUTH,
    .claim_size = sizeof(lk_redis_claim),
    .ttl_min_ms = 50,
    .ttl_max_ms = INT64_C(7) * 24 * 3600 * 1000,
    .params = lk_redis_params,
    .semantics = &semantics,
    .open = redis_open,
    .close = redis_close,
    .abandon = redis_abandon,
    .check_key = redis_check_key,
    .acquire = lk_redis_acquire,
    .interrupt = lk_redis_interrupt,
    .withdraw = lk_redis_withdraw,
    .begin_release = lk_redis_begin_release,
    .release = lk_redis_release,
    .pass = lk_redis_pass,
    .renew = lk_redis_renew,
    .descriptor = redis_descriptor,
    .dispatch = redis_dispatch,
    .show = lk_redis_show,
    .break_lock = lk_redis_break,
    .ping = lk_redis_ping,
};
