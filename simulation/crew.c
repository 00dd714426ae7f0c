/* crew.c: see crew.h. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crew.h"

enum { CPU_SECONDS_MOST = 60 /* a seed takes tenths of a second; one that goes on is caught in a loop */ };

/* ------------------------------------------------------------------ a run, in its own process ---- */

static lk_sim_result one;
static int tells_to;

static void tell_parent(void)
{
    if (write(tells_to, &one, sizeof one) != (ssize_t)sizeof one)
        _exit(71);
    _exit(one.failure[0] != '\0');
}

static _Noreturn void run_one(const lk_sim_orders *o, uint64_t seed)
{
    const struct rlimit limit = {CPU_SECONDS_MOST, CPU_SECONDS_MOST};
    (void)setrlimit(RLIMIT_CPU, &limit);
    lk_sim_run_failed = tell_parent;
    lk_sim_plan plan = o->plan;
    plan.seed = seed;
    o->run(&plan, o->trace, &one);
    if (o->trace != NULL)
        (void)fflush(o->trace);
    tell_parent();
    abort();
}

/* ------------------------------------------------------------------ those that are under way ---- */

typedef struct {
    pid_t pid; /* 0: none */
    uint64_t seed;
} child;

/* A child and the end of a pipe that it tells its result to; behind the last, the signals. */
typedef struct {
    const lk_sim_orders *orders;
    lk_sim_totals *totals;
    child *children;
    struct pollfd *hears;
    size_t count, under_way;
} crew;

static bool start(crew *c, size_t i, uint64_t seed)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        tells_to = ends[1];
        run_one(c->orders, seed);
    }
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return false;
    }
    c->children[i] = (child){pid, seed};
    c->hears[i] = (struct pollfd){.fd = ends[0], .events = POLLIN};
    c->under_way++;
    return true;
}

static void leave(crew *c, size_t i)
{
    (void)close(c->hears[i].fd);
    c->hears[i].fd = -1;
    c->children[i].pid = 0;
    c->under_way--;
}

/* What came of it, and how long it had a processor. */
static lk_sim_result read_result(const crew *c, size_t i, int64_t *cpu_ns)
{
    lk_sim_result result = {0};
    struct rusage used = {0};
    int status = 0;
    if (read(c->hears[i].fd, &result, sizeof result) != (ssize_t)sizeof result)
        (void)snprintf(result.failure, sizeof result.failure, "the process ended without a result");
    (void)wait4(c->children[i].pid, &status, 0, &used);
    if (WIFSIGNALED(status))
        (void)snprintf(result.failure, sizeof result.failure, "it was killed: %s",
                       strsignal(WTERMSIG(status)));
    for (char *at = result.failure; *at != '\0'; at++) /* a line */
        *at = *at == '\n' || *at == '\t' ? ' ' : *at;
    *cpu_ns = ((int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000 +
              ((int64_t)used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
    return result;
}

static void tell(const lk_sim_orders *o, uint64_t seed, const lk_sim_result *result, int64_t cpu_ns)
{
    if (o->for_programs)
        printf("%" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%u\t%" PRId64 "\t%" PRId64 "\t%s\n", seed, result->steps,
               result->grants, result->faults, result->drawn, result->simulated_ns, cpu_ns, result->failure);
    else if (result->failure[0] != '\0')
        printf("seed %" PRIu64 " failed: %s\n  again: script/simulate --driver %s --seed %" PRIu64
               "%s --trace -\n",
               seed, result->failure, o->driver, seed, o->limits);
}

static void finish(crew *c, size_t i)
{
    lk_sim_totals *const t = c->totals;
    int64_t cpu_ns;
    const lk_sim_result result = read_result(c, i, &cpu_ns);
    tell(c->orders, c->children[i].seed, &result, cpu_ns);
    leave(c, i);
    t->seeds++;
    t->steps += result.steps;
    t->grants += result.grants;
    t->faults += result.faults;
    t->simulated_ns += result.simulated_ns;
    t->cpu_ns += cpu_ns;
    t->failures += result.failure[0] != '\0';
}

/* Those under way come to nothing. */
static void give_up(crew *c)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->children[i].pid == 0)
            continue;
        (void)kill(c->children[i].pid, SIGKILL);
        (void)waitpid(c->children[i].pid, NULL, 0);
        leave(c, i);
    }
}

static void show_progress(const crew *c)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " failures ", c->totals->seeds,
                c->orders->seeds, c->totals->failures);
}

/* ------------------------------------------------------------------ all of them ---- */

static bool start_some(crew *c, uint64_t *next)
{
    for (size_t i = 0; i < c->count && *next < c->orders->seeds; i++) {
        if (c->children[i].pid != 0)
            continue;
        if (!start(c, i, c->orders->first + *next))
            return false;
        ++*next;
    }
    return true;
}

static void wait_for_some(crew *c)
{
    (void)poll(c->hears, c->count + 1, -1);
    c->totals->interrupted = c->hears[c->count].revents != 0;
    for (size_t i = 0; i < c->count && !c->totals->interrupted; i++)
        if (c->children[i].pid != 0 && c->hears[i].revents != 0)
            finish(c, i);
    show_progress(c);
}

static bool go_through(crew *c)
{
    bool can_start = true;
    for (uint64_t next = 0; !c->totals->interrupted;) {
        const bool stops = c->orders->stops && c->totals->failures > 0;
        can_start = stops || start_some(c, &next);
        if (stops || !can_start || c->under_way == 0)
            break;
        wait_for_some(c);
    }
    return can_start;
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The signals that end it come to a descriptor, and don't come to its children at all: a terminal sends them to both. */
static int hear_signals(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

bool lk_sim_run_crew(const lk_sim_orders *orders, lk_sim_totals *totals)
{
    const size_t count = (size_t)(orders->jobs < orders->seeds ? orders->jobs : orders->seeds);
    const double began = seconds();
    crew c = {.orders = orders,
              .totals = totals,
              .children = calloc(count, sizeof *c.children),
              .hears = calloc(count + 1, sizeof *c.hears),
              .count = count};
    *totals = (lk_sim_totals){0};
    if (c.children == NULL || c.hears == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        c.hears[i].fd = -1;
    c.hears[count] = (struct pollfd){.fd = hear_signals(), .events = POLLIN};
    const bool could = go_through(&c);
    give_up(&c);
    (void)close(c.hears[count].fd);
    free(c.children);
    free(c.hears);
    totals->seconds = seconds() - began;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%60s\r", "");
    return could;
}
