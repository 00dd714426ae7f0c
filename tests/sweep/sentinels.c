/*
 * sentinels.c: whether a lock on Redis is LOST, by its local deadline, before another client can have it, when Sentinels
 * make a replica the master at any moment of the cycle of renewals, and with wait_replicas for all replicas (sweep.h).
 *
 *   locker_sentinel_sweep [--one N] [--two N] [--recovery N] [--only MODE] [--workers N] [--ledger FILE] [--commit NAME]
 *
 * one, two: so many replicas; recovery: one, and the parameter recovery for both clients. Ends with 0 when every trial was kept; the holder may go on, at the new master.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "holding.h"
#include "locking.h"
#include "servers/redis.h"
#include "servers/wait.h"
#include "sweep.h"
#include "test_network.h"
#include "test_servers.h"

enum mode { KILLED, CUT, STOPPED, PLANNED, MODES };

static const char *const mode_names[MODES] = {
    "killed",  /* kill -9 of the master */
    "cut",     /* it goes on, cut off from its replicas and the Sentinels, and not from clients */
    "stopped", /* it stands still, and goes on when there is a new one */
    "planned", /* by SENTINEL FAILOVER: it goes on as a master for some ten seconds, and nobody is told */
};

static const char *const set_names[] = {"one", "two", "recovery", NULL};

enum { ONE, TWO, RECOVERY };

/* So many replicas there are. */
static int replicas_of(int set)
{
    return set == TWO ? 2 : 1;
}

enum { SERVERS_MAX = 3, SENTINELS = 3, DOWN_MS = 700, PATIENCE_MS = 60000 };

struct trial {
    enum mode mode;
    int ttl_ms;
    int before_ms; /* the holder has had the lock for so long */
    bool late;     /* the rival comes when there is a new master, instead of waiting since before */
};

static struct trial nth_trial(int number)
{
    const double x = lk_spread(number / MODES, 0.6180339887);
    const int ttl = 1500 + number / MODES % 4 * 500;
    return (struct trial){.mode = (enum mode)(number % MODES),
                          .ttl_ms = ttl,
                          .before_ms = (int)(ttl * (0.4 + x / 3)),
                          .late = number / MODES % 2 == 0};
}

/* ------------------------------------------------------------------ what a worker has ---- */

static struct {
    const lk_place *places;
    int servers;
    lk_server server[SERVERS_MAX];
    lk_server sentinel[SENTINELS];
} house;

static void start(lk_server *server, const lk_server_kind *kind, const lk_place *place)
{
    static const char *const options[] = {"--protected-mode", "no", "--repl-diskless-sync-delay", "0", NULL};
    const lk_server_setup setup = {.place = place, .options = kind == &lk_server_redis ? options : NULL};
    lk_test_need(server, lk_server_start(server, kind, &setup) && lk_server_await(server));
}

/* How they are by themselves while they are looked at; in haste while they come together. */
static void pace(bool hurries)
{
    for (int i = 0; i < SENTINELS; i++)
        lk_test_need(&house.sentinel[i],
                     lk_server_pace(&house.sentinel[i], hurries ? 200 : 0, hurries ? 500 : 0));
}

static void begin(int replicas)
{
    const lk_place *const places = house.places = lk_test_network()->members;
    house.servers = 1 + replicas;
    for (int i = 0; i < house.servers; i++)
        start(&house.server[i], &lk_server_redis, &places[i]);
    for (int i = 1; i < house.servers; i++)
        lk_test_need(&house.server[i], lk_server_follow(&house.server[i], &house.server[0]));
    for (int i = 0; i < SENTINELS; i++) {
        start(&house.sentinel[i], &lk_server_sentinel, &places[1 + i]);
        lk_test_need(&house.sentinel[i],
                     lk_server_watch(&house.sentinel[i], "m", &house.server[0], 2, DOWN_MS));
    }
    pace(true);
}

static void end(void)
{
    for (int i = 0; i < SENTINELS; i++)
        if (house.sentinel[i].kind != NULL)
            lk_server_remove(&house.sentinel[i]);
    for (int i = 0; i < house.servers; i++)
        lk_server_remove(&house.server[i]);
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        count++;
    return count;
}

