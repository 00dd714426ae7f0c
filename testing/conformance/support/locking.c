/* locking.c: a lock call on a thread of its own; see locking.h. */
#include "locking.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct lk_locking_call {
    locker *l;
    char *key;
    locker_lock_options options;
    atomic_int tid;    /* of its thread; 0: that has not begun */
    lk_locking result; /* set by the thread */
};

static void *lock_it(void *argument)
{
    lk_locking_call *call = argument;
    lk_locking *result = &call->result;
    atomic_store(&call->tid, (int)syscall(SYS_gettid));
    result->began_ms = lk_test_now_ms();
    result->status = locker_lock(call->l, call->key, &call->options, &result->held, &result->err);
    result->ended_ms = lk_test_now_ms();
    return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    const int failed = pthread_create(thread, NULL, run, argument);
    if (failed != 0)
        test_fails("can't start a thread: %s", strerror(failed));
}

void lk_locking_start(lk_locking *locking, locker *l, const char *key, const locker_lock_options *options)
{
    const locker_lock_options patient = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking_call *call = calloc(1, sizeof *call);
    if (call == NULL || (call->key = strdup(key)) == NULL)
        test_fails("out of memory (%s)", "a call");
    call->l = l;
    call->options = options != NULL ? *options : patient;
    *locking = (lk_locking){.call = call};
    start(&locking->thread, lock_it, call);
}

/* Return how often the thread has gone to sleep if it sleeps now; -1: it runs, or waits for a processor. */
static long sleep_of(const lk_locking_call *call)
{
    char path[64], text[128];
    long sleeps = -1;
    bool is_asleep = false;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", atomic_load(&call->tid));
    FILE *const status = fopen(path, "re");
    if (status == NULL)
        return -1;
    while (fgets(text, sizeof text, status) != NULL) {
        is_asleep = is_asleep || strncmp(text, "State:\tS", 8) == 0;
        (void)sscanf(text, "voluntary_ctxt_switches: %ld", &sleeps);
    }
    fclose(status);
    return is_asleep ? sleeps : -1;
}

/* Whether the thread sleeps in one and the same wait for some ms. A wait for a mutex is shorter. */
static bool is_at_rest(void *context)
{
    enum { REST_MS = 5 };
    const lk_locking_call *const call = context;
    const long sleep = sleep_of(call);
    if (sleep < 0)
        return false;
    poll(NULL, 0, REST_MS);
    return sleep_of(call) == sleep;
}

void lk_locking_await_rest(const lk_locking *locking)
{
    lk_require(is_at_rest, locking->call, "the call should wait");
}

/* Whether it ended within LK_TEST_PATIENCE_MS. */
static bool join(pthread_t thread)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LK_TEST_PATIENCE_MS / 1000;
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

void lk_join(pthread_t thread, const char *what)
{
    if (!join(thread))
        test_fails("a thread did not end within %d s: %s", LK_TEST_PATIENCE_MS / 1000, what);
}

void lk_join_worker(pthread_t thread, const atomic_uint *done, const char *what)
{
    for (unsigned before = atomic_load(done); !join(thread);) {
        const unsigned now = atomic_load(done);
        if (now == before)
            test_fails("no thread made progress for %d s: %s", LK_TEST_PATIENCE_MS / 1000, what);
        before = now;
    }
}

locker_status lk_locking_join(lk_locking *locking)
{
    lk_locking_call *call = locking->call;
    lk_join(locking->thread, call->key);
    *locking = call->result; /* whose own call is NULL */
    free(call->key);
    free(call);
    return locking->status;
}

locker_handle *lk_locking_grant(lk_locking *locking)
{
    assert_status(LOCKER_OK, lk_locking_join(locking), locking->err);
    return locking->held;
}

struct lk_unlocking_call {
    locker_handle *held;
    locker_status status;
    locker_error err;
};

static void *unlock_it(void *argument)
{
    lk_unlocking_call *call = argument;
    call->status = locker_unlock(call->held, &call->err);
    return NULL;
}

void lk_unlocking_start(lk_unlocking *unlocking, locker_handle *held)
{
    lk_unlocking_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        test_fails("out of memory (%s)", "a call");
    call->held = held;
    *unlocking = (lk_unlocking){.call = call};
    start(&unlocking->thread, unlock_it, call);
}

locker_status lk_unlocking_join(lk_unlocking *unlocking)
{
    lk_join(unlocking->thread, "the unlock should end");
    unlocking->status = unlocking->call->status;
    unlocking->err = unlocking->call->err;
    free(unlocking->call);
    return unlocking->status;
}
