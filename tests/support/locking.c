/* locking.c: a lock call on a thread of its own; see locking.h. */
#include "locking.h"

#include <string.h>
#include <time.h>

static void *lock_it(void *argument)
{
    struct lk_locking *locking = argument;

    locking->began_ms = lk_test_now_ms();
    locking->status = locker_lock(locking->l, locking->key, &locking->options, &locking->held, &locking->err);
    locking->ended_ms = lk_test_now_ms();
    return NULL;
}

void lk_locking_start(struct lk_locking *locking, locker *l, const char *key,
                      const locker_lock_options *options)
{
    const locker_lock_options patient = LOCKER_LOCK_OPTIONS_INIT;
    int failed;

    memset(locking, 0, sizeof *locking);
    locking->l = l;
    locking->key = key;
    locking->options = options != NULL ? *options : patient;
    failed = pthread_create(&locking->thread, NULL, lock_it, locking);
    if (failed != 0)
        test_fails("can't start a thread: %s", strerror(failed));
}

void lk_join(pthread_t thread, const char *what)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LK_TEST_PATIENCE_MS / 1000;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0)
        test_fails("waited %d s in vain for the end of a thread: %s", LK_TEST_PATIENCE_MS / 1000, what);
}

locker_status lk_locking_join(struct lk_locking *locking)
{
    lk_join(locking->thread, locking->key);
    return locking->status;
}
