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
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ------------------------------------------------------------------ who wants the lock ---- */

enum state { COMES, READY, WAITS, HAS, DISMISSED, OVER };

typedef struct {
    const char *name;
    lk_child *child;
    bool foreign; /* etcdctl, which says when it has the lock, and not when it has lost it */
    enum state state;
    bool lost; /* it was told so */
    int64_t granted, until, deadline,
        told;       /* it took the lock to be its own from `granted` (0: never) to `until` */
    long long left; /* of its lease at the grant */
    char text[100]; /* what went wrong */
} contender;

enum { CONTENDERS = 3 };

typedef struct {
    contender who[CONTENDERS]; /* the holder, the rival, etcdctl */
    int count;
} scene;

static void take_line(contender *c, const char *line)
{
    long long when = 0, deadline = 0;
    if (c->foreign && c->state == WAITS) {
        c->granted = c->until = lk_test_now_ms();
        c->state = HAS;
    } else if (strcmp(line, "open") == 0) {
        c->state = READY;
    } else if (sscanf(line, "held %lld %lld", &c->left, &when) == 2) {
        c->granted = when;
        c->until = INT64_MAX;
        c->state = HAS;
    } else if (sscanf(line, "lost %lld %lld", &when, &deadline) == 2) {
        c->lost = true;
        c->told = when;
        c->deadline = deadline;
        c->until = when < deadline ? when : deadline;
        c->state = OVER;
    } else if (sscanf(line, "kept %lld", &deadline) == 1) {
        c->told = c->until = c->deadline = deadline;
        c->state = OVER;
    } else {
        snprintf(c->text, sizeof c->text, "%.99s", line);
        c->state = OVER;
    }
}

static void hear(contender *c)
{
    lk_child *const child = c->child;
    char *end, line[LK_LINE_MAX];
    const ssize_t got = read(child->output, child->line + child->filled, sizeof child->line - child->filled);
    if (got <= 0) {
        c->state = OVER;
        return;
    }
    child->filled += (size_t)got;
    while ((end = memchr(child->line, '\n', child->filled)) != NULL) {
        *end++ = '\0';
        snprintf(line, sizeof line, "%s", child->line);
        child->filled -= (size_t)(end - child->line);
        memmove(child->line, end, child->filled);
        take_line(c, line);
    }
}

static bool in_state(const contender *c, enum state state)
{
    return c->child != NULL && c->state == state;
}

static int count_in(const scene *s, enum state state)
{
    int count = 0;
    for (int i = 0; i < s->count; i++)
        count += in_state(&s->who[i], state);
    return count;
}

static int tally(const scene *s)
{
    return (count_in(s, HAS) * 10 + count_in(s, WAITS)) * 10 + count_in(s, OVER);
}

/* What all say until then, or until something has changed where only that is waited for. */
static void listen_until(scene *s, int64_t until, bool changes)
{
    for (int64_t left; (left = until - lk_test_now_ms()) > 0;) {
        struct pollfd waits[CONTENDERS];
        const int before = tally(s);
        for (int i = 0; i < s->count; i++)
            waits[i] = (struct pollfd){.fd = s->who[i].state != OVER ? s->who[i].child->output : -1,
                                       .events = POLLIN};
        if (poll(waits, (nfds_t)s->count, (int)left) < 0 && errno != EINTR)
            test_fails("can't wait for children: %s", strerror(errno));
        for (int i = 0; i < s->count; i++)
            if (waits[i].revents != 0)
                hear(&s->who[i]);
        if (changes && before != tally(s))
            return;
    }
}

static void listen_for(scene *s, int ms)
{
    listen_until(s, lk_test_now_ms() + ms, false);
}

