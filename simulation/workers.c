/* workers.c: see workers.h. */
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

#include "workers.h"

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
} workers;

static bool start(workers *w, size_t i, uint64_t seed)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        tells_to = ends[1];
        run_one(w->orders, seed);
    }
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return false;
    }
    w->children[i] = (child){pid, seed};
    w->hears[i] = (struct pollfd){.fd = ends[0], .events = POLLIN};
    w->under_way++;
    return true;
}

static void leave(workers *w, size_t i)
{
    (void)close(w->hears[i].fd);
    w->hears[i].fd = -1;
    w->children[i].pid = 0;
    w->under_way--;
}

/* What came of it, and how long it had a processor. */
static lk_sim_result read_result(const workers *w, size_t i, int64_t *cpu_ns)
{
    lk_sim_result result = {0};
    struct rusage used = {0};
    int status = 0;
    if (read(w->hears[i].fd, &result, sizeof result) != (ssize_t)sizeof result)
        (void)snprintf(result.failure, sizeof result.failure, "the process ended without a result");
    (void)wait4(w->children[i].pid, &status, 0, &used);
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

static void finish(workers *w, size_t i)
{
    lk_sim_totals *const t = w->totals;
    int64_t cpu_ns;
    const lk_sim_result result = read_result(w, i, &cpu_ns);
    tell(w->orders, w->children[i].seed, &result, cpu_ns);
    leave(w, i);
    t->seeds++;
    t->steps += result.steps;
    t->grants += result.grants;
    t->faults += result.faults;
    t->simulated_ns += result.simulated_ns;
    t->cpu_ns += cpu_ns;
    t->failures += result.failure[0] != '\0';
}

/* Those under way come to nothing. */
static void give_up(workers *w)
{
    for (size_t i = 0; i < w->count; i++) {
        if (w->children[i].pid == 0)
            continue;
        (void)kill(w->children[i].pid, SIGKILL);
        (void)waitpid(w->children[i].pid, NULL, 0);
        leave(w, i);
    }
}

static void show_progress(const workers *w)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " failures ", w->totals->seeds,
                w->orders->seeds, w->totals->failures);
}

/* ------------------------------------------------------------------ all of them ---- */

static bool start_some(workers *w, uint64_t *next)
{
    for (size_t i = 0; i < w->count && *next < w->orders->seeds; i++) {
        if (w->children[i].pid != 0)
            continue;
        if (!start(w, i, w->orders->first + *next))
            return false;
        ++*next;
    }
    return true;
}

static void wait_for_some(workers *w)
{
    (void)poll(w->hears, w->count + 1, -1);
    w->totals->interrupted = w->hears[w->count].revents != 0;
    for (size_t i = 0; i < w->count && !w->totals->interrupted; i++)
        if (w->children[i].pid != 0 && w->hears[i].revents != 0)
            finish(w, i);
    show_progress(w);
}

static bool go_through(workers *w)
{
    bool can_start = true;
    for (uint64_t next = 0; !w->totals->interrupted;) {
        const bool stops = w->orders->stops && w->totals->failures > 0;
        can_start = stops || start_some(w, &next);
        if (stops || !can_start || w->under_way == 0)
            break;
        wait_for_some(w);
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

bool lk_sim_run_workers(const lk_sim_orders *orders, lk_sim_totals *totals)
{
    const size_t count = (size_t)(orders->jobs < orders->seeds ? orders->jobs : orders->seeds);
    const double began = seconds();
    workers w = {.orders = orders,
                 .totals = totals,
                 .children = calloc(count, sizeof *w.children),
                 .hears = calloc(count + 1, sizeof *w.hears),
                 .count = count};
    *totals = (lk_sim_totals){0};
    if (w.children == NULL || w.hears == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        w.hears[i].fd = -1;
    w.hears[count] = (struct pollfd){.fd = hear_signals(), .events = POLLIN};
    const bool could = go_through(&w);
    give_up(&w);
    (void)close(w.hears[count].fd);
    free(w.children);
    free(w.hears);
    totals->seconds = seconds() - began;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%60s\r", "");
    return could;
}
