/*
 * etcd.c: whether a lock on etcd is LOST, by its local deadline, before another client can have it, when the leader of three members
 * is struck at any moment of the cycle of renewals (sweep.h).
 *
 *   locker_etcd_sweep [--two N] [--only MODE,MODE] [--workers N] [--ledger FILE] [--commit NAME]
 *
 * two: leases of 2 s, the least that three members grant. The holder is at the leader, at a follower, or at any member; a rival waits in
 * the queue since before, and behind it, in half of the trials, `etcdctl lock`. Who has the lock at the end dies with it, so that
 * its lease ends by itself. With LOCKER_SWEEP_KEEPALIVE in the environment the holder is one that keeps its lease alive, at the leader: then
 * two must be found, by `disk`. Ends with 0 when no two had the lock at once; with 77 where the leader can't be struck so.
 */
#include <stdio.h>
#include <stdlib.h>

#include "contenders.h"
#include "etcdctl.h"
#include "expect.h"
#include "keepalive.h"
#include "sweep.h"
#include "test_disks.h"
#include "test_network.h"
#include "test_servers.h"

enum mode { CUT, KILLED, STOPPED, DISK, MODES };

static const char *const mode_names[MODES] = {
    "cut",     /* the leader and the others are cut off from each other, and not from clients */
    "killed",  /* kill -9 of the leader, which starts again */
    "stopped", /* it stands still, and goes on after more than the lease's time */
    "disk",    /* what it writes to its disk waits for so long */
};

enum {
    TTL_MS = 2000,
    THEIR_TTL_S = 20,
    SETTLE_MS = 2500,
    OPEN_MS = 15000,
    GRANT_MS = 5000,
    PASS_MS = 25000,
    WAIT_MS = 120000
};

/* ------------------------------------------------------------------ trials ---- */

enum at { AT_LEADER, AT_FOLLOWER, AT_ANY, ATS };

static const char *const at_names[ATS] = {"leader", "follower", "any"};

struct trial {
    enum mode mode;
    enum at at;    /* the member that the holder is at */
    int before_ms; /* the holder has had the lock for so long */
    int away_ms;   /* the strike lasts for so long */
    bool foreign;  /* etcdctl waits, too */
};

/* A renewal comes each third of the lease's time, so `before` covers two. */
static struct trial nth_trial(int number)
{
    const int nth = number / MODES;
    const double x = lk_spread(nth, 0.6180339887), y = lk_spread(nth, 0.7548776662);
    const enum mode mode = (enum mode)(number % MODES);
    return (struct trial){.mode = mode,
                          .at = (enum at)(nth % ATS),
                          .before_ms = (int)(TTL_MS * (0.35 + x * 2 / 3)),
                          .away_ms =
                              mode == KILLED ? (int)(TTL_MS * 2 * y * y) : (int)(TTL_MS * (1.1 + 1.6 * y)),
                          .foreign = nth % 2 == 1};
}

/* ------------------------------------------------------------------ what a worker has ---- */

static lk_server *members;
static const lk_place *places;

static void begin(void)
{
    places = lk_test_network()->members;
    members = lk_test_etcd_ensemble(NULL, places);
    if (lk_sweep_wants(mode_names[DISK]))
        lk_test_put_on_disks(members);
}

static void end(void)
{
    lk_test_ensemble_free(members);
}

static void strike(const struct trial *t, lk_server *leader)
{
    if (t->mode == KILLED)
        lk_server_kill(leader);
    else if (t->mode == STOPPED)
        lk_test_freeze(leader);
    else if (t->mode == DISK)
        lk_test_disk_freeze(leader);
    for (int i = 0; t->mode == CUT && i < LK_ENSEMBLE; i++)
        if (&members[i] != leader) {
            lk_test_drop(&members[i].place, &leader->place);
            lk_test_drop(&leader->place, &members[i].place);
        }
}

static void heal(const struct trial *t, lk_server *leader)
{
    if (t->mode == KILLED)
        lk_test_need(leader, lk_server_launch(leader, true));
    else if (t->mode == STOPPED)
        lk_server_thaw(leader);
    else if (t->mode == DISK)
        lk_test_disk_thaw(leader);
    for (int i = 0; t->mode == CUT && i < LK_ENSEMBLE; i++)
        lk_test_mend(&members[i].place);
}

static bool is_replaced(const lk_server *leader)
{
    for (int i = 0; i < LK_ENSEMBLE; i++)
        if (&members[i] != leader && members[i].kind->is(&members[i], "leader"))
            return true;
    return false;
}

/* ------------------------------------------------------------------ one trial ---- */

static int tries; /* of this worker: what one leaves is not in the next one's way */

static void uri_of(char *uri, size_t size, const lk_server *server, int number)
{
    char hosts[100];
    if (server != NULL)
        snprintf(hosts, sizeof hosts, "%s:%d", server->place.address, server->port);
    else
        lk_ensemble_hosts(members, hosts, sizeof hosts);
    snprintf(uri, size, "etcd://%s/sweep%d.%d?ttl=%dms", hosts, number, tries, TTL_MS);
}

/* Whether the holder is to be one that keeps its lease alive: then two must be found. */
static bool keeps_alive(void)
{
    return getenv("LOCKER_SWEEP_KEEPALIVE") != NULL;
}

