/* threads.c: threads inside a member of a crew, and lock calls whose failure ends the measurement. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* Ten thousand of them have to fit. */
enum { STACK_SIZE = 64 * 1024 };

typedef struct {
    lk_threads *set;
    size_t index;
    pthread_t id;
} thread;

struct lk_threads {
    lk_bench *b;
    void (*body)(lk_bench *b, size_t index, void *arg);
    void *arg;
    size_t count;
    thread each[];
};

static void *begin(void *arg)
{
    thread *t = arg;
    t->set->body(t->set->b, t->index, t->set->arg);
    return NULL;
}

lk_threads *lk_threads_start(lk_bench *b, size_t n, void (*body)(lk_bench *b, size_t index, void *arg),
                             void *arg)
{
    lk_threads *set = calloc(1, sizeof *set + n * sizeof set->each[0]);
    if (set == NULL)
        lk_bench_crew_fail(b, "out of memory");
    *set = (lk_threads){.b = b, .body = body, .arg = arg, .count = n};
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_SIZE);
    for (size_t i = 0; i < n; i++) {
        set->each[i].set = set;
        set->each[i].index = i;
        const int code = pthread_create(&set->each[i].id, &small, begin, &set->each[i]);
        if (code != 0)
            lk_bench_crew_fail(b, "thread %zu of %zu: %s; raise the limit of processes (ulimit -u)", i + 1, n,
                               strerror(code));
    }
    pthread_attr_destroy(&small);
    return set;
}

void lk_threads_join(lk_threads *set)
{
    for (size_t i = 0; i < set->count; i++)
        pthread_join(set->each[i].id, NULL);
    free(set);
}

locker *lk_open_or_fail(lk_bench *b, const char *uri)
{
    locker_error err;
    locker *l;
    if (locker_open(uri, NULL, &l, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_open: %s", err.text);
    return l;
}

locker_handle *lk_lock_or_fail(lk_bench *b, locker *l, const char *key, const locker_lock_options *options)
{
    locker_handle *held;
    locker_error err;
    if (locker_lock(l, key, options, &held, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_lock: %s", err.text);
    return held;
}

void lk_unlock_or_fail(lk_bench *b, locker_handle *held)
{
    locker_error err;
    if (locker_unlock(held, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_unlock: %s", err.text);
    locker_handle_free(held);
}

void lk_until_waiting(lk_bench *b, locker *l, uint64_t count)
{
    locker_statistics stats = {.size = sizeof stats};
    while (locker_stats(l, &stats) == LOCKER_OK && stats.waiting < count) {
        if (lk_bench_crew_stopped(b))
            return;
        lk_bench_sleep(LK_BENCH_MS);
    }
}
