/* run.c: a run, from the beginning to the end, and the faults of processes and of ways. See run.h. */
#include <stdlib.h>
#include <string.h>

#include "application.h"
#include "run.h"
#include "steps.h"
#include "world/files.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

enum { GRANTS_LEAST = 100, FAULTS_LEAST = 11 /* some wait for what does not come */, KEYS_MOST = 3 };

static const int64_t lease_ns = 3200 * MS; /* the longest */

static struct {
    const lk_sim_faulty *service;
    const lk_sim_plan *plan;
    lk_sim_application application;
    uint64_t random;               /* what faults are drawn from */
    unsigned drawn, made, without; /* faults: that came, were made, were left out */
    int64_t killed_at;             /* when a process was, lately */
    int64_t term_ns, settle_ns;    /* the service's (judge.h) */
    struct {
        const lk_sim_process *of;
        unsigned left;    /* so often is it cut off */
        unsigned answers; /* that get there before */
        int64_t until;    /* then it is over at the latest */
        uint64_t random;
    } cuts;
    bool is_done;
    lk_sim_result *result;
} run;

static uint64_t draw(uint64_t below)
{
    return lk_sim_draw_from(&run.random, below);
}

/* ------------------------------------------------------------------ a fault ---- */

typedef struct {
    void (*heal)(void *context);
    void *context;
} healing;

/* What was killed leaves leases, and hears of what it was handed no more. */
static void settles(void)
{
    lk_sim_judge_trouble(run.settle_ns);
    if (run.killed_at > 0 && lk_sim_now() - run.killed_at < 2 * lease_ns)
        lk_sim_judge_leaves();
}

static void heals(void *context)
{
    healing *const h = context;
    h->heal(h->context);
    settles(); /* the trouble has lasted till now */
    lk_sim_judge_lasts(false);
    free(h);
}

void lk_sim_fault_strikes(const lk_sim_fault *fault, const char *what)
{
    lk_sim_tell("fault %u: %s", fault->number, what);
    settles();
}

void lk_sim_fault_lasts(const lk_sim_fault *fault, const char *what, void (*heal)(void *context),
                        void *context)
{
    healing *const h = lk_sim_alloc(sizeof *h);
    *h = (healing){heal, context};
    lk_sim_tell("fault %u: %s for %lld ms", fault->number, what, (long long)(fault->span_ns / MS));
    lk_sim_judge_lasts(true);
    lk_sim_at(lk_sim_now() + fault->span_ns, heals, h);
}

/* ------------------------------------------------------------------ processes and ways ---- */

/* Each answers whether it was made: not what is so already. */

static void goes_on(void *context)
{
    lk_sim_process *const process = context;
    lk_sim_tell("process %d goes on", process->pid);
    lk_sim_process_go_on(process);
}

static bool stop_process(const lk_sim_fault *fault, lk_sim_process *process)
{
    if (process->stopped)
        return false;
    lk_sim_process_stop(process);
    lk_sim_fault_lasts(fault, "a process stands still", goes_on, process);
    return true;
}

static bool kill_process(const lk_sim_fault *fault, lk_sim_process *process)
{
    if (run.application.process_count + 2 >= LK_SIM_PROCESSES_MAX)
        return false;
    run.killed_at = lk_sim_now();
    lk_sim_fault_strikes(fault, "a process is killed");
    lk_sim_application_kill(&run.application, process);
    return true;
}

static lk_sim_service *server_of(const lk_sim_fault *fault)
{
    unsigned count = 0;
    while (run.service->server(count) != NULL)
        count++;
    return run.service->server((unsigned)(fault->detail / 64 % count));
}

static void unclog(void *context)
{
    lk_sim_way *const way = context;
    way->clogged_to = way->clogged_from = way->is_bad = false;
    way->delay_ns = 50000;
    way->jitter_ns = 100000;
    lk_sim_network_goes_on();
}

/* The other direction is clogged, too; the first one may have been opened meanwhile. */
static void clog_to(void *context)
{
    lk_sim_way *const way = context;
    if (way->is_bad)
        way->clogged_to = true;
}

static void unclog_from(void *context)
{
    lk_sim_way *const way = context;
    way->clogged_from = false;
    lk_sim_network_goes_on();
}

/* Answers come no more, and then they do, but nothing gets through any more: what was asked for in between was done, and is
 * known late. */
static void clog_one_by_one(const lk_sim_fault *fault, lk_sim_way *way)
{
    const int64_t from = fault->span_ns / 1000 * (int64_t)(100 + fault->detail / 64 % 500),
                  to = from / 1000 * (int64_t)(fault->detail / 32000 % 1000);
    way->clogged_from = true;
    lk_sim_at(lk_sim_now() + to, clog_to, way);
    lk_sim_at(lk_sim_now() + from, unclog_from, way);
}

