/*
 * restarts.c: whether a lock on Redis with the parameter `recovery` is LOST, by its local deadline, before another client can have
 * it, when the server loses its data at any moment of the cycle of renewals (sweep.h).
 *
 *   locker_restart_sweep [--alone N] [--only MODE] [--workers N] [--ledger FILE] [--commit NAME]
 *
 * alone: one server, without a replica. Ends with 0 when every trial was kept.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "holding.h"
#include "locking.h"
#include "servers/redis.h"
#include "sweep.h"
#include "test_servers.h"

enum mode { EMPTY, TWICE, FLUSHED, MODES };

static const char *const mode_names[MODES] = {
    "empty",   /* kill -9 of the server, which starts again without its data */
    "twice",   /* and once more, before the first time has been made up for */
    "flushed", /* somebody removes them, and the server goes on */
};

static const char *const set_names[] = {"alone", NULL};

enum { RECOVERY_MS = 2500 };

struct trial {
    enum mode mode;
    int ttl_ms;
    int before_ms; /* the holder has had the lock for so long */
    int away_ms;   /* the server is away for so long */
    int again_ms;  /* TWICE: so long after it is back */
    bool late;     /* the rival comes afterwards, instead of waiting since before */
};

static struct trial nth_trial(int number)
{
    const double x = lk_spread(number / MODES, 0.6180339887), y = lk_spread(number / MODES, 0.7548776662);
    const int ttl = 1000 + number / MODES % 4 * 500;
    return (struct trial){.mode = (enum mode)(number % MODES),
                          .ttl_ms = ttl,
                          .before_ms = (int)(ttl * (0.3 + 0.7 * x)),
                          .away_ms = (int)(ttl * y / 3),
                          .again_ms = (int)(RECOVERY_MS * (1 - y)),
                          .late = number / MODES % 2 == 0};
}

static lk_server server; /* a worker's */

static void begin(void)
{
    static const lk_server_setup setup = {0};
    lk_test_need(&server, lk_server_start(&server, &lk_server_redis, &setup) && lk_server_await(&server));
}

static void end(void)
{
    lk_server_remove(&server);
}

static void uri_of(char *uri, size_t size, int ttl_ms)
{
    snprintf(uri, size, "redis://127.0.0.1:%d/0?ttl=%dms&recovery=%dms&poll=100ms", server.port, ttl_ms,
             RECOVERY_MS);
}

static void restart(int away_ms)
{
    lk_server_kill(&server);
    usleep((useconds_t)away_ms * 1000);
    lk_test_launch(&server, false);
}

static void strike(const struct trial *t)
{
    char answer[64];
    if (t->mode == FLUSHED) {
        (void)lk_server_ask(&server, "FLUSHALL", answer, sizeof answer);
        return;
    }
    restart(t->away_ms);
    if (t->mode == TWICE) {
        usleep((useconds_t)t->again_ms * 1000);
        restart(0);
    }
}

/* From the grant to what became of both. The rival waits for as long as it could have to. */
static lk_outcome contend(const struct trial *t, lk_child *holder, locker *rival, const char *key)
{
    lk_outcome o = {0};
    char line[LK_LINE_MAX] = "";
    const locker_lock_options options = lk_wait_options(RECOVERY_MS + t->ttl_ms + 1000);
    lk_locking waiter = {0};
    lk_child_say(holder, "lock");
    if (lk_child_hear_within(holder, 5000, line) == NULL || sscanf(line, "held %lld", &o.at_grant) != 1)
        return lk_broken_off(line);
    if (!t->late)
        lk_locking_start(&waiter, rival, key, &options);
    usleep((useconds_t)t->before_ms * 1000);
    o.cut = lk_test_now_ms();
    strike(t);
    if (t->late)
        lk_locking_start(&waiter, rival, key, &options);
    const locker_status status = lk_locking_join(&waiter);
    lk_child_say(holder, "end");
    long long lost = 0, deadline = 0;
    const char *const said = lk_child_hear_within(holder, 5000, line);
    const bool was_lost = said != NULL && sscanf(line, "lost %lld %lld", &lost, &deadline) == 2;
    if (said == NULL || (!was_lost && sscanf(line, "kept %lld", &deadline) != 1)) {
        o = lk_broken_off(said == NULL ? "the holder says nothing" : line);
    } else {
        o.ran = true;
        o.granted = status == LOCKER_OK ? waiter.ended_ms : 0;
        o.deadline = status == LOCKER_OK ? deadline : 0;
        o.lost = was_lost ? lost : lk_test_now_ms();
        snprintf(o.text, sizeof o.text, "%s", was_lost ? "the holder lost it" : "the holder kept it");
    }
    locker_handle_free(waiter.held);
    return o;
}

static lk_outcome run(int set, int number)
{
    const struct trial t = nth_trial(number);
    char uri[256], key[32], line[LK_LINE_MAX] = "";
    locker *rival;
    locker_error err;
    (void)set;
    if (server.kind == NULL)
        begin();
    snprintf(key, sizeof key, "k%d", number);
    uri_of(uri, sizeof uri, t.ttl_ms);
    if (locker_open(uri, NULL, &rival, &err) != LOCKER_OK)
        return lk_broken_off(err.text);
    lk_child *holder = lk_child_start("holder", (const char *[]){uri, key, NULL});
    const bool ready = lk_child_hear_within(holder, 60000, line) != NULL && strcmp(line, "open") == 0;
    lk_outcome o;
    if (!ready || !lk_is_settled(rival, &err))
        o = lk_broken_off(ready ? err.text : line);
    else
        o = contend(&t, holder, rival, key);
    lk_child_kill(holder);
    (void)locker_close(rival);
    return o;
}

static void describe(int set, int number, char *text, size_t size)
{
    const struct trial t = nth_trial(number);
    (void)set;
    snprintf(text, size, "\"ttl_ms\":%d,\"before_ms\":%d,\"away_ms\":%d,\"late\":%s", t.ttl_ms, t.before_ms,
             t.away_ms, t.late ? "true" : "false");
}

const lk_sweep lk_swept = {set_names, mode_names, MODES, run, describe, end, NULL, NULL};
