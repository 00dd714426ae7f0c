/* judge.c: see judge.h. */
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "server_clock.h"
#include "state.h"
#include "steps.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

/* What is allowed beyond what is promised. */
static const int64_t told_ns = 100 * MS;    /* on_lost is called within about 50 ms */
static const int64_t slack_ns = 100 * MS;   /* for a call's fibers to be run */
static const int64_t listens_ns = 200 * MS; /* a new holder listens for breaks */
static const int64_t connects_ns = 20 * MS; /* from a connection to a subscription */
static const int64_t renews_ns = 100 * MS;  /* a renewal that is due is confirmed then */
static const int64_t clock_ns = 20 * MS;    /* what a clock is off in a lease, and more */
static const int64_t rest_ns = 20 * MS;     /* from the driver's grant to the call's return */
static const int64_t order_ns = 300 * MS;   /* so much later somebody has certainly come */
static const int64_t rides_ns = 70 * MS;    /* so long may riders pass who waits, and more */
static const int64_t free_ns = 300 * MS;    /* what is given back is free then */
static const int64_t retry_ns = 150 * MS;   /* after so long a waiter asks again for what was withheld */
static const int64_t grace_ns = 3000 * MS;  /* so late may word of a break come */

enum { RELEASED = 64 };

/* How a key is held, and which permit it is. Of two permits the slots shut each other out. */
enum { PLAIN, SHARED, PERMIT, SLOTS = 4, KINDS = PERMIT + SLOTS };

struct lk_sim_break {
    lk_sim_break *next;
    const lk_sim_process *process; /* NULL: it is over */
    unsigned key;
    uint64_t asked_token;     /* as it was asked; 0: any */
    unsigned long long token; /* the only one that may be broken; 0: any */
    uint64_t serial;          /* the grant that it has certainly broken, and named by no token; 0: none */
    const lk_sim_process *of; /* whose that was */
    int64_t began, ended;
    const lk_sim_hold *holder; /* who certainly held it when it began; NULL: nobody did */
    bool known;                /* it has broken that one, or none */
    int64_t carried_at;        /* when the service carried out one of the key since it began; -1: none */
};

static struct {
    lk_sim_bounds bounds;
    lk_sim_hold *holds, *asking;
    lk_sim_break *breaks;
    struct {
        uint64_t token;   /* the greatest that was granted */
        int64_t asked_at; /* when that call began */
        int64_t granted_at;
    } greatest[LK_SIM_KEYS_MAX][KINDS];
    uint64_t released[LK_SIM_KEYS_MAX][RELEASED]; /* tokens that unlock said OK of, lately */
    unsigned released_count[LK_SIM_KEYS_MAX];
    struct {
        int64_t since, until;
    } strangers[LK_SIM_KEYS_MAX];
    lk_sim_grant latest[LK_SIM_KEYS_MAX][KINDS];
    const lk_sim_service *moved_from; /* the name led there before; NULL: it did not */
    int64_t used_at[LK_SIM_KEYS_MAX]; /* when somebody last had the key, or asked for it and was not done */
    int64_t used_with_at[LK_SIM_KEYS_MAX][SLOTS + 1]; /* likewise, with so many permits */
    int entering[LK_SIM_KEYS_MAX][SLOTS + 1];         /* calls of owners that enter again, with so many */
    int64_t full_at[LK_SIM_KEYS_MAX];     /* when one who shares it, or wants a permit, last had no room */
    int64_t withheld_at[LK_SIM_KEYS_MAX]; /* when the service withheld it last; -1: never */
    int64_t idle_since[LK_SIM_KEYS_MAX];  /* since when there is room and somebody waits; -1: not so */
    int64_t free_since[LK_SIM_KEYS_MAX];  /* likewise, and the service has no lock of it */
    int64_t deafened_at[LK_SIM_KEYS_MAX]; /* when its holders ceased to listen, lately; 0: never */
    unsigned lasting;                     /* faults that last */
    int64_t ill_since, well_at;           /* when the latest trouble began, and is over, if none lasts */
    int64_t calm_at; /* when all that was left behind is over, too, by a clock that runs evenly */
    int64_t forgot_at[LK_SIM_KEYS_MAX];      /* when the service lost what it knew of it; -1: never */
    int64_t flushed_at[LK_SIM_KEYS_MAX];     /* likewise, and the same server went on */
    int64_t forgot_ends_at[LK_SIM_KEYS_MAX]; /* when it lost nothing that was confirmed; -1: never */
    int64_t queue_lost_at
        [LK_SIM_KEYS_MAX]; /* when it lost the queue of more than LK_SIM_FIRST, and told nobody; -1: never */
    int64_t deaf_from, deaf_until; /* a leader heard of no touch for too long: the latest such time */
    unsigned grants;
} judge;

/* For messages. */
static long long in_ms(int64_t span_ns)
{
    return span_ns / MS;
}

void lk_sim_judge_begin(const lk_sim_bounds *bounds)
{
    memset(&judge, 0, sizeof judge);
    judge.bounds = *bounds;
    lk_sim_server_clock_begin();
    for (unsigned i = 0; i < LK_SIM_KEYS_MAX; i++)
        judge.withheld_at[i] = judge.idle_since[i] = judge.free_since[i] = judge.forgot_at[i] =
            judge.flushed_at[i] = judge.forgot_ends_at[i] = judge.queue_lost_at[i] = -1;
    for (unsigned i = 0; i < LK_SIM_KEYS_MAX; i++)
        for (unsigned permits = 0; permits <= SLOTS; permits++)
            judge.used_with_at[i][permits] = -1;
}

unsigned lk_sim_judge_grants(void)
{
    return judge.grants;
}

/* ------------------------------------------------------------------ what goes wrong ---- */

static bool is_well(void)
{
    return judge.bounds.idle_ns > 0 && judge.lasting == 0 && lk_sim_now() >= judge.well_at;
}

bool lk_sim_judge_was_withheld(unsigned key, int64_t since)
{
    return judge.withheld_at[key] >= since;
}

/* When all that was left behind is over. */
static int64_t calm_at(void)
{
    const int64_t caught_up_at = lk_sim_server_clock_caught_up(judge.bounds.lease_ns);
    return caught_up_at > judge.calm_at ? caught_up_at : judge.calm_at;
}

bool lk_sim_judge_is_calm(void)
{
    return is_well() && lk_sim_now() >= calm_at();
}

void lk_sim_judge_clock(int64_t lead_ns)
{
    if (lk_sim_now() < calm_at() &&
        judge.calm_at < lk_sim_now()) /* no sooner, however far it is set forward */
        judge.calm_at = lk_sim_now();
    lk_sim_server_clock_leads(lead_ns);
}

bool lk_sim_judge_was_well(int64_t since)
{
    return is_well() && since >= judge.well_at;
}

void lk_sim_judge_trouble(int64_t span_ns)
{
    if (is_well())
        judge.ill_since = lk_sim_now();
    if (judge.well_at < lk_sim_now() + span_ns)
        judge.well_at = lk_sim_now() + span_ns;
    if (lk_sim_now() - judge.ill_since > judge.bounds.cleanup_ns) /* what was given up may be done late */
        lk_sim_judge_leaves();
}

void lk_sim_judge_leaves(void)
{
    judge.calm_at = lk_sim_now() + judge.bounds.lease_ns;
}

void lk_sim_judge_lasts(bool begins)
{
    if (begins && is_well())
        judge.ill_since = lk_sim_now();
    judge.lasting += begins ? 1 : -1U;
}

/* Since when, if it is so. */
static int64_t calm_since(int64_t at)
{
    const int64_t since = calm_at() > judge.well_at ? calm_at() : judge.well_at;
    return at > since ? at : since;
}

/* What no replica had to confirm. */
static void forget_others(unsigned key)
{
    memset(&judge.strangers[key], 0, sizeof judge.strangers[key]);
    memset(judge.released[key], 0, sizeof judge.released[key]); /* what was given back may be held again */
}

