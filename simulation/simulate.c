/* simulate.c: the program: what it was asked for, and the words at the end. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workers.h"

static const char usage[] =
    "usage: locker-simulate [--driver NAME] [--first SEED] [--seeds N] [--jobs N] [--stop]\n"
    "       locker-simulate [--driver NAME] --seed SEED [--trace FILE] [--without N,N...] [--processes N] [--threads N]\n"
    "                       [--keys N] [--course N] [--modelled]\n"
    "\n"
    "Runs the library, as it is built, against a simulated service, network and time. The seed decides everything:\n"
    "the same seed gives the same run, step by step.\n"
    "\n"
    "  --driver NAME  %s\n"
    "  --first SEED   the first seed (1)\n"
    "  --seeds N      the number of seeds (100)\n"
    "  --jobs N       the number of seeds that run at the same time (the number of processors)\n"
    "  --stop         end at the first seed that fails\n"
    "  --seed SEED    run only this seed\n"
    "  --trace FILE   write what happened, one line for each event; - is the standard output\n"
    "  --without N,N  leave out the faults with these numbers; the others stay the same\n"
    "  --processes N, --threads N, --keys N\n"
    "                 the most processes at the start, threads in each process, keys in all\n"
    "  --course N     the same faults, but another order of threads and other message delays\n"
    "  --modelled     only events that the models have; the trace has only the models' steps\n"
    "  --results      for programs: print a line for each seed: seed, steps, grants, faults made, faults drawn,\n"
    "                 simulated ns, processor ns and the reason of a failure, separated by tabs\n"
    "\n"
    "Exit status: 0 no seed failed; 1 a seed failed, and the command to repeat it was printed; 64 usage; 73 the trace\n"
    "cannot be written; 130 interrupted.\n";

typedef struct {
    const char *name;
    void (*run)(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result);
} driver;

static const driver drivers[] = {
    {"redis", lk_sim_run_redis}, /* the default */
    {"redis-cluster", lk_sim_run_redis_cluster},
    {"memory", lk_sim_run_memory},
#ifdef LK_SIM_ZOOKEEPER
    {"zookeeper", lk_sim_run_zookeeper},
#endif
#ifdef LK_SIM_ETCD
    {"etcd", lk_sim_run_etcd},
#endif
};

enum { DRIVERS = sizeof drivers / sizeof *drivers };

static const char *driver_names(void)
{
    static char names[128];
    size_t at = 0;
    for (size_t i = 0; i < DRIVERS; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "", drivers[i].name);
    return names;
}

static _Noreturn void leave_with_usage(FILE *to, int status)
{
    fprintf(to, usage, driver_names());
    exit(status);
}

static _Noreturn void refuse(const char *why)
{
    fprintf(stderr, "locker-simulate: %s\n", why);
    exit(64);
}

static void choose_driver(lk_sim_orders *o, const char *name)
{
    for (size_t i = 0; i < DRIVERS; i++) {
        if (strcmp(drivers[i].name, name) != 0)
            continue;
        o->driver = drivers[i].name;
        o->run = drivers[i].run;
        return;
    }
    fprintf(stderr, "locker-simulate: driver %s is not simulated; use %s\n", name, driver_names());
    exit(64);
}

static uint64_t number(const char *text, uint64_t least)
{
    char *end;
    errno = 0;
    const uint64_t n = strtoull(text, &end, 10);
    if (*end != '\0' || errno != 0 || text[0] < '0' || text[0] > '9' || n < least) {
        fprintf(stderr, "locker-simulate: %s is not a number of at least %" PRIu64 "\n", text, least);
        exit(64);
    }
    return n;
}

/* Numbers with commas between them, which stay in the plan. */
static void leave_out(lk_sim_plan *plan, char *list)
{
    uint32_t *const numbers = calloc(strlen(list) / 2 + 1, sizeof *numbers);
    if (numbers == NULL)
        abort();
    for (char *word; (word = strsep(&list, ",")) != NULL;)
        numbers[plan->without_count++] = (uint32_t)number(word, 0);
    plan->without = numbers;
}

static FILE *open_trace(const char *name)
{
    FILE *const trace = strcmp(name, "-") == 0 ? stdout : fopen(name, "we");
    if (trace == NULL) {
        fprintf(stderr, "locker-simulate: can't write %s: %s\n", name, strerror(errno));
        exit(73);
    }
    return trace;
}

/* An option that makes another plan of a seed's is told in the command that repeats a run. */
static const char *limits_with(const char *name, const char *value)
{
    static char text[4096];
    const size_t at = strlen(text);
    (void)snprintf(text + at, sizeof text - at, " --%s%s%s", name, value != NULL ? " " : "",
                   value != NULL ? value : "");
    return text;
}

