/* latency_probe.c: how late the machine is. A thread takes and gives a lock of its own, again and again;
 * the longest time without an answer says for how long a renewal may have had to wait, too. See kit.h. */
#include "kit.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { EVERY_MS = 20 };

struct lk_probe {
    locker *l;
    int64_t longest_ms; /* the thread's until it has ended */
    atomic_bool ends;
    pthread_t thread;
};

static void *beat(void *argument)
{
    lk_probe *probe = argument;
    int64_t last = lk_test_now_ms();
    while (!atomic_load(&probe->ends)) {
        locker_handle *held = NULL;
        const bool answered = locker_try_lock(probe->l, "probe", NULL, &held, NULL) == LOCKER_OK &&
                              locker_unlock(held, NULL) == LOCKER_OK;
        const int64_t now = lk_test_now_ms();

        locker_handle_free(held);
        if (now - last > probe->longest_ms)
            probe->longest_ms = now - last;
        if (answered)
            last = now;
        poll(NULL, 0, EVERY_MS);
    }
    return NULL;
}

lk_probe *lk_probe_start(lk_fixture *fixture)
{
    lk_probe *probe = calloc(1, sizeof *probe);
    assert_non_null(probe);
    probe->l = lk_open_locker(fixture, "");
    assert_int_equal(pthread_create(&probe->thread, NULL, beat, probe), 0);
    return probe;
}

int64_t lk_probe_stop(lk_probe *probe)
{
    atomic_store(&probe->ends, true);
    assert_int_equal(pthread_join(probe->thread, NULL), 0);
    const int64_t longest_ms = probe->longest_ms;
    lk_close_locker(probe->l);
    free(probe);
    return longest_ms;
}
