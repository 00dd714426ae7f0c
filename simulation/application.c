/* application.c: see application.h. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "application.h"
#include "steps.h"
#include "world/files.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

enum { WORKERS_MAX = 3, LOCKERS_MAX = 2, LEASE_MS = 600, LEASE_MORE_MS = 2400, WAIT_MS = 1500 };

static const int64_t close_ns =
    4000 * MS; /* for calls that end, connections that are being made, and clean-up */

/* A locker, which is closed and opened again now and then. */
typedef struct {
    locker *l; /* NULL: it is being opened */
    bool closing;
    unsigned opened; /* how often it was */
} place;

typedef struct {
    lk_sim_application *of;
    lk_sim_process *process;
    place places[LOCKERS_MAX];
    unsigned place_count, working;
    unsigned rush_key; /* which all its threads want */
    int64_t rush_until;
} inhabitant;

/* The first two share a hash slot of Redis. */
static const char *const keys[LK_SIM_KEYS_MAX] = {"a", "b18009", "c", "d", "e", "f", "g", "h"};

static void sleep_ns(int64_t span)
{
    const char here = 0;
    (void)lk_sim_wait(&here, lk_sim_now() + span);
}

/* ------------------------------------------------------------------ canceling ---- */

/* Fires after a while, as a signal handler would. */
typedef struct {
    locker_cancel *cancel;
    const lk_sim_process *process;
    bool is_over;    /* the call is */
    int64_t rang_at; /* when it first did, of the time that its process ran; -1: it has not */
} alarm_clock;

static void rings(void *context)
{
    alarm_clock *const a = context;
    if (a->is_over || a->process->dead) {
        free(a);
        return;
    }
    if (!a->process->stopped && !locker_cancel_fired(a->cancel)) {
        a->rang_at = lk_sim_ran(a->process);
        locker_cancel_fire(a->cancel);
    }
    lk_sim_at(lk_sim_now() + 1000 * MS, rings, a);
}

static alarm_clock *set_alarm(const lk_sim_process *process)
{
    alarm_clock *const a = lk_sim_alloc(sizeof *a);
    *a = (alarm_clock){.cancel = locker_cancel_new(), .process = process, .rang_at = -1};
    if (a->cancel == NULL)
        abort();
    lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw(WAIT_MS * MS), rings, a);
    return a;
}

static void stop_alarm(alarm_clock *a, locker_status status)
{
    if (a == NULL) {
        if (status == LOCKER_CANCELED)
            lk_sim_fail("a call answered canceled, but its cancel was not fired");
        return;
    }
    if (status == LOCKER_CANCELED && !locker_cancel_fired(a->cancel))
        lk_sim_fail("a call answered canceled before its cancel was fired");
    if (a->rang_at >= 0)
        lk_sim_judge_took(a->process, a->rang_at, 0, "the rest of a canceled call");
    a->is_over = true;
    locker_cancel_free(a->cancel);
}

/* ------------------------------------------------------------------ holding ---- */

/* A lock call, until what it has got is given back. */
typedef struct {
    const inhabitant *p;
    const place *at;
    lk_sim_hold hold;
    locker_lock_options options;
    locker_handle *handle;
    bool unlocked, freed; /* by its own callback */
    bool frees;           /* by its thread: that is an unlock, too */
    unsigned opened;      /* how often its place was when it asked */
    char owner[32];
} use;

static int64_t drawn_hold(void)
{
    const uint64_t kind = lk_sim_draw(100);
    if (kind < 70)
        return (int64_t)lk_sim_draw(5 * MS);
    if (kind < 92)
        return (int64_t)lk_sim_draw(300 * MS);
    return (int64_t)lk_sim_draw((LEASE_MS + LEASE_MORE_MS) * 3 / 2 * MS);
}

/* Nobody is told so but of a locker that is being closed, or was. */
static void see_closed(const place *at, unsigned opened, locker_status status, const char *what)
{
    if (status == LOCKER_CLOSED && !at->closing && at->opened == opened)
        lk_sim_fail("%s answered closed, but its locker is open", what);
}

static void give(use *u)
{
    locker_error err;
    const int64_t began = lk_sim_ran(u->p->process);
    lk_sim_judge_gives(&u->hold);
    const locker_status status = locker_unlock(u->handle, &err);
    lk_sim_judge_unlocked(&u->hold, status);
    see_closed(u->at, u->opened, status, "unlock");
    lk_sim_judge_took(u->p->process, began, 0, "unlock");
}