void lk_sim_judge_forgets(unsigned key)
{
    judge.forgot_at[key] = lk_sim_now();
    forget_others(key);
    if (!judge.bounds.keeps_count)
        memset(judge.greatest[key], 0, sizeof judge.greatest[key]);
}

void lk_sim_judge_forgets_all(void)
{
    for (unsigned key = 0; key < LK_SIM_KEYS_MAX; key++)
        lk_sim_judge_forgets(key);
}

void lk_sim_judge_loses_queue(unsigned key)
{
    if (judge.bounds.waiters == NULL || judge.bounds.waiters(key) <= LK_SIM_FIRST)
        return;
    judge.queue_lost_at[key] = lk_sim_now();
    for (lk_sim_hold *asks = judge.asking; asks != NULL; asks = asks->next)
        asks->was_first = asks->key == key && judge.bounds.is_first(key, asks->process->pid);
}

void lk_sim_judge_flushes(void)
{
    for (unsigned key = 0; key < LK_SIM_KEYS_MAX; key++) {
        lk_sim_judge_forgets(key);
        lk_sim_judge_loses_queue(key);
        judge.flushed_at[key] = lk_sim_now();
    }
}

static void forget_ends(unsigned key, int64_t at)
{
    judge.forgot_ends_at[key] = at;
    forget_others(key);
}

void lk_sim_judge_forgets_ends(unsigned key)
{
    forget_ends(key, lk_sim_now());
}

void lk_sim_judge_forgets_all_ends(bool goes_on)
{
    for (unsigned key = 0; key < LK_SIM_KEYS_MAX; key++)
        forget_ends(key, goes_on ? INT64_MAX : lk_sim_now());
}

/* When the service last lost of it what it had confirmed. */
static int64_t last_forgot_at(unsigned key)
{
    return judge.forgot_ends_at[key] > judge.forgot_at[key] ? judge.forgot_ends_at[key]
                                                            : judge.forgot_at[key];
}

void lk_sim_judge_was_deaf(int64_t since)
{
    judge.deaf_from = since;
    judge.deaf_until = lk_sim_now();
}

void lk_sim_judge_stranger(unsigned key, int64_t span_ns)
{
    judge.strangers[key].since = lk_sim_now();
    judge.strangers[key].until = lk_sim_now() + span_ns;
}

void lk_sim_judge_moves(const lk_sim_service *from)
{
    judge.moved_from = from;
}

void lk_sim_judge_deafens(unsigned key)
{
    judge.deafened_at[key] = lk_sim_now();
}

void lk_sim_judge_handed(unsigned key, const lk_sim_process *process)
{
    for (lk_sim_hold *hold = judge.holds; hold != NULL; hold = hold->next)
        if (hold->key == key && hold->process == process)
            hold->handed_at = lk_sim_now();
}

/* ------------------------------------------------------------------ who holds beside whom ---- */

static unsigned kind_of(const lk_sim_hold *hold)
{
    if (hold->permits > 0)
        return PERMIT + (hold->slot > 0 ? (unsigned)hold->slot : 0);
    return hold->mode == LOCKER_SHARED ? SHARED : PLAIN;
}

/* Whichever permit it is. */
static unsigned wants(const lk_sim_hold *hold)
{
    return hold->permits > 0 ? KINDS : kind_of(hold);
}

/* For the trace. */
static const char *kind_name(const lk_sim_hold *hold)
{
    static char text[64];
    if (hold->permits == 0)
        return hold->mode != LOCKER_SHARED ? "exclusive"
               : hold->rides               ? "shared, on the locker's existing grant"
                                           : "shared";
    (void)snprintf(text, sizeof text, "slot %d of %d", hold->slot, hold->permits);
    return text;
}

/* Of permits as of readers: any number, as far as this is asked. */
static bool shuts_out(unsigned one, unsigned other)
{
    return one == PLAIN || other == PLAIN || (one == SHARED) != (other == SHARED) ||
           (one >= PERMIT && one < KINDS && one == other);
}

static bool is_same_grant(const lk_sim_hold *one, const lk_sim_hold *other)
{
    return one->handle->claim == other->handle->claim;
}

/* The latest grant that it shuts out. */
static lk_sim_grant latest_of(unsigned key, unsigned kind)
{
    lk_sim_grant latest = {0};
    for (unsigned other = 0; other < KINDS; other++)
        if (shuts_out(kind, other) && judge.latest[key][other].serial > latest.serial)
            latest = judge.latest[key][other];
    return latest;
}

/* Of which kind the greatest token is of those grants; all: also of those beside which it may be. */
static unsigned greatest_of(unsigned key, unsigned kind, bool all)
{
    unsigned greatest = PLAIN;
    for (unsigned other = 0; other < KINDS; other++)
        if ((all || shuts_out(kind, other)) &&
            judge.greatest[key][other].token > judge.greatest[key][greatest].token)
            greatest = other;
    return greatest;
}

/* ------------------------------------------------------------------ excuses ---- */

/* What its deadline counts from: of ZooKeeper that of its session, of which a hundredth is taken off. */
static int64_t sent_at(const lk_sim_hold *hold)
{
    const int64_t term = judge.bounds.term_ns;
    if (hold->most_local == INT64_MAX)
        return hold->asked_at;
    const int64_t lease = hold->ttl_ns - hold->ttl_ns / 100 * judge.bounds.drift;
    return lk_sim_true(hold->process,
                       hold->most_local - (judge.bounds.has_leases ? lease : term - term / 100));
}

/* What its deadline counts from was sent before the service lost its data; where locks have no leases it was asked for before
 * that, too: a server without its data knows no session of before. */
static bool is_forgotten(const lk_sim_hold *hold)
{
    const int64_t counts = sent_at(hold),
                  sent = judge.bounds.has_leases || counts > hold->asked_at ? counts : hold->asked_at;
    return judge.forgot_at[hold->key] >= 0 && sent <= judge.forgot_at[hold->key];
}

/* Its session's deadline counts from what a server answered by itself meanwhile. */
static bool is_unheard_of(const lk_sim_hold *hold)
{
    const int64_t sent = sent_at(hold);
    return !judge.bounds.has_leases && judge.deaf_until > 0 && sent >= judge.deaf_from - clock_ns &&
           sent <= judge.deaf_until + clock_ns;
}

/* A lock that is passed on inside its process keeps its deadline, or its value, of which word may be under way. */
static int64_t passed_ns(const lk_sim_hold *hold)
{
    return hold->handle != NULL && hold->first_until == 0 ? grace_ns : 0;
}

/* One whose outcome nobody knows has broken nothing as long as the service has carried out none, and then what had been asked for,
 * or confirmed and then passed on; without tokens also what its process has got anew, or passed on, lately. */
static bool may_have_carried(const lk_sim_break *b, const lk_sim_hold *hold)
{
    const int64_t since = passed_ns(hold) > 0 && judge.bounds.has_tokens ? sent_at(hold) : hold->asked_at;
    return !judge.bounds.tells_breaks || b->known ||
           (b->carried_at >= 0 && since <= b->carried_at + (judge.bounds.has_tokens ? 0 : passed_ns(hold)));
}

/* It certainly has. */
static bool has_broken(const lk_sim_break *b, const lk_sim_hold *hold)
{
    if (!b->known || b->key != hold->key)
        return false;
    return b->serial != 0 ? b->serial == hold->serial : b->token != 0 && b->token == hold->token;
}

/* It takes what somebody had seen before it ended, however late it arrives; what it has certainly broken may be passed on before
 * its holder hears of that. */
static bool may_have_broken(const lk_sim_break *b, const lk_sim_hold *hold)
{
    if (b->serial != 0)
        return has_broken(b, hold) || (b->key == hold->key && passed_ns(hold) > 0 && b->of == hold->process &&
                                       hold->asked_at <= b->ended + passed_ns(hold));
    return b->key == hold->key && (b->token == 0 ? !b->known : b->token == hold->token) &&
           (b->process != NULL || hold->asked_at <= b->ended + (b->known ? 0 : passed_ns(hold))) &&
           may_have_carried(b, hold);
}

