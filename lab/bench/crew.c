/* crew.c: the processes that do the measured work. The boss forks them, lets them go together, and waits. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { MEMBERS_MAX = 256, QUICK_PART = 50 };

atomic_bool lk_interrupted;

/* Longer than any row takes: what is still running then hangs. */
static const int64_t patience = 180 * LK_BENCH_S;

int64_t lk_scale(const lk_bench *b, int64_t full)
{
    const int64_t part = b->quick ? full / QUICK_PART : full;
    return part > 0 ? part : 1;
}

/* ------------------------------------------------------------------ the boss ---- */

static void reset(lk_bench_crew *crew)
{
    memset(crew, 0, sizeof *crew);
    (void)sem_init(&crew->go, 1, 0);
    (void)sem_init(&crew->halt, 1, 0);
    (void)sem_init(&crew->turn[0], 1, 0);
    (void)sem_init(&crew->turn[1], 1, 0);
}

static void unblock_child_signal(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become_member(lk_bench *b, const lk_work *work, int member, pid_t boss)
{
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    unblock_child_signal();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != boss)
        _exit(1);
    if (work->cpu >= 0)
        (void)lk_bench_pin(work->cpu);
    work->body(b, member, work->arg);
    _exit(0);
}

/* Count the members that have ended; false when one of them failed. */
static bool reap(const lk_bench *b, pid_t *pids, int members, int *running)
{
    for (int i = 0; i < members; i++) {
        int how;

        if (pids[i] <= 0 || waitpid(pids[i], &how, WNOHANG) != pids[i])
            continue;
        pids[i] = 0;
        --*running;
        if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
            continue;
        if (WIFSIGNALED(how) && !b->crew->failed)
            (void)snprintf(b->crew->error, sizeof b->crew->error, "a worker was ended by signal %d",
                           WTERMSIG(how));
        return false;
    }
    return true;
}

static void end_all(pid_t *pids, int members)
{
    for (int i = 0; i < members; i++) {
        if (pids[i] <= 0)
            continue;
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
}

static void post_all(sem_t *sem, int members)
{
    for (int i = 0; i < members; i++)
        (void)sem_post(sem);
}

/* Sleep until a member ends, or for so long. The boss runs on the server's processor: it must not be up
 * often. */
static void doze(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / LK_BENCH_S, .tv_nsec = ns % LK_BENCH_S};
    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    if (ns > 0)
        (void)sigtimedwait(&child, NULL, &t);
}

static void let_go(lk_bench *b, const lk_work *work)
{
    if (work->asked != NULL)
        b->crew->asked = -work->asked(b);
    post_all(&b->crew->go, work->members);
}

static void halt(lk_bench *b, const lk_work *work, int64_t begun)
{
    if (work->asked != NULL)
        b->crew->asked += work->asked(b);
    b->crew->value[LK_VALUE_SECONDS] = (double)(lk_bench_now() - begun) / LK_BENCH_S;
    atomic_store(&b->crew->stop, true);
    post_all(&b->crew->halt, work->members);
}

/* Start them together, stop them in time, wait for their end. */
static bool oversee(lk_bench *b, const lk_work *work, pid_t *pids)
{
    lk_bench_crew *crew = b->crew;
    int running = work->members;
    int64_t begun = lk_bench_now(), gone = 0;
    bool stopped = work->duration == 0;
    while (running > 0) {
        int64_t now = lk_bench_now(), left = LK_BENCH_S / 5;

        if (!reap(b, pids, work->members, &running) || lk_interrupted)
            return false;
        if (gone == 0) {
            left = LK_BENCH_MS;
            if (atomic_load(&crew->ready) == work->members) {
                let_go(b, work);
                gone = now = lk_bench_now();
            }
        }
        if (gone != 0 && !stopped) {
            left = gone + work->duration - now;
            if (left <= 0)
                halt(b, work, gone);
            stopped = left <= 0;
        }
        if (now - begun > patience + work->duration) {
            (void)snprintf(crew->error, sizeof crew->error, "no end after %lld s: it hangs",
                           (long long)((now - begun) / LK_BENCH_S));
            return false;
        }
        if (running > 0)
            doze(left < LK_BENCH_S / 5 ? left : LK_BENCH_S / 5);
    }
    return true;
}

bool lk_bench_crew_run(lk_bench *b, const lk_work *work)
{
    pid_t pids[MEMBERS_MAX] = {0}, boss = getpid();
    bool good = true;
    reset(b->crew);
    (void)fflush(NULL);
    for (int i = 0; i < work->members && good; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            become_member(b, work, i, boss);
        good = pids[i] > 0;
        if (!good)
            (void)snprintf(b->crew->error, sizeof b->crew->error, "fork: %s", strerror(errno));
    }
    good = good && oversee(b, work, pids);
    if (!good) {
        end_all(pids, work->members);
        b->failed = true;
        if (!lk_interrupted)
            lk_bench_progress("failed: %s",
                              b->crew->error[0] != '\0' ? b->crew->error : "a worker ended early");
    }
    return good;
}

double lk_bench_crew_quantile_us(lk_bench *b, double q)
{
    size_t n = b->crew->sample_count;
    if (n > LK_SAMPLES_MAX)
        n = LK_SAMPLES_MAX;
    qsort(b->crew->sample, n, sizeof b->crew->sample[0], lk_bench_compare);
    return (double)lk_bench_quantile(b->crew->sample, n, q) / LK_BENCH_US;
}

uint64_t lk_bench_crew_total(const lk_bench *b, size_t n)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += b->crew->count[i];
    return total;
}

double lk_bench_crew_fairness(const lk_bench *b, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)b->crew->count[i];

        sum += x;
        squares += x * x;
    }
    return squares > 0 ? sum * sum / ((double)n * squares) : 0;
}

/* ------------------------------------------------------------------ the members ---- */

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0 && errno == EINTR)
        ;
}

void lk_bench_crew_ready(lk_bench *b)
{
    atomic_fetch_add(&b->crew->ready, 1);
    wait_for(&b->crew->go);
}

void lk_bench_crew_wait_halt(lk_bench *b)
{
    wait_for(&b->crew->halt);
}

void lk_bench_crew_wait_turn(lk_bench *b, int who)
{
    wait_for(&b->crew->turn[who]);
}

void lk_bench_crew_give_turn(lk_bench *b, int who)
{
    (void)sem_post(&b->crew->turn[who]);
}

bool lk_bench_crew_stopped(const lk_bench *b)
{
    return atomic_load_explicit(&b->crew->stop, memory_order_relaxed);
}

void lk_bench_crew_sample(lk_bench *b, int64_t ns)
{
    const size_t at = atomic_fetch_add_explicit(&b->crew->sample_count, 1, memory_order_relaxed);
    if (at < LK_SAMPLES_MAX)
        b->crew->sample[at] = ns;
}

_Noreturn void lk_bench_crew_fail(lk_bench *b, const char *format, ...)
{
    if (!atomic_exchange(&b->crew->failed, true)) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(b->crew->error, sizeof b->crew->error, format, args);
        va_end(args);
    }
    _exit(1);
}