static lk_sim_orders defaults(void)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return (lk_sim_orders){.driver = drivers[0].name,
                           .run = drivers[0].run,
                           .first = 1,
                           .seeds = 100,
                           .jobs = processors > 0 ? (uint64_t)processors : 1,
                           .limits = ""};
}

/* Options that make another plan of a seed's. */
static void limit_plan(lk_sim_orders *o, int option, const char *name, char *value)
{
    o->limits = limits_with(name, value); /* before the value is cut into words */
    switch (option) {
    case 'w':
        leave_out(&o->plan, value);
        break;
    case 'P':
        o->plan.processes = (unsigned)number(value, 1);
        break;
    case 'T':
        o->plan.threads = (unsigned)number(value, 1);
        break;
    case 'K':
        o->plan.keys = (unsigned)number(value, 1);
        break;
    case 'C':
        o->plan.course = number(value, 0);
        break;
    case 'M':
        o->plan.modelled = true;
        break;
    default:
        abort();
    }
}

static const struct option known[] = {
    {"driver", required_argument, NULL, 'd'},  {"first", required_argument, NULL, 'f'},
    {"seeds", required_argument, NULL, 'n'},   {"jobs", required_argument, NULL, 'j'},
    {"seed", required_argument, NULL, 's'},    {"trace", required_argument, NULL, 't'},
    {"stop", no_argument, NULL, 'e'},          {"results", no_argument, NULL, 'r'},
    {"without", required_argument, NULL, 'w'}, {"processes", required_argument, NULL, 'P'},
    {"threads", required_argument, NULL, 'T'}, {"keys", required_argument, NULL, 'K'},
    {"course", required_argument, NULL, 'C'},  {"modelled", no_argument, NULL, 'M'},
    {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};

static lk_sim_orders read_orders(int argc, char **argv)
{
    lk_sim_orders o = defaults();
    const char *trace = NULL;
    bool one = false, several = false;
    for (int option, i; (option = getopt_long(argc, argv, "h", known, &i)) != -1;) {
        switch (option) {
        case 'w':
        case 'P':
        case 'T':
        case 'K':
        case 'C':
        case 'M':
            limit_plan(&o, option, known[i].name, optarg);
            break;
        case 'd':
            choose_driver(&o, optarg);
            break;
        case 's':
            one = true;
            o.seeds = 1;
            o.first = number(optarg, 0);
            break;
        case 'f':
            several = true;
            o.first = number(optarg, 0);
            break;
        case 'n':
            several = true;
            o.seeds = number(optarg, 1);
            break;
        case 'j':
            o.jobs = number(optarg, 1);
            break;
        case 't':
            trace = optarg;
            break;
        case 'e':
            o.stops = true;
            break;
        case 'r':
            o.for_programs = true;
            break;
        case 'h':
            leave_with_usage(stdout, 0);
        default:
            leave_with_usage(stderr, 64);
        }
    }
    if (optind < argc)
        leave_with_usage(stderr, 64);
    if (one && several)
        refuse("--seed cannot be combined with --first and --seeds");
    if (trace != NULL && o.seeds != 1)
        refuse("--trace needs --seed");
    if (trace != NULL)
        o.trace = open_trace(trace);
    return o;
}

static void print_totals(const lk_sim_totals *t)
{
    const double cpu = (double)t->cpu_ns / 1e9, simulated = (double)t->simulated_ns / 1e9;
    printf("%" PRIu64 " steps, %" PRIu64 " grants, %" PRIu64
           " faults: %.0f steps and %.0f grants a second of one core\n",
           t->steps, t->grants, t->faults, (double)t->steps / cpu, (double)t->grants / cpu);
    printf("%" PRIu64 " seeds, %.0f s simulated in %.1f s (%.0f times real time), %" PRIu64 " failures\n",
           t->seeds, simulated, t->seconds, simulated / t->seconds, t->failures);
}

int main(int argc, char **argv)
{
    (void)clearenv();                       /* the library reads it, and a seed has to say all */
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what failed is told at once */
    const lk_sim_orders orders = read_orders(argc, argv);
    lk_sim_totals totals;
    if (!lk_sim_run_workers(&orders, &totals)) {
        fprintf(stderr, "locker-simulate: can't start a process: %s\n", strerror(errno));
        return 71;
    }
    if (!orders.for_programs && totals.seeds > 0)
        print_totals(&totals);
    return totals.failures > 0 ? 1 : totals.interrupted ? 130 : 0;
}
