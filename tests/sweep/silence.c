/*
 * silence.c: whether a lock is kept, whatever its `ttl` and `command_timeout` are, when its holder's connections fall silent at any
 * moment of the cycle of renewals and a new one would be served; and whether it is LOST, by its local deadline, before another
 * client can have it, when no new one is (sweep.h).
 *
 *   locker_silence_sweep [--redis N] [--zookeeper N] [--etcd N] [--only MODE] [--workers N] [--ledger FILE] [--commit NAME]
 *
 * Ends with 0 when every trial was kept.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "holding.h"
#include "locking.h"
#include "proxying.h"
#include "servers/etcd.h"
#include "servers/lateness.h"
#include "servers/redis.h"
#include "servers/zookeeper.h"
#include "sweep.h"
#include "test_servers.h"

/* A holder may lose its lock where the machine was late by this part of the ttl: such a trial is made again. */
enum { LATE_PART = 8 };

enum mode { OLD, ALL, MODES };

static const char *const mode_names[MODES] = {
    "old", /* nothing comes on the connections that there are, as when a firewall forgets them; new ones are served */
    "all", /* nor on new ones */
};

enum set { REDIS, ZOOKEEPER, ETCD };
static const char *const set_names[] = {[REDIS] = "redis", [ZOOKEEPER] = "zookeeper", [ETCD] = "etcd", NULL};

struct trial {
    enum mode mode;
    int ttl_ms, command_ms;
    int before_ms; /* the holder has had the lock for so long */
};

static struct trial nth_trial(int set, int number)
{
    static const int ttls[] = {1000, 2000, 4000, 8000, 12000}, commands[] = {5000, 1000, 20000};
    const int nth = number / MODES, ttl = ttls[nth % 5] * (set == ETCD ? 2 : 1);
    return (struct trial){.mode = (enum mode)(number % MODES),
                          .ttl_ms = ttl,
                          .command_ms = commands[nth / 5 % 3],
                          .before_ms = (int)(ttl * (0.1 + 0.9 * lk_spread(nth, 0.6180339887)))};
}

/* A worker's. */
static lk_server server;
static lk_proxy *proxy;
static int of_set = -1;

static void end(void)
{
    lk_proxy_free(proxy);
    if (of_set >= 0)
        lk_server_remove(&server);
}

static void begin(int set)
{
    static const lk_server_kind *const kinds[] = {&lk_server_redis, &lk_server_zookeeper, &lk_server_etcd};
    static const lk_protocol *const protocols[] = {&lk_proxy_redis, &lk_proxy_zookeeper, &lk_proxy_etcd};
    static const lk_server_setup setup = {0};
    if (of_set == set)
        return;
    of_set = set;
    lk_test_need(&server, lk_server_start(&server, kinds[set], &setup) && lk_server_await(&server));
    proxy = lk_proxy_begin(protocols[set], server.port);
}

static void uri_of(char *uri, size_t size, int set, const struct trial *t, int port)
{
    snprintf(uri, size, "%s://127.0.0.1:%d/%s?ttl=%dms&command_timeout=%dms", set_names[set], port,
             set == REDIS ? "0" : "sweep", t->ttl_ms, t->command_ms);
}

/* From the grant to what became of both. The holder goes on at the end. */
static lk_outcome contend(const struct trial *t, lk_child *holder, locker *rival, const char *key)
{
    lk_outcome o = {0};
    char line[LK_LINE_MAX] = "";
    const locker_lock_options options = lk_wait_options(4 * t->ttl_ms + 5000);
    lk_locking waiter = {0};
    lk_child_say(holder, "lock");
    if (lk_child_hear_within(holder, 5000, line) == NULL || sscanf(line, "held %lld", &o.at_grant) != 1)
        return lk_broken_off(line);
    lk_locking_start(&waiter, rival, key, &options);
    lk_lateness_mark();
    usleep((useconds_t)t->before_ms * 1000);
    o.cut = lk_test_now_ms();
    if (t->mode == OLD)
        lk_proxy_hold_old(proxy, true);
    else
        lk_proxy_hold(proxy, true, true);
    /* long enough for a lease that was not renewed to end, and for one more */
    const char *said = lk_child_hear_within(holder, 2 * t->ttl_ms + 1000, line);
    if (said == NULL) {
        lk_child_say(holder, "end");
        said = lk_child_hear_within(holder, 5000, line);
    }
    long long lost = 0, deadline = 0;
    const bool was_lost = said != NULL && sscanf(line, "lost %lld %lld", &lost, &deadline) == 2;
    const bool was_kept = said != NULL && sscanf(line, "kept %lld", &deadline) == 1;
    const int64_t late_ms = lk_lateness_ms();
    lk_child_signal(holder, SIGKILL); /* its connections end */
    lk_proxy_hold(proxy, false, false);
    const locker_status status = lk_locking_join(&waiter);
    if (!was_lost && !was_kept) {
        o = lk_broken_off(said == NULL ? "the holder says nothing" : line);
    } else if (was_lost && t->mode == OLD && late_ms >= t->ttl_ms / LATE_PART) {
        o = lk_broken_off("the machine was late");
    } else {
        o.ran = true;
        o.granted = status == LOCKER_OK ? waiter.ended_ms : 0;
        o.deadline = status == LOCKER_OK ? deadline : 0;
        o.lost = was_lost ? lost : o.granted;
        o.in_vain = was_lost && t->mode == OLD;
        snprintf(o.text, sizeof o.text, "%s",
                 o.in_vain  ? "the holder lost it though new connections were served"
                 : was_lost ? "the holder lost it"
                            : "the holder kept it");
    }
    locker_handle_free(waiter.held);
    return o;
}

static lk_outcome run(int set, int number)
{
    const struct trial t = nth_trial(set, number);
    char uri[256], key[32], line[LK_LINE_MAX] = "";
    locker *rival;
    locker_error err;
    begin(set);
    snprintf(key, sizeof key, "k%d", number);
    uri_of(uri, sizeof uri, set, &t, server.port);
    if (locker_open(uri, NULL, &rival, &err) != LOCKER_OK)
        return lk_broken_off(err.text);
    uri_of(uri, sizeof uri, set, &t, lk_proxy_port(proxy));
    lk_child *holder = lk_child_start("holder", (const char *[]){uri, key, NULL});
    const bool ready = lk_child_hear_within(holder, 60000, line) != NULL && strcmp(line, "open") == 0;
    const lk_outcome o = !ready                        ? lk_broken_off(line)
                         : !lk_is_settled(rival, &err) ? lk_broken_off(err.text)
                                                       : contend(&t, holder, rival, key);
    lk_child_kill(holder);
    (void)locker_close(rival);
    return o;
}

static void describe(int set, int number, char *text, size_t size)
{
    const struct trial t = nth_trial(set, number);
    snprintf(text, size, "\"ttl_ms\":%d,\"command_timeout_ms\":%d,\"before_ms\":%d", t.ttl_ms, t.command_ms,
             t.before_ms);
}

const lk_sweep lk_swept = {set_names, mode_names, MODES, run, describe, end, NULL, NULL};