static bool clog_way(const lk_sim_fault *given, const lk_sim_process *process)
{
    enum { BOTH, FROM, TO, ONE_BY_ONE, SLOW, FAR, COUNT };
    static const char *const names[COUNT] = {
        "a clogged way",           "a way clogged from the service",
        "a way clogged to it",     "a way clogged in one direction after the other",
        "a way of unequal delays", "a slow way"};
    lk_sim_way *const way = lk_sim_way_of(process, server_of(given));
    const unsigned which = given->detail % 64 % COUNT;
    lk_sim_fault spread = *given;
    const lk_sim_fault *const fault = &spread;
    if (way->is_bad)
        return false;
    if (which >= ONE_BY_ONE) /* shorter ones change little */
        spread.span_ns = 500 * MS + spread.span_ns % (3000 * MS);
    way->is_bad = true;
    way->clogged_to = which == BOTH || which == TO;
    way->clogged_from = which == BOTH || which == FROM;
    if (which == ONE_BY_ONE)
        clog_one_by_one(fault, way);
    if (which == SLOW)
        way->jitter_ns = 100 * MS;
    if (which == FAR)
        way->delay_ns = (int64_t)(fault->detail / 64 % 400) * MS;
    lk_sim_fault_lasts(fault, names[which], unclog, way);
    return true;
}

/* Also one of a process that was killed meanwhile. */
static void packet_comes(void *context)
{
    (void)context;
    settles();
}

static bool lose_packet(const lk_sim_fault *fault, const lk_sim_process *process)
{
    const bool to_service = fault->detail % 2 == 0;
    if (!lk_sim_network_lose(process, (unsigned)(fault->detail / 2 % 64), to_service, fault->span_ns))
        return false;
    lk_sim_fault_strikes(fault, "a packet is lost");
    lk_sim_judge_trouble(fault->span_ns + run.settle_ns);
    lk_sim_at(lk_sim_now() + fault->span_ns, packet_comes, NULL);
    return true;
}

static bool reset(const lk_sim_fault *fault, const lk_sim_process *process)
{
    lk_sim_fault_strikes(fault, "connections are reset");
    lk_sim_network_reset(process, NULL);
    return true;
}

static void cuts(void *context)
{
    lk_sim_tell("an answer is on its way, and connections are reset");
    lk_sim_network_reset(context, NULL);
    settles();
}

/* What is done after a cut takes some answers. Which of them does not get there any more is drawn, and what is done after
 * that is cut off again: so each step of it is, which by the time alone would be a rare thing. */
static void answers(lk_sim_process *process)
{
    if (run.cuts.left == 0 || process != run.cuts.of || lk_sim_now() > run.cuts.until ||
        run.cuts.answers-- > 0)
        return;
    run.cuts.left--;
    run.cuts.answers = (unsigned)lk_sim_draw_from(&run.cuts.random, 12);
    lk_sim_at(lk_sim_now(), cuts, process);
}

static bool cut_at_answers(const lk_sim_fault *fault, const lk_sim_process *process)
{
    if (run.cuts.left > 0 && lk_sim_now() <= run.cuts.until)
        return false;
    lk_sim_fault_strikes(fault, "connections are reset while answers are on their way");
    run.cuts.of = process;
    run.cuts.random = fault->detail;
    run.cuts.left = 2 + (unsigned)lk_sim_draw_from(&run.cuts.random, 5);
    run.cuts.answers = (unsigned)lk_sim_draw_from(&run.cuts.random, 12);
    run.cuts.until = lk_sim_now() + 1000 * MS;
    return true;
}

static bool make(const lk_sim_fault *fault)
{
    lk_sim_process *const process = lk_sim_application_process(&run.application, fault->slot);
    switch (process == NULL ? 9 : fault->kind % 10) {
    case 0:
    case 1:
        return stop_process(fault, process);
    case 2:
        return kill_process(fault, process);
    case 3:
    case 4:
        return clog_way(fault, process);
    case 5:
    case 6:
        return lose_packet(fault, process);
    case 7:
        return fault->detail % 4 == 0 ? reset(fault, process) : cut_at_answers(fault, process);
    default:
        return run.service->make(fault);
    }
}

/* When the next comes: mostly soon, and now and then not until all could be well. */
static int64_t drawn_pause(void)
{
    const bool is_soon = draw(6) > 0;
    return (int64_t)draw((uint64_t)(is_soon ? 500 * MS : 5000 * MS));
}

