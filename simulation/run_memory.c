/* run_memory.c: a run with locks in memory, of core and the model of drivers alone: nothing goes wrong but what the processes do.
 * All of them are one to the driver. See run.h. */
#include <stddef.h>

#include "run.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

static lk_sim_process machine; /* on which alarms ring */

static const char *begin(uint64_t *random, lk_sim_bounds *bounds)
{
    (void)random;
    lk_sim_stand_in(&machine);
    *bounds = (lk_sim_bounds){.idle_ns = 100 * MS,
                              .broken_ns = 100 * MS,
                              .lease_ns = 3200 * MS,
                              .term_ns = 100 * MS,
                              .keeps_count = true,
                              .breaks_prove = true,
                              .has_tokens = true,
                              .has_order = true};
    return "memory:all";
}

static void end(void)
{
}

void lk_sim_run_memory(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result)
{
    static const lk_sim_faulty service = {.is_inside = true, .begin = begin, .end = end};
    lk_sim_run_with(&service, plan, trace, result);
}
