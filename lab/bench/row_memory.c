/* row_memory.c: the memory driver, beside a table of named locks made of one mutex and condition variables.
 * The table does the same for its caller: it finds the lock by its name, makes it when there is none and
 * drops it after its last user, waits while another holds it, and gives out a handle from the heap. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { BUCKETS = 64, THREADS = 8, BATCH = 1000 };

/* ------------------------------------------------------------------ the bare table ---- */

typedef struct named {
    struct named *chain;
    pthread_cond_t free;
    unsigned users; /* holder and waiters */
    bool held;
    char name[];
} named;

typedef struct {
    named *lock;
} named_handle;

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the table and its locks */
static named *table[BUCKETS];

static named **bucket_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return &table[hash % BUCKETS];
}

static named *find_or_make_locked(const char *name)
{
    named **bucket = bucket_of(name), *n = *bucket;
    while (n != NULL && strcmp(n->name, name) != 0)
        n = n->chain;
    if (n != NULL)
        return n;
    n = calloc(1, sizeof *n + strlen(name) + 1);
    if (n == NULL)
        return NULL;
    (void)strcpy(n->name, name);
    pthread_cond_init(&n->free, NULL);
    n->chain = *bucket;
    *bucket = n;
    return n;
}

static named_handle *table_lock(const char *name)
{
    named_handle *handle = malloc(sizeof *handle);
    named *n = NULL;
    if (handle == NULL)
        return NULL;
    pthread_mutex_lock(&table_mutex);
    n = find_or_make_locked(name);
    if (n != NULL) {
        n->users++;
        while (n->held)
            pthread_cond_wait(&n->free, &table_mutex);
        n->held = true;
    }
    pthread_mutex_unlock(&table_mutex);
    if (n == NULL)
        free(handle);
    else
        handle->lock = n;
    return n == NULL ? NULL : handle;
}

static void table_unlock(named_handle *handle)
{
    named *n = handle->lock;
    pthread_mutex_lock(&table_mutex);
    n->held = false;
    if (--n->users > 0) {
        pthread_cond_signal(&n->free);
    } else {
        named **link = bucket_of(n->name);
        while (*link != n)
            link = &(*link)->chain;
        *link = n->chain;
        pthread_cond_destroy(&n->free);
        free(n);
    }
    pthread_mutex_unlock(&table_mutex);
    free(handle);
}

/* ------------------------------------------------------------------ the work ---- */

static void cycle(lk_bench *b, locker *l, const char *key)
{
    if (l != NULL) {
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
        return;
    }
    named_handle *handle = table_lock(key);
    if (handle == NULL)
        lk_bench_crew_fail(b, "out of memory");
    table_unlock(handle);
}

static void idle_thread(lk_bench *b, size_t index, void *arg)
{
    (void)index;
    (void)arg;
    lk_bench_crew_wait_halt(b);
}

/* Times of batches: a clock costs a part of what is measured here. The bare side has a second thread too,
 * asleep: the heap is dearer in a process with threads, and locks are of no use in one without. */
static void alone(lk_bench *b, bool ours, int64_t batches)
{
    locker *l = ours ? lk_open_or_fail(b, "memory:") : NULL;
    lk_threads *idle = ours ? NULL : lk_threads_start(b, 1, idle_thread, NULL);
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < batches; i++) {
        const int64_t from = lk_bench_now();

        for (int n = 0; n < BATCH; n++)
            cycle(b, l, "bench/memory");
        lk_bench_crew_sample(b, (lk_bench_now() - from) / BATCH);
    }
    if (idle != NULL) {
        (void)sem_post(&b->crew->halt);
        lk_threads_join(idle);
    }
    (void)locker_close(l);
}

static void alone_bare(lk_bench *b, int member, const void *arg)
{
    (void)member;
    alone(b, false, *(const int64_t *)arg);
}

static void alone_ours(lk_bench *b, int member, const void *arg)
{
    (void)member;
    alone(b, true, *(const int64_t *)arg);
}

static void crowd_thread(lk_bench *b, size_t index, void *arg)
{
    uint64_t cycles = 0;
    while (!lk_bench_crew_stopped(b)) {
        cycle(b, arg, "bench/memory");
        cycles++;
    }
    b->crew->count[index] = cycles;
}

static void crowd(lk_bench *b, bool ours)
{
    locker *l = ours ? lk_open_or_fail(b, "memory:") : NULL;
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, THREADS, crowd_thread, l));
    (void)locker_close(l);
}

static void crowd_bare(lk_bench *b, int member, const void *arg)
{
    (void)member;
    (void)arg;
    crowd(b, false);
}

static void crowd_ours(lk_bench *b, int member, const void *arg)
{
    (void)member;
    (void)arg;
    crowd(b, true);
}

/* ------------------------------------------------------------------ the row ---- */

bool lk_row_memory(lk_bench *b)
{
    static const lk_bench_figure
        ratio = {"memory", "lock + unlock, free", "us", "mutex, cond, table", LK_GOAL_RATIO_AT_MOST, 3},
        time = {"memory", "... in us", "us", NULL, LK_GOAL_AT_MOST, 1},
        rate = {"memory", "8 threads on one key", "/s", "the same, not FIFO", LK_GOAL_NONE, 0},
        fair = {"memory", "... fairness over the threads", "Jain", "the same", LK_GOAL_NONE, 0};
    lk_series p50[2] = {0}, turns[2] = {0}, fairness[2] = {0};
    int64_t batches = lk_scale(b, 2000);
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            lk_work one = {.members = 1,
                           .cpu = b->client_cpu,
                           .body = ours != 0 ? alone_ours : alone_bare,
                           .arg = &batches};
            lk_work many = {.members = 1,
                            .duration = lk_scale(b, 500) * LK_BENCH_MS,
                            .cpu = -1,
                            .body = ours != 0 ? crowd_ours : crowd_bare};

            if (!lk_bench_crew_run(b, &one))
                return false;
            lk_series_add(&p50[ours], lk_bench_crew_quantile_us(b, 0.5));
            if (!lk_bench_crew_run(b, &many))
                return false;
            lk_series_add(&turns[ours],
                          (double)lk_bench_crew_total(b, THREADS) / b->crew->value[LK_VALUE_SECONDS]);
            lk_series_add(&fairness[ours], lk_bench_crew_fairness(b, THREADS));
        }
    }
    lk_bench_report(b, &ratio, &p50[0], &p50[1]);
    lk_bench_report(b, &time, NULL, &p50[1]);
    lk_bench_report(b, &rate, &turns[0], &turns[1]);
    lk_bench_report(b, &fair, &fairness[0], &fairness[1]);
    return true;
}