/* The master, if it has all replicas and all others are its; NULL: not yet. */
static lk_server *whole_master(void)
{
    lk_server *master = NULL;
    char answer[8192];
    for (int i = 0; i < house.servers; i++) {
        if (!lk_server_ask(&house.server[i], "INFO replication", answer, sizeof answer))
            return NULL;
        if (strstr(answer, "role:master") == NULL && strstr(answer, "master_link_status:up") == NULL)
            return NULL;
        if (strstr(answer, "role:master") != NULL) {
            if (master != NULL || count_of(answer, "state=online") != house.servers - 1)
                return NULL;
            master = &house.server[i];
        }
    }
    return master;
}

/* Whether so many Sentinels name it, and find nothing wrong. */
static bool is_named(const lk_server *master, int by)
{
    char answer[8192], address[80];
    snprintf(address, sizeof address, "status=ok,address=%s:%d,", master->place.address, master->port);
    for (int i = 0; i < SENTINELS; i++)
        if (lk_server_ask(&house.sentinel[i], "INFO sentinel", answer, sizeof answer) &&
            strstr(answer, address) != NULL && strstr(answer, "sentinels=3") != NULL)
            by--;
    return by <= 0;
}

static bool is_whole(void *context)
{
    lk_server **master = context;
    *master = whole_master();
    return *master != NULL && is_named(*master, SENTINELS);
}

/* What a replica is sent that has just copied all begins with its first word after that, up to a second later: until then it
 * confirms nothing. */
struct confirmation {
    const lk_server *master;
    long long offset; /* 0: nothing was written yet */
};

static bool is_confirmed(void *context)
{
    struct confirmation *c = context;
    static const char of_replica[] = ",offset=", of_master[] = "master_repl_offset:";
    char answer[8192];
    if (c->offset == 0 && !lk_server_ask(c->master, "SET probe 1", answer, sizeof answer))
        return false;
    if (!lk_server_ask(c->master, "INFO replication", answer, sizeof answer))
        return false;
    const char *at = strstr(answer, of_master);
    if (c->offset == 0)
        c->offset = at != NULL ? strtoll(at + sizeof of_master - 1, NULL, 10) : 0;
    int confirmed = 0;
    for (at = answer; (at = strstr(at, of_replica)) != NULL; at++)
        confirmed += strtoll(at + sizeof of_replica - 1, NULL, 10) >= c->offset;
    return confirmed == house.servers - 1;
}

static bool is_replaced(void *context)
{
    const lk_server *const old = context;
    for (int i = 0; i < house.servers; i++)
        if (&house.server[i] != old && is_named(&house.server[i], 2))
            return true;
    return false;
}

/* ------------------------------------------------------------------ one trial ---- */

/* The rival takes what the new master gives, with replicas or without. */
static void uri_of(char *uri, size_t size, int ttl_ms, int replicas, bool recovers)
{
    snprintf(
        uri, size,
        "redis+sentinel://%s:%d,%s:%d,%s:%d/m?ttl=%dms&wait_replicas=%d&wait_timeout=200ms&command_timeout=1s&"
        "connect_timeout=3s&poll=200ms%s",
        house.sentinel[0].place.address, house.sentinel[0].port, house.sentinel[1].place.address,
        house.sentinel[1].port, house.sentinel[2].place.address, house.sentinel[2].port, ttl_ms, replicas,
        recovers ? "&recovery=3s" : "");
}

static void strike(const struct trial *t, lk_server *master)
{
    const lk_place *const places = house.places;
    char answer[256];
    if (t->mode == KILLED)
        lk_server_kill(master);
    else if (t->mode == STOPPED)
        lk_test_freeze(master);
    else if (t->mode == PLANNED)
        (void)lk_server_ask(&house.sentinel[0], "SENTINEL FAILOVER m", answer, sizeof answer);
    for (int i = 0; i < LK_NETWORK_MEMBERS && t->mode == CUT; i++)
        if (places[i].netns != master->place.netns) {
            lk_test_drop(&places[i], &master->place);
            lk_test_drop(&master->place, &places[i]);
        }
}

static void heal(const struct trial *t, lk_server *master)
{
    for (int i = 0; i < LK_NETWORK_MEMBERS; i++)
        lk_test_mend(&house.places[i]);
    if (t->mode == STOPPED)
        lk_server_thaw(master);
    else if (t->mode == KILLED)
        lk_test_launch(master, true);
    pace(true);
}