void lk_sim_judge_carried_out(unsigned key)
{
    for (lk_sim_break *b = judge.breaks; b != NULL; b = b->next)
        if (b->key == key && !b->known)
            b->carried_at = lk_sim_now();
}

static bool may_be_broken(const lk_sim_hold *hold)
{
    for (const lk_sim_break *b = judge.breaks; b != NULL; b = b->next)
        if (may_have_broken(b, hold))
            return true;
    return false;
}

/* Whether the service may have ended its lease at that time. The service ends it earlier by what its clock has gained since the
 * deadline's start. The deadline allows for clock_drift: one percent of that is for the rates that clocks have in every run, and the
 * rest is taken off here. */
static bool may_have_been_over(const lk_sim_hold *hold, int64_t at)
{
    const int64_t gained = lk_sim_server_clock_gained(sent_at(hold)),
                  allowed = hold->ttl_ns / 101 * judge.bounds.drift;
    return judge.bounds.has_leases && gained > allowed && at >= hold->most + allowed - gained;
}

static bool may_be_over(const lk_sim_hold *hold)
{
    return may_have_been_over(hold, lk_sim_now());
}

static bool is_excused(const lk_sim_hold *hold)
{
    return is_forgotten(hold) || is_unheard_of(hold) || may_be_over(hold) || may_be_broken(hold);
}

/* ------------------------------------------------------------------ lists ---- */

static void add(lk_sim_hold **list, lk_sim_hold *hold)
{
    hold->next = *list;
    *list = hold;
}

static void take_out(lk_sim_hold **list, const lk_sim_hold *hold)
{
    while (*list != hold)
        list = &(*list)->next;
    *list = hold->next;
}

static void take_out_of(lk_sim_hold **list, const lk_sim_process *process)
{
    while (*list != NULL) {
        if ((*list)->process == process)
            *list = (*list)->next;
        else
            list = &(*list)->next;
    }
}

void lk_sim_judge_forget(const lk_sim_process *process)
{
    take_out_of(&judge.holds, process);
    take_out_of(&judge.asking, process);
    for (lk_sim_break *b = judge.breaks; b != NULL; b = b->next) {
        if (b->process != process)
            continue;
        b->process = NULL;
        b->ended = lk_sim_now();
    }
}

/* ------------------------------------------------------------------ a lock ---- */

void lk_sim_judge_took(const lk_sim_process *process, int64_t began, int64_t most_ns, const char *what)
{
    most_ns += most_ns < INT64_MAX - judge.bounds.call_ns - slack_ns ? judge.bounds.call_ns + slack_ns : 0;
    if (lk_sim_ran(process) - began > most_ns)
        lk_sim_fail("%s took %lld ms, longer than its limit of %lld ms", what,
                    in_ms(lk_sim_ran(process) - began), in_ms(most_ns));
}

static int64_t ends_at(const locker_lock_options *options)
{
    return options->wait_ms < 0 ? INT64_MAX : lk_sim_now() + options->wait_ms * MS - slack_ns;
}

void lk_sim_judge_asks(lk_sim_hold *hold, lk_sim_process *process, unsigned key,
                       const locker_lock_options *options)
{
    *hold = (lk_sim_hold){.process = process,
                          .key = key,
                          .mode = options->mode,
                          .permits = options->permits,
                          .slot = -1,
                          .waits = options->wait_ms != 0,
                          .asked_at = lk_sim_now(),
                          .began = lk_sim_ran(process),
                          .ttl_ns = options->ttl_ms * MS,
                          .leaves_at = options->cancel != NULL ? 0 : ends_at(options),
                          .ends_at = ends_at(options),
                          .renews = !options->no_renew,
                          .asked_behind = judge.greatest[key][greatest_of(key, PLAIN, true)].token,
                          .told = options->on_lost == NULL,
                          .place_at = lk_sim_now(),
                          .overtaken_at = -1,
                          .over = -1};
    add(&judge.asking, hold);
    lk_sim_tell("%d asks for key %u, %s, for %lld ms", process->pid, key, kind_name(hold),
                (long long)options->wait_ms);
    lk_sim_step("calls %d %lld %d", process->pid, (long long)hold->ttl_ns, hold->renews);
}

void lk_sim_judge_enters_again(const lk_sim_hold *hold, bool begins)
{
    if (hold->permits > SLOTS)
        return;
    judge.entering[hold->key][hold->permits] += begins ? 1 : -1;
    judge.used_with_at[hold->key][hold->permits] = lk_sim_now();
}

/* A break may have sent somebody back to the end of the queue. */
static bool was_any_break(unsigned key, int64_t since)
{
    for (const lk_sim_break *b = judge.breaks; b != NULL; b = b->next)
        if (b->key == key && (b->process != NULL || b->ended >= since))
            return true;
    return false;
}

/* Who rides may pass those who are no writers of its locker, for a while. */
static bool goes_behind(const lk_sim_hold *hold, const lk_sim_hold *other)
{
    if (hold->rides)
        return other->locker == hold->locker && other->mode != LOCKER_SHARED;
    return other->locker == hold->locker || judge.bounds.has_order;
}

/* Readers of a locker may stand behind one of them alone. When that one gives up the next one lines up. */
static void line_up(const lk_sim_hold *gone)
{
    for (lk_sim_hold *other = judge.asking; other != NULL; other = other->next)
        if (gone->mode == LOCKER_SHARED && other->mode == LOCKER_SHARED && other->key == gone->key &&
            other->locker == gone->locker && other->asked_at >= gone->asked_at)
            other->place_at = lk_sim_now();
}

static bool is_leaving(const lk_sim_hold *hold)
{
    return *hold->leaves || *hold->opened != hold->was_opened;
}

/* Whether it certainly waits, and did all the time, and has come certainly before that one, who has the lock. */
static bool came_before(const lk_sim_hold *other, const lk_sim_hold *hold)
{
    return other->key == hold->key && other->waits && !other->process->stopped && !is_leaving(other) &&
           lk_sim_now() < other->leaves_at && hold->asked_at - other->place_at >= order_ns &&
           goes_behind(hold, other) && lk_sim_judge_is_calm() &&
           calm_since(other->asked_at) == other->asked_at && !was_any_break(hold->key, other->asked_at);
}

/* No waiter is overtaken by a later one. A waiter that may hold the lock beside the new holder is left out: it may have been granted
 * the lock already, with the answer on its way. */
static void see_order(const lk_sim_hold *hold)
{
    for (lk_sim_hold *other = judge.asking; hold->waits && other != NULL; other = other->next) {
        if (!came_before(other, hold))
            continue;
        if (shuts_out(wants(hold), wants(other)))
            lk_sim_fail("key %u: process %d has it, but process %d asked %lld ms earlier", hold->key,
                        hold->process->pid, other->process->pid, in_ms(hold->asked_at - other->asked_at));
        if (other->overtaken_at < 0)
            other->overtaken_at = lk_sim_ran(other->process);
    }
}

static void see_overtaken(const lk_sim_hold *asks)
{
    if (asks->overtaken_at >= 0 && !asks->process->stopped && !is_leaving(asks) &&
        lk_sim_now() < asks->leaves_at && lk_sim_judge_is_calm() &&
        lk_sim_ran(asks->process) - asks->overtaken_at > rest_ns)
        lk_sim_fail("key %u: process %d waits, but a later process has had it for %lld ms", asks->key,
                    asks->process->pid, in_ms(lk_sim_ran(asks->process) - asks->overtaken_at));
}

