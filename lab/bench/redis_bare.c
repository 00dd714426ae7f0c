/* redis_bare.c: what the work costs with hiredis alone: SET NX PX and a compare-and-delete script, or a
 * list with LPUSH and BLPOP where somebody waits. Nothing here renews, notices a loss or fences. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define TOKEN  "0123456789abcdef0123456789abcdef"
#define TTL_MS "30000"

static const char release_script[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
static const char renew_script[] = "if redis.call('get',KEYS[1])==ARGV[1] then return "
                                   "redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

static const char share_script[] = "if redis.call('exists',KEYS[1])==1 then return 0 end "
                                   "redis.call('zadd',KEYS[2],ARGV[2],ARGV[1]) "
                                   "redis.call('pexpire',KEYS[2],ARGV[2]) return 1";

struct lk_bare {
    lk_bench *b;
    redisContext *c;
    int64_t spin;                           /* ns */
    char release[41], renew[41], share[41]; /* SHA1 of the scripts */
};

static void load(lk_bare *bare, const char *script, char out[41])
{
    const char *argv[] = {"SCRIPT", "LOAD", script};
    redisReply *reply = redisCommandArgv(bare->c, 3, argv, NULL);
    if (reply == NULL || reply->type != REDIS_REPLY_STRING || reply->len != 40)
        lk_bench_crew_fail(bare->b, "SCRIPT LOAD: %s", reply != NULL ? reply->str : bare->c->errstr);
    memcpy(out, reply->str, 41);
    freeReplyObject(reply);
}

lk_bare *lk_bare_open(lk_bench *b)
{
    lk_bare *bare = calloc(1, sizeof *bare);
    char why[256] = "out of memory";
    if (bare != NULL)
        bare->c = lk_bench_redis_server_connect(&b->server, why, sizeof why);
    if (bare == NULL || bare->c == NULL)
        lk_bench_crew_fail(b, "%s", why);
    bare->b = b;
    load(bare, release_script, bare->release);
    load(bare, renew_script, bare->renew);
    load(bare, share_script, bare->share);
    return bare;
}

void lk_bare_close(lk_bare *bare)
{
    redisFree(bare->c);
    free(bare);
}

void lk_bare_spin(lk_bare *bare, int64_t ns)
{
    bare->spin = ns;
}

/* ------------------------------------------------------------------ one command ---- */

static _Noreturn void fail(const lk_bare *bare, const char *what, const redisReply *reply)
{
    lk_bench_crew_fail(bare->b, "%s: %s", what,
                       reply == NULL        ? bare->c->errstr
                       : reply->str != NULL ? reply->str
                                            : "not the reply that it should be");
}

/* Look at the socket without sleeping, and feed what comes to the parser. */
static void look(lk_bare *bare)
{
    const int64_t until = lk_bench_now() + bare->spin;
    do {
        char buffer[4096];
        const ssize_t got = recv(bare->c->fd, buffer, sizeof buffer, MSG_DONTWAIT);

        if (got > 0) {
            (void)redisReaderFeed(bare->c->reader, buffer, (size_t)got);
            return;
        }
        if (got == 0 || errno != EAGAIN)
            return; /* redisGetReply() tells it */
    } while (lk_bench_now() < until);
}

static redisReply *next_reply(lk_bare *bare, const char *what)
{
    void *reply = NULL;
    int done = 0;
    if (bare->spin > 0) {
        while (done == 0)
            if (redisBufferWrite(bare->c, &done) != REDIS_OK)
                fail(bare, what, NULL);
        look(bare);
    }
    if (redisGetReply(bare->c, &reply) != REDIS_OK)
        fail(bare, what, NULL);
    return reply;
}

static void send_lock(lk_bare *bare, const char *key)
{
    const char *argv[] = {"SET", key, TOKEN, "NX", "PX", TTL_MS};
    (void)redisAppendCommandArgv(bare->c, 6, argv, NULL);
}

static void send_unlock(lk_bare *bare, const char *key)
{
    const char *argv[] = {"EVALSHA", bare->release, "1", key, TOKEN};
    (void)redisAppendCommandArgv(bare->c, 5, argv, NULL);
}

static void take_locked_reply(lk_bare *bare)
{
    redisReply *reply = next_reply(bare, "SET");
    if (reply->type != REDIS_REPLY_STATUS)
        fail(bare, "SET NX", reply);
    freeReplyObject(reply);
}

static void take_one_reply(lk_bare *bare)
{
    redisReply *reply = next_reply(bare, "EVALSHA");
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
        fail(bare, "EVALSHA", reply);
    freeReplyObject(reply);
}

