/* simulate.c: the program: many simulations, each in a process of its own, from one seed to the next. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

static const char usage[] =
    "usage: locker-simulate [--driver redis] [--first SEED] [--seeds N] [--jobs N]\n"
    "       locker-simulate [--driver redis] --seed SEED [--trace FILE]\n"
    "\n"
    "Runs the library, as it is built, against a simulated service, network and time. All that happens follows from\n"
    "the seed: the same one gives the same run, step by step.\n"
    "\n"
    "  --driver NAME  redis (the default)\n"
    "  --first SEED   the first of the seeds (1)\n"
    "  --seeds N      how many (100)\n"
    "  --jobs N       how many at once (the number of processors)\n"
    "  --seed SEED    this one alone\n"
    "  --trace FILE   what happened, a line for each thing; - is the standard output\n"
    "\n"
    "Exit status: 0 nothing failed; 1 something did, and how to run it again was printed; 64 usage.\n";

typedef struct options {
    uint64_t first, seeds, jobs;
    const char *trace;
} options;

static lk_sim_result one; /* of a child's run */
static int tells_to;

static void tell_parent(void)
{
    if (write(tells_to, &one, sizeof one) != (ssize_t)sizeof one)
        _exit(71);
    _exit(one.failure[0] != '\0');
}

static void run_one(uint64_t seed, const char *trace_name)
{
    FILE *trace = NULL;
    if (trace_name != NULL)
        trace = strcmp(trace_name, "-") == 0 ? stdout : fopen(trace_name, "we");
    if (trace_name != NULL && trace == NULL) {
        fprintf(stderr, "locker-simulate: can't write %s: %s\n", trace_name, strerror(errno));
        _exit(73);
    }
    lk_sim_run_redis(&(lk_sim_plan){.seed = seed}, trace, &one);
    if (trace != NULL)
        (void)fflush(trace);
}

typedef struct child {
    pid_t pid;
    int hears;
    uint64_t seed;
} child;

static bool start(child *c, uint64_t seed, const char *trace)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    (void)fflush(NULL);
    *c = (child){.pid = fork(), .hears = ends[0], .seed = seed};
    if (c->pid == 0) {
        (void)close(ends[0]);
        tells_to = ends[1];
        lk_sim_run_failed = tell_parent;
        run_one(seed, trace);
        tell_parent();
    }
    (void)close(ends[1]);
    return c->pid > 0;
}

typedef struct totals {
    uint64_t seeds, steps, grants, faults, failures;
    int64_t simulated_ns;
} totals;

static void finish(child *c, totals *t)
{
    lk_sim_result result = {0};
    int status = 0;
    if (read(c->hears, &result, sizeof result) != (ssize_t)sizeof result)
        (void)snprintf(result.failure, sizeof result.failure, "it ended without a word");
    (void)close(c->hears);
    (void)waitpid(c->pid, &status, 0);
    if (WIFSIGNALED(status))
        (void)snprintf(result.failure, sizeof result.failure, "it was killed: %s",
                       strsignal(WTERMSIG(status)));
    c->pid = 0;
    t->seeds++;
    t->steps += result.steps;
    t->grants += result.grants;
    t->faults += result.faults;
    t->simulated_ns += result.simulated_ns;
    if (result.failure[0] == '\0')
        return;
    t->failures++;
    printf("seed %" PRIu64 " failed: %s\n  again: script/simulate --driver redis --seed %" PRIu64
           " --trace -\n",
           c->seed, result.failure, c->seed);
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int run_all(const options *o)
{
    child *const children = calloc(o->jobs, sizeof *children);
    const double began = seconds();
    totals t = {0};
    if (children == NULL)
        return 71;
    for (uint64_t i = 0; i < o->seeds + o->jobs; i++) {
        child *const c = &children[i % o->jobs];
        if (c->pid > 0)
            finish(c, &t);
        if (i < o->seeds && !start(c, o->first + i, o->trace)) {
            fprintf(stderr, "locker-simulate: can't start a process: %s\n", strerror(errno));
            free(children);
            return 71;
        }
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " failures ", t.seeds, o->seeds,
                    t.failures);
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%60s\r", "");
    const double real = seconds() - began, simulated = (double)t.simulated_ns / 1e9;
    printf("%" PRIu64 " steps, %" PRIu64 " grants, %" PRIu64 " faults: %.0f steps and %.0f grants a second\n",
           t.steps, t.grants, t.faults, (double)t.steps / real, (double)t.grants / real);
    printf("%" PRIu64 " seeds, %.0f s simulated in %.1f s (%.0f times real time), %" PRIu64 " failures\n",
           t.seeds, simulated, real, simulated / real, t.failures);
    free(children);
    return t.failures > 0;
}

static uint64_t number(const char *text, uint64_t least)
{
    char *end;
    errno = 0;
    const uint64_t n = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || text[0] == '-' || n < least) {
        fprintf(stderr, "locker-simulate: %s is no number from %" PRIu64 "\n", text, least);
        exit(64);
    }
    return n;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"driver", required_argument, NULL, 'd'}, {"first", required_argument, NULL, 'f'},
        {"seeds", required_argument, NULL, 'n'},  {"jobs", required_argument, NULL, 'j'},
        {"seed", required_argument, NULL, 's'},   {"trace", required_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what failed is told at once */
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    options o = {.first = 1, .seeds = 100, .jobs = processors > 0 ? (uint64_t)processors : 1};
    for (int option; (option = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        switch (option) {
        case 'd':
            if (strcmp(optarg, "redis") == 0)
                break;
            fprintf(stderr, "locker-simulate: no driver %s is simulated; there is redis\n", optarg);
            return 64;
        case 'f':
            o.first = number(optarg, 0);
            break;
        case 'n':
            o.seeds = number(optarg, 1);
            break;
        case 'j':
            o.jobs = number(optarg, 1);
            break;
        case 's':
            o.first = number(optarg, 0);
            o.seeds = 1;
            break;
        case 't':
            o.trace = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs(usage, stderr);
            return 64;
        }
    }
    if (optind < argc || (o.trace != NULL && o.seeds != 1)) {
        fputs(o.trace != NULL ? "locker-simulate: --trace is for one --seed\n" : usage, stderr);
        return 64;
    }
    return run_all(&o);
}