static void see_token(lk_sim_hold *hold)
{
    if (!judge.bounds.has_tokens) {
        if (hold->token != 0)
            lk_sim_fail("key %u: token %llu was granted, but fencing is off", hold->key, hold->token);
        return;
    }
    const bool was_passed = hold->first_until == 0; /* a number of the lock as it was confirmed */
    if ((!judge.bounds.keeps_count && is_forgotten(hold)) || (was_passed && is_excused(hold)))
        return;
    const unsigned kind = kind_of(hold);
    const bool counts = judge.bounds.keeps_count || hold->asked_at > judge.forgot_at[hold->key];
    uint64_t behind = counts ? hold->asked_behind : 0;
    if (lk_sim_judge_is_held(hold) && !is_excused(hold) &&
        behind < judge.greatest[hold->key][greatest_of(hold->key, kind, false)].token)
        behind = judge.greatest[hold->key][greatest_of(hold->key, kind, false)].token;
    if (hold->token <= behind)
        lk_sim_fail("key %u: token %llu was granted after token %llu", hold->key, hold->token,
                    (unsigned long long)behind);
    if (hold->token <= judge.greatest[hold->key][kind].token)
        return;
    judge.greatest[hold->key][kind].token = hold->token;
    judge.greatest[hold->key][kind].asked_at = hold->asked_at;
    judge.greatest[hold->key][kind].granted_at = hold->granted_at;
}

/* For a moment, or while nobody waits, wherever. */
LK_UNCHECKED static void see_length(const lk_sim_hold *hold)
{
    const int64_t since = lk_sim_true(hold->process, hold->handle->claim->pub.granted_at);
    if (hold->asked_at - since < rides_ns || !lk_sim_judge_is_calm())
        return;
    for (const lk_sim_hold *other = judge.asking; other != NULL; other = other->next)
        if (other->key == hold->key && other->waits && !other->process->stopped && !is_leaving(other) &&
            lk_sim_now() < other->leaves_at && hold->asked_at - other->place_at >= order_ns &&
            calm_since(other->asked_at) == other->asked_at)
            lk_sim_fail("key %u: process %d joined a shared grant %lld ms after it was made, but process %d "
                        "waits",
                        hold->key, hold->process->pid, in_ms(hold->asked_at - since), other->process->pid);
}

/* Who rides has the grant of another call, which was asked for when that one was. */
LK_UNCHECKED static void see_ride(lk_sim_hold *hold)
{
    if (hold->mode != LOCKER_SHARED)
        lk_sim_fail("key %u: token %llu was granted twice", hold->key, hold->token);
    see_length(hold);
    hold->asked_at = lk_sim_true(hold->process, hold->handle->claim->pub.asked_at);
    for (const lk_sim_hold *other = judge.holds; other != NULL; other = other->next)
        if (other != hold && is_same_grant(other, hold))
            hold->serial = other->serial;
}

static void see_slot(lk_sim_hold *hold)
{
    hold->slot = locker_handle_slot(hold->handle);
    if (hold->permits == 0 ? hold->slot != -1 : hold->slot < 0 || hold->slot >= hold->permits)
        lk_sim_fail("key %u: slot %d was granted of %d permits", hold->key, hold->slot, hold->permits);
}

/* What comes so late that not much is left of it is confirmed first, once and again; what is handed on inside a process has
 * a third. */
static void see_rest(const lk_sim_hold *hold)
{
    const bool in_vain = lk_sim_ran(hold->process) - hold->began > hold->ttl_ns + hold->ttl_ns / 3;
    const bool just_stood = lk_sim_now() - hold->process->changed_at < rest_ns;
    if (judge.bounds.has_leases && hold->waits && !in_vain && !just_stood &&
        hold->until - lk_sim_now() < hold->ttl_ns / 3 - rest_ns)
        lk_sim_fail("key %u: token %llu was granted with only %lld of %lld ms left", hold->key, hold->token,
                    in_ms(hold->until - lk_sim_now()), in_ms(hold->ttl_ns));
}

/* Whoever has it now listens for breaks soon. */
static void knows_from_now(lk_sim_hold *hold, const lk_sim_break *b)
{
    const int64_t listens_at = hold->granted_at + listens_ns;
    hold->broken_at = lk_sim_now() > listens_at ? lk_sim_now() : listens_at;
    hold->breaks_at = b->began;
}

/* It reads core's members without a mutex, as the next functions do: all threads are fibers here, and only one runs at a time. */
LK_UNCHECKED void lk_sim_judge_granted(lk_sim_hold *hold, locker_handle *handle)
{
    take_out(&judge.asking, hold);
    hold->handle = handle;
    hold->token = locker_handle_token(handle);
    hold->serial = ++judge.grants;
    hold->granted_at = lk_sim_now();
    judge.idle_since[hold->key] = -1;
    add(&judge.holds, hold);
    hold->rides = handle != &handle->claim->first_handle;
    see_slot(hold);
    lk_sim_tell("granted key %u token %llu to %d, %s", hold->key, hold->token, hold->process->pid,
                kind_name(hold));
    if (lk_sim_judge_is_held(hold))
        see_rest(hold);
    hold->first_until = handle->claim->key->passed > 0 ? 0 : hold->until;
    see_order(hold);
    if (hold->rides)
        see_ride(hold);
    if (hold->first_until != 0 && !hold->rides && lk_sim_judge_is_held(hold) && !is_excused(hold))
        judge.latest[hold->key][kind_of(hold)] =
            (lk_sim_grant){hold->serial, hold->asked_at, hold->granted_at};
    for (const lk_sim_break *b = judge.breaks; b != NULL; b = b->next)
        if (has_broken(b, hold) && b->began > last_forgot_at(b->key))
            knows_from_now(hold, b);
    if (!hold->rides)
        see_token(hold);
}

/* A try asks the service at once, unless another of its process asks: then it is told what that one knows. */
static bool is_asked_for(const lk_sim_process *process, unsigned key)
{
    for (const lk_sim_hold *other = judge.asking; other != NULL; other = other->next)
        if (other->process == process && other->key == key)
            return true;
    return false;
}

/* There was room for one who shares it, or has a permit, however it is used. */
static bool had_room(unsigned key, int64_t since)
{
    const bool is_strangers = lk_sim_now() < judge.strangers[key].until + free_ns;
    return !is_strangers && lk_sim_judge_is_calm() && calm_since(since) == since &&
           judge.full_at[key] < since - free_ns;
}

/* Certainly: what was given back late, or by a call of unknown outcome, is free by then. */
static bool was_free(unsigned key, int64_t since)
{
    const bool is_strangers = lk_sim_now() < judge.strangers[key].until + free_ns;
    for (const lk_sim_hold *other = judge.asking; other != NULL; other = other->next)
        if (other->key == key)
            return false;
    return !is_strangers && lk_sim_judge_is_calm() && calm_since(since) == since &&
           judge.used_at[key] < since - free_ns && !lk_sim_judge_is_used(key);
}

static void see_busy(const lk_sim_hold *hold)
{
    if (!hold->waits && was_free(hold->key, hold->asked_at))
        lk_sim_fail("key %u: a try answered busy, but the key had no holder", hold->key);
    if (!hold->waits && kind_of(hold) != PLAIN && had_room(hold->key, hold->asked_at))
        lk_sim_fail("key %u: a try answered busy, but there was room", hold->key);
}

/* True if the key is held with as many permits as the call names, and was when the call began. */
static bool is_held_likewise(const lk_sim_hold *hold)
{
    for (lk_sim_hold *other = judge.holds; other != NULL; other = other->next)
        if (other->key == hold->key && other->permits == hold->permits && !other->gives &&
            other->granted_at < hold->asked_at && lk_sim_judge_is_held(other) && !is_excused(other))
            return true;
    return false;
}

/* True if the call's locker had the key with another number of permits, and may not know yet that a break or the server's loss of its
 * data ended that. */
static bool may_miss_end(const lk_sim_hold *hold)
{
    for (const lk_sim_hold *other = judge.holds; other != NULL; other = other->next)
        if (other->key == hold->key && other->locker == hold->locker && other->permits != hold->permits &&
            (may_be_broken(other) || is_forgotten(other)))
            return true;
    return false;
}

