/*
 * zookeeper.c: random sequences of requests on a real server and on the simulated one (play.h).
 *
 *     simulation_zookeeper [--sequences N] [--seed N] [--verbose] [--plant NAME]
 *
 * Runs N sequences with the seeds 1 to N, or the one of --seed. A seed that fails is printed with the command that runs it
 * again. --plant makes the simulated one wrong on purpose (plant.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plant.h"
#include "play.h"
#include "servers/wait.h"
#include "servers/zookeeper.h"

/* Containers of earlier sequences aren't removed meanwhile: that would take zxids. */
static const char *const java[] = {"-Xmx256m",
                                   "-XX:TieredStopAtLevel=1",
                                   "-Dzookeeper.forceSync=no",
                                   "-Dznode.container.checkIntervalMs=1000000000",
                                   "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                                   NULL};

static int usage(const char *program)
{
    (void)fprintf(stderr, "usage: %s [--sequences N] [--seed N] [--verbose] [--plant NAME]\n", program);
    return 64;
}

typedef struct {
    uint64_t first, count;
    bool verbose;
    const char *planted; /* NULL: nothing */
} orders;

static bool read_orders(orders *o, int argc, char **argv)
{
    *o = (orders){.first = 1, .count = 1000};
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--verbose") == 0)
            o->verbose = true;
        else if (more && strcmp(argv[i], "--sequences") == 0)
            o->count = strtoull(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--seed") == 0)
            o->first = strtoull(argv[++i], NULL, 10), o->count = 1;
        else if (more && strcmp(argv[i], "--plant") == 0 && plant(argv[i + 1]))
            o->planted = argv[++i];
        else
            return false;
    }
    return true;
}

static int run(const lk_server *server, const orders *o, const char *program)
{
    const int64_t began = lk_now_ns();
    uint64_t requests = 0;
    for (uint64_t seed = o->first; seed < o->first + o->count; seed++) {
        if (o->verbose)
            (void)printf("seed %llu\n", (unsigned long long)seed);
        if (play(server, seed, o->verbose, &requests))
            continue;
        (void)printf(
            "seed %llu: the simulated server is not as the real one\nrun it again: %s --seed %llu --verbose%s%s\n",
            (unsigned long long)seed, program, (unsigned long long)seed,
            o->planted != NULL ? " --plant " : "", o->planted != NULL ? o->planted : "");
        return 1;
    }
    (void)printf("%llu sequences with %llu requests in %.1f s: equal\n", (unsigned long long)o->count,
                 (unsigned long long)requests, (double)(lk_now_ns() - began) / 1e9);
    return 0;
}

int main(int argc, char **argv)
{
    const lk_server_setup setup = {.options = java};
    lk_server server;
    orders o;
    int status = 1;
    if (!read_orders(&o, argc, argv))
        return usage(argv[0]);
    if (lk_server_start(&server, &lk_server_zookeeper, &setup) && lk_server_await(&server))
        status = run(&server, &o, argv[0]);
    else
        (void)fprintf(stderr, "%s\n", server.error);
    lk_server_remove(&server);
    return status;
}