void lk_bare_lock(lk_bare *bare, const char *key)
{
    send_lock(bare, key);
    take_locked_reply(bare);
}

void lk_bare_unlock(lk_bare *bare, const char *key)
{
    send_unlock(bare, key);
    take_one_reply(bare);
}

static void do_command(lk_bare *bare, int argc, const char **argv)
{
    (void)redisAppendCommandArgv(bare->c, argc, argv, NULL);
    redisReply *reply = next_reply(bare, argv[0]);
    if (reply->type == REDIS_REPLY_ERROR)
        fail(bare, argv[0], reply);
    freeReplyObject(reply);
}

void lk_bare_share(lk_bare *bare, const char *key, int member)
{
    char set[64], name[64];
    (void)snprintf(set, sizeof set, "%s:members", key);
    (void)snprintf(name, sizeof name, "%d:%d:" TOKEN, (int)getpid(), member);
    const char *join[] = {"EVALSHA", bare->share, "2", key, set, name, TTL_MS};
    (void)redisAppendCommandArgv(bare->c, 7, join, NULL);
    take_one_reply(bare);
    const char *leave[] = {"ZREM", set, name};
    (void)redisAppendCommandArgv(bare->c, 3, leave, NULL);
    take_one_reply(bare);
}

void lk_bare_delete(lk_bare *bare, const char *key)
{
    const char *argv[] = {"DEL", key};
    do_command(bare, 2, argv);
}

void lk_bare_hold(lk_bare *bare, const char *key, int64_t ttl_ms)
{
    char ttl[24];
    const char *argv[] = {"SET", key, TOKEN, "PX", ttl};
    (void)snprintf(ttl, sizeof ttl, "%lld", (long long)ttl_ms);
    do_command(bare, 5, argv);
}

/* SETNX, because SET is a command that scripts call (redis_server.c). */
void lk_bare_try(lk_bare *bare, const char *key)
{
    const char *argv[] = {"SETNX", key, TOKEN};
    do_command(bare, 3, argv);
}

/* ------------------------------------------------------------------ waiting ---- */

void lk_bare_push(lk_bare *bare, const char *list)
{
    const char *argv[] = {"LPUSH", list, "go"};
    do_command(bare, 3, argv);
}

void lk_bare_push_end(lk_bare *bare, const char *list)
{
    const char *argv[] = {"LPUSH", list, "end"};
    do_command(bare, 3, argv);
}

bool lk_bare_pop(lk_bare *bare, const char *list)
{
    const char *argv[] = {"BLPOP", list, "0"};
    (void)redisAppendCommandArgv(bare->c, 3, argv, NULL);
    redisReply *reply = next_reply(bare, "BLPOP");
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        fail(bare, "BLPOP", reply);
    const bool go = strcmp(reply->element[1]->str, "go") == 0;
    freeReplyObject(reply);
    return go;
}

/* ------------------------------------------------------------------ many at once ---- */

void lk_bare_renew(lk_bare *bare, const char *prefix, int n, int64_t ttl_ms)
{
    char key[64], ttl[24];
    const char *argv[] = {"EVALSHA", bare->renew, "1", key, TOKEN, ttl};
    (void)snprintf(ttl, sizeof ttl, "%lld", (long long)ttl_ms);
    for (int i = 0; i < n; i++) {
        (void)snprintf(key, sizeof key, "%s%d", prefix, i);
        (void)redisAppendCommandArgv(bare->c, 6, argv, NULL);
    }
    for (int i = 0; i < n; i++)
        take_one_reply(bare);
}

uint64_t lk_bare_lanes(lk_bare *bare, int lanes)
{
    char key[64];
    uint64_t cycles = 0;
    bool held = false;
    for (int i = 0; i < lanes; i++) {
        (void)snprintf(key, sizeof key, "bench:lane:%d", i);
        send_lock(bare, key);
    }
    /* Replies come in the order of the commands, so all lanes take turns: a turn of locks, a turn of unlocks.
     * A new command joins the buffer, which is written when the parser has no reply left. */
    do {
        held = !held;
        for (int i = 0; i < lanes; i++) {
            (void)snprintf(key, sizeof key, "bench:lane:%d", i);
            if (held) {
                take_locked_reply(bare);
                send_unlock(bare, key);
            } else {
                take_one_reply(bare);
                send_lock(bare, key);
                cycles++;
            }
        }
    } while (held || !lk_bench_crew_stopped(bare->b));
    for (int i = 0; i < lanes; i++)
        take_locked_reply(bare);
    for (int i = 0; i < lanes; i++) {
        (void)snprintf(key, sizeof key, "bench:lane:%d", i);
        lk_bare_delete(bare, key);
    }
    return cycles;
}