/* Fail unless the key was held or wanted in another way. A call that names the holders' number is not refused because of calls that only
 * want the key. */
static void see_other_use(const lk_sim_hold *hold)
{
    const bool may_be_told =
        !judge.bounds.has_order || may_miss_end(hold) || was_any_break(hold->key, hold->asked_at);
    if (!may_be_told && is_held_likewise(hold))
        lk_sim_fail("key %u: a call failed because of another use, but its number of permits is that of the "
                    "holders",
                    hold->key);
    for (int32_t permits = 0; permits <= SLOTS; permits++)
        if (permits != hold->permits &&
            (judge.entering[hold->key][permits] > 0 ||
             (judge.used_with_at[hold->key][permits] >= 0 &&
              judge.used_with_at[hold->key][permits] >= hold->asked_at - free_ns)))
            return;
    const bool is_strangers = hold->asked_at < judge.strangers[hold->key].until + free_ns;
    if (!is_strangers && lk_sim_judge_is_calm() && calm_since(hold->asked_at) == hold->asked_at)
        lk_sim_fail("key %u: a call failed because of another use, but there was none", hold->key);
}

void lk_sim_judge_refused(lk_sim_hold *hold, locker_status status, const char *text)
{
    take_out(&judge.asking, hold);
    line_up(hold);
    lk_sim_step("leaves %d", hold->process->pid);
    lk_sim_tell("a call of %d for key %u, %s: %s", hold->process->pid, hold->key, kind_name(hold),
                locker_status_name(status));
    if (status == LOCKER_BUSY)
        see_busy(hold);
    judge.used_at[hold->key] = lk_sim_now();
    if (status == LOCKER_CONFIG) {
        see_other_use(hold);
        return;
    }
    const bool may_be_away = lk_sim_now() < judge.well_at + judge.bounds.back_ns &&
                             (hold->waits || is_asked_for(hold->process, hold->key));
    /* whether replicas have it may still be asked for when the call's time is over */
    const bool is_over = judge.bounds.has_replica && hold->waits && lk_sim_now() >= hold->ends_at;
    if (status == LOCKER_UNAVAILABLE &&
        (may_be_away || is_over || lk_sim_judge_was_withheld(hold->key, hold->asked_at - retry_ns) ||
         !lk_sim_judge_was_well(hold->asked_at)))
        return;
    if ((status == LOCKER_BUSY && hold->waits) || (status == LOCKER_TIMEOUT && !hold->waits) ||
        (status != LOCKER_BUSY && status != LOCKER_TIMEOUT && status != LOCKER_CANCELED &&
         status != LOCKER_CLOSED))
        lk_sim_fail("key %u: a lock call answered %s: %s", hold->key, locker_status_name(status), text);
    if (status == LOCKER_CLOSED && !is_leaving(hold))
        lk_sim_fail("key %u: a lock call answered closed, but its locker is open", hold->key);
    if (status == LOCKER_TIMEOUT && lk_sim_now() < hold->ends_at)
        lk_sim_fail("key %u: a lock call timed out too early, after %lld ms", hold->key,
                    in_ms(lk_sim_now() - hold->asked_at));
}

/* By the process' clock, how long the lock is its holder's still. */
static void tell_deadline(const char *step, const lk_sim_hold *hold)
{
    const int64_t left = hold->until_local - lk_sim_local(hold->process, lk_sim_now());
    lk_sim_step("%s %d %llu %lld", step, hold->process->pid, hold->token, (long long)(left > 0 ? left : 0));
}

/* The deadline's true time is reckoned once. */
bool lk_sim_judge_is_held(lk_sim_hold *hold)
{
    const lk_claim *const claim = hold->handle->claim;
    const int64_t until = LK_READ(claim->valid_until), suspect = LK_READ(claim->suspect_at);
    if (suspect > hold->suspect_local)
        hold->moved_at = lk_sim_now();
    hold->suspect_local = suspect;
    if (until != hold->until_local) {
        const bool is_new = hold->until_local == 0, is_forward = until > hold->until_local;
        hold->until_local = until;
        hold->until = until == INT64_MAX ? INT64_MAX : lk_sim_true(hold->process, until);
        if (is_forward) {
            hold->most_local = until;
            hold->most = hold->until;
        }
        tell_deadline(is_new ? "granted" : "moved", hold);
    }
    return LK_READ(claim->phase) == LK_GRANTED && lk_sim_now() < hold->until;
}

void lk_sim_judge_said(lk_sim_hold *hold, bool was_held, int64_t since, locker_state state, int64_t left_ms)
{
    const bool is_held = lk_sim_judge_is_held(hold);
    const bool is_true = state == LOCKER_STATE_LOST ? !is_held : was_held && state != LOCKER_STATE_UNLOCKED;
    if (!is_true)
        lk_sim_fail("key %u: the handle of token %llu says %s", hold->key, hold->token,
                    locker_state_name(state));
    if (left_ms == -1 && hold->until == INT64_MAX)
        return;
    if (left_ms < 0 || (!was_held && left_ms > 0) ||
        (left_ms > 0 && left_ms * MS > hold->until - since + clock_ns))
        lk_sim_fail("key %u: the handle of token %llu reports %lld ms left, but the lease has %lld ms left",
                    hold->key, hold->token, (long long)left_ms, in_ms(hold->until - since));
}

LK_UNCHECKED void lk_sim_judge_gives(lk_sim_hold *hold)
{
    const unsigned greatest = greatest_of(hold->key, kind_of(hold), false);
    hold->gave_behind = judge.greatest[hold->key][greatest].token;
    hold->gave_after = latest_of(hold->key, kind_of(hold));
    hold->behind_asked_at = judge.greatest[hold->key][greatest].asked_at;
    hold->behind_granted_at = judge.greatest[hold->key][greatest].granted_at;
    hold->gave_part = hold->handle->claim->open_handles > 1;
    hold->passed_before = hold->handle->l->stats.handed_over;
    hold->gave_lost = !lk_sim_judge_is_held(hold);
    hold->gave_at = lk_sim_now();
    hold->gives = true;
    lk_sim_step("leaves %d", hold->process->pid);
}

static bool was_released(unsigned key, uint64_t token)
{
    for (unsigned i = 0; i < RELEASED; i++)
        if (judge.released[key][i] == token)
            return true;
    return false;
}

/* It was handed on inside its process, which doesn't ask the service, after somebody may have broken it, or the service has
 * lost it, or ended it. */
LK_UNCHECKED static bool was_passed_on(const lk_sim_hold *hold)
{
    return hold->handle->l->stats.handed_over != hold->passed_before &&
           (may_be_broken(hold) || is_forgotten(hold) || may_be_over(hold));
}

/* A failover lost the break that let somebody else have it, and what that one was granted. */
static bool was_kept(const lk_sim_hold *hold, int64_t asked_at)
{
    for (const lk_sim_break *b = judge.breaks; b != NULL; b = b->next)
        if (may_have_broken(b, hold) && b->began <= last_forgot_at(b->key))
            return asked_at <= last_forgot_at(hold->key);
    return false;
}

/* What was lost was handed to it again after the latest grant, from a queue that was not lost. */
static bool was_handed_anew(const lk_sim_hold *hold)
{
    return is_forgotten(hold) && hold->handed_at > hold->gave_after.granted_at;
}

/* Its answer may have been lost, and when it was asked again the lock was gone from the server that had confirmed it: nobody but
 * the first time is known to have taken it. */
static bool was_asked_twice(const lk_sim_hold *hold)
{
    return judge.flushed_at[hold->key] >= 0 && sent_at(hold) <= judge.flushed_at[hold->key] &&
           hold->process->connected_at >= hold->gave_at;
}