/* Until that one has left a state. */
static bool await_leaving(scene *s, const contender *c, enum state state, int ms)
{
    const int64_t until = lk_test_now_ms() + ms;
    while (c->state == state && lk_test_now_ms() < until)
        listen_until(s, lk_test_now_ms() + 20 < until ? lk_test_now_ms() + 20 : until, true);
    return c->state != state;
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

static void uri_of(char *uri, size_t size, const lk_server *server, int number)
{
    char hosts[100];
    if (server != NULL)
        snprintf(hosts, sizeof hosts, "%s:%d", server->place.address, server->port);
    else
        lk_ensemble_hosts(members, hosts, sizeof hosts);
    snprintf(uri, size, "etcd://%s/sweep%d?ttl=%dms", hosts, number, TTL_MS);
}

/* Whether the holder is to be one that keeps its lease alive: then two must be found. */
static bool keeps_alive(void)
{
    return getenv("LOCKER_SWEEP_KEEPALIVE") != NULL;
}

static contender *enter_keepalive(scene *s, const lk_server *server, int number)
{
    contender *const c = &s->who[s->count++];
    char port[12], name[40];
    snprintf(port, sizeof port, "%d", server->port);
    snprintf(name, sizeof name, "sweep%d/k", number);
    *c = (contender){
        .name = "holder",
        .child = lk_child_start("other", (const char *[]){server->place.address, port, name, "2", NULL})};
    return c;
}

static contender *enter(scene *s, const char *name, const lk_server *server, int number, const char *wait_ms)
{
    contender *const c = &s->who[s->count++];
    char uri[200];
    uri_of(uri, sizeof uri, server, number);
    *c = (contender){.name = name,
                     .child = lk_child_start("holder", (const char *[]){uri, "k", wait_ms, NULL})};
    return c;
}

static void enter_foreign(scene *s, const lk_server *server, int number)
{
    char name[40];
    snprintf(name, sizeof name, "sweep%d/k", number);
    s->who[s->count++] = (contender){.name = "etcdctl",
                                     .foreign = true,
                                     .state = WAITS,
                                     .child = lk_etcdctl_lock(server, name, THEIR_TTL_S)};
}

static bool has_opened(scene *s, contender *c)
{
    return await_leaving(s, c, COMES, OPEN_MS) && c->state == READY;
}

static void have_lock(contender *c)
{
    lk_child_say(c->child, "lock");
    c->state = WAITS;
}

static contender *enter_holder(const struct trial *t, int number, scene *s, const lk_server *leader,
                               const lk_server *follower)
{
    const lk_server *const at = t->at == AT_LEADER ? leader : t->at == AT_FOLLOWER ? follower : NULL;
    return keeps_alive() ? enter_keepalive(s, leader, number) : enter(s, "holder", at, number, "5000");
}

/* False: `o` says why it came to nothing. */
static bool approach(const struct trial *t, int number, scene *s, lk_server *leader, lk_outcome *o)
{
    lk_server *const follower = lk_test_follower(members, number / MODES / 2 % 2);
    contender *const holder = enter_holder(t, number, s, leader, follower);
    contender *const rival =
        enter(s, "rival", number / MODES / ATS % 2 == 0 ? NULL : follower, number, "120000");
    if (!has_opened(s, holder) || !has_opened(s, rival)) {
        *o = lk_broken_off(holder->text[0] != '\0' ? holder->text : "a client could not begin");
        return false;
    }
    have_lock(holder);
    if (!await_leaving(s, holder, WAITS, GRANT_MS) || holder->state != HAS) {
        *o = lk_broken_off(holder->text[0] != '\0' ? holder->text : "there was no grant");
        return false;
    }
    have_lock(rival);
    if (t->foreign) {
        listen_for(s, 100);
        enter_foreign(s, follower, number);
    }
    listen_until(s, holder->granted + t->before_ms, false);
    if (holder->state != HAS) { /* a machine that is too busy */
        *o = lk_broken_off("the holder lost the lock before the strike");
        return false;
    }
    return true;
}

static void dismiss(scene *s)
{
    for (int i = 0; i < s->count; i++) {
        contender *const c = &s->who[i];
        if (!in_state(c, HAS))
            continue;
        if (c->foreign)
            lk_child_signal(c->child, SIGTERM);
        else
            lk_child_say(c->child, "end");
        c->state = c->foreign ? OVER : DISMISSED;
    }
}

/* Whoever has it dies with it, until nobody waits any more; and the last, too, says until when. */
static void pass_on(scene *s)
{
    const int64_t until = lk_test_now_ms() + PASS_MS;
    do {
        dismiss(s);
        listen_until(s, lk_test_now_ms() + 100, true);
    } while (count_in(s, WAITS) + count_in(s, HAS) + count_in(s, DISMISSED) > 0 && lk_test_now_ms() < until);
}

/* The two that came nearest to having the lock at once: the next grant after another's, less when that one's ended. */
static void judge(const scene *s, lk_outcome *o)
{
    const int64_t now = lk_test_now_ms();
    int64_t least = INT64_MAX;
    for (int i = 0; i < s->count; i++)
        for (int j = 0; j < s->count; j++) {
            const contender *const a = &s->who[i], *const b = &s->who[j];
            const int64_t until = a->until == INT64_MAX ? now : a->until; /* it goes on, and says nothing */
            if (i == j || a->foreign || a->granted == 0 || b->granted < a->granted ||
                b->granted - until >= least)
                continue;
            least = b->granted - until;
            o->granted = b->granted;
            o->deadline = until;
            o->lost = a->lost ? a->told : until;
            snprintf(o->text, sizeof o->text, "%s to %s%s", a->name, b->name,
                     a->lost && a->told < a->deadline ? ", early" : "");
        }
}

static void tell(const struct trial *t, const scene *s, bool replaced, lk_outcome *o)
{
    const contender *const holder = &s->who[0], *const rival = &s->who[1];
    char pair[60];
    snprintf(pair, sizeof pair, "%.59s", o->text[0] != '\0' ? o->text : "nobody had it afterwards");
    snprintf(o->text, sizeof o->text, "the holder %s; %s%s; %s%s%.40s", holder->lost ? "lost it" : "kept it",
             replaced ? "another led" : "no other led",
             replaced && t->mode != KILLED && t->away_ms > TTL_MS ? ", and the old leader went on" : "", pair,
             rival->text[0] != '\0' ? "; the rival: " : "", rival->text);
}

static lk_outcome run_trial(const struct trial *t, int number, scene *s)
{
    lk_outcome o = {0};
    lk_server *const leader = lk_test_leader(members);
    if (!approach(t, number, s, leader, &o))
        return o;
    strike(t, leader);
    o.cut = lk_test_now_ms();
    listen_for(s, t->away_ms);
    const bool replaced = is_replaced(leader);
    heal(t, leader);
    listen_for(s, SETTLE_MS); /* what an old leader does comes now */
    pass_on(s);
    o.ran = true;
    o.at_grant = s->who[0].left;
    judge(s, &o);
    tell(t, s, replaced, &o);
    return o;
}

static lk_outcome run(int set, int number)
{
    const struct trial t = nth_trial(number);
    scene s = {.count = 0};
    (void)set;
    if (members == NULL)
        begin();
    lk_test_ensemble_heal(members);
    const lk_outcome o = run_trial(&t, number, &s);
    for (int i = 0; i < s.count; i++)
        lk_child_kill(s.who[i].child);
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
