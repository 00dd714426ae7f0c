/* gate.h: gates between the threads of a test. A gate counts passes: one side opens it, the other takes a
 * pass and waits for it if there is none, for a bounded time. */
#pragma once

#include <stdbool.h>

#include "lk_mutex.h"

typedef struct {
    lk_mutex mutex;
    pthread_cond_t cond;
    unsigned passes LK_GUARDED_BY(mutex); /* free passes */
} lk_gate;

void lk_gate_init(lk_gate *gate);
void lk_gate_destroy(lk_gate *gate);

/** Adds `count` passes. Any thread. */
void lk_gate_open(lk_gate *gate, unsigned count);

/** Takes one pass; false when none came within LK_TEST_PATIENCE_MS. For worker threads. */
bool lk_gate_pass(lk_gate *gate);

/** Takes `count` passes; fails the test with `what` when they didn't come. For the test's thread. */
void lk_gate_await(lk_gate *gate, unsigned count, const char *what);
