/*
 * pulse.c: how late the machine is. A thread takes and gives a lock of its own, again and again; the longest
 * time without an answer says for how long a renewal may have had to wait, too. See kit.h.
 */
#include "kit.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { EVERY_MS = 20 };

struct lk_pulse {
    locker *l;
    int64_t longest_ms; /* the thread's until it has ended */
    atomic_bool ends;
    pthread_t thread;
};

static void *beat(void *argument)
{
    struct lk_pulse *pulse = argument;
    int64_t last = lk_test_now_ms();

    while (!atomic_load(&pulse->ends)) {
        locker_handle *held = NULL;
        const bool answered = locker_try_lock(pulse->l, "pulse", NULL, &held, NULL) == LOCKER_OK &&
                              locker_unlock(held, NULL) == LOCKER_OK;
        const int64_t now = lk_test_now_ms();

        locker_handle_free(held);
        if (now - last > pulse->longest_ms)
            pulse->longest_ms = now - last;
        if (answered)
            last = now;
        poll(NULL, 0, EVERY_MS);
    }
    return NULL;
}

struct lk_pulse *lk_pulse_start(struct lk_fixture *fixture)
{
    struct lk_pulse *pulse = calloc(1, sizeof *pulse);

    assert_non_null(pulse);
    pulse->l = lk_open_locker(fixture, "");
    assert_int_equal(pthread_create(&pulse->thread, NULL, beat, pulse), 0);
    return pulse;
}

int64_t lk_pulse_stop(struct lk_pulse *pulse)
{
    int64_t longest_ms;

    atomic_store(&pulse->ends, true);
    assert_int_equal(pthread_join(pulse->thread, NULL), 0);
    longest_ms = pulse->longest_ms;
    lk_close_locker(pulse->l);
    free(pulse);
    return longest_ms;
}
