/*
 * fibers.c: fibers, and what is to come, in a heap by time. See fibers.h. A fiber begins by ucontext; later switches are by
 * setjmp, which spares the system calls by which swapcontext keeps signal masks, a fifth of a run's time.
 */
#undef _FORTIFY_SOURCE /* it takes a longjmp to another stack for a fault */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "fibers.h"

enum { STACK_BYTES = 256 * 1024, GUARD_BYTES = 4096, PAUSE_NS = 500, GOES_ON_PPM = 800000 };

struct lk_sim_fiber {
    ucontext_t context; /* it begins with */
    jmp_buf where;      /* it goes on */
    bool begun;
    char *stack;
    lk_sim_process *process;
    void *(*run)(void *);
    void *argument, *result;
    const void *on; /* what it waits for; NULL: it can go on */
    uint64_t waits; /* which of its waits this is */
    bool woken, over;
    int error; /* its errno */
};

/* What is to come: the end of a fiber's wait, or an event. */
typedef struct {
    int64_t at;
    uint64_t order; /* of those that come at the same time */
    lk_sim_fiber *fiber;
    uint64_t waits;
    void (*event)(void *);
    void *context;
} coming;

static struct {
    uint64_t random, steps, order;
    int64_t now;
    bool went_on; /* a fiber did, in this step */
    FILE *trace;
    jmp_buf scheduler;
    lk_sim_fiber **fibers, *self;
    size_t count, room;
    lk_sim_fiber **living; /* that are not over, and whose processes are not dead; or were so lately */
    size_t living_count, living_room;
    coming *heap;
    size_t heap_count, heap_room;
} world;

/* Stacks of fibers that are over, for others, of the next run too: a new one costs system calls and page faults. */
static struct {
    char **stacks;
    size_t count, room;
} spare;

void *lk_sim_alloc(size_t size)
{
    void *const memory = calloc(1, size);
    if (memory == NULL)
        abort();
    return memory;
}

static void *grown(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    *room = *room == 0 ? 64 : 2 * *room;
    void *const larger = realloc(array, *room * size);
    if (larger == NULL)
        abort();
    return larger;
}

/* ------------------------------------------------------------------ chance and time ---- */

