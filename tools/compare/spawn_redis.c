/* spawn_redis.c: a redis-server, alone or with a replica; see spawn.h and backend.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../cli.h"
#include "backend.h"
#include "process.h"
#include "spawn.h"
#include "talk.h"

enum { START_MS = 20000 };

/* ------------------------------------------------------------------ one server ---- */

static void run(lk_redis *redis)
{
    char port[16];
    const char *argv[] = {"redis-server",
                          "--port",
                          port,
                          "--bind",
                          redis->place.address,
                          "--dir",
                          redis->directory,
                          "--unixsocket",
                          redis->socket,
                          "--save",
                          "",
                          "--daemonize",
                          "no",
                          "--repl-diskless-sync-delay",
                          "0",
                          "--appendonly",
                          redis->durable ? "yes" : "no",
                          "--appendfsync",
                          "always",
                          "--protected-mode", /* it listens on 127.0.0.1, or in a network of ours */
                          "no",
                          "--loglevel",
                          "warning",
                          NULL};

    snprintf(port, sizeof(port), "%d", redis->port);
    redis->pid = lk_process_start(&(lk_start){argv, -1, -1, -1, redis->place.netns});
    if (redis->pid < 0)
        lk_die(LK_EXIT_UNAVAILABLE,
               "can't run redis-server: %s; install the package redis-server, or leave "
               "redis out of --spawn",
               strerror(errno));
}

void lk_redis_start(lk_redis *redis, const lk_place *place, bool durable)
{
    memset(redis, 0, sizeof(*redis));
    redis->place = *place;
    redis->durable = durable;
    redis->port = place->netns < 0 ? lk_talk_free_port() : 6379;
    lk_scratch_make("redis", redis->directory, sizeof(redis->directory));
    snprintf(redis->socket, sizeof(redis->socket), "%s/socket", redis->directory);
    run(redis);
}

static bool pongs_or_ended(void *context)
{
    lk_redis *redis = context;
    char answer[64];

    if (redis->pid > 0 && waitpid(redis->pid, NULL, WNOHANG) == redis->pid)
        redis->pid = 0;
    return redis->pid == 0 || lk_talk_redis(redis->socket, "PING", answer, sizeof(answer));
}

bool lk_redis_await(lk_redis *redis)
{
    return lk_until(pongs_or_ended, redis, START_MS) && redis->pid > 0;
}

void lk_redis_kill(lk_redis *redis)
{
    lk_process_kill(redis->pid);
    redis->pid = 0;
}

bool lk_redis_start_again(lk_redis *redis, bool keep_data)
{
    if (!keep_data)
        lk_scratch_empty(redis->directory);
    run(redis);
    return lk_redis_await(redis);
}

static bool is_linked(void *context)
{
    const lk_redis *redis = context;
    char answer[8192];

    return lk_talk_redis(redis->socket, "INFO replication", answer, sizeof(answer)) &&
           strstr(answer, "master_link_status:up") != NULL;
}

bool lk_redis_follow(lk_redis *redis, const lk_redis *master)
{
    char command[96], answer[256];

    if (master)
        snprintf(command, sizeof(command), "REPLICAOF %s %d", master->place.address, master->port);
    else
        snprintf(command, sizeof(command), "REPLICAOF NO ONE");
    return lk_talk_redis(redis->socket, command, answer, sizeof(answer)) &&
           (!master || lk_until(is_linked, redis, START_MS));
}

void lk_redis_version(const lk_redis *redis, char *out, size_t size)
{
    static const char label[] = "redis_version:";
    char answer[8192];
    const char *at;

    out[0] = '\0';
    if (lk_talk_redis(redis->socket, "INFO server", answer, sizeof(answer)) &&
        (at = strstr(answer, label)) != NULL) {
        at += sizeof(label) - 1;
        snprintf(out, size, "Redis %.*s", (int)strcspn(at, "\r\n"), at);
    }
}

/* ------------------------------------------------------------------ alone ---- */

static const lk_place here = {-1, "127.0.0.1"};

static void say_where(lk_backend *backend, const lk_redis *redis)
{
    snprintf(backend->uri, sizeof(backend->uri), "redis://127.0.0.1:%d/0", redis->port);
    lk_redis_version(redis, backend->column->version, sizeof(backend->column->version));
}

static void *room_for(size_t count)
{
    void *room = calloc(count, sizeof(lk_redis));

    if (!room)
        lk_die(LK_EXIT_SYSTEM, "out of memory");
    return room;
}

static void alone_start(lk_backend *backend)
{
    backend->self = room_for(1);
    lk_redis_start(backend->self, &here, true);
}

static bool alone_await(lk_backend *backend)
{
    const bool serves = lk_redis_await(backend->self);

    say_where(backend, backend->self);
    return serves;
}

static void alone_kill(lk_backend *backend)
{
    lk_redis_kill(backend->self);
}

