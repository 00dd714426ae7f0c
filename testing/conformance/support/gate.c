/* gate.c: counting gates; see gate.h. */
#include "gate.h"

#include <errno.h>
#include <time.h>

#include "expect.h"

/* Nobody else sees it yet. */
LK_UNCHECKED void lk_gate_init(lk_gate *gate)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&gate->cond, &attributes);
    pthread_condattr_destroy(&attributes);
    lk_mutex_init(&gate->mutex);
    gate->passes = 0;
}

void lk_gate_destroy(lk_gate *gate)
{
    pthread_cond_destroy(&gate->cond);
    lk_mutex_destroy(&gate->mutex);
}

void lk_gate_open(lk_gate *gate, unsigned count)
{
    lk_mutex_lock(&gate->mutex);
    gate->passes += count;
    pthread_cond_broadcast(&gate->cond);
    lk_mutex_unlock(&gate->mutex);
}

static bool take(lk_gate *gate, unsigned count)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LK_TEST_PATIENCE_MS / 1000;
    lk_mutex_lock(&gate->mutex);
    while (gate->passes < count &&
           pthread_cond_timedwait(&gate->cond, &gate->mutex.plain, &until) != ETIMEDOUT) {
    }
    const bool taken = gate->passes >= count;
    if (taken)
        gate->passes -= count;
    lk_mutex_unlock(&gate->mutex);
    return taken;
}

bool lk_gate_pass(lk_gate *gate)
{
    return take(gate, 1);
}

void lk_gate_await(lk_gate *gate, unsigned count, const char *what)
{
    if (!take(gate, count))
        test_fails("timed out after %d s: %s", LK_TEST_PATIENCE_MS / 1000, what);
}