/* The same, where the service's clock had ended the lease before the other grant. */
static bool was_over_when_asked_twice(const lk_sim_hold *hold, int64_t granted_at)
{
    return may_have_been_over(hold, granted_at) && hold->process->connected_at >= hold->gave_at;
}

/* By the number of its grant, also where the service has lost the lock, or has no tokens. */
static void see_successor(const lk_sim_hold *hold)
{
    if (hold->gave_after.serial > hold->serial && !was_passed_on(hold) &&
        !was_kept(hold, hold->gave_after.asked_at) && !was_handed_anew(hold) && !was_asked_twice(hold) &&
        !was_over_when_asked_twice(hold, hold->gave_after.granted_at))
        lk_sim_fail("key %u: unlock of token %llu answered OK, but another process had been granted the key "
                    "before",
                    hold->key, hold->token);
}

static void see_release(const lk_sim_hold *hold)
{
    if (hold->gave_behind > hold->token && !was_passed_on(hold) && !was_kept(hold, hold->behind_asked_at) &&
        !was_over_when_asked_twice(hold, hold->behind_granted_at))
        lk_sim_fail("key %u: unlock of token %llu answered OK, but token %llu had been granted before",
                    hold->key, hold->token, hold->gave_behind);
    /* What was given before a failover may have been carried out by a master that the replica hadn't heard of. */
    const bool proves =
        judge.bounds.breaks_prove && hold->gave_at > last_forgot_at(hold->key) &&
        !was_over_when_asked_twice(hold, lk_sim_now()); /* the mark of a break ends with the lease */
    for (const lk_sim_break *b = judge.breaks; proves && b != NULL; b = b->next)
        if (has_broken(b, hold) && b->began > last_forgot_at(b->key))
            lk_sim_fail("key %u: unlock of token %llu answered OK, but the lock had been broken", hold->key,
                        hold->token);
    if (hold->gave_at > judge.forgot_ends_at[hold->key]) /* else a failover may have lost that */
        judge.released[hold->key][judge.released_count[hold->key]++ % RELEASED] = hold->token;
}

/* Others have the same grant: also who came to share it between its unlock's beginning and its end. */
static bool is_shared_still(const lk_sim_hold *hold)
{
    for (const lk_sim_hold *other = judge.holds; other != NULL; other = other->next)
        if (other->key == hold->key && other->process == hold->process && other->token == hold->token)
            return true;
    return false;
}

void lk_sim_judge_unlocked(lk_sim_hold *hold, locker_status status)
{
    take_out(&judge.holds, hold);
    const bool gave_part = hold->gave_part || is_shared_still(hold);
    lk_sim_tell("unlock of key %u token %llu by %d: %s", hold->key, hold->token, hold->process->pid,
                locker_status_name(status));
    if (status == LOCKER_OK && hold->gave_lost)
        lk_sim_fail("key %u: unlock of token %llu answered OK, but the lock had been lost", hold->key,
                    hold->token);
    if (status != LOCKER_OK && status != LOCKER_LOST && status != LOCKER_UNKNOWN && status != LOCKER_CLOSED)
        lk_sim_fail("key %u: unlock answered %s", hold->key, locker_status_name(status));
    if (status == LOCKER_UNKNOWN && lk_sim_judge_was_well(hold->gave_at))
        lk_sim_fail("key %u: unlock of token %llu answered unknown, but there was no fault", hold->key,
                    hold->token);
    judge.used_at[hold->key] = lk_sim_now();
    if (!is_forgotten(hold) && status == LOCKER_OK && !gave_part)
        see_release(hold);
    if (status == LOCKER_OK && !gave_part)
        see_successor(hold);
    if (is_forgotten(hold))
        return;
    if (status == LOCKER_LOST && !hold->gave_lost && lk_sim_now() < hold->until && !is_excused(hold))
        lk_sim_fail("key %u: unlock of token %llu answered LOST, but the lock was not lost", hold->key,
                    hold->token);
}

bool lk_sim_judge_is_used(unsigned key)
{
    for (const lk_sim_hold *hold = judge.holds; hold != NULL; hold = hold->next)
        if (hold->key == key)
            return true;
    return false;
}

/* ------------------------------------------------------------------ breaks and looks ---- */

lk_sim_hold *lk_sim_judge_holder(unsigned key)
{
    for (lk_sim_hold *hold = judge.holds; hold != NULL; hold = hold->next)
        if (hold->key == key && !hold->gives && lk_sim_judge_is_held(hold) && !is_excused(hold))
            return hold;
    return NULL;
}

lk_sim_break *lk_sim_judge_breaks(lk_sim_process *process, unsigned key, uint64_t token)
{
    lk_sim_break *const b = lk_sim_alloc(sizeof *b);
    *b = (lk_sim_break){.next = judge.breaks,
                        .process = process,
                        .key = key,
                        .asked_token = token,
                        .token = token,
                        .began = lk_sim_now(),
                        .carried_at = -1};
    b->holder = lk_sim_judge_holder(key);
    judge.breaks = b;
    lk_sim_tell("%d breaks key %u token %llu", process->pid, key, (unsigned long long)token);
    return b;
}

static void see_broken(const lk_sim_break *b)
{
    if (b->began <= last_forgot_at(b->key)) /* the failover may have lost it, and its answer came late */
        return;
    if (judge.bounds.breaks_prove && b->serial == 0 && was_released(b->key, b->token))
        lk_sim_fail("key %u: token %llu was broken, but unlock had already answered OK", b->key, b->token);
    for (lk_sim_hold *hold = judge.holds; hold != NULL; hold = hold->next)
        if (has_broken(b, hold))
            knows_from_now(hold, b);
}

/* Who certainly held the key then, and all the time since. NULL: nobody did. */
static const lk_sim_hold *held_since(unsigned key, const lk_sim_hold *holder, int64_t since)
{
    for (lk_sim_hold *hold = judge.holds; hold != NULL; hold = hold->next)
        if (hold == holder && hold->key == key && !hold->gives && lk_sim_judge_is_held(hold) &&
            !is_excused(hold) && hold->granted_at <= since)
            return hold;
    return NULL;
}

static const lk_sim_hold *holder_throughout(const lk_sim_break *b)
{
    return held_since(b->key, b->holder, b->began);
}

/* Whether that is told of him, or of one of several. */
static bool tells_of(const locker_info *info, uint64_t token)
{
    for (size_t i = 0; i < info->holders_len; i++)
        if (locker_info_holder(info, i)->token == token)
            return true;
    return info->token == token;
}

/* It says that it has broken a lock, and not whose: who held it all the time had it. */
static void see_unnamed(lk_sim_break *b)
{
    b->known = true; /* here it excuses nobody */
    const lk_sim_hold *const hold = holder_throughout(b);
    if (hold != NULL && kind_of(hold) != PLAIN) { /* of which of them it says nothing */
        b->known = false;
        return;
    }
    b->known = hold != NULL && b->began > last_forgot_at(b->key);
    if (!b->known)
        return;
    if (judge.bounds.tells_breaks && b->carried_at < 0)
        lk_sim_fail("key %u: a break answered OK, but the service has broken nothing", b->key);
    b->serial = hold->serial;
    b->of = hold->process;
    see_broken(b);
}

/* A server that was the master may be asked by who has a connection there still. */
static bool may_be_old(const lk_sim_process *process, int64_t since)
{
    return judge.moved_from != NULL &&
           (process->connected_at >= since || lk_sim_network_is_connected(process, judge.moved_from));
}

/* If one process held the lock during the whole break, the answer must name that holder. A lock whose token is not known is not the
 * lock that the break named. */
