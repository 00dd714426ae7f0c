/*
 * zookeeper.c: random sequences of requests on a real server and on the simulated one (play.h).
 *
 *     simulation_zookeeper [--sequences N] [--seed N] [--verbose] [--plant NAME] [--at leader|follower]
 *
 * Runs N sequences with the seeds 1 to N, or the one of --seed. A seed that fails is printed with the command
 * that runs it again. --plant makes the simulated one wrong on purpose (plant.h). --at: not on a server that
 * is alone, but on one of three.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orders.h"
#include "plant.h"
#include "play.h"
#include "servers/wait.h"
#include "servers/zookeeper.h"
#include "wire.h"

/* Containers of earlier sequences aren't removed meanwhile: that would take zxids. */
static const char *const java[] = {"-Xmx256m",
                                   "-XX:TieredStopAtLevel=1",
                                   "-Dzookeeper.forceSync=no",
                                   "-Dznode.container.checkIntervalMs=1000000000",
                                   "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                                   NULL};

/* The sequence that is played. */
static struct {
    const orders *orders;
    const char *program;
    uint64_t seed;
} now;

static void tell_again(void)
{
    const orders *const o = now.orders;
    (void)printf("run it again: %s --seed %llu --verbose%s%s%s%s\n", now.program,
                 (unsigned long long)now.seed, o->planted != NULL ? " --plant " : "",
                 o->planted != NULL ? o->planted : "", o->at != NULL ? " --at " : "",
                 o->at != NULL ? o->at : "");
}

static int run(const lk_server *server, const orders *o, const char *program)
{
    const play_stage stage = {server, o->at != NULL ? LK_ENSEMBLE : 1,
                              o->at == NULL || strcmp(o->at, "leader") == 0};
    const int64_t began = lk_now_ns();
    uint64_t requests = 0;
    now.orders = o;
    now.program = program;
    wire_before_failure = tell_again;
    for (uint64_t seed = o->first; seed < o->first + o->count; seed++) {
        now.seed = seed;
        if (o->verbose)
            (void)printf("seed %llu\n", (unsigned long long)seed);
        if (play(&stage, seed, o->verbose, &requests))
            continue;
        (void)printf("seed %llu: the simulated server is not as the real one\n", (unsigned long long)seed);
        tell_again();
        return 1;
    }
    (void)printf("%llu sequences with %llu requests in %.1f s: equal\n", (unsigned long long)o->count,
                 (unsigned long long)requests, (double)(lk_now_ns() - began) / 1e9);
    return 0;
}

static int run_alone(const lk_server_setup *setup, const orders *o, const char *program)
{
    lk_server server;
    int status = 1;
    if (lk_server_start(&server, &lk_server_zookeeper, setup) && lk_server_await(&server))
        status = run(&server, o, program);
    else
        (void)fprintf(stderr, "%s\n", server.error);
    lk_server_remove(&server);
    return status;
}

static int run_ensemble(const lk_server_setup *setup, const orders *o, const char *program)
{
    lk_server members[LK_ENSEMBLE] = {0};
    const lk_server *const failed = lk_ensemble_start(members, &lk_server_zookeeper, setup, NULL)
                                        ? lk_ensemble_await(members)
                                        : &members[0];
    const lk_server *const server = failed == NULL ? lk_ensemble_find(members, o->at, 0) : NULL;
    int status = 1;
    if (server != NULL)
        status = run(server, o, program);
    else
        (void)fprintf(stderr, "%s\n", failed != NULL ? failed->error : "there is no such server");
    lk_ensemble_remove(members);
    return status;
}

int main(int argc, char **argv)
{
    const lk_server_setup setup = {.options = java, .tick_ms = PLAY_TICK_MS};
    orders o = {.usage = "[--sequences N] [--seed N] [--verbose] [--plant NAME] [--at leader|follower]",
                .first = 1,
                .count = 1000};
    if (!read_orders(&o, argc, argv) || (o.planted != NULL && !plant(o.planted)) ||
        (o.at != NULL && strcmp(o.at, "leader") != 0 && strcmp(o.at, "follower") != 0))
        return usage(&o, argv[0]);
    return o.at != NULL ? run_ensemble(&setup, &o, argv[0]) : run_alone(&setup, &o, argv[0]);
}
