/*
 * zookeeper.c: whether a lock is LOST, by its local deadline, before another client can have it, wherever in
 * the cycle of heartbeats, touches and PINGs a server is cut off from its leader (sweep.h).
 *
 *   locker_zookeeper_sweep [--short N] [--default N] [--only MODE] [--workers N] [--ledger FILE]
 *                          [--commit NAME]
 *
 * short: ticks of 200 ms and sessions of 2 to 4 s. default: ticks of 2 s and sessions of 30 s, as installed.
 * The trials of a set have fixed parameters, and belong to a commit. Each worker has an ensemble. Ends with 0 when every
 * trial was kept.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "locking.h"
#include "sweep.h"
#include "test_network.h"
#include "test_servers.h"

/* ------------------------------------------------------------------ trials ---- */

enum mode { CUT, DEAF, IDLE, STOPPED, STALLED, MODES };

static const char *const mode_names[MODES] = {
    "cut",     /* holds the lock for a while; then its server and the leader are cut off from each other */
    "deaf",    /* ... and then the leader doesn't hear the server */
    "idle",    /* takes the lock after it had nothing to do for a while; then the cut */
    "stopped", /* is stopped before it takes the lock; then the cut */
    "stalled", /* the leader stands still for a moment; then the cut */
};

struct set {
    const char *name;
    int tick_ms, sync_limit;
};

static const struct set sets[] = {{"short", 200, 100}, {"default", 2000, 30}};

struct trial {
    const struct set *set;
    int number;
    enum mode mode;
    int ttl_ms;
    int before_ms; /* idle, stopped, or holding before the cut */
    int after_ms;  /* from then, or from the grant, to the cut */
};

static struct trial nth_trial(const struct set *set, int number)
{
    struct trial t = {.set = set, .number = number, .mode = (enum mode)(number % MODES)};
    const double x = lk_spread(number / MODES, 0.6180339887), y = lk_spread(number / MODES, 0.7548776662);
    t.ttl_ms = set->tick_ms == 200 ? 4000 - number / MODES % 5 * 500 : 30000;
    switch (t.mode) {
    case IDLE:
        t.before_ms = (int)(t.ttl_ms * (0.64 + 0.6 * x));
        t.after_ms = (int)(set->tick_ms / 2 * y * y);
        break;
    case STOPPED:
        t.before_ms = (int)(t.ttl_ms * (0.3 + 0.5 * x));
        t.after_ms = (int)(set->tick_ms / 2 * y * y);
        break;
    case STALLED:
        t.before_ms = (int)(t.ttl_ms * (1 + x / 4));
        t.after_ms = (int)(t.ttl_ms / 8 * y); /* of the stall; the cut follows it at once */
        break;
    default:
        t.before_ms = (int)(t.ttl_ms * (1 + x / 4)); /* a quarter is the longest cycle */
        t.after_ms = 0;
    }
    return t;
}

/* ------------------------------------------------------------------ one trial ---- */

/* A rule of a firewall takes effect after tens of ms, in which the server may have answered a PING. Where
 * that matters most the server is stopped instead. */
static bool stops_server(const struct trial *t)
{
    return t->mode == STOPPED || (t->mode == IDLE && t->number / MODES % 2 == 0);
}

static void cut(const struct trial *t, const lk_server *leader, lk_server *follower)
{
    if (stops_server(t)) {
        lk_test_freeze(follower);
        return;
    }
    lk_test_drop(&leader->place, &follower->place);
    if (t->mode != DEAF)
        lk_test_drop(&follower->place, &leader->place);
}

static void sleep_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

