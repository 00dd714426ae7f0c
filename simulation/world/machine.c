/* machine.c: what stands for the rest of a machine: its clocks, names and chance; and futexes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "files.h"
#include "seams.h"

enum { UNIX_SECONDS = 1700000000 /* when a run begins */, USER = 1000 };

static lk_sim_process *stands_in;

void (*lk_sim_on_fail)(const char *why);

void lk_sim_stand_in(lk_sim_process *process)
{
    stands_in = process;
}

lk_sim_process *lk_sim_here(void)
{
    return lk_sim_self() != NULL ? lk_sim_process_of(lk_sim_self()) : stands_in;
}

void lk_sim_fail(const char *format, ...)
{
    char why[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    lk_sim_tell("FAILED: %s", why);
    if (lk_sim_on_fail != NULL)
        lk_sim_on_fail(why);
    abort();
}

int64_t lk_sim_true_of_spec(const struct timespec *at)
{
    return lk_sim_true(lk_sim_here(), (int64_t)at->tv_sec * 1000000000 + at->tv_nsec);
}

int64_t lk_sim_true_after(int64_t span)
{
    return span < 0 ? INT64_MAX
                    : lk_sim_true(lk_sim_here(), lk_sim_local(lk_sim_here(), lk_sim_now()) + span);
}

int lk_sim_clock_gettime(clockid_t clock, struct timespec *now)
{
    lk_sim_pause();
    const int64_t ns = lk_sim_local(lk_sim_here(), lk_sim_now());
    *now = (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    if (clock == CLOCK_REALTIME)
        now->tv_sec += UNIX_SECONDS;
    return 0;
}

int lk_sim_gettimeofday(struct timeval *now, void *zone)
{
    struct timespec at;
    (void)zone;
    (void)lk_sim_clock_gettime(CLOCK_REALTIME, &at);
    *now = (struct timeval){.tv_sec = at.tv_sec, .tv_usec = at.tv_nsec / 1000};
    return 0;
}

time_t lk_sim_time(time_t *now)
{
    struct timespec at;
    (void)lk_sim_clock_gettime(CLOCK_REALTIME, &at);
    if (now != NULL)
        *now = at.tv_sec;
    return at.tv_sec;
}

pid_t lk_sim_getpid(void)
{
    return lk_sim_here()->pid;
}

int lk_sim_gethostname(char *name, size_t size)
{
    (void)snprintf(name, size, "%s", lk_sim_here()->host);
    return 0;
}

/* ------------------------------------------------------------------ the program and its user ---- */

/* The same in each run, or the machine on which it runs would shape it. */

char *lk_sim_program_invocation_short_name = (char[]){"simulated"};

char *lk_sim_secure_getenv(const char *name)
{
    (void)name;
    return NULL;
}

unsigned long lk_sim_getauxval(unsigned long type)
{
    (void)type;
    return 0;
}

uid_t lk_sim_getuid(void)
{
    return USER;
}

uid_t lk_sim_geteuid(void)
{
    return USER;
}

gid_t lk_sim_getgid(void)
{
    return USER;
}

gid_t lk_sim_getegid(void)
{
    return USER;
}

char *lk_sim_getlogin(void)
{
    return NULL;
}

int lk_sim_getpwuid_r(uid_t user, struct passwd *entry, char *bytes, size_t size, struct passwd **found)
{
    (void)user, (void)entry, (void)bytes, (void)size;
    *found = NULL;
    return 0;
}

char *lk_sim_getcwd(char *path, size_t size)
{
    (void)snprintf(path, size, "/");
    return path;
}

int lk_sim_uname(struct utsname *names)
{
    memset(names, 0, sizeof *names);
    (void)lk_sim_gethostname(names->nodename, sizeof names->nodename);
    return 0;
}

struct tm *lk_sim_localtime_r(const time_t *at, struct tm *broken)
{
    return gmtime_r(at, broken);
}

/* ------------------------------------------------------------------ chance ---- */

ssize_t lk_sim_getrandom(void *bytes, size_t count, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)lk_sim_draw(256);
    return (ssize_t)count;
}

/* These have one generator in a process, which is the run's here. */
void lk_sim_srandom(unsigned seed)
{
    (void)seed;
}

void lk_sim_srand48(long seed)
{
    (void)seed;
}

long lk_sim_random(void)
{
    return (long)lk_sim_draw(UINT64_C(1) << 31);
}

double lk_sim_drand48(void)
{
    return (double)lk_sim_draw(UINT64_C(1) << 48) / (double)(UINT64_C(1) << 48);
}

static uint32_t random_ready(void *self)
{
    (void)self;
    return EPOLLIN;
}

static ssize_t random_read(void *self, void *bytes, size_t count)
{
    (void)self;
    return lk_sim_getrandom(bytes, count, 0);
}

/* Files of a configuration are the system's. */
int lk_sim_open(const char *path, int flags, ...)
{
    static const lk_sim_file_ops random_ops = {random_ready, random_read, NULL, NULL};
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return strcmp(path, "/dev/urandom") == 0 ? lk_sim_file_new(&random_ops, NULL) : open(path, flags, mode);
}

int lk_sim_sched_yield(void)
{
    lk_sim_pause();
    return 0;
}

/* A futex of one process, without a time-out: who is woken looks for itself whether it was meant, so the bits need not be
 * looked at. */
long lk_sim_syscall(long number, ...)
{
    va_list arguments;
    va_start(arguments, number);
    const uint32_t *const word = va_arg(arguments, const uint32_t *);
    const int operation = va_arg(arguments, int) & FUTEX_CMD_MASK;
    const uint32_t value = va_arg(arguments, uint32_t);
    const void *const timeout = va_arg(arguments, const void *);
    va_end(arguments);
    lk_sim_pause();
    if (number != SYS_futex)
        lk_sim_fail("system call %ld is not simulated", number);
    if (operation == FUTEX_WAKE_BITSET) {
        if (value != INT_MAX)
            lk_sim_fail("a futex that wakes %" PRIu32 " is not simulated, only one that wakes all", value);
        lk_sim_wake_all(word);
        return 0;
    }
    if (operation != FUTEX_WAIT_BITSET)
        lk_sim_fail("operation %d of a futex is not simulated", operation);
    if (timeout != NULL)
        lk_sim_fail("a futex with a time-out is not simulated");
    if (*word != value) {
        errno = EAGAIN;
        return -1;
    }
    (void)lk_sim_wait(word, INT64_MAX);
    return 0;
}