/* What it may do in there. */
static void lost(locker_handle *handle, void *user)
{
    use *const u = user;
    locker_error err;
    locker_status status;
    if (u->hold.handle != NULL && handle != u->hold.handle)
        lk_sim_fail("on_lost was called with another handle");
    if (u->hold.told)
        lk_sim_fail("on_lost was called twice");
    u->hold.told = true;
    if (locker_handle_state(handle) != LOCKER_STATE_LOST)
        lk_sim_fail("on_lost was called, but the handle's state is %s",
                    locker_state_name(locker_handle_state(handle)));
    if (u->hold.handle == NULL || u->hold.gives)
        return;
    switch (lk_sim_draw(4)) {
    case 0:
        lk_sim_judge_gives(&u->hold);
        u->unlocked = true;
        status = locker_unlock(handle, &err);
        lk_sim_judge_unlocked(&u->hold, status == LOCKER_INVALID && u->frees ? LOCKER_LOST : status);
        see_closed(u->at, u->opened, status, "unlock in a callback");
        break;
    case 1:
        lk_sim_judge_gives(&u->hold);
        u->unlocked = u->freed = true;
        lk_sim_judge_unlocked(&u->hold, LOCKER_LOST);
        locker_handle_free(handle);
        break;
    default:
        break;
    }
}

/* Two who share a key and want it alone would wait for each other. */
static void see_upgrade(use *u, locker_status status, bool is_held)
{
    if (is_held && !u->unlocked && !u->at->closing && lk_sim_judge_is_held(&u->hold) &&
        status != LOCKER_INVALID)
        lk_sim_fail("key %u: an owner with a shared lock asked for the exclusive lock, and got %s",
                    u->hold.key, locker_status_name(status));
}

/* Its owner enters again, and leaves. */
static void enter_again(use *u)
{
    locker_handle *again = NULL;
    locker_error err;
    if (u->options.owner == NULL || u->unlocked || u->at->l == NULL || u->at->closing)
        return;
    locker_lock_options options = u->options;
    options.on_lost = NULL;
    options.cancel = NULL;
    const bool is_held = locker_handle_state(u->handle) != LOCKER_STATE_LOST;
    const bool upgrades = options.mode == LOCKER_SHARED && lk_sim_draw(2) == 0;
    if (u->p->of->uses[u->hold.key].has_modes)
        options.mode = upgrades ? LOCKER_EXCLUSIVE : LOCKER_SHARED;
    const lk_sim_hold hold = u->hold;
    lk_sim_judge_enters_again(&hold, true);
    const locker_status status = locker_try_lock(u->at->l, keys[u->hold.key], &options, &again, &err);
    if (status != LOCKER_OK || upgrades)
        lk_sim_judge_enters_again(&hold, false);
    if (upgrades) {
        see_upgrade(u, status, is_held);
        if (status == LOCKER_OK)
            locker_handle_free(again);
        return;
    }
    if (status != LOCKER_OK) {
        if (is_held && !u->unlocked && !u->at->closing && lk_sim_judge_is_held(&u->hold))
            lk_sim_fail("key %u: re-entry of its owner failed: %s", u->hold.key, err.text);
        return;
    }
    const bool is_same = locker_handle_token(again) == u->hold.token;
    if (!is_same && !u->unlocked && locker_handle_state(u->handle) == LOCKER_STATE_HELD)
        lk_sim_fail("key %u: re-entry got another token", u->hold.key);
    sleep_ns((int64_t)lk_sim_draw(5 * MS));
    locker_handle_free(again);
    lk_sim_judge_enters_again(&hold, false);
}

static void end_it(use *u)
{
    if (!u->unlocked)
        give(u);
    u->frees = true;
    if (!u->freed)
        locker_handle_free(u->handle);
}

/* What the handle says of its lock, where no callback frees it meanwhile, nor does its locker unlock it. */
static void ask_it(use *u)
{
    const int64_t since = lk_sim_now();
    if (u->options.on_lost != NULL)
        return;
    const bool was_held = lk_sim_judge_is_held(&u->hold);
    const locker_state state = locker_handle_state(u->handle);
    const int64_t left_ms = locker_handle_remaining_ms(u->handle);
    if (u->at->l == u->hold.locker && !u->at->closing)
        lk_sim_judge_said(&u->hold, was_held, since, state, left_ms);
}

static void hold_it(use *u)
{
    lk_sim_judge_granted(&u->hold, u->handle);
    sleep_ns(drawn_hold());
    ask_it(u);
    if (lk_sim_draw(2) == 0)
        enter_again(u);
    end_it(u);
}

/* ------------------------------------------------------------------ what a thread does ---- */

