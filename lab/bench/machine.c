/* machine.c: the clock, the processors, what this process uses of memory and time, and sockets
 * of this host. */
#include <arpa/inet.h>
#include <dirent.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

int64_t lk_bench_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * LK_BENCH_S + t.tv_nsec;
}

void lk_bench_sleep(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / LK_BENCH_S, .tv_nsec = ns % LK_BENCH_S};
    (void)nanosleep(&t, NULL);
}

/* ------------------------------------------------------------------ processors ---- */

static bool pin(pid_t tid, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= 0)
        CPU_SET((size_t)cpu, &set);
    for (long i = 0; cpu < 0 && i < sysconf(_SC_NPROCESSORS_CONF); i++)
        CPU_SET((size_t)i, &set);
    return sched_setaffinity(tid, sizeof set, &set) == 0;
}

bool lk_bench_pin(int cpu)
{
    return pin(0, cpu);
}

bool lk_bench_pin_process(pid_t pid, int cpu)
{
    char path[64];
    bool good = true;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return false;
    struct dirent *entry;
    while ((entry = readdir(tasks)) != NULL) {
        const pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (tid > 0)
            good = pin(tid, cpu) && good;
    }
    (void)closedir(tasks);
    return good;
}

/* ------------------------------------------------------------------ use ---- */

int64_t lk_bench_cpu(void)
{
    struct rusage use;
    (void)getrusage(RUSAGE_SELF, &use);
    return ((int64_t)use.ru_utime.tv_sec + use.ru_stime.tv_sec) * LK_BENCH_S +
           ((int64_t)use.ru_utime.tv_usec + use.ru_stime.tv_usec) * LK_BENCH_US;
}

int64_t lk_bench_late(void)
{
    int64_t sum = 0;
    DIR *const tasks = opendir("/proc/self/task");
    for (const struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
        char path[64], text[128];
        (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", entry->d_name);
        FILE *const times = fopen(path, "re");
        if (times == NULL)
            continue;
        const char *const late =
            fgets(text, sizeof text, times) != NULL ? strchr(text, ' ') : NULL; /* the second number */
        sum += late != NULL ? strtoll(late, NULL, 10) : 0;
        (void)fclose(times);
    }
    if (tasks != NULL)
        (void)closedir(tasks);
    return sum;
}

int64_t lk_bench_switches(void)
{
    struct rusage use;
    (void)getrusage(RUSAGE_SELF, &use);
    return (int64_t)use.ru_nvcsw;
}

int64_t lk_bench_resident(void)
{
    char line[128] = "";
    FILE *statm = fopen("/proc/self/statm", "re");
    if (statm == NULL)
        return 0;
    const bool told = fgets(line, sizeof line, statm) != NULL;
    (void)fclose(statm);
    const char *const resident = told ? strchr(line, ' ') : NULL; /* the second number */
    return resident == NULL ? 0 : strtol(resident, NULL, 10) * sysconf(_SC_PAGESIZE);
}

int64_t lk_bench_allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

/* ------------------------------------------------------------------ samples ---- */

int lk_bench_compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t lk_bench_quantile(const int64_t *sorted, size_t n, double q)
{
    const size_t at = (size_t)(q * (double)n);
    if (n == 0)
        return 0;
    return sorted[at < n ? at : n - 1];
}

/* ------------------------------------------------------------------ for servers ---- */

int lk_bench_connect(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}