/* Everything up to the cut. The rival has a place in the queue before it, or asks after it. */
static bool approach(const struct trial *t, lk_child *holder, lk_server *leader, lk_server *follower,
                     locker *rival, lk_locking *waiter, lk_outcome *o)
{
    char line[LK_LINE_MAX];
    const bool late = t->mode == IDLE || t->mode == STOPPED;
    if (t->mode == STOPPED) {
        sleep_ms(t->ttl_ms / 2);
        lk_child_stop(holder);
    }
    if (late)
        sleep_ms(t->before_ms);
    lk_child_say(holder, "lock");
    if (t->mode == STOPPED)
        lk_child_signal(holder, SIGCONT);
    if (lk_child_hear_within(holder, 2 * t->ttl_ms, line) == NULL ||
        sscanf(line, "held %lld", &o->at_grant) != 1) {
        *o = lk_broken_off(line);
        return false;
    }
    if (!late) {
        lk_locking_start(waiter, rival, "k", NULL);
        sleep_ms(t->before_ms);
    } else {
        sleep_ms(t->after_ms);
    }
    if (t->mode == STALLED) {
        lk_test_freeze(leader);
        sleep_ms(t->after_ms);
        lk_server_thaw(leader);
    }
    o->cut = lk_test_now_ms();
    cut(t, leader, follower);
    if (late)
        lk_locking_start(waiter, rival, "k", NULL);
    return true;
}

static lk_outcome run_trial(const struct trial *t, lk_server *members)
{
    lk_server *leader = lk_test_leader(members), *follower = lk_test_follower(members, t->number % 2);
    lk_outcome o = {0};
    char uri[128], line[LK_LINE_MAX] = "";
    const char *const arguments[] = {uri, "k", NULL};
    lk_locking waiter = {0};
    lk_child *holder;
    locker_error err;
    locker *rival;
    long long lost, deadline;
    snprintf(uri, sizeof uri, "zookeeper://%s:%d/sweep%d?ttl=%dms", follower->place.address, follower->port,
             t->number, t->ttl_ms);
    holder = lk_child_start("holder", arguments);
    if (lk_child_hear_within(holder, 60000, line) == NULL || strcmp(line, "open") != 0) {
        lk_child_kill(holder);
        return lk_broken_off(line);
    }
    snprintf(uri, sizeof uri, "zookeeper://%s:%d/sweep%d?ttl=%dms&command_timeout=60s", leader->place.address,
             leader->port, t->number, t->ttl_ms);
    if (locker_open(uri, NULL, &rival, &err) != LOCKER_OK) {
        lk_child_kill(holder);
        return lk_broken_off(err.text);
    }
    if (approach(t, holder, leader, follower, rival, &waiter, &o)) {
        if (lk_child_hear_within(holder, 3 * t->ttl_ms, line) == NULL ||
            sscanf(line, "lost %lld %lld", &lost, &deadline) != 2)
            o = lk_broken_off("the holder did not lose the lock");
        else
            o = (lk_outcome){
                .ran = true, .deadline = deadline, .lost = lost, .cut = o.cut, .at_grant = o.at_grant};
        if (o.ran && lost < o.cut) /* a machine that is too busy */
            o = lk_broken_off("the holder lost the lock before the cut");
        if (lk_locking_join(&waiter) != LOCKER_OK)
            o = lk_broken_off(waiter.err.text);
        o.granted = waiter.ended_ms;
        locker_handle_free(waiter.held);
    }
    lk_child_kill(holder);
    (void)locker_close(rival);
    lk_test_mend(&leader->place);
    lk_test_mend(&follower->place);
    lk_server_thaw(follower);
    if (t->ttl_ms > 10000) { /* TCP would wait for long before it tries again */
        lk_server_kill(follower);
        lk_test_launch(follower, true);
    }
    return o;
}

/* ------------------------------------------------------------------ the sweep ---- */

static lk_server *members;

static lk_outcome run(int set, int number)
{
    const struct trial t = nth_trial(&sets[set], number);
    if (members == NULL)
        members = lk_test_ensemble(sets[set].tick_ms, sets[set].sync_limit, lk_test_network()->members);
    return run_trial(&t, members);
}

static void describe(int set, int number, char *text, size_t size)
{
    const struct trial t = nth_trial(&sets[set], number);
    snprintf(text, size, "\"tick_ms\":%d,\"ttl_ms\":%d,\"before_ms\":%d,\"after_ms\":%d", t.set->tick_ms,
             t.ttl_ms, t.before_ms, t.after_ms);
}

static void end(void)
{
    lk_test_ensemble_free(members);
}

static const char *const set_names[] = {"short", "default", NULL};
const lk_sweep lk_swept = {set_names, mode_names, MODES, run, describe, end, NULL, NULL};