/* Readers come more often. Now and then somebody wants another number of permits. */
static void draw_use(const lk_sim_use *of_key, locker_lock_options *options)
{
    if (of_key->has_modes && lk_sim_draw(3) > 0)
        options->mode = LOCKER_SHARED;
    if (of_key->permits > 0)
        options->permits = of_key->permits + (lk_sim_draw(32) == 0);
}

static locker_lock_options drawn_options(use *u, unsigned key)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    draw_use(&u->p->of->uses[key], &options);
    const uint64_t kind = lk_sim_draw(100);
    options.wait_ms = kind < 35 ? 0 : kind < 80 ? (int64_t)lk_sim_draw(WAIT_MS) + 1 : -1;
    const bool is_usual = lk_sim_draw(2) == 0; /* with equal ones a lock may be handed on inside a process */
    options.ttl_ms = LEASE_MS + (is_usual ? LEASE_MORE_MS / 4 : (int64_t)lk_sim_draw(LEASE_MORE_MS));
    options.no_renew = lk_sim_draw(4) == 0;
    if (lk_sim_draw(4) > 0) {
        options.on_lost = lost;
        options.user = u;
    }
    if (lk_sim_draw(8) == 0) { /* nobody else's: who has it too would enter with us */
        (void)snprintf(u->owner, sizeof u->owner, "%d of %d", (int)lk_sim_draw(INT_MAX), u->p->process->pid);
        options.owner = u->owner;
    }
    return options;
}

static int64_t longest(const locker_lock_options *options)
{
    return options->wait_ms < 0 ? INT64_MAX : options->wait_ms * MS;
}

static void asks(use *u, unsigned key)
{
    lk_sim_judge_asks(&u->hold, u->p->process, key, &u->options);
    u->hold.locker = u->at->l;
    u->hold.leaves = &u->at->closing;
    u->hold.opened = &u->at->opened;
    u->opened = u->hold.was_opened = u->at->opened;
}

static unsigned drawn_key(const inhabitant *p)
{
    const unsigned key = (unsigned)lk_sim_draw(p->of->keys);
    return lk_sim_now() < p->rush_until ? p->rush_key : key;
}

static void take_one(const inhabitant *p, const place *at)
{
    use u = {.p = p, .at = at};
    const unsigned key = drawn_key(p);
    locker_error err;
    u.options = drawn_options(&u, key);
    alarm_clock *const a = lk_sim_draw(5) == 0 ? set_alarm(p->process) : NULL;
    if (a != NULL)
        u.options.cancel = a->cancel;
    asks(&u, key);
    const locker_status status = u.options.wait_ms == 0
                                     ? locker_try_lock(at->l, keys[key], &u.options, &u.handle, &err)
                                     : locker_lock(at->l, keys[key], &u.options, &u.handle, &err);
    lk_sim_judge_took(p->process, u.hold.began, longest(&u.options), "a lock call");
    stop_alarm(a, status);
    if (status == LOCKER_OK)
        hold_it(&u);
    else
        lk_sim_judge_refused(&u.hold, status, err.text);
}

static void show_one(const inhabitant *p, const place *at)
{
    const unsigned key = (unsigned)lk_sim_draw(p->of->keys);
    const lk_sim_hold *const holder = lk_sim_judge_holder(key);
    const int64_t began = lk_sim_ran(p->process), since = lk_sim_now();
    const unsigned opened = at->opened;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    const locker_status status = locker_show(at->l, keys[key], &info, &err);
    lk_sim_judge_took(p->process, began, 0, "show");
    see_closed(at, opened, status, "show");
    if (status == LOCKER_OK)
        lk_sim_judge_shown(p->process, key, holder, since, &info);
    else if (status != LOCKER_CLOSED &&
             (status != LOCKER_UNAVAILABLE ||
              (lk_sim_judge_was_well(since) && !lk_sim_judge_was_withheld(key, since))))
        lk_sim_fail("key %u: show answered %s: %s", key, locker_status_name(status), err.text);
    locker_info_clear(&info);
}

/* Anybody's, or the one's that has it now. */
static void break_one(const inhabitant *p, const place *at)
{
    const unsigned key = (unsigned)lk_sim_draw(p->of->keys);
    const lk_sim_hold *const holder = lk_sim_judge_holder(key);
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    only.force = true; /* what foreign clients hold, too */
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    if (holder != NULL && lk_sim_draw(2) == 0)
        only.token = holder->token;
    const int64_t began = lk_sim_ran(p->process);
    const unsigned opened = at->opened;
    lk_sim_break *const b = lk_sim_judge_breaks(p->process, key, only.token);
    const locker_status status = locker_break(at->l, keys[key], &only, &info, &err);
    lk_sim_judge_took(p->process, began, 0, "break");
    see_closed(at, opened, status, "break");
    lk_sim_judge_broke(b, status, &info);
    locker_info_clear(&info);
}