/* SplitMix64: https://prng.di.unimi.it/splitmix64.c */
uint64_t lk_sim_draw_from(uint64_t *random, uint64_t below)
{
    uint64_t z = (*random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

uint64_t lk_sim_draw(uint64_t below)
{
    return lk_sim_draw_from(&world.random, below);
}

bool lk_sim_chance(unsigned ppm)
{
    return lk_sim_draw(1000000) < ppm;
}

int64_t lk_sim_now(void)
{
    return world.now;
}

static int64_t scaled(int64_t span, int64_t by, int64_t of)
{
    return span / of * by + span % of * by / of;
}

int64_t lk_sim_local(const lk_sim_process *process, int64_t at)
{
    return process->ahead_ns + at + scaled(at, process->rate_ppm, 1000000);
}

int64_t lk_sim_true(const lk_sim_process *process, int64_t local)
{
    int64_t at = scaled(local - process->ahead_ns, 1000000, 1000000 + process->rate_ppm);
    while (lk_sim_local(process, at) < local)
        at++;
    return at;
}

void lk_sim_process_stop(lk_sim_process *process)
{
    process->stopped = true;
    process->changed_at = world.now;
}

void lk_sim_process_go_on(lk_sim_process *process)
{
    process->stopped = false;
    process->stood_ns += world.now - process->changed_at;
    process->changed_at = world.now;
}

int64_t lk_sim_ran(const lk_sim_process *process)
{
    return (process->stopped ? process->changed_at : world.now) - process->stood_ns;
}

uint64_t lk_sim_steps(void)
{
    return world.steps;
}

bool lk_sim_is_traced(void)
{
    return world.trace != NULL;
}

void lk_sim_tell(const char *format, ...)
{
    va_list arguments;
    if (world.trace == NULL)
        return;
    fprintf(world.trace, "%lld.%09lld ", (long long)(world.now / 1000000000),
            (long long)(world.now % 1000000000));
    va_start(arguments, format);
    vfprintf(world.trace, format, arguments);
    va_end(arguments);
    fputc('\n', world.trace);
    (void)fflush(world.trace); /* the run may end at any line */
}

/* ------------------------------------------------------------------ what is to come ---- */

static bool is_before(const coming *a, const coming *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(coming what)
{
    world.heap = grown(world.heap, world.heap_count, &world.heap_room, sizeof *world.heap);
    size_t at = world.heap_count++;
    what.order = world.order++;
    while (at > 0 && is_before(&what, &world.heap[(at - 1) / 2])) {
        world.heap[at] = world.heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world.heap[at] = what;
}

static coming pop(void)
{
    const coming first = world.heap[0], last = world.heap[--world.heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < world.heap_count; at = child) {
        if (child + 1 < world.heap_count && is_before(&world.heap[child + 1], &world.heap[child]))
            child++;
        if (!is_before(&world.heap[child], &last))
            break;
        world.heap[at] = world.heap[child];
    }
    if (world.heap_count > 0)
        world.heap[at] = last;
    return first;
}

void lk_sim_at(int64_t at, void (*event)(void *context), void *context)
{
    push((coming){.at = at, .event = event, .context = context});
}

/* ------------------------------------------------------------------ fibers ---- */

static void fiber_main(void)
{
    lk_sim_fiber *const self = world.self;
    self->result = self->run(self->argument);
    self->over = true;
    lk_sim_wake_all(self);
    _longjmp(world.scheduler, 1);
}

static char *stack_take(void)
{
    if (spare.count > 0)
        return spare.stacks[--spare.count];
    char *const stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) != 0)
        abort();
    return stack;
}

static void stack_keep(lk_sim_fiber *fiber)
{
    spare.stacks = grown(spare.stacks, spare.count, &spare.room, sizeof(char *));
    spare.stacks[spare.count++] = fiber->stack;
    fiber->stack = NULL;
}

lk_sim_fiber *lk_sim_spawn(lk_sim_process *process, void *(*run)(void *), void *argument)
{
    lk_sim_fiber *const fiber = lk_sim_alloc(sizeof *fiber);
    fiber->stack = stack_take();
    fiber->process = process;
    fiber->run = run;
    fiber->argument = argument;
    (void)getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&fiber->context, fiber_main, 0);
    world.fibers = grown(world.fibers, world.count, &world.room, sizeof(lk_sim_fiber *));
    world.fibers[world.count++] = fiber;
    world.living = grown(world.living, world.living_count, &world.living_room, sizeof(lk_sim_fiber *));
    world.living[world.living_count++] = fiber;
    return fiber;
}

lk_sim_fiber *lk_sim_self(void)
{
    return world.self;
}

lk_sim_process *lk_sim_process_of(const lk_sim_fiber *fiber)
{
    return fiber->process;
}

bool lk_sim_is_over(const lk_sim_fiber *fiber, void **result)
{
    if (fiber->over && result != NULL)
        *result = fiber->result;
    return fiber->over;
}

static void switch_away(void)
{
    lk_sim_fiber *const self = world.self;
    self->error = errno;
    if (_setjmp(self->where) == 0)
        _longjmp(world.scheduler, 1);
    errno = world.self->error;
}

void lk_sim_pause(void)
{
    world.now += PAUSE_NS;
    if (world.self != NULL && !lk_sim_chance(GOES_ON_PPM))
        switch_away();
}

bool lk_sim_wait(const void *on, int64_t until)
{
    lk_sim_fiber *const self = world.self;
    self->on = on;
    self->woken = false;
    self->waits++;
    if (until != INT64_MAX)
        push((coming){.at = until, .fiber = self, .waits = self->waits});
    switch_away();
    return self->woken;
}

void lk_sim_wake(lk_sim_fiber *fiber)
{
    if (fiber->on == NULL)
        return;
    fiber->on = NULL;
    fiber->woken = true;
}

void lk_sim_wake_all(const void *on)
{
    for (size_t i = 0; i < world.living_count; i++)
        if (world.living[i]->on == on)
            lk_sim_wake(world.living[i]);
}

void lk_sim_wake_one(const void *on)
{
    size_t waiting = 0;
    lk_sim_fiber *drawn = NULL;
    for (size_t i = 0; i < world.living_count; i++)
        if (world.living[i]->on == on && lk_sim_draw(++waiting) == 0)
            drawn = world.living[i];
    if (drawn != NULL)
        lk_sim_wake(drawn);
}

/* ------------------------------------------------------------------ the scheduler ---- */

static bool can_go_on(const lk_sim_fiber *fiber)
{
    return fiber->on == NULL && !fiber->process->stopped;
}

static lk_sim_fiber *next_fiber(void)
{
    size_t runnable = 0, living = 0;
    lk_sim_fiber *drawn = NULL;
    for (size_t i = 0; i < world.living_count; i++) {
        lk_sim_fiber *const fiber = world.living[i];
        if (fiber->over || fiber->process->dead)
            continue;
        world.living[living++] = fiber;
        if (can_go_on(fiber) && lk_sim_draw(++runnable) == 0)
            drawn = fiber;
    }
    world.living_count = living;
    return drawn;
}

/* Those that are over, and that nobody has to join any more, keep their place until the end: a run has few. */
static void go_on(lk_sim_fiber *fiber)
{
    world.self = fiber;
    world.went_on = true;
    if (_setjmp(world.scheduler) == 0) {
        if (fiber->begun)
            _longjmp(fiber->where, 1);
        fiber->begun = true;
        (void)setcontext(&fiber->context);
    }
    world.self = NULL;
    if (fiber->over)
        stack_keep(fiber);
}

static void come(const coming *what)
{
    if (what->event != NULL)
        what->event(what->context);
    else if (what->fiber->on != NULL && what->fiber->waits == what->waits)
        what->fiber->on = NULL; /* its time is over, so woken stays false */
}

/* False: there is nothing to be done. */
static bool step(void)
{
    if (world.heap_count > 0 && world.heap[0].at <= world.now) {
        const coming what = pop();
        come(&what);
        return true;
    }
    lk_sim_fiber *const fiber = next_fiber();
    if (fiber != NULL)
        go_on(fiber);
    else if (world.heap_count > 0)
        world.now = world.heap[0].at;
    else
        return false;
    return true;
}

lk_sim_outcome lk_sim_run(bool (*is_done)(void *context), void (*judge)(void *context), void *context,
                          int64_t until)
{
    while (!is_done(context)) {
        if (world.now > until)
            return LK_SIM_LATE;
        if (!step())
            return LK_SIM_STUCK;
        world.steps++;
        if (judge != NULL && world.went_on)
            judge(context);
        world.went_on = false;
    }
    return LK_SIM_DONE;
}

void lk_sim_begin(uint64_t seed, FILE *trace)
{
    memset(&world, 0, sizeof world);
    world.random = seed;
    world.trace = trace;
}

void lk_sim_end(void)
{
    for (size_t i = 0; i < world.count; i++) {
        if (world.fibers[i]->stack != NULL)
            stack_keep(world.fibers[i]);
        free(world.fibers[i]);
    }
    free(world.fibers);
    free(world.living);
    free(world.heap);
    memset(&world, 0, sizeof world);
}