static bool alone_start_again(lk_backend *backend, bool keep_data)
{
    return lk_redis_start_again(backend->self, keep_data);
}

static bool alone_heal(lk_backend *backend)
{
    const lk_redis *redis = backend->self;

    return redis->pid > 0 || lk_redis_start_again(backend->self, false);
}

static void alone_stop(lk_backend *backend)
{
    lk_redis_kill(backend->self);
    free(backend->self);
}

/* The holder is in a place of its own, the server in another, the rival at the hub. */
static bool alone_open_cut(lk_cut *cut, const lk_network *network)
{
    lk_redis *redis = cut->self = room_for(1);

    cut->near = cut->holder = &network->members[1];
    cut->far = &network->members[0];
    cut->rival = &network->hub;
    cut->what = "the holder and the server";
    lk_redis_start(redis, cut->far, false);
    snprintf(cut->holder_uri, sizeof(cut->holder_uri), "redis://%s:%d/0", redis->place.address, redis->port);
    snprintf(cut->rival_uri, sizeof(cut->rival_uri), "%s", cut->holder_uri);
    return lk_redis_await(redis);
}

static void alone_close_cut(lk_cut *cut)
{
    lk_redis_kill(cut->self);
    free(cut->self);
}

const lk_kind lk_kind_redis = {
    .name = "redis",
    .setup = "One server; every write is on its disk before it answers (appendonly, fsync always).",
    .choose_when = "many hosts lock, a Redis is there, and a lock that a lost disk forgets does no harm, "
                   "because what it guards checks fencing tokens",
    .can = LK_CAN_RESTART | LK_CAN_FORGET | LK_CAN_BE_CUT,
    .back_ms = 1000,
    .start = alone_start,
    .await = alone_await,
    .kill = alone_kill,
    .start_again = alone_start_again,
    .heal = alone_heal,
    .open_cut = alone_open_cut,
    .close_cut = alone_close_cut,
    .stop = alone_stop,
};

/* ------------------------------------------------------------------ with a replica ---- */

/* [0] is the master at first. The one that takes over listens on the master's port then, as a virtual address
 * that moves: clients connect to it by the URI that they have. */
static void pair_start(lk_backend *backend)
{
    lk_redis *pair = backend->self = room_for(2);

    lk_redis_start(&pair[0], &here, false);
    lk_redis_start(&pair[1], &here, false);
}

static bool pair_await(lk_backend *backend)
{
    lk_redis *pair = backend->self;
    const bool serves =
        lk_redis_await(&pair[0]) && lk_redis_await(&pair[1]) && lk_redis_follow(&pair[1], &pair[0]);

    say_where(backend, &pair[0]);
    return serves;
}

static void pair_kill(lk_backend *backend)
{
    lk_redis *pair = backend->self;

    lk_redis_kill(&pair[0]);
}

/* The replica tries a port where nobody listens, and keeps what it has. */
static bool pair_lag(lk_backend *backend, bool on)
{
    lk_redis *pair = backend->self;
    char command[96], answer[256];

    if (!on)
        return lk_redis_follow(&pair[1], &pair[0]);
    snprintf(command, sizeof(command), "REPLICAOF 127.0.0.1 %d", lk_talk_free_port());
    return lk_talk_redis(pair[1].socket, command, answer, sizeof(answer));
}

static bool pair_fail_over(lk_backend *backend)
{
    lk_redis *pair = backend->self;
    char command[64], answer[256];

    lk_redis_kill(&pair[0]);
    snprintf(command, sizeof(command), "CONFIG SET port %d", pair[0].port);
    return lk_redis_follow(&pair[1], NULL) && lk_talk_redis(pair[1].socket, command, answer, sizeof(answer));
}

static bool pair_heal(lk_backend *backend)
{
    lk_redis *pair = backend->self;

    lk_redis_kill(&pair[0]);
    lk_redis_kill(&pair[1]);
    return lk_redis_start_again(&pair[0], false) && lk_redis_start_again(&pair[1], false) &&
           lk_redis_follow(&pair[1], &pair[0]);
}

static void pair_stop(lk_backend *backend)
{
    lk_redis *pair = backend->self;

    lk_redis_kill(&pair[0]);
    lk_redis_kill(&pair[1]);
    free(pair);
}

const lk_kind lk_kind_redis_replica = {
    .name = "redis-replica",
    .setup = "A master and a replica that follows it asynchronously; nothing is on a disk. The replica takes "
             "over the master's address.",
    .choose_when =
        "locks have to be had again soon after a server's death, and fencing tokens, or wait_replicas, "
        "guard against a replica that was not sent the last ones",
    .can = LK_CAN_FAIL_OVER | LK_CAN_LAG,
    .back_ms = 1000,
    .start = pair_start,
    .await = pair_await,
    .kill = pair_kill,
    .lag = pair_lag,
    .fail_over = pair_fail_over,
    .heal = pair_heal,
    .stop = pair_stop,
};