/* From the grant to what became of both. */
static lk_outcome contend(const struct trial *t, lk_server *master, lk_child *holder, const char *uri,
                          const char *key)
{
    lk_outcome o = {0};
    char line[LK_LINE_MAX] = "";
    const locker_lock_options options = lk_wait_options(12000 + 2 * t->ttl_ms);
    lk_locking waiter = {0};
    locker *rival;
    locker_error err;
    lk_child_say(holder, "lock");
    if (lk_child_hear_within(holder, 5000, line) == NULL || sscanf(line, "held %lld", &o.at_grant) != 1)
        return lk_broken_off(line);
    if (!t->late && locker_open(uri, NULL, &rival, &err) != LOCKER_OK)
        return lk_broken_off(err.text);
    if (!t->late)
        lk_locking_start(&waiter, rival, key, &options);
    pace(false);
    usleep((useconds_t)t->before_ms * 1000);
    o.cut = lk_test_now_ms();
    strike(t, master);
    const bool replaced = lk_until(is_replaced, master, 20000);
    if (replaced && t->mode == STOPPED)
        lk_server_thaw(master);
    if (t->late && (!replaced || locker_open(uri, NULL, &rival, &err) != LOCKER_OK)) {
        heal(t, master);
        return lk_broken_off(replaced ? err.text : "no replica was made master");
    }
    if (t->late)
        lk_locking_start(&waiter, rival, key, &options);
    const locker_status status = lk_locking_join(&waiter);
    lk_child_say(holder, "end");
    long long lost = 0, deadline = 0;
    const char *said = lk_child_hear_within(holder, 5000, line);
    const bool was_lost = said != NULL && sscanf(line, "lost %lld %lld", &lost, &deadline) == 2;
    if (said == NULL || (!was_lost && sscanf(line, "kept %lld", &deadline) != 1))
        o = lk_broken_off(said == NULL ? "the holder says nothing" : line);
    else if (!replaced)
        o = lk_broken_off("no replica was made master");
    else if (status != LOCKER_OK && was_lost)
        o = lk_broken_off(waiter.err.text);
    else {
        o.ran = true;
        o.granted = status == LOCKER_OK ? waiter.ended_ms : 0;
        o.deadline = status == LOCKER_OK ? deadline : 0;
        o.lost = was_lost ? lost : lk_test_now_ms();
    }
    locker_handle_free(waiter.held);
    (void)locker_close(rival);
    heal(t, master);
    return o;
}

/* A server that has just got a replica, or that nobody has come to, grants nothing for a while. */
static bool is_settled(const char *uri, locker_error *err)
{
    locker *l;
    if (locker_open(uri, NULL, &l, err) != LOCKER_OK)
        return false;
    const bool settled = lk_is_settled(l, err);
    (void)locker_close(l);
    return settled;
}

static lk_outcome run(int set, int number)
{
    const struct trial t = nth_trial(number);
    char uri[512], rival[512], key[32], line[LK_LINE_MAX] = "";
    lk_server *master = NULL;
    if (house.servers == 0)
        begin(replicas_of(set));
    if (!lk_until(is_whole, &master, PATIENCE_MS))
        return lk_broken_off("the servers did not come together again");
    struct confirmation confirmation = {.master = master};
    if (!lk_until(is_confirmed, &confirmation, PATIENCE_MS))
        return lk_broken_off("the replicas confirm nothing");
    snprintf(key, sizeof key, "k%d", number);
    uri_of(uri, sizeof uri, t.ttl_ms, replicas_of(set), set == RECOVERY);
    uri_of(rival, sizeof rival, t.ttl_ms, 0, set == RECOVERY);
    locker_error err;
    if (set == RECOVERY && !is_settled(rival, &err))
        return lk_broken_off(err.text);
    lk_child *holder = lk_child_start("holder", (const char *[]){uri, key, NULL});
    lk_outcome o = lk_child_hear_within(holder, 60000, line) == NULL || strcmp(line, "open") != 0
                       ? lk_broken_off(line)
                       : contend(&t, master, holder, rival, key);
    lk_child_kill(holder);
    return o;
}

static void describe(int set, int number, char *text, size_t size)
{
    const struct trial t = nth_trial(number);
    snprintf(text, size, "\"replicas\":%d,\"ttl_ms\":%d,\"before_ms\":%d,\"late\":%s", replicas_of(set),
             t.ttl_ms, t.before_ms, t.late ? "true" : "false");
}

const lk_sweep lk_swept = {set_names, mode_names, MODES, run, describe, end, NULL, NULL};