/* Many are short beside a lease, some are longer, and some as long as what the service waits for. */
static int64_t drawn_span(void)
{
    const uint64_t kind = draw(8);
    return (int64_t)draw((uint64_t)(kind < 5 ? 200 * MS : kind < 7 ? 3000 * MS : run.term_ns));
}

static bool is_left_out(unsigned number)
{
    for (size_t i = 0; i < run.plan->without_count; i++)
        if (run.plan->without[i] == number)
            return true;
    return false;
}

static void fault_comes(void *context)
{
    lk_sim_fault fault = {.number = run.drawn};
    (void)context;
    if (run.application.ends)
        return;
    run.drawn++;
    fault.kind = (unsigned)draw(UINT32_MAX);
    fault.slot = (unsigned)draw(UINT32_MAX);
    fault.detail = draw(UINT64_MAX);
    fault.span_ns = drawn_span();
    if (is_left_out(fault.number))
        run.without++;
    else
        run.made += make(&fault);
    lk_sim_at(lk_sim_now() + drawn_pause(), fault_comes, NULL);
}

/* ------------------------------------------------------------------ from the beginning to the end ---- */

static bool is_done(void *context)
{
    (void)context;
    if (!run.application.ends && lk_sim_judge_grants() >= GRANTS_LEAST &&
        (run.service->is_inside || run.made + run.without >= FAULTS_LEAST)) {
        run.application.ends = true;
        if (run.service->settle != NULL)
            run.service->settle();
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
    result->faults = run.made;
    result->drawn = run.drawn;
    if (why != NULL)
        (void)snprintf(result->failure, sizeof result->failure, "%s", why);
}

void (*lk_sim_run_failed)(void);

static void failed(const char *why)
{
    tell_result(why);
    lk_sim_run_failed();
}

static unsigned at_most(unsigned drawn, unsigned limit)
{
    return limit > 0 && drawn > limit ? limit : drawn;
}

bool lk_sim_is_modelled(void)
{
    return run.plan->modelled;
}

bool lk_sim_may_be_shared(unsigned key)
{
    const lk_sim_use *const use = &run.application.uses[key];
    return !run.application.knows_uses || use->has_modes || use->permits > 0;
}

static unsigned modelled_threads(void)
{
    return run.service->modelled_threads > 0 ? run.service->modelled_threads : 1;
}

static void begin(const lk_sim_plan *plan)
{
    enum { FAULTS_OWN = 0x6661756c }; /* their numbers are others than the world's */
    run.random = ~plan->seed ^ FAULTS_OWN;
    const unsigned keys = 1 + (unsigned)draw(KEYS_MOST), processes = 2 + (unsigned)draw(LK_SIM_SLOTS_MAX - 1);
    lk_sim_bounds bounds = {0};
    const char *const uri = run.service->begin(&run.random, &bounds);
    run.term_ns = bounds.term_ns;
    run.settle_ns = bounds.settle_ns;
    lk_sim_judge_begin(&bounds);
    run.application =
        (lk_sim_application){.uri = uri,
                             .random = ~run.random,
                             .is_one = run.service->is_inside,
                             .is_modelled = plan->modelled,
                             .keys = at_most(keys, plan->modelled ? 1 : plan->keys),
                             .slots = at_most(processes, plan->processes),
                             .rest_ns = bounds.term_ns > lease_ns ? bounds.term_ns : lease_ns,
                             .threads_most = plan->modelled ? modelled_threads() : plan->threads};
    lk_sim_application_begin(&run.application);
    if (!run.service->is_inside)
        lk_sim_at(50 * MS, fault_comes, NULL);
}

void lk_sim_run_with(const lk_sim_faulty *service, const lk_sim_plan *plan, FILE *trace,
                     lk_sim_result *result)
{
    memset(&run, 0, sizeof run);
    run.service = service;
    run.plan = plan;
    run.result = result;
    lk_sim_on_fail = failed;
    lk_sim_begin(plan->seed + plan->course * UINT64_C(0x9e3779b97f4a7c15) / 2, plan->modelled ? NULL : trace);
    lk_sim_steps_begin(plan->modelled ? trace : NULL);
    lk_sim_network_begin();
    lk_sim_network_answers = answers;
    begin(plan);
    switch (lk_sim_run(is_done, judge, NULL, 600000 * MS)) {
    case LK_SIM_DONE:
        tell_result(service->left != NULL ? service->left() : NULL);
        break;
    case LK_SIM_LATE:
        tell_result("the run did not end within 600 simulated seconds");
        break;
    case LK_SIM_STUCK:
        tell_result("deadlock: no fiber can run, and no event is due");
    }
    lk_sim_files_end();
    lk_sim_network_end();
    service->end();
    lk_sim_end();
}
