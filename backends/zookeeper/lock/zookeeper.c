/* zookeeper.c: the driver's table, and the life of an instance: one session, which the lower floor keeps up. */
#include <sys/random.h>

#include "place.h"

static void destroy(lk_zk *z)
{
    lk_zk_net_free(z->net);
    lk_table_destroy(&z->places);
    lk_table_destroy(&z->queues);
    lk_table_destroy(&z->lines);
    free(z);
}

/* Nobody else sees it yet. */
LK_UNCHECKED static locker_status zookeeper_open(const locker_driver_config *config,
                                                 const locker_services *svc, void **self, locker_error *err)
{
    uint64_t random[2];
    lk_zk *z = calloc(1, sizeof *z);
    if (z == NULL || getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        free(z);
        return lk_out_of_memory(err);
    }
    z->svc = svc;
    z->cleanup_ns = config->cleanup_ns;
    z->pulse_at = z->ask_at = z->resume_at = z->timed_at = z->search_at = LOCKER_NEVER;
    lk_list_init(&z->nodes);
    lk_list_init(&z->left);
    lk_list_init(&z->doubtful);
    lk_list_init(&z->timed);
    lk_zk_stem_begin(z, random[0]);
    z->last_id = random[1];
    locker_status status = lk_zk_root_init(z, config, err);
    if (status == LOCKER_OK && !lk_zk_names_set(z, config->values[LK_ZK_PARAM_NAMES].text))
        status = lk_misconfigured(err, "names is '%.40s'; set names=mutex or names=readwrite",
                                  config->values[LK_ZK_PARAM_NAMES].text);
    if (status == LOCKER_OK)
        status = lk_zk_net_open(&z->net, z, &lk_zk_connection_events, config, svc, err);
    if (status == LOCKER_OK)
        *self = z;
    else
        destroy(z);
    return status;
}

static void synced_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    (void)z;
    (void)reply;
    lk_zk_call_answered_locked(context);
}

/* Wait until nothing is left to delete. True: the server answers, so the good-bye won't be waited for long. */
static bool finish_unlocking(lk_zk *z, int64_t until) LK_REQUIRES(*z->net)
{
    lk_zk_call call;
    lk_zk_call_begin_locked(z->net, &call);
    z->closer = &call;
    if (!lk_zk_left_settled_locked(z))
        (void)lk_zk_await_unlocking(z->net, &call, until);
    z->closer = NULL;
    const bool answers =
        lk_zk_left_settled_locked(z) && lk_zk_is_up_locked(z->net) &&
        lk_zk_call_expect_locked(&call, lk_zk_sync_locked(z->net, "/", synced_locked, &call)) &&
        lk_zk_await_unlocking(z->net, &call, until) == LK_ZK_DONE && lk_zk_is_up_locked(z->net);
    lk_zk_call_end_locked(z->net, &call);
    return answers;
}

static void zookeeper_close_instance(void *self)
{
    lk_zk *z = self;
    lk_zk_enter(z->net);
    const bool answers = finish_unlocking(z, lk_time_after(lk_zk_now(z), z->cleanup_ns));
    lk_zk_net_close_unlocking(z->net, answers);
    LK_EACH_SAFE(lk_zk_node, without_claim, link, &z->left)
        lk_zk_node_free_locked(z, without_claim);
    LK_EACH_SAFE(lk_zk_node, doubtful, link, &z->doubtful)
        lk_zk_node_free_locked(z, doubtful); /* a create that comes after the good-bye is refused */
    lk_zk_leave(z->net);
    destroy(z);
}

static void zookeeper_abandon(void *self)
{
    lk_zk_net_abandon(((const lk_zk *)self)->net);
}

static int zookeeper_descriptor(void *self)
{
    return lk_zk_net_descriptor(((const lk_zk *)self)->net);
}

static const locker_semantics semantics = {
    .size = sizeof(locker_semantics),
    .driver = "zookeeper",
    .scope = LOCKER_SCOPE_NETWORK,
    .fairness = LOCKER_FAIR_GLOBAL,
    .leases = true,
    .tokens_persist = true,
    .survives_restart = true,
    .can_break = true,
    .quorum = true,
    .shared = LOCKER_ORDER_ARRIVAL,
    .permits_most = LK_ZK_PERMITS_MAX,
    .holder_dies = "Its locks end with its session, within the "
                   "session time-out plus two ticks of the servers.",
    .holder_stalls = "After the session time-out it has lost all its locks, and the "
                     "next waiters get them. It is LOST when it continues. A write that "
                     "it had begun may still follow, with an outdated fencing token.",
    .cut_off = "If no majority of the servers answers, the holder keeps the lock until its "
               "local deadline, at least half of the session time-out after its last "
               "confirmed heartbeat. Then it is LOST, before another client can get the lock.",
    .service_restarts = "Sessions and locks stay if the servers keep their data "
                        "and a majority is back before the holder's deadline.",
    .failover = "The majority elects another leader, which knows every grant. "
                "The client connects to another server and keeps its locks.",
    .token = "The node's czxid. It grows while the ensemble keeps its data.",
    .cost = "One round trip to lock and one to unlock, each agreed by a majority. For each "
            "predecessor (a reader: each writer before it), a waiter gets one notification and "
            "lists the queue once. A permit takes four round trips. Every eighth of the session "
            "time-out, a locker sends a heartbeat for each 1,024 locks, or a read if it holds none. "
            "A waiting locker queries the leader once per session time-out, for all its waits.",
};

const locker_driver lk_zookeeper_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "zookeeper",
    .schemes = (const char *const[]){"zookeeper", "zk", NULL},
    .example = "zookeeper://zk1,zk2,zk3/locks?session_timeout=30s",
    .features = "TLS and SASL only if libzookeeper_st was built with them; Debian's was not",
    .caps = LOCKER_CAP_QUEUE | LOCKER_CAP_AUTH,
    .claim_size = sizeof(lk_zk_claim),
    .ttl_min_ms = 50,
    .ttl_max_ms = INT64_C(7) * 24 * 3600 * 1000,
    .params = lk_zk_params,
    .semantics = &semantics,
    .open = zookeeper_open,
    .close = zookeeper_close_instance,
    .abandon = zookeeper_abandon,
    .check_key = lk_zk_check_key,
    .acquire = lk_zk_acquire,
    .interrupt = lk_zk_interrupt,
    .withdraw = lk_zk_withdraw,
    .begin_release = lk_zk_begin_release,
    .release = lk_zk_release,
    .descriptor = zookeeper_descriptor,
    .dispatch = lk_zk_dispatch,
    .show = lk_zk_show,
    .break_lock = lk_zk_break,
    .ping = lk_zk_ping,
};
