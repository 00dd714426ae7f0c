/* scenario_counter.c: five workers raise one number: those who only try, and those who wait. */
#include <stdio.h>

#include "scenario.h"
#include "store.h"

enum { WORKERS = 5, WORK_MS = 60 };

/* All at once do the job by `verb`; how many got in is answered, and what the counter says. */
static void all_count(lk_cell *cell, lk_worker *const workers[WORKERS], const char *verb,
                      const char *got_name, const char *counter_name)
{
    char path[320];
    long got = 0, number;
    snprintf(path, sizeof path, "%s.%s", cell->history, verb);
    for (int i = 0; i < WORKERS; i++)
        lk_tell(workers[i], "job %s %s %s %d", verb, cell->key, path, WORK_MS);
    for (int i = 0; i < WORKERS; i++)
        got += lk_hear(workers[i]).status == LOCKER_OK;
    number = lk_store_number(path);
    lk_measure(cell, got_name, "", (double)got);
    lk_measure(cell, counter_name, "", (double)number);
    if (number != got)
        lk_broken(cell, "%ld workers got the lock by '%s', but the counter is %ld", got, verb, number);
    if (verb[0] == 'l' && got != WORKERS)
        lk_broken(cell, "only %ld of %d waiting workers got the lock", got, WORKERS);
}

static void run(lk_cell *cell)
{
    lk_promise(cell, "One holder at a time: the counter is the number of workers that got the lock. A worker "
                     "that waits gets the lock. A worker that only tries while the lock is held gets BUSY.");
    lk_worker *workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "worker-%d", i + 1);
        workers[i] = lk_hire(cell, name);
    }
    all_count(cell, workers, "try", "tried in", "counter of those who tried");
    all_count(cell, workers, "lock", "waited in", "counter of those who waited");
}

static void conclude(lk_result *result)
{
    char tried[32], tried_number[32], waited[32], waited_number[32];
    lk_figure(result,
              "trying: %s of %d got the lock, the counter is %s; waiting: %s of %d, the counter is %s",
              lk_range_words(result, "tried in", tried, sizeof tried), WORKERS,
              lk_range_words(result, "counter of those who tried", tried_number, sizeof tried_number),
              lk_range_words(result, "waited in", waited, sizeof waited), WORKERS,
              lk_range_words(result, "counter of those who waited", waited_number, sizeof waited_number));
}

const lk_scenario lk_scenario_counter = {
    .name = "counter",
    .title = "Five workers, one counter",
    .question = "Five processes increment a number in a file, first after a try for the lock, then "
                "after waiting for it. How many got the lock, and what is the number?",
    .needs = LK_CAN_BE_SHARED,
    .run = run,
    .conclude = conclude,
};