/* etcdctl's name for the lock. */
static const char *place_of(int number)
{
    static char text[40];
    snprintf(text, sizeof text, "sweep%d.%d/k", number, tries);
    return text;
}

static lk_child *start_client(const lk_server *server, int number, const char *wait_ms)
{
    char uri[200];
    uri_of(uri, sizeof uri, server, number);
    return lk_child_start("holder", (const char *[]){uri, "k", wait_ms, NULL});
}

static lk_child *start_holder(const struct trial *t, int number, const lk_server *leader,
                              const lk_server *follower)
{
    char port[12];
    if (!keeps_alive())
        return start_client(t->at == AT_LEADER     ? leader
                            : t->at == AT_FOLLOWER ? follower
                                                   : NULL,
                            number, "5000");
    snprintf(port, sizeof port, "%d", leader->port);
    return lk_child_start("other",
                          (const char *[]){leader->place.address, port, place_of(number), "2", NULL});
}

static void enter_foreign(lk_scene *s, const lk_server *server, int number)
{
    lk_contender *const c =
        lk_contender_add(s, "etcdctl", lk_etcdctl_lock(server, place_of(number), THEIR_TTL_S));
    c->foreign = true;
    c->doing = LK_WAITS;
}

/* False: `o` says why it came to nothing. */
static bool approach(const struct trial *t, int number, lk_scene *s, lk_server *leader, lk_outcome *o)
{
    lk_server *const follower = lk_test_follower(members, number / MODES / 2 % 2);
    lk_contender *const holder = lk_contender_add(s, "holder", start_holder(t, number, leader, follower));
    lk_contender *const rival = lk_contender_add(
        s, "rival", start_client(number / MODES / ATS % 2 == 0 ? NULL : follower, number, "120000"));
    if (!lk_contender_opens(s, holder, OPEN_MS) || !lk_contender_opens(s, rival, OPEN_MS)) {
        *o = lk_broken_off(holder->text[0] != '\0' ? holder->text : "a client could not begin");
        return false;
    }
    lk_contender_lock(holder);
    if (!lk_contender_gets(s, holder, GRANT_MS)) {
        *o = lk_broken_off(holder->text[0] != '\0' ? holder->text : "there was no grant");
        return false;
    }
    lk_contender_lock(rival);
    if (t->foreign) {
        lk_scene_for(s, 100);
        enter_foreign(s, follower, number);
    }
    lk_scene_until(s, holder->granted + t->before_ms);
    if (holder->doing != LK_HAS) { /* a machine that is too busy */
        *o = lk_broken_off("the holder lost the lock before the strike");
        return false;
    }
    return true;
}

static void tell(const struct trial *t, const lk_scene *s, bool replaced, lk_outcome *o)
{
    const lk_contender *const holder = &s->who[0], *const rival = &s->who[1];
    char pair[60];
    snprintf(pair, sizeof pair, "%.59s", o->text[0] != '\0' ? o->text : "nobody had it afterwards");
    snprintf(o->text, sizeof o->text, "the holder %s; %s%s; %s%s%.40s", holder->lost ? "lost it" : "kept it",
             replaced ? "another led" : "no other led",
             replaced && t->mode != KILLED && t->away_ms > TTL_MS ? ", and the old leader went on" : "", pair,
             rival->text[0] != '\0' ? "; the rival: " : "", rival->text);
}

static lk_outcome run_trial(const struct trial *t, int number, lk_scene *s)
{
    lk_outcome o = {0};
    lk_server *const leader = lk_test_leader(members);
    if (!approach(t, number, s, leader, &o))
        return o;
    strike(t, leader);
    o.cut = lk_test_now_ms();
    lk_scene_for(s, t->away_ms);
    const bool replaced = is_replaced(leader);
    heal(t, leader);
    lk_scene_for(s, SETTLE_MS); /* what an old leader does comes now */
    lk_scene_pass_on(s, PASS_MS);
    o.ran = true;
    o.at_grant = s->who[0].left;
    lk_scene_judge(s, &o);
    tell(t, s, replaced, &o);
    return o;
}

static lk_outcome run(int set, int number)
{
    const struct trial t = nth_trial(number);
    lk_scene s = {.count = 0};
    (void)set;
    if (members == NULL)
        begin();
    lk_test_ensemble_heal(members);
    tries++;
    const lk_outcome o = run_trial(&t, number, &s);
    lk_scene_end(&s);
    return o;
}

static void describe(int set, int number, char *text, size_t size)
{
    const struct trial t = nth_trial(number);
    (void)set;
    snprintf(text, size, "\"at\":\"%s\",\"before_ms\":%d,\"away_ms\":%d,\"etcdctl\":%s", at_names[t.at],
             t.before_ms, t.away_ms, t.foreign ? "true" : "false");
}

static const char *const set_names[] = {"two", NULL};

static const char *const words[] = {"the holder lost it",
                                    "the holder kept it",
                                    "another led",
                                    "the old leader went on",
                                    "nobody had it afterwards",
                                    "early",
                                    NULL};

const lk_sweep lk_swept = {set_names, mode_names, MODES, run, describe, end, words, lk_play_keepalive};