/* Keys are used in all the ways that the driver has. */
static void draw_uses(lk_sim_application *of, const locker_semantics *semantics)
{
    const bool has_modes = semantics->shared != LOCKER_ORDER_NONE, has_permits = semantics->permits_most > 0;
    if (of->knows_uses)
        return;
    of->knows_uses = true;
    if (of->is_modelled)
        return;
    for (unsigned key = 0; (has_modes || has_permits) && key < LK_SIM_KEYS_MAX; key++) {
        const uint64_t kind = lk_sim_draw_from(&of->random, 5);
        of->uses[key].has_modes = has_modes && (kind == 1 || kind == 2);
        if (has_permits && kind >= 3)
            of->uses[key].permits = 2 + (int32_t)lk_sim_draw_from(&of->random, 2);
    }
}

/* Until it is open, or nobody wants it any more. */
static locker *opened(const inhabitant *p)
{
    locker *l;
    locker_error err;
    while (locker_open(p->of->uri, NULL, &l, &err) != LOCKER_OK) {
        if (err.status != LOCKER_UNAVAILABLE && err.status != LOCKER_TIMEOUT)
            lk_sim_fail("opening answered %s: %s", locker_status_name(err.status), err.text);
        sleep_ns(100 * MS);
    }
    draw_uses(p->of, locker_get_semantics(l));
    return l;
}

static void shut(const inhabitant *p, place *at)
{
    locker *const l = at->l;
    const int64_t began = lk_sim_ran(p->process);
    if (locker_close(l) != LOCKER_OK)
        lk_sim_fail("close did not answer ok");
    at->l = NULL;
    lk_sim_judge_took(p->process, began, close_ns, "close");
}

/* Holding a lock that is not renewed, when its lease is about to end: it may be lost while it is closed. */
static void shut_with_a_lock(const inhabitant *p, place *at)
{
    use u = {.p = p, .at = at};
    const unsigned key = (unsigned)lk_sim_draw(p->of->keys);
    locker_error err;
    u.options = drawn_options(&u, key);
    u.options.wait_ms = 0;
    u.options.no_renew = true;
    asks(&u, key);
    const locker_status status = locker_try_lock(at->l, keys[key], &u.options, &u.handle, &err);
    if (status != LOCKER_OK) {
        lk_sim_judge_refused(&u.hold, status, err.text);
        shut(p, at);
        return;
    }
    lk_sim_judge_granted(&u.hold, u.handle);
    const int64_t left = u.hold.until - lk_sim_now() - (int64_t)lk_sim_draw(6000);
    if (left > 0)
        sleep_ns(left);
    shut(p, at);
    end_it(&u);
}

/* Those who are inside have been so for long enough for their calls to have begun, also when the process stood still. */
static void open_anew(const inhabitant *p, place *at)
{
    at->closing = true;
    for (int i = 0; i < 3; i++)
        sleep_ns(1 * MS);
    if (lk_sim_draw(2) == 0)
        shut_with_a_lock(p, at);
    else
        shut(p, at);
    at->l = opened(p);
    at->opened++;
    at->closing = false;
}

/* Who rests stops that, and wants what the others want. */
static void begin_rush(inhabitant *p)
{
    p->rush_key = (unsigned)lk_sim_draw(p->of->keys);
    p->rush_until = lk_sim_now() + 20 * MS;
    lk_sim_wake_all(&p->rush_until);
}

/* Between two calls. */
static void rest(const inhabitant *p)
{
    if (lk_sim_wait(&p->rush_until, lk_sim_now() + (int64_t)lk_sim_draw(20 * MS)))
        sleep_ns((int64_t)lk_sim_draw(4 * MS));
}

static void do_one(inhabitant *p)
{
    place *const at = &p->places[lk_sim_draw(p->place_count)];
    const uint64_t kind = lk_sim_draw(100);
    if (at->l == NULL || at->closing)
        return;
    if (lk_sim_draw(16) == 0)
        begin_rush(p);
    if (kind == 0)
        open_anew(p, at);
    else if (kind < 4)
        show_one(p, at);
    else if (kind < 7 && !p->of->is_modelled)
        break_one(p, at);
    else
        take_one(p, at);
}

