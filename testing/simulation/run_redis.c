/* run_redis.c: a simulation with Redis, and the faults that it has. See run.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "application.h"
#include "judge.h"
#include "redis_service.h"
#include "run.h"
#include "world/files.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

enum { GRANTS_LEAST = 200, FAULTS_LEAST = 20, KEYS_MOST = 3, PROCESSES_FIRST = 4 };

static struct {
    lk_sim_application application;
    lk_sim_redis redis;
    unsigned faults; /* that were made */
    bool forgets;    /* the service may lose its data */
    bool is_done;
    lk_sim_result *result;
} run;

/* ------------------------------------------------------------------ faults ---- */

/* How long a fault lasts. Most are short beside a lease, some are longer. */
static int64_t drawn_span(void)
{
    return lk_sim_draw(4) > 0 ? (int64_t)lk_sim_draw(200 * MS) : (int64_t)lk_sim_draw(3000 * MS);
}

static void heal_after(void (*heal)(void *context), void *context, const char *what)
{
    const int64_t span = drawn_span();
    lk_sim_tell("fault: %s for %lld ms", what, (long long)(span / MS));
    lk_sim_at(lk_sim_now() + span, heal, context);
}

static void goes_on(void *context)
{
    lk_sim_process *const process = context;
    lk_sim_tell("process %d goes on", process->pid);
    process->stopped = false;
}

/* Each answers whether it was made: not what is so already. */

static bool stop_process(lk_sim_process *process)
{
    if (process->stopped)
        return false;
    process->stopped = true;
    heal_after(goes_on, process, "a process stands still");
    return true;
}

static bool kill_process(lk_sim_process *process)
{
    if (run.application.process_count + 2 >= LK_SIM_PROCESSES_MAX)
        return false;
    lk_sim_tell("fault: process %d is killed", process->pid);
    lk_sim_application_kill(&run.application, process);
    (void)lk_sim_application_start(&run.application);
    return true;
}

static void unclog(void *context)
{
    lk_sim_way *const way = context;
    way->clogged_to = way->clogged_from = false;
    way->jitter_ns = 100000;
    lk_sim_network_goes_on();
}

static bool clog_way(lk_sim_process *process)
{
    lk_sim_way *const way = lk_sim_way_of(process, &run.redis.service);
    const uint64_t which = lk_sim_draw(4);
    if (way->clogged_to || way->clogged_from)
        return false;
    way->clogged_to = which != 1;
    way->clogged_from = which != 2;
    if (which == 3) {
        way->clogged_to = way->clogged_from = false;
        way->jitter_ns = 100 * MS;
    }
    heal_after(unclog, way,
               which == 3   ? "a slow way"
               : which == 0 ? "a clogged way"
                            : "a way clogged in one direction");
    return true;
}

static void speaks(void *context)
{
    (void)context;
    run.redis.service.silent = false;
    lk_sim_network_goes_on();
}

static void is_back(void *context)
{
    (void)context;
    run.redis.service.refuses = false;
}

static void memory_is_back(void *context)
{
    (void)context;
    lk_sr_set_memory(run.redis.server, 0);
}

static bool service_fault(uint64_t which)
{
    lk_sim_service *const service = &run.redis.service;
    if ((which == 0 && service->silent) || (which == 2 && service->refuses) || (which == 4 && !run.forgets))
        return false;
    switch (which) {
    case 0:
        service->silent = true;
        heal_after(speaks, NULL, "the server stands still");
        break;
    case 1:
        lk_sim_tell("fault: the server starts again");
        lk_sim_redis_restart(&run.redis, true);
        break;
    case 2:
        lk_sim_redis_restart(&run.redis, true);
        service->refuses = true;
        heal_after(is_back, NULL, "the server is away");
        break;
    case 3:
        lk_sim_redis_advance(&run.redis);
        lk_sr_set_memory(run.redis.server, 1);
        heal_after(memory_is_back, NULL, "the server has no memory");
        break;
    default:
        lk_sim_tell("fault: the server forgets");
        lk_sim_judge_forgets();
        if (lk_sim_draw(2) == 0)
            lk_sim_redis_restart(&run.redis, false);
        else
            lk_sim_redis_flush(&run.redis);
    }
    return true;
}

static bool reset(const lk_sim_process *process)
{
    lk_sim_tell("fault: connections of process %d are reset", process->pid);
    lk_sim_network_reset(process, NULL);
    return true;
}

static bool make_fault(lk_sim_process *process)
{
    switch (lk_sim_draw(8)) {
    case 0:
    case 1:
        return stop_process(process);
    case 2:
        return kill_process(process);
    case 3:
    case 4:
        return clog_way(process);
    case 5:
        return reset(process);
    default:
        return service_fault(lk_sim_draw(5));
    }
}

static void fault_comes(void *context)
{
    lk_sim_process *const process = lk_sim_application_draw(&run.application);
    (void)context;
    if (run.application.ends || process == NULL)
        return;
    run.faults += make_fault(process);
    lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw(500 * MS), fault_comes, NULL);
}

/* ------------------------------------------------------------------ from the beginning to the end ---- */

static bool is_done(void *context)
{
    (void)context;
    if (!run.application.ends && lk_sim_judge_grants() >= GRANTS_LEAST && run.faults >= FAULTS_LEAST) {
        run.application.ends = true;
        lk_sim_application_check(&run.application, &run.is_done);
    }
    return run.is_done;
}

static void judge(void *context)
{
    (void)context;
    lk_sim_judge_look();
}

static void tell_result(const char *why)
{
    lk_sim_result *const result = run.result;
    result->steps = lk_sim_steps();
    result->simulated_ns = lk_sim_now();
    result->grants = lk_sim_judge_grants();
    result->faults = run.faults;
    if (why != NULL)
        (void)snprintf(result->failure, sizeof result->failure, "%s", why);
}

void (*lk_sim_run_failed)(void);

static void failed(const char *why)
{
    tell_result(why);
    lk_sim_run_failed();
}

void lk_sim_run_redis(uint64_t seed, FILE *trace, lk_sim_result *result)
{
    memset(&run, 0, sizeof run);
    run.result = result;
    lk_sim_on_fail = failed;
    lk_sim_begin(seed, trace);
    lk_sim_network_begin();
    lk_sim_judge_begin();
    lk_sim_redis_begin(&run.redis, "redis.example", seed);
    run.forgets = lk_sim_draw(5) == 0;
    run.application =
        (lk_sim_application){.uri = "redis://redis.example/?command_timeout=1s&connect_timeout=1s",
                             .keys = 1 + (unsigned)lk_sim_draw(KEYS_MOST)};
    lk_sim_stand_in(&run.redis.machine);
    for (unsigned i = 2 + (unsigned)lk_sim_draw(PROCESSES_FIRST - 1); i > 0; i--)
        (void)lk_sim_application_start(&run.application);
    lk_sim_at(50 * MS, fault_comes, NULL);
    switch (lk_sim_run(is_done, judge, NULL, 600000 * MS)) {
    case LK_SIM_DONE:
        tell_result(NULL);
        break;
    case LK_SIM_LATE:
        tell_result("it did not come to its end in 600 simulated seconds");
        break;
    case LK_SIM_STUCK:
        tell_result("nobody can go on, and nothing is to come");
    }
    lk_sim_files_end();
    lk_sim_network_end();
    lk_sim_redis_end(&run.redis);
    lk_sim_end();
}
