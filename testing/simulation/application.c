/* application.c: see application.h. */
#include <stdlib.h>
#include <string.h>

#include "application.h"
#include "judge.h"
#include "world/files.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

enum { WORKERS_MAX = 3, LEASE_MS = 1500 };

typedef struct inhabitant {
    lk_sim_application *of;
    lk_sim_process *process;
    locker *l;
    unsigned working;
} inhabitant;

static const char *const keys[LK_SIM_KEYS_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static void sleep_ns(int64_t span)
{
    const char here = 0;
    (void)lk_sim_wait(&here, lk_sim_now() + span);
}

static int64_t drawn_hold(void)
{
    const uint64_t kind = lk_sim_draw(100);
    if (kind < 70)
        return (int64_t)lk_sim_draw(5 * MS);
    if (kind < 95)
        return (int64_t)lk_sim_draw(300 * MS);
    return (int64_t)lk_sim_draw(LEASE_MS * MS * 2);
}

static void use(lk_sim_hold *hold, locker_handle *handle)
{
    locker_error err;
    lk_sim_judge_granted(hold, handle);
    sleep_ns(drawn_hold());
    lk_sim_judge_gives(hold);
    lk_sim_judge_unlocked(hold, locker_unlock(handle, &err));
    locker_handle_free(handle);
}

/* What a call may answer that was not granted. */
static void see_refusal(locker_status status, const locker_error *err)
{
    if (status != LOCKER_BUSY && status != LOCKER_TIMEOUT && status != LOCKER_UNAVAILABLE &&
        status != LOCKER_CLOSED && status != LOCKER_LOST)
        lk_sim_fail("a lock call answered %s: %s", locker_status_name(status), err->text);
}

static void take_one(inhabitant *p)
{
    const unsigned key = (unsigned)lk_sim_draw(p->of->keys);
    const uint64_t kind = lk_sim_draw(100);
    lk_sim_hold hold = lk_sim_judge_asks(p->process, key);
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *handle = NULL;
    locker_error err;
    locker_status status;
    options.ttl_ms = LEASE_MS + (int64_t)lk_sim_draw(LEASE_MS);
    options.no_renew = lk_sim_draw(4) == 0;
    if (kind < 35) {
        status = locker_try_lock(p->l, keys[key], &options, &handle, &err);
    } else {
        options.wait_ms = kind < 80 ? (int64_t)lk_sim_draw(1500) : -1;
        status = locker_lock(p->l, keys[key], &options, &handle, &err);
    }
    if (status == LOCKER_OK)
        use(&hold, handle);
    else
        see_refusal(status, &err);
}

static void *work(void *argument)
{
    inhabitant *const p = argument;
    while (!p->of->ends) {
        take_one(p);
        sleep_ns((int64_t)lk_sim_draw(20 * MS));
    }
    p->working--;
    lk_sim_wake_all(p);
    return NULL;
}

static void open_locker(inhabitant *p)
{
    locker_error err;
    while (locker_open(p->of->uri, NULL, &p->l, &err) != LOCKER_OK) {
        if (err.status != LOCKER_UNAVAILABLE && err.status != LOCKER_TIMEOUT)
            lk_sim_fail("opening answered %s: %s", locker_status_name(err.status), err.text);
        sleep_ns(100 * MS);
    }
}

static void *live(void *argument)
{
    inhabitant *const p = argument;
    open_locker(p);
    p->working = 1 + (unsigned)lk_sim_draw(WORKERS_MAX);
    if (p->of->threads_most > 0 && p->working > p->of->threads_most)
        p->working = p->of->threads_most;
    for (unsigned i = p->working; i > 0; i--)
        (void)lk_sim_spawn(p->process, work, p);
    while (p->working > 0)
        (void)lk_sim_wait(p, INT64_MAX);
    (void)locker_close(p->l);
    p->of->running--;
    p->process->dead = true;
    free(p);
    return NULL;
}

static inhabitant *new_process(lk_sim_application *application)
{
    if (application->process_count == LK_SIM_PROCESSES_MAX)
        return NULL;
    inhabitant *const p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    p->of = application;
    p->process = &application->processes[application->process_count++];
    *p->process = (lk_sim_process){.host = "client",
                                   .pid = 100 + (int)application->process_count,
                                   .ahead_ns = (int64_t)lk_sim_draw(1000) * 1000 * MS,
                                   .rate_ppm = (int64_t)lk_sim_draw(10001) - 5000};
    return p;
}

static void start(lk_sim_application *application, unsigned slot)
{
    inhabitant *const p = new_process(application);
    if (p == NULL)
        lk_sim_fail("there were too many processes");
    application->running++;
    application->at[slot] = p->process;
    (void)lk_sim_spawn(p->process, live, p);
}

void lk_sim_application_begin(lk_sim_application *application)
{
    for (unsigned i = 0; i < application->slots; i++)
        start(application, i);
}

lk_sim_process *lk_sim_application_process(const lk_sim_application *application, unsigned slot)
{
    lk_sim_process *const process = application->at[slot % application->slots];
    return process->dead ? NULL : process;
}

void lk_sim_application_kill(lk_sim_application *application, lk_sim_process *process)
{
    unsigned slot = 0;
    process->dead = true;
    application->running--;
    lk_sim_judge_forget(process);
    lk_sim_files_close_of(process);
    while (application->at[slot] != process)
        slot++;
    start(application, slot);
}

/* ------------------------------------------------------------------ the end ---- */

typedef struct checker {
    inhabitant *p;
    bool *is_done;
} checker;

static void *check(void *argument)
{
    checker *const c = argument;
    inhabitant *const p = c->p;
    locker_error err;
    while (p->of->running > 0)
        sleep_ns(10 * MS);
    open_locker(p);
    for (unsigned key = 0; key < p->of->keys; key++) {
        lk_sim_hold hold = lk_sim_judge_asks(p->process, key);
        locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
        locker_handle *handle = NULL;
        options.wait_ms = (int64_t)LEASE_MS * 3;
        if (locker_lock(p->l, keys[key], &options, &handle, &err) != LOCKER_OK)
            lk_sim_fail("key %u can't be had at the end: %s", key, err.text);
        use(&hold, handle);
    }
    (void)locker_close(p->l);
    *c->is_done = true;
    return NULL;
}

void lk_sim_application_check(lk_sim_application *application, bool *is_done)
{
    static checker c;
    c.p = new_process(application);
    c.is_done = is_done;
    if (c.p == NULL)
        lk_sim_fail("no process is left for the end");
    (void)lk_sim_spawn(c.p->process, check, &c);
}
