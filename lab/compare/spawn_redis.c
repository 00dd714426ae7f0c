/* spawn_redis.c: a redis-server, alone or with a replica; see spawn.h and backend.h. */
#include <stdio.h>

#include "servers/port.h"
#include "servers/redis.h"
#include "spawn.h"

/* It listens on 127.0.0.1, or in a network of ours. */
#define ALWAYS "--protected-mode", "no", "--loglevel", "warning"

static const char *const durable[] = {ALWAYS, "--appendonly", "yes", "--appendfsync", "always", NULL};
static const char *const in_memory[] = {ALWAYS, "--repl-diskless-sync-delay", "0", NULL};

const lk_kind lk_kind_redis = {
    .name = "redis",
    .about = "One server; every write is on its disk before it answers (appendonly, fsync always).",
    .choose_when = "many hosts lock, a Redis server is there, and a lock that is lost with the "
                   "server's data does no harm, because the guarded resource checks fencing tokens",
    .can = LK_CAN_RESTART | LK_CAN_FORGET | LK_CAN_BE_CUT | LK_CAN_RECOVER,
    .back_ms = 1000,
    .server = &lk_server_redis,
    .count = 1,
    .setup.options = durable,
    .cut_setup.options = in_memory,
    .scheme = "redis",
    .path = "0",
    .start = lk_spawn_start,
    .await = lk_spawn_await,
    .heal = lk_spawn_heal,
    .open_cut = lk_spawn_open_cut,
};

/* ------------------------------------------------------------------ with a replica ---- */

/* [0] is the master at first. The one that takes over listens on the master's port then, as a virtual address
 * that moves: clients connect to it by the URI that they have. */
static bool pair_await(lk_backend *backend)
{
    lk_server *pair = backend->servers;
    return lk_spawn_await(backend) && lk_server_follow(&pair[1], &pair[0]);
}

/* The replica tries a port where nobody listens, and keeps what it has. */
static bool pair_lag(lk_backend *backend, bool on)
{
    lk_server *pair = backend->servers;
    if (!on)
        return lk_server_follow(&pair[1], &pair[0]);
    char command[96];
    snprintf(command, sizeof command, "REPLICAOF 127.0.0.1 %d", lk_free_port());
    char answer[256];
    return lk_server_ask(&pair[1], command, answer, sizeof answer);
}

static bool pair_fail_over(lk_backend *backend)
{
    lk_server *pair = backend->servers;
    lk_server_kill(&pair[0]);
    char command[64];
    snprintf(command, sizeof command, "CONFIG SET port %d", pair[0].port);
    char answer[256];
    return lk_server_follow(&pair[1], NULL) && lk_server_ask(&pair[1], command, answer, sizeof answer);
}

static bool pair_heal(lk_backend *backend)
{
    lk_server *pair = backend->servers;
    lk_spawn_kill(backend);
    return lk_spawn_start_again(backend, false) && lk_server_follow(&pair[1], &pair[0]);
}

const lk_kind lk_kind_redis_replica = {
    .name = "redis-replica",
    .about = "A master and an asynchronous replica; nothing is on a disk. The replica takes over the "
             "master's address.",
    .choose_when = "locks must be available soon after a server's death, and fencing tokens or wait_replicas "
                   "protect from a replica that lacks the last locks",
    .can = LK_CAN_FAIL_OVER | LK_CAN_LAG | LK_CAN_RECOVER,
    .back_ms = 1000,
    .server = &lk_server_redis,
    .count = 2,
    .setup.options = in_memory,
    .scheme = "redis",
    .path = "0",
    .start = lk_spawn_start,
    .await = pair_await,
    .lag = pair_lag,
    .fail_over = pair_fail_over,
    .heal = pair_heal,
};