static void see_whom(const lk_sim_break *b, locker_status status, const locker_info *broken)
{
    const lk_sim_hold *const now = holder_throughout(b);
    const bool is_unknown = status == LOCKER_BUSY && (broken->token == 0 || !judge.bounds.has_tokens);
    const bool is_anothers = status == LOCKER_OK && now != NULL && b->asked_token != 0 &&
                             b->asked_token != now->token && kind_of(now) != PLAIN;
    const bool is_right = status != LOCKER_INVALID &&
                          (is_unknown || is_anothers || (now != NULL && tells_of(broken, now->token)));
    if (now != NULL && !is_right)
        lk_sim_fail("key %u: a break answered %s, token %llu, but token %llu was held all the time", b->key,
                    locker_status_name(status), (unsigned long long)broken->token, now->token);
}

/* The others of several that it has broken. */
static void see_more_broken(const lk_sim_break *of, const locker_info *broken)
{
    for (size_t i = 1; i < broken->holders_len; i++) {
        lk_sim_break *const more = lk_sim_alloc(sizeof *more);
        *more = *of;
        more->token = locker_info_holder(broken, i)->token;
        more->next = judge.breaks;
        judge.breaks = more;
        see_broken(more);
    }
}

void lk_sim_judge_broke(lk_sim_break *of, locker_status status, const locker_info *broken)
{
    lk_sim_tell("the break of key %u token %llu: %s, token %llu", of->key, of->token,
                locker_status_name(status), (unsigned long long)broken->token);
    const bool is_old = may_be_old(of->process, of->began);
    of->process = NULL;
    of->ended = lk_sim_now();
    if (status == LOCKER_OK && broken->token != 0 && judge.bounds.has_tokens) {
        if (of->token != 0 && of->token != broken->token)
            lk_sim_fail("key %u: token %llu was broken instead of %llu", of->key,
                        (unsigned long long)broken->token, of->token);
        of->token = broken->token;
        of->known = true;
        see_whom(of, status, broken);
        see_broken(of);
        see_more_broken(of, broken);
    } else if (status == LOCKER_OK) {
        see_unnamed(of);
    } else if (status == LOCKER_BUSY || status == LOCKER_INVALID) { /* nobody's */
        of->known = true;
        of->token = 0;
        if (!is_old)
            see_whom(of, status, broken);
    } else if (status != LOCKER_CLOSED && (status != LOCKER_UNAVAILABLE ||
                                           (lk_sim_judge_was_well(of->began) && !judge.bounds.has_replica &&
                                            !lk_sim_judge_was_withheld(of->key, of->began)))) {
        lk_sim_fail("key %u: a break answered %s", of->key, locker_status_name(status));
    }
}

void lk_sim_judge_shown(const lk_sim_process *process, unsigned key, const lk_sim_hold *holder, int64_t since,
                        const locker_info *info)
{
    if (may_be_old(process, since))
        return;
    if (info->held && was_free(key, since))
        lk_sim_fail("key %u: show reported it as held, but it had no holder", key);
    const lk_sim_hold *const now = held_since(key, holder, since);
    if (now == NULL)
        return;
    if (!info->held)
        lk_sim_fail("key %u: show reported it as free, but token %llu was held", key, now->token);
    if (info->held && (info->mode != now->mode || info->permits != now->permits))
        lk_sim_fail("key %u: show reported another mode or number of permits than that of token %llu", key,
                    now->token);
    if (info->token != 0 && judge.bounds.has_tokens && !tells_of(info, now->token))
        lk_sim_fail("key %u: show reported token %llu, but %llu was held", key,
                    (unsigned long long)info->token, now->token);
}

/* ------------------------------------------------------------------ after each step ---- */

/* What is to be renewed is confirmed when a third of what is left of it is over, or of what was when all was well again. */
static void see_renewed(const lk_sim_hold *hold)
{
    const int64_t sent = sent_at(hold) + (judge.bounds.shares_leases ? hold->ttl_ns / 8 : 0);
    int64_t since = calm_since(sent > hold->granted_at ? sent : hold->granted_at);
    since = lk_time_later(since, hold->process->changed_at);
    since = lk_time_later(since, hold->moved_at); /* it may allow for more than clock_drift */
    if (hold->renews && lk_sim_judge_is_calm() && !*hold->leaves && hold->until > since &&
        lk_sim_now() - since > (hold->until - since) / 3 + renews_ns && !is_excused(hold))
        lk_sim_fail("key %u: token %llu of process %d is not renewed, with only %lld ms left", hold->key,
                    hold->token, hold->process->pid, in_ms(hold->until - lk_sim_now()));
}

/* Whose process has another, from before the service lost its data and began to count anew: the greater token is taken for the
 * later one. */
static bool is_taken_for_older(const lk_sim_hold *hold)
{
    for (const lk_sim_hold *other = judge.holds; other != NULL; other = other->next)
        if (other->process == hold->process && other->key == hold->key && other->token > hold->token &&
            is_forgotten(other))
            return true;
    return false;
}

static void see_loss(lk_sim_hold *hold)
{
    const uint8_t phase = LK_READ(hold->handle->claim->phase);
    const int64_t ran = lk_sim_ran(hold->process);
    if (hold->over < 0 && phase == LK_LOST && lk_sim_now() < hold->until && !is_excused(hold) &&
        !is_taken_for_older(hold))
        lk_sim_fail("key %u: process %d was notified of the loss of token %llu, but the lock was not lost",
                    hold->key, hold->process->pid, hold->token);
    if (hold->over < 0 && (phase == LK_LOST || phase == LK_GRANTED)) {
        see_renewed(hold);
        hold->over = ran;
        lk_sim_step("lost %d %llu", hold->process->pid, hold->token);
    }
    if (hold->over >= 0 && !hold->told && LK_READ(hold->handle->ended) == LK_OPEN &&
        ran - hold->over > told_ns)
        lk_sim_fail("key %u: process %d lost token %llu, but was not notified", hold->key, hold->process->pid,
                    hold->token);
}

/* Its process connected to listen when it was about to be broken. */
static bool may_not_listen(const lk_sim_hold *hold)
{
    return hold->breaks_at - hold->granted_at <= listens_ns &&
           hold->process->connected_at > hold->breaks_at - connects_ns;
}

/* What a message would have told that trouble may have cost, or that came before the holder listened, the next renewal does, where
 * there are any, a third of a lease later. */
static int64_t told_within(const lk_sim_hold *hold)
{
    const bool has_term = judge.bounds.lease_ns > judge.bounds.broken_ns;
    const int64_t deafened_at = judge.deafened_at[hold->key];
    if (has_term && deafened_at > 0 && sent_at(hold) < deafened_at + listens_ns)
        return judge.bounds.lease_ns;
    if (has_term && calm_since(hold->broken_at) > hold->broken_at)
        return judge.bounds.lease_ns;
    if (has_term && may_not_listen(hold))
        return hold->renews ? hold->ttl_ns / 3 + judge.bounds.broken_ns : judge.bounds.lease_ns;
    return judge.bounds.broken_ns;
}

/* What was asked for after a break had answered renews nothing, unless a failover has lost that break. */
static void see_renewal(const lk_sim_hold *hold)
{
    for (const lk_sim_break *b = judge.breaks; b != NULL; b = b->next)
        if (has_broken(b, hold) && b->began > last_forgot_at(b->key) && sent_at(hold) > b->ended + clock_ns)
            lk_sim_fail("key %u: process %d renewed token %llu, but the lock had been broken", hold->key,
                        hold->process->pid, hold->token);
}

/* Whether it shuts others out. */
static bool look_at(lk_sim_hold *hold)
{
    const bool is_held = lk_sim_judge_is_held(hold);
    if (hold->process->stopped)
        return is_held;
    if (!is_held) {
        see_loss(hold);
        return false;
    }
    if (hold->over >= 0)
        lk_sim_fail("key %u: process %d had lost token %llu, but has it again", hold->key, hold->process->pid,
                    hold->token);
    if (hold->broken_at > 0)
        see_renewal(hold);
    if (judge.bounds.has_leases)
        see_renewed(hold);
    if (hold->broken_at > 0 && lk_sim_judge_is_calm() &&
        lk_sim_now() - calm_since(hold->broken_at) > told_within(hold))
        lk_sim_fail("key %u: token %llu was broken, but process %d was not notified", hold->key, hold->token,
                    hold->process->pid);
    return true;
}

