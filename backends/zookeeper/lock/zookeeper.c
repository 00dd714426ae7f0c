/*
 * zookeeper.c: the driver's table, and the life of an instance: one session with ZooKeeper, whose connection
 * the callers' own threads drive (drive.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../internal.h"

/* ------------------------------------------------------------------ making and freeing ---- */

static void destroy(struct lk_zk *z)
{
    lk_zk_lookup_drop(z);
    lk_zk_ops_free(z);
    free(z->watches);
    free(z->places);
    free(z->addresses);
    if (z->epoll_fd >= 0)
        close(z->epoll_fd);
    if (z->kick_fd >= 0)
        close(z->kick_fd);
    pthread_mutex_destroy(&z->lock);
    lk_zk_settings_clear(&z->set);
    free(z);
}

static struct lk_zk *make(const locker_services *svc, locker_error *err)
{
    struct lk_zk *z = calloc(1, sizeof(*z));
    uint64_t random[2];
    if (z == NULL || pthread_mutex_init(&z->lock, NULL) != 0) {
        free(z);
        (void)locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
        return NULL;
    }
    z->svc = svc;
    z->clock = svc->clock;
    z->fd = z->armed_fd = z->corked_fd = -1;
    z->beat_at = z->resume_at = z->fresh_at = LOCKER_NEVER;
    z->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    z->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (z->epoll_fd < 0 || z->kick_fd < 0 ||
        getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        (void)locker_error_set(
            err, LOCKER_UNAVAILABLE, errno,
            "can't make the driver's descriptors: %s; raise the limit on open files (ulimit -n)",
            strerror(errno));
        destroy(z);
        return NULL;
    }
    lk_zk_stem_begin(z, random[0]);
    z->last_id = random[1];
    return z;
}

/* ------------------------------------------------------------------ open and close ---- */

static void end_session_locked(struct lk_zk *z, bool politely)
{
    lk_zk_shake_stop_locked(z);
    if (z->zh == NULL)
        return;
    if (!politely || !z->up)
        lk_zk_session_drop_locked(z);
    if (z->zh != NULL)
        lk_zk_client_close_locked(z); /* says good-bye, so the server ends all that is ours at once */
    z->up = false;
    lk_zk_ops_fail_locked(z);
    lk_zk_watches_free_locked(z);
    while (z->left != NULL)
        lk_zk_node_free_locked(z, z->left);
    while (z->doubtful != NULL) /* a create that comes after the good-bye is refused */
        lk_zk_node_free_locked(z, z->doubtful);
}

static locker_status connect_first(struct lk_zk *z, locker_error *err)
{
    struct lk_zk_call call;
    locker_status status = LOCKER_OK;
    z->literal = lk_zk_all_literal(z->set.hosts, z->set.host_count);
    z->addresses = lk_zk_resolve(z->set.hosts, z->set.host_count, err);
    if (z->addresses == NULL)
        return err != NULL ? err->status : LOCKER_UNAVAILABLE;
    pthread_mutex_lock(&z->lock);
    z->looked_up_at = lk_zk_now(z);
    lk_zk_call_begin_locked(z, &call);
    call.prompt = true;
    if (lk_zk_await_up_locked(z, &call, lk_zk_after(lk_zk_now(z), z->set.connect_timeout_ns)) != LK_ZK_DONE)
        status = lk_zk_away_locked(z, err);
    lk_zk_call_end_locked(z, &call);
    if (status != LOCKER_OK)
        end_session_locked(z, false);
    lk_zk_leave(z);
    return status;
}

static locker_status zookeeper_open(const locker_driver_config *config, const locker_services *svc,
                                    void **self, locker_error *err)
{
    struct lk_zk *z = make(svc, err);
    if (z == NULL)
        return err != NULL ? err->status : LOCKER_NOMEM;
    locker_status status = lk_zk_settings_init(&z->set, config, err);
    if (status == LOCKER_OK)
        status = connect_first(z, err);
    if (status != LOCKER_OK) {
        destroy(z);
        return status;
    }
    *self = z;
    return LOCKER_OK;
}

