/* watchdog.c: the thread that looks whether a test makes progress; see watchdog.h. It opens nothing and allocates nothing after its
 * start: tests count descriptors and memory. */
#include "watchdog.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lk_mutex.h"

/* How often it looks, in ms, and what part of the time counts while the processors are busy. */
enum { LOOK_MS = 500, BUSY_PART = 4 };

/* What all processors have done, in ticks (proc_stat(5)). */
typedef struct {
    unsigned long long idle, all;
} ticks;

static struct {
    lk_mutex mutex;
    pthread_cond_t end_cond; /* of CLOCK_MONOTONIC */
    lk_hang what LK_GUARDED_BY(mutex);
    int64_t waited_ms LK_GUARDED_BY(mutex); /* without progress, as far as it counts */
    bool ends LK_GUARDED_BY(mutex);
    pthread_t thread;
    int proc_stat; /* a descriptor; -1: the system does not tell */
    void (*on_hang)(const lk_hang *hang);
} dog = {.mutex = {PTHREAD_MUTEX_INITIALIZER}, .proc_stat = -1};

/* ------------------------------------------------------------------ time that counts ---- */

/* Zeros: the system does not tell. */
static ticks read_ticks(void)
{
    enum { IDLE = 3, KINDS = 8 };
    char line[256] = "";
    ticks now = {0, 0};
    if (dog.proc_stat < 0 || pread(dog.proc_stat, line, sizeof line - 1, 0) <= 0 ||
        strncmp(line, "cpu ", 4) != 0)
        return now;
    char *at = line + 4;
    for (int i = 0; i < KINDS; i++) {
        const unsigned long long kind = strtoull(at, &at, 10);
        now.all += kind;
        if (i == IDLE)
            now.idle = kind;
    }
    return now;
}

/* Return how much of the time since `before` counts, in ms. The processors were busy if they were idle for less than a quarter. */
static int64_t counted_ms(ticks *before)
{
    const ticks now = read_ticks();
    const bool busy = 4 * (now.idle - before->idle) < now.all - before->all;
    *before = now;
    return busy ? LOOK_MS / BUSY_PART : LOOK_MS;
}

static struct timespec next_look(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_nsec += LOOK_MS * 1000000L;
    time.tv_sec += time.tv_nsec / 1000000000L;
    time.tv_nsec %= 1000000000L;
    return time;
}

/* ------------------------------------------------------------------ the thread ---- */

/* Wait until the next look, unless the end comes first. */
static void rest_locked(void) LK_REQUIRES(dog.mutex)
{
    const struct timespec until = next_look();
    while (!dog.ends && pthread_cond_timedwait(&dog.end_cond, &dog.mutex.plain, &until) == 0)
        continue;
}

static void *watch(void *nothing)
{
    ticks before = read_ticks();
    lk_mutex_lock(&dog.mutex);
    while (!dog.ends) {
        rest_locked();
        dog.waited_ms += counted_ms(&before);
        if (dog.ends || dog.what.group == NULL || dog.waited_ms < dog.what.limit_ms)
            continue;
        const lk_hang hang = dog.what;
        lk_mutex_unlock(&dog.mutex);
        dog.on_hang(&hang);
        return nothing;
    }
    lk_mutex_unlock(&dog.mutex);
    return nothing;
}

/* The test's signals are not for this thread; those of its own faults are. */
static bool start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&dog.thread, NULL, watch, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ------------------------------------------------------------------ what the tests call ---- */

bool lk_watchdog_start(int64_t limit_ms, void (*on_hang)(const lk_hang *hang))
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&dog.end_cond, &attributes);
    pthread_condattr_destroy(&attributes);
    dog.proc_stat = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    dog.on_hang = on_hang;
    lk_mutex_lock(&dog.mutex);
    dog.what = (lk_hang){.limit_ms = limit_ms};
    dog.ends = false;
    lk_mutex_unlock(&dog.mutex);
    return start_thread();
}

void lk_watchdog_end(void)
{
    lk_mutex_lock(&dog.mutex);
    dog.ends = true;
    lk_mutex_unlock(&dog.mutex);
    pthread_cond_signal(&dog.end_cond);
    pthread_join(dog.thread, NULL);
    pthread_cond_destroy(&dog.end_cond);
    if (dog.proc_stat >= 0)
        close(dog.proc_stat);
}

void lk_watchdog_watch(const char *group, const char *test)
{
    lk_mutex_lock(&dog.mutex);
    dog.what.group = group;
    dog.what.test = test;
    dog.what.hook = NULL;
    dog.waited_ms = 0;
    lk_mutex_unlock(&dog.mutex);
}

void lk_watchdog_progress(void)
{
    lk_mutex_lock(&dog.mutex);
    dog.waited_ms = 0;
    lk_mutex_unlock(&dog.mutex);
}

void lk_watchdog_hook(const char *hook)
{
    lk_mutex_lock(&dog.mutex);
    dog.what.hook = hook;
    dog.waited_ms = 0;
    lk_mutex_unlock(&dog.mutex);
}