static void *work(void *argument)
{
    inhabitant *const p = argument;
    while (!p->of->ends) {
        do_one(p);
        rest(p);
    }
    p->working--;
    lk_sim_wake_all(p);
    return NULL;
}

static unsigned drawn_workers(const lk_sim_application *of)
{
    const unsigned drawn = 1 + (unsigned)lk_sim_draw(WORKERS_MAX);
    return of->threads_most > 0 && drawn > of->threads_most ? of->threads_most : drawn;
}

/* The threads that it still has, as one that was connecting when its locker was closed, end with it, and what they had
 * open is closed. */
static void end_process(lk_sim_application *application, lk_sim_process *process)
{
    process->dead = true;
    application->running--;
    lk_sim_files_close_of(process);
}

static void *live(void *argument)
{
    inhabitant *const p = argument;
    p->place_count = 1 + (lk_sim_draw(4) == 0);
    for (unsigned i = 0; i < p->place_count; i++)
        p->places[i].l = opened(p);
    p->working = drawn_workers(p->of);
    for (unsigned i = p->working; i > 0; i--)
        (void)lk_sim_spawn(p->process, work, p);
    while (p->working > 0)
        (void)lk_sim_wait(p, INT64_MAX);
    for (unsigned i = 0; i < p->place_count; i++)
        shut(p, &p->places[i]);
    end_process(p->of, p->process);
    free(p);
    return NULL;
}

static inhabitant *new_process(lk_sim_application *application)
{
    if (application->process_count == LK_SIM_PROCESSES_MAX)
        return NULL;
    inhabitant *const p = lk_sim_alloc(sizeof *p);
    p->of = application;
    p->process = &application->processes[application->process_count++];
    *p->process = (lk_sim_process){.host = "client",
                                   .pid = 100 + (int)application->process_count,
                                   .ahead_ns = (int64_t)lk_sim_draw(1000) * 1000 * MS,
                                   .rate_ppm = (int64_t)lk_sim_draw(10001) - 5000};
    if (application->is_one)
        p->process->ahead_ns = p->process->rate_ppm = 0;
    lk_sim_step("clock %d %lld", p->process->pid, (long long)p->process->rate_ppm);
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
    lk_sim_judge_forget(process);
    end_process(application, process);
    while (application->at[slot] != process)
        slot++;
    start(application, slot);
}

/* ------------------------------------------------------------------ the end ---- */

typedef struct {
    inhabitant *p;
    bool *is_done;
} checker;

/* False: a try found it busy. */
static bool took(use *u, unsigned key, int64_t wait_ms)
{
    locker_error err;
    u->options.ttl_ms = LEASE_MS;
    u->options.wait_ms = wait_ms;
    asks(u, key);
    const int64_t since = lk_sim_now();
    const locker_status status = locker_lock(u->at->l, keys[key], &u->options, &u->handle, &err);
    if (status == LOCKER_OK) {
        hold_it(u);
        return true;
    }
    if (wait_ms > 0 && status != LOCKER_CONFIG && lk_sim_judge_was_well(since))
        lk_sim_fail("key %u cannot be locked at the end: %s", key, err.text);
    lk_sim_judge_refused(&u->hold, status, err.text);
    if (wait_ms == 0)
        return false;
    sleep_ns(100 *
             MS); /* somebody who isn't ours has it, as a lock; or a fault has lasted, and leases with it */
    return took(u, key, wait_ms);
}

static void take_each(inhabitant *p, bool tries)
{
    const int64_t lease_ms = LEASE_MS + LEASE_MORE_MS + 500, rest_ms = p->of->rest_ns / MS;
    p->places[0].l = opened(p);
    for (unsigned key = 0; key < p->of->keys; key++) {
        use u = {.p = p, .at = &p->places[0], .options = LOCKER_LOCK_OPTIONS_INIT};
        u.options.permits = tries ? 0 : p->of->uses[key].permits; /* at the end it is free for any use */
        if (!tries || !took(&u, key, 0))
            (void)took(&u, key, rest_ms > lease_ms ? rest_ms : lease_ms);
    }
    shut(p, &p->places[0]);
}

/* At once, and when all that was left behind is over: what there is then is left for good. */
static void *check(void *argument)
{
    checker *const c = argument;
    inhabitant *const p = c->p;
    while (p->of->running > 0)
        sleep_ns(10 * MS);
    take_each(p, false);
    while (!lk_sim_judge_is_calm())
        sleep_ns(100 * MS);
    sleep_ns(p->of->rest_ns);
    take_each(p, true);
    sleep_ns(100 * MS);
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
