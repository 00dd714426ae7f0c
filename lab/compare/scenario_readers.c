/* scenario_readers.c: readers who share a key, and a writer who wants it alone: a reader is killed while the
 * writer waits, and then all lock without a pause. */
#include <stdio.h>
#include <stdlib.h>

#include "scenario.h"

enum { READERS = 4, HOLD_US = 10000, BEYOND_MS = 100 };

typedef struct {
    lk_worker *reader[READERS], *writer;
} crew;

static bool in_order(const lk_cell *cell)
{
    return cell->backend->column->semantics.shared == LOCKER_ORDER_ARRIVAL;
}

static void promise(lk_cell *cell)
{
    lk_promise(
        cell,
        "A writer is the only holder. A writer that waits is served%s. A killed reader's share is free %s.",
        in_order(cell) ? " before readers that come later" : "",
        cell->backend->column->semantics.leases ? "when its lease ends, even if others read" : "at once");
}

static crew hire(lk_cell *cell)
{
    crew c = {.writer = lk_hire(cell, "writer")};
    char name[16];
    for (int i = 0; i < READERS; i++) {
        snprintf(name, sizeof name, "reader-%d", i + 1);
        c.reader[i] = lk_hire(cell, name);
        lk_ask_shared(c.reader[i]);
    }
    return c;
}

/* Where arrival counts, a third reader stands behind the writer. */
static void serve(lk_cell *cell, const crew *c, int64_t killed, const lk_answer *held)
{
    const lk_answer written = lk_hear(c->writer);
    lk_ask(c->writer, "unlock");
    if (in_order(cell)) {
        const lk_answer late = lk_hear(c->reader[2]);

        if (late.received < written.received)
            lk_broken(cell, "a reader overtook a writer that was already waiting");
        lk_ask(c->reader[2], "unlock");
    }
    const double gap = (double)(written.received - killed) / 1e6;
    if (lk_failed(cell))
        return;
    lk_measure(cell, "gap", "ms", gap);
    if (written.status != LOCKER_OK)
        lk_broken(cell, "the writer did not get the lock: %s", written.text);
    else if (gap > (double)lk_free_ms(cell, held))
        lk_broken(cell,
                  "the writer had the lock only %.0f ms after the kill, but the killed reader's lease "
                  "is %lld ms",
                  gap, (long long)lk_lease_ms(cell, held));
}

/* A reader that comes behind the writer, who waits. Where it gets in, nobody is killed: all give the lock back. */
static bool passes(lk_cell *cell, const crew *c)
{
    const lk_answer late = lk_ask(c->reader[2], "try %s 0 1", cell->key);
    if (late.status != LOCKER_OK)
        return false;
    lk_broken(cell, "a reader got the lock although a writer was already waiting");
    for (int i = 0; i < 3; i++)
        lk_ask(c->reader[i], "unlock");
    lk_hear(c->writer);
    lk_ask(c->writer, "unlock");
    return true;
}

/* The second reader lives on and renews for as long as the dead one's lease is, which must not keep that one's
 * share alive. */
static void kill_one(lk_cell *cell, const crew *c)
{
    const lk_answer held = lk_compare_take(c->reader[0]);
    lk_compare_take(c->reader[1]);
    lk_stand_in_line(c->writer);
    if (in_order(cell) && passes(cell, c))
        return;
    if (in_order(cell))
        lk_stand_in_line(c->reader[2]);
    lk_compare_fault(cell, true, "kill", c->reader[0]->name);
    const int64_t killed = lk_kill(c->reader[0]);
    lk_rest(cell, lk_lease_ms(cell, &held));
    lk_ask(c->reader[1], "unlock");
    serve(cell, c, killed, &held);
    lk_compare_fault(cell, false, "kill", c->reader[0]->name);
}

static void read_on(lk_cell *cell)
{
    const lk_pace pace = {.for_ms = cell->quick ? 300 : 2000,
                          .count = 10000,
                          .hold_us = HOLD_US,
                          .told = 10000,
                          .watched = true};
    const lk_cycles all = lk_cycle_all(cell, &pace);
    const double waited = lk_cycles_longest_wait(&all, false), held = lk_cycles_longest_hold(&all, true),
                 stood = lk_cycles_longest_lull(&all);
    if (!lk_failed(cell)) {
        lk_measure(cell, "at once", "", (double)lk_cycles_at_once(&all, true));
        lk_measure(cell, "writer", "ms", waited);
        /* A service that stood still served nobody; readers who wait behind the writer as long as it does excuse nothing. */
        if (waited > 2 * held + BEYOND_MS + stood)
            lk_broken(cell,
                      "the writer waited %.0f ms, but no reader held the lock for longer than %.0f ms, and "
                      "the service made no grant for %.0f ms at most",
                      waited, held, stood);
    }
    free(all.turns);
}

static void run(lk_cell *cell)
{
    promise(cell);
    const crew c = hire(cell);
    lk_observe(cell, cell->backend->uri, -1);
    kill_one(cell, &c);
    read_on(cell);
}

static void conclude(lk_result *result)
{
    const lk_measured *gap = lk_measured_of(result, "gap"), *writer = lk_measured_of(result, "writer");
    char free_after[24], waited[24], most[32];
    lk_figure(result,
              "the writer has the lock %s after a reader's death; %s readers at once, the writer "
              "waited %s at most",
              lk_ms_words(lk_measured_quantile(gap, 1), free_after, sizeof free_after),
              lk_range_words(result, "at once", most, sizeof most),
              lk_ms_words(lk_measured_quantile(writer, 1), waited, sizeof waited));
}

const lk_scenario lk_scenario_readers = {
    .name = "readers",
    .title = "Readers, and a writer",
    .question = "Two readers share a lock, a writer waits, and a reader is killed. When does the writer have "
                "the lock? Then three readers and the writer lock without a pause. How long does the writer "
                "wait at most?",
    .needs = LK_CAN_BE_SHARED | LK_CAN_READ,
    .run = run,
    .conclude = conclude,
};
