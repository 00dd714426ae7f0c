/* canary.c: a thread that is to wake every few ms; see canary.h. */
#include "canary.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "die.h"
#include "servers/wait.h"

/* Relaxed: numbers that stand for themselves. */
static _Atomic int64_t due;   /* when it is to wake next */
static _Atomic int64_t worst; /* ns */

static void note(int64_t late)
{
    int64_t known = atomic_load_explicit(&worst, memory_order_relaxed);
    while (late > known && !atomic_compare_exchange_weak_explicit(&worst, &known, late, memory_order_relaxed,
                                                                  memory_order_relaxed))
        ;
}

static void *sleep_and_wake(void *unused)
{
    for (;;) {
        const int64_t at = lk_now_ns() + LK_CANARY_MS * INT64_C(1000000);
        const struct timespec when = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};

        atomic_store_explicit(&due, at, memory_order_relaxed);
        while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &when, NULL) == EINTR)
            ;
        note(lk_now_ns() - at);
    }
    return unused;
}

void lk_canary_start(void)
{
    atomic_store_explicit(&due, lk_now_ns(), memory_order_relaxed);
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, sleep_and_wake, NULL);
    if (error != 0)
        lk_die(LK_EXIT_SYSTEM, "cannot start a thread: %s", strerror(error));
    pthread_detach(thread);
}

int64_t lk_canary_worst(void)
{
    note(lk_now_ns() - atomic_load_explicit(&due, memory_order_relaxed));
    return atomic_exchange_explicit(&worst, 0, memory_order_relaxed);
}
