/* etcd.c: the driver's table, and the life of an instance. */
#include <stdlib.h>
#include <sys/random.h>

#include "lk_error.h"
#include "place.h"

static const int64_t again_ns = 100 * LK_MS;

/* no other thread sees the instance yet */
LK_UNCHECKED static locker_status etcd_open(const locker_driver_config *config, const locker_services *svc,
                                            void **self, locker_error *err)
{
    lk_etcd *e = calloc(1, sizeof *e);
    if (e == NULL || getrandom(&e->id, sizeof e->id, 0) != (ssize_t)sizeof e->id) {
        free(e);
        return lk_out_of_memory(err);
    }
    e->svc = svc;
    e->cleanup_ns = config->cleanup_ns;
    e->watch_at = e->retry_at = LOCKER_NEVER;
    e->batch = LK_ETCD_BATCH;
    lk_list_init(&e->leases);
    lk_list_init(&e->left);
    lk_list_init(&e->granted);
    lk_list_init(&e->asks);
    locker_status status = lk_etcd_root_init(e, config, err);
    if (status == LOCKER_OK)
        status = lk_etcd_net_open(&e->net, e, &lk_etcd_connection_events, config, svc, err);
    if (status == LOCKER_OK)
        *self = e;
    else
        free(e);
    return status;
}

/* Wait for the answer to a delete or revocation at close. The keeper has ended, so this call repeats
 * requests. */
static lk_etcd_outcome await_end_unlocking(lk_etcd *e, lk_etcd_call *call, int64_t until) LK_REQUIRES(*e->net)
{
    const int64_t again = lk_time_after(lk_etcd_now_of(e), again_ns);
    call->done = false;
    if (!lk_etcd_is_up_locked(e->net))
        return lk_etcd_await_up_unlocking(e->net, call, false,
                                          until); /* a reset connection is no reason to give up */
    const lk_etcd_outcome outcome = lk_etcd_await_unlocking(e->net, call, lk_time_earlier(again, until));
    return outcome == LK_ETCD_CALL_LATE && again < until ? LK_ETCD_CALL_DONE : outcome;
}

/* Revoke all leases, each with all its keys in one request, and delete places without a claim, so that no
 * key of ours remains. */
static void finish_unlocking(lk_etcd *e, int64_t until) LK_REQUIRES(*e->net)
{
    lk_etcd_call call;
    lk_etcd_outcome outcome = LK_ETCD_CALL_DONE;
    lk_etcd_call_begin_locked(e->net, &call);
    e->closer = &call;
    for (;;) {
        lk_etcd_leases_revoke_locked(e);
        (void)lk_etcd_places_left_locked(e, lk_etcd_now_of(e));
        const bool left = !lk_list_empty(&e->left) || lk_etcd_leases_left_locked(e);
        if (!left || outcome != LK_ETCD_CALL_DONE)
            break;
        outcome = await_end_unlocking(e, &call, until);
    }
    e->closer = NULL;
    lk_etcd_call_end_locked(e->net, &call);
}

static void etcd_close(void *self)
{
    lk_etcd *e = self;
    lk_etcd_enter(e->net);
    finish_unlocking(e, lk_time_after(lk_etcd_now_of(e), e->cleanup_ns));
    lk_etcd_leave(e->net);
    lk_etcd_net_free(e->net); /* requests in flight end without an answer */
    lk_etcd_leases_free(e);
    lk_table_destroy(&e->lines);
    free(e->names);
    free(e);
}

static void etcd_abandon(void *self)
{
    lk_etcd_net_abandon(((const lk_etcd *)self)->net);
}

static int etcd_descriptor(void *self)
{
    return lk_etcd_net_descriptor(((const lk_etcd *)self)->net);
}

static const locker_semantics semantics = {
    .size = sizeof(locker_semantics),
    .driver = "etcd",
    .scope = LOCKER_SCOPE_NETWORK,
    .fairness = LOCKER_FAIR_GLOBAL,
    .leases = true,
    .tokens_persist = true,
    .survives_restart = true,
    .can_break = true,
    .quorum = true,
    .shared = LOCKER_ORDER_ARRIVAL,
    .permits_most = LK_ETCD_PERMITS_MAX,
    .holder_dies = "Its lock ends with its lease, within the lease time plus half a second. "
                   "An election adds up to another lease time. The servers round lease times "
                   "up to whole seconds, and to at least 1.5 times their election time-out.",
    .holder_stalls = "After the lease time it has lost its locks, and the next "
                     "waiters get them. It is LOST when it continues. A write that "
                     "it had begun may still follow, with an outdated fencing token.",
    .cut_off = "If no majority of the members answers, the holder keeps the lock until its local "
               "deadline. Then it is LOST, before another client can get the lock. The deadline is "
               "at least 2/3 of the lease time ahead; right after a grant 1/2, with slow members 1/3.",
    .service_restarts =
        "Locks stay if a majority is back with its data before the holder's deadline. Without "
        "the data, another client can get the lock, and the holder is LOST at its next renewal.",
    .failover = "The majority elects another member, which knows every grant and starts each "
                "lease's time again. The client connects to another member and keeps its locks.",
    .token = "The key's create revision. It grows while the cluster "
             "keeps its data. A restore from a snapshot sets it back.",
    .cost = "One transaction to lock and one to unlock, each agreed by a majority. For each "
            "predecessor, a waiter gets one notification and sends one more query, or two if "
            "another client wrote meanwhile. A permit takes two transactions. A long hold "
            "after a wait takes one more, to record its start. Every third of the lease "
            "time: one new lease, and one transaction for each 125 locks held or waited for.",
};

const locker_driver lk_etcd_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "etcd",
    .schemes = (const char *const[]){"etcd", "etcds", NULL},
    .example = "etcd://etcd1:2379,etcd2:2379,etcd3:2379/locks?ttl=10s",
#ifdef LOCKER_HAS_TLS
    .features = "",
#else
    .features = "without TLS: it was built without OpenSSL",
#endif
    .caps = LOCKER_CAP_QUEUE | LOCKER_CAP_AUTH,
    .claim_size = sizeof(lk_etcd_claim),
    .ttl_min_ms = 100,
    .ttl_max_ms = INT64_C(1000) * LK_ETCD_TTL_MAX_S,
    .params = lk_etcd_params,
    .semantics = &semantics,
    .open = etcd_open,
    .close = etcd_close,
    .abandon = etcd_abandon,
    .check_key = lk_etcd_check_key,
    .acquire = lk_etcd_acquire,
    .interrupt = lk_etcd_interrupt,
    .withdraw = lk_etcd_withdraw,
    .begin_release = lk_etcd_begin_release,
    .release = lk_etcd_release,
    .descriptor = etcd_descriptor,
    .dispatch = lk_etcd_dispatch,
    .show = lk_etcd_show,
    .break_lock = lk_etcd_break,
    .ping = lk_etcd_ping,
};