/* Two have the key: the one that has no excuse, if there is one. */
static const lk_sim_hold *meet(const lk_sim_hold *one, const lk_sim_hold *other)
{
    if (is_excused(one))
        return other;
    if (is_excused(other))
        return one;
    lk_sim_fail("key %u: process %d (token %llu) and process %d (token %llu) hold it at the same time",
                one->key, one->process->pid, one->token, other->process->pid, other->token);
}

/* Whose a lock was that somebody broke is not known of a stranger's. */
static void meet_stranger(const lk_sim_hold *hold)
{
    for (const lk_sim_break *b = judge.breaks; b != NULL; b = b->next)
        if (b->key == hold->key && (b->process != NULL || b->ended >= judge.strangers[hold->key].since))
            return;
    if (!is_excused(hold))
        lk_sim_fail("key %u: a foreign client and process %d (token %llu) hold it at the same time",
                    hold->key, hold->process->pid, hold->token);
}

/* What those who hold a key, and those who ask for it, are. */
typedef struct {
    unsigned plain, shared, permits; /* holders, or what is given back just now */
    unsigned plain_asks, permit_asks;
    bool is_used;
    bool is_mixed; /* not all want as many permits: */
    int32_t use;
} users;

static void count(users *u, const lk_sim_hold *hold, bool holds)
{
    const unsigned kind = kind_of(hold);
    u->is_mixed = u->is_mixed || (u->is_used && u->use != hold->permits);
    u->is_used = true;
    u->use = hold->permits;
    if (hold->permits > 0)
        *(holds ? &u->permits : &u->permit_asks) += 1;
    else if (kind == PLAIN)
        *(holds ? &u->plain : &u->plain_asks) += 1;
    else if (holds)
        u->shared++;
    if (hold->permits <= SLOTS)
        judge.used_with_at[hold->key][hold->permits] = lk_sim_now();
}

/* True if the waiter's process could not connect lately, and may let some time pass before it tries again: until it has. */
static bool may_back_off(const lk_sim_hold *asks)
{
    const int64_t at = asks->process->given_up_at;
    return at > 0 && lk_sim_now() < at + judge.bounds.back_ns;
}

/* True if the waiter may not know yet that the service has lost its queue. A waiter that stood behind the first three, and was not
 * the last, asks for its place once in as many polls as waiters stood there. */
static bool may_miss_queue(const lk_sim_hold *asks)
{
    const int64_t at = judge.queue_lost_at[asks->key];
    return asks->asked_at <= at && !asks->was_first && asks->crowd > LK_SIM_FIRST + 1 &&
           lk_sim_now() < at + (int64_t)asks->crowd * judge.bounds.poll_ns;
}

/* Who asks could have the key now: he waits, and nobody is in the way, nor waits in front of him. */
static bool has_room(const users *u, const lk_sim_hold *asks)
{
    if (!asks->waits || asks->process->stopped || u->is_mixed || may_back_off(asks) || may_miss_queue(asks))
        return false;
    if (asks->permits > 0)
        return u->permits < (unsigned)asks->permits;
    return u->plain == 0 && (asks->mode == LOCKER_SHARED ? u->plain_asks == 0 : u->shared == 0);
}

/* Whether perhaps nobody more can share it, or have a permit. */
static bool is_full(const users *u)
{
    return u->plain + u->plain_asks > 0 || u->is_mixed ||
           (u->use > 0 && u->permits + u->permit_asks >= (unsigned)u->use);
}

static void see_idle(unsigned key, bool is_idle)
{
    if (!is_idle)
        judge.idle_since[key] = -1;
    else if (judge.idle_since[key] < 0)
        judge.idle_since[key] = lk_sim_now();
    else if (lk_sim_judge_is_calm() &&
             lk_sim_now() - calm_since(judge.idle_since[key]) > judge.bounds.idle_ns)
        lk_sim_fail("key %u: it has had no holder for %lld ms, but a process waits", key,
                    in_ms(lk_sim_now() - judge.idle_since[key]));
}

/* Whatever was left behind, and however long that may last: at the service there is nothing in the way. */
static void see_free(unsigned key, bool is_idle)
{
    if (judge.bounds.is_free == NULL)
        return;
    if (!is_idle || !is_well() || !judge.bounds.is_free(key))
        judge.free_since[key] = -1;
    else if (judge.free_since[key] < 0)
        judge.free_since[key] = lk_sim_now();
    else if (lk_sim_now() - judge.free_since[key] > judge.bounds.idle_ns)
        lk_sim_fail("key %u: the service has had no lock for it for %lld ms, but a process waits", key,
                    in_ms(lk_sim_now() - judge.free_since[key]));
}

void lk_sim_judge_ended(uint64_t token)
{
    for (lk_sim_hold *hold = judge.holds; hold != NULL; hold = hold->next)
        if (hold->token == token && !hold->gives && lk_sim_judge_is_held(hold) && !is_excused(hold))
            lk_sim_fail(
                "key %u: the service ends the lock of token %llu, but process %d holds it for another %lld "
                "ms",
                hold->key, (unsigned long long)token, hold->process->pid, in_ms(hold->until - lk_sim_now()));
}

/* Those who hold a key with it, that were looked at before. As each permit has a slot of its own, no more are held than there
 * are. */
static void see_beside(const lk_sim_hold *hold)
{
    for (const lk_sim_hold *other = judge.holds; other != hold; other = other->next) {
        if (!other->shuts || other->key != hold->key)
            continue;
        const bool is_same = hold->token != 0 && hold->token == other->token && !is_same_grant(hold, other);
        if (is_same || hold->permits != other->permits || shuts_out(kind_of(hold), kind_of(other)))
            (void)meet(other, hold);
    }
}

static void look_at_holds(users *of)
{
    for (lk_sim_hold *hold = judge.holds; hold != NULL; hold = hold->next) {
        hold->shuts = false;
        if (!hold->gives && !look_at(hold))
            continue;
        count(&of[hold->key], hold, true);
        judge.used_at[hold->key] = lk_sim_now();
        hold->shuts = !hold->gives;
        if (hold->shuts)
            see_beside(hold);
        if (hold->shuts && lk_sim_now() < judge.strangers[hold->key].until)
            meet_stranger(hold);
    }
}

static void see_crowd(lk_sim_hold *asks)
{
    const size_t waiters = judge.bounds.waiters == NULL || !asks->waits ? 0 : judge.bounds.waiters(asks->key);
    if (asks->crowd < waiters)
        asks->crowd = waiters;
}

void lk_sim_judge_look(void)
{
    users of[LK_SIM_KEYS_MAX] = {0};
    bool is_idle[LK_SIM_KEYS_MAX] = {false};
    look_at_holds(of);
    for (lk_sim_hold *hold = judge.asking; hold != NULL; hold = hold->next) {
        count(&of[hold->key], hold, false);
        see_crowd(hold);
        see_overtaken(hold);
        if (hold->waits)
            judge.used_at[hold->key] = lk_sim_now();
    }
    for (const lk_sim_hold *hold = judge.asking; hold != NULL; hold = hold->next)
        is_idle[hold->key] = is_idle[hold->key] || has_room(&of[hold->key], hold);
    for (unsigned key = 0; key < LK_SIM_KEYS_MAX; key++) {
        if (is_full(&of[key]))
            judge.full_at[key] = lk_sim_now();
        if (judge.bounds.is_withheld != NULL && judge.bounds.is_withheld(key))
            judge.withheld_at[key] = lk_sim_now();
        is_idle[key] = is_idle[key] && lk_sim_now() >= judge.strangers[key].until &&
                       !lk_sim_judge_was_withheld(key, lk_sim_now());
        see_idle(key, is_idle[key]);
        see_free(key, is_idle[key]);
    }
}
