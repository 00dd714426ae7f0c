/* run_redis.c: a run with Redis: how it begins and ends, and the faults that it has. See run.h and faults.h. */
#include <string.h>

#include "faults.h"
#include "judge.h"
#include "redis_service.h"
#include "world/seams.h"

static struct {
    lk_sim_redis redis;
    bool forgets; /* it may lose its data */
} run;

/* ------------------------------------------------------------------ faults ---- */

static void speaks(void *context)
{
    (void)context;
    run.redis.service.silent = false;
    lk_sim_network_goes_on();
}

static bool is_silent(const lk_sim_fault *fault)
{
    if (run.redis.service.silent)
        return false;
    run.redis.service.silent = true;
    lk_sim_fault_lasts(fault, "the server stands still", speaks, NULL);
    return true;
}

static bool starts_again(const lk_sim_fault *fault)
{
    lk_sim_fault_strikes(fault, "the server starts again");
    lk_sim_redis_restart(&run.redis, true);
    return true;
}

static void is_back(void *context)
{
    (void)context;
    run.redis.service.refuses = false;
}

static bool is_away(const lk_sim_fault *fault)
{
    if (run.redis.service.refuses)
        return false;
    lk_sim_redis_restart(&run.redis, true);
    run.redis.service.refuses = true;
    lk_sim_fault_lasts(fault, "the server is away", is_back, NULL);
    return true;
}

static void memory_is_back(void *context)
{
    (void)context;
    lk_sr_set_memory(run.redis.server, 0);
}

static bool has_no_memory(const lk_sim_fault *fault)
{
    lk_sim_redis_advance(&run.redis);
    lk_sr_set_memory(run.redis.server, 1);
    lk_sim_fault_lasts(fault, "the server has no memory", memory_is_back, NULL);
    return true;
}

static bool forgets(const lk_sim_fault *fault)
{
    if (!run.forgets)
        return false;
    lk_sim_fault_strikes(fault, "the server forgets");
    lk_sim_judge_forgets();
    if (fault->detail / 8 % 2 == 0)
        lk_sim_redis_restart(&run.redis, false);
    else
        lk_sim_redis_flush(&run.redis);
    return true;
}

static bool make(const lk_sim_fault *fault)
{
    switch (fault->detail % 5) {
    case 0:
        return is_silent(fault);
    case 1:
        return starts_again(fault);
    case 2:
        return is_away(fault);
    case 3:
        return has_no_memory(fault);
    default:
        return forgets(fault);
    }
}

/* ------------------------------------------------------------------ the service ---- */

static const char *begin(uint64_t *random)
{
    memset(&run, 0, sizeof run);
    run.forgets = lk_sim_draw_from(random, 5) == 0;
    lk_sim_redis_begin(&run.redis, "redis.example", lk_sim_draw_from(random, UINT64_MAX));
    lk_sim_stand_in(&run.redis.machine);
    return "redis://redis.example/?command_timeout=1s&connect_timeout=1s";
}

static void end(void)
{
    lk_sim_redis_end(&run.redis);
}

static lk_sim_service *server(unsigned place)
{
    return place == 0 ? &run.redis.service : NULL;
}

void lk_sim_run_redis(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result)
{
    static const lk_sim_faulty service = {.begin = begin, .end = end, .server = server, .make = make};
    lk_sim_run_with(&service, plan, trace, result);
}