static void closing_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    bool *answered = op->context;
    (void)z;
    (void)reply;
    *answered = !lk_zk_unknown(rc);
    lk_zk_call_count_locked(op->call);
}

/* Wait until nothing is left to delete. True: the server answers, so the good-bye won't be waited for
 * long. */
static bool finish_locked(struct lk_zk *z, int64_t until)
{
    struct lk_zk_call call;
    bool answers = false;
    lk_zk_call_begin_locked(z, &call);
    z->closer = &call;
    if (z->left != NULL)
        (void)lk_zk_await_locked(z, &call, until);
    z->closer = NULL;
    call.done = false;
    if (z->left == NULL && z->up) {
        struct lk_zk_op *op = lk_zk_sync_locked(z, "/", closing_done_locked, &answers);
        if (op != NULL) {
            op->call = &call;
            call.pending = 1;
            (void)lk_zk_await_locked(z, &call, until);
        }
    }
    lk_zk_call_end_locked(z, &call);
    return answers;
}

static void zookeeper_close_instance(void *self)
{
    struct lk_zk *z = self;
    pthread_mutex_lock(&z->lock);
    const bool answers = finish_locked(z, lk_zk_after(lk_zk_now(z), z->set.cleanup_ns));
    end_session_locked(z, answers);
    lk_zk_leave(z);
    destroy(z);
}

static void zookeeper_abandon(void *self)
{
    const struct lk_zk *z = self;
    if (z->fd >= 0)
        close(z->fd);
    if (z->shake.active) {
        close(z->shake.socket);
        close(z->shake.own);
    }
    close(z->epoll_fd);
    close(z->kick_fd);
}

static int zookeeper_descriptor(void *self)
{
    const struct lk_zk *z = self;
    return z->epoll_fd;
}

/* ------------------------------------------------------------------ the table ---- */

static const locker_semantics semantics = {
    .driver = "zookeeper",
    .scope = LOCKER_SCOPE_NETWORK,
    .fairness = LOCKER_FAIR_GLOBAL,
    .leases = true,
    .tokens_persist = true,
    .survives_restart = true,
    .can_break = true,
    .quorum = true,
    .holder_dies = "Its lock ends with its session, within the session time-out.",
    .holder_stalls =
        "Beyond the session time-out it loses all its locks, which go to the next waiters; it is LOST as "
        "soon as it goes on. What it was about to write it may still write: with a fencing token that is out "
        "of date.",
    .cut_off =
        "From all servers or from the majority: the holder keeps the lock until its local deadline, half of "
        "the session time-out or more after its last confirmed heartbeat, and is LOST then, before anyone "
        "else can have it.",
    .service_restarts =
        "Sessions and locks last if the servers keep their data and are back within the session time-out.",
    .failover =
        "Another server is elected by the majority and knows every grant; the client connects to a server "
        "that is left, with its locks.",
    .token = "The zxid of the node's creation: it grows for the life of the ensemble's data.",
    .cost =
        "One round trip to lock and one to unlock, each agreed by a majority; a waiter is told of one "
        "deletion and lists the queue once for each predecessor; one heartbeat for all locks every eighth "
        "of the session time-out, one for all that wait every quarter; a read every eighth without any.",
};

static const char *const schemes[] = {"zookeeper", "zk", NULL};

extern const locker_driver lk_zookeeper_driver;

const locker_driver lk_zookeeper_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .name = "zookeeper",
    .schemes = schemes,
    .example = "zookeeper://zk1,zk2,zk3/locks?session_timeout=30s",
    .features = "TLS and SASL only where libzookeeper_st was built with them, which Debian's is not",
    .caps = LOCKER_CAP_QUEUE | LOCKER_CAP_AUTH,
    .claim_size = sizeof(struct lk_zk_claim),
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
    .release = lk_zk_release,
    .descriptor = zookeeper_descriptor,
    .dispatch = lk_zk_dispatch,
    .show = lk_zk_show,
    .break_lock = lk_zk_break,
    .ping = lk_zk_ping,
};
