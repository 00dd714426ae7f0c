/* row_readers_memory.c: readers of one key of the memory driver, beside a pthread_rwlock_t: a count in one cache line, without
 * names, handles, order or a limit to how long a writer waits. */
#include <pthread.h>

#include "bench.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void read_once(lk_bench *b, size_t index, void *arg)
{
    (void)b;
    (void)index;
    (void)arg;
    pthread_rwlock_rdlock(&lock);
    pthread_rwlock_unlock(&lock);
}

static void bare(lk_bench *b, const lk_readers *on, int each, size_t first)
{
    (void)on;
    lk_readers_turns(b, each, first, read_once, NULL);
}

bool lk_row_readers_memory(lk_bench *b)
{
    const lk_readers on = {.row = "mread",
                           .against = "pthread_rwlock_t",
                           .uri = "memory:",
                           .one_process = true,
                           .cpu = -1,
                           .bare = bare};
    return lk_readers_run(b, &on);
}
