/* lateness.c: how long the machine kept a test from running, from what Linux counts; see lateness.h. */
#include "lateness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

enum { THREADS_AT_MOST = 2048, DEPTH_AT_MOST = 8, FACTOR_OF_ENDED = 10 };

/* A thread, and for how long it has run and has waited for a processor in all (/proc/PID/schedstat). */
typedef struct {
    pid_t process, thread;
    int64_t ran_ns, waited_ns;
} turns;

/* What all processors have done, in ticks (proc_stat(5)). */
typedef struct {
    unsigned long long idle, stolen, all;
} ticks;

typedef struct {
    turns threads[THREADS_AT_MOST]; /* those of a process stand together */
    size_t count;
    ticks ticks;
    int64_t used_ms;    /* processor time of this process and of the children that have ended */
    int64_t stalled_ms; /* some task of the machine waited for a disk, or for memory */
} counts;

static counts marked, now;
static bool has_siblings;

static ticks read_ticks(void)
{
    enum { IDLE = 3, STOLEN = 7, KINDS = 8 };
    unsigned long long kinds[KINDS] = {0};
    ticks read = {0};
    FILE *const file = fopen("/proc/stat", "re");
    if (file == NULL)
        return read;
    char line[256] = "";
    if (fgets(line, sizeof line, file) != NULL && strncmp(line, "cpu ", 4) == 0) {
        char *at = line + 4;
        for (int i = 0; i < KINDS; i++)
            read.all += kinds[i] = strtoull(at, &at, 10);
    }
    read.idle = kinds[IDLE];
    read.stolen = kinds[STOLEN];
    fclose(file);
    return read;
}

static int64_t read_stalled_ms(const char *path)
{
    unsigned long long us = 0;
    FILE *const file = fopen(path, "re");
    if (file == NULL)
        return 0;
    char line[256] = "";
    const char *const total = fgets(line, sizeof line, file) != NULL ? strstr(line, "total=") : NULL;
    if (total != NULL)
        us = strtoull(total + strlen("total="), NULL, 10);
    fclose(file);
    return (int64_t)(us / 1000);
}

static int64_t used_ms(int who)
{
    struct rusage used = {0};
    getrusage(who, &used);
    return (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

/* False: the kernel does not count it, or the thread has ended. */
static bool read_turns(turns *to, pid_t process, pid_t thread)
{
    char path[80];
    char line[256] = "", *between = line, *end = line;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)process, (int)thread);
    FILE *const file = fopen(path, "re");
    if (file == NULL)
        return false;
    (void)!fgets(line, sizeof line, file);
    fclose(file);
    const long long ran = strtoll(line, &between, 10), waited = strtoll(between, &end, 10);
    *to = (turns){process, thread, ran, waited};
    return end != between;
}

static void read_process(counts *to, pid_t process, int depth);

static void read_children(counts *to, pid_t process, pid_t thread, int depth)
{
    char path[80], child[16];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)thread);
    FILE *const file = depth < DEPTH_AT_MOST ? fopen(path, "re") : NULL;
    while (file != NULL && fscanf(file, "%15s", child) == 1)
        read_process(to, (pid_t)strtol(child, NULL, 10), depth + 1);
    if (file != NULL)
        fclose(file);
}

static void each_thread(counts *to, pid_t process, int depth, bool is_for_children)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *const folder = opendir(path);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > 0 && is_for_children)
            read_children(to, process, thread, depth);
        else if (thread > 0 && to->count < THREADS_AT_MOST &&
                 read_turns(&to->threads[to->count], process, thread))
            to->count++;
    }
    if (folder != NULL)
        closedir(folder);
}

static void read_process(counts *to, pid_t process, int depth)
{
    each_thread(to, process, depth, false);
    each_thread(to, process, depth, true);
}

static void read_all(counts *to)
{
    to->count = 0;
    to->ticks = read_ticks();
    to->used_ms = used_ms(RUSAGE_SELF) + used_ms(RUSAGE_CHILDREN);
    to->stalled_ms = read_stalled_ms("/proc/pressure/io") + read_stalled_ms("/proc/pressure/memory");
    if (has_siblings)
        read_children(to, getppid(), getppid(), 0);
    else
        read_process(to, getpid(), 0);
}

/* The thread's turns at the mark; zeros if it has been made since. */
static const turns *before(const turns *thread)
{
    static const turns none;
    for (size_t i = 0; i < marked.count; i++)
        if (marked.threads[i].thread == thread->thread && marked.threads[i].process == thread->process)
            return &marked.threads[i];
    return &none;
}

/* For how long they have waited: this process' threads in all, and of each other process the one that waited longest. */
static int64_t waited_ms(void)
{
    int64_t sum = 0, longest = 0;
    for (size_t i = 0; i < now.count; i++) {
        const turns *const thread = &now.threads[i];
        const int64_t waited = thread->waited_ns - before(thread)->waited_ns;
        if (i == 0 || thread->process != now.threads[i - 1].process) {
            sum += longest;
            longest = 0;
        }
        if (thread->process == getpid())
            sum += waited;
        else if (waited > longest)
            longest = waited;
    }
    return (sum + longest) / 1000000;
}

/* How long threads of this process, and children of it, have run that have ended. */
static int64_t ended_ran_ms(void)
{
    int64_t ran_ms = now.used_ms - marked.used_ms;
    for (size_t i = 0; i < now.count; i++)
        if (now.threads[i].process == getpid())
            ran_ms -= (now.threads[i].ran_ns - before(&now.threads[i])->ran_ns) / 1000000;
    return ran_ms > 0 ? ran_ms : 0;
}

void lk_lateness_of_siblings(void)
{
    has_siblings = true;
}

void lk_lateness_mark(void)
{
    read_all(&marked);
}

bool lk_lateness_is_busy(void)
{
    const ticks read = read_ticks();
    const unsigned long long idle = read.idle - marked.ticks.idle, all = read.all - marked.ticks.all;
    return read.all == 0 || 4 * idle < 3 * all;
}

int64_t lk_lateness_ms(void)
{
    read_all(&now);
    if (now.count == 0)
        return INT64_MAX;
    const long tick_ms = 1000 / sysconf(_SC_CLK_TCK);
    return waited_ms() + FACTOR_OF_ENDED * ended_ran_ms() +
           tick_ms * (int64_t)(now.ticks.stolen - marked.ticks.stolen) + now.stalled_ms - marked.stalled_ms;
}
