/* redis_server.c: the redis-server of a run. Ours has a private port and directory, keeps nothing on disk,
 * and goes with us; with --uri it is somebody else's, and is neither pinned nor stopped. */
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench.h"
#include "servers/redis.h"

static redisContext *admin; /* the boss's own connection */

/* ------------------------------------------------------------------ the address ---- */

/* Cut `text` at the first `c`; what follows, or NULL. */
static char *cut(char *text, char c)
{
    char *at = strchr(text, c);
    if (at != NULL)
        *at++ = '\0';
    return at;
}

static bool copy(char *out, size_t size, const char *text)
{
    return text == NULL || (size_t)snprintf(out, size, "%s", text) < size;
}

bool lk_bench_redis_server_parse(lk_bench_redis_server *server, const char *uri)
{
    static const char tcp[] = "redis://", local[] = "redis+unix://";
    char text[LK_SERVER_TEXT], *user = NULL, *password = NULL, *port = NULL, *database = NULL;
    if (strchr(uri, '?') != NULL || !copy(text, sizeof text, uri) ||
        !copy(server->uri, sizeof server->uri, uri))
        return false;
    if (strncmp(uri, local, sizeof local - 1) == 0)
        return copy(server->host, sizeof server->host, uri + sizeof local - 1) && server->host[0] == '/';
    if (strncmp(uri, tcp, sizeof tcp - 1) != 0)
        return false;
    char *rest = text + sizeof tcp - 1;
    char *at = strrchr(rest, '@');
    if (at != NULL) {
        *at = '\0';
        user = rest;
        password = cut(user, ':');
        rest = at + 1;
    }
    database = cut(rest, '/');
    port = cut(rest, ':');
    server->port = port != NULL ? (int)strtol(port, NULL, 10) : 6379;
    return rest[0] != '\0' && server->port > 0 && server->port < 65536 &&
           copy(server->host, sizeof server->host, rest) && copy(server->user, sizeof server->user, user) &&
           copy(server->password, sizeof server->password, password) &&
           copy(server->database, sizeof server->database, database);
}

const char *lk_bench_redis_server_uri(const lk_bench *b, char out[LK_SERVER_TEXT], const char *query)
{
    (void)snprintf(out, LK_SERVER_TEXT, "%.400s?%s", b->server.uri, query);
    return out;
}

/* ------------------------------------------------------------------ connecting ---- */

static bool ask(redisContext *c, char *why, size_t size, int argc, const char **argv)
{
    redisReply *reply = redisCommandArgv(c, argc, argv, NULL);
    const bool good = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    if (!good)
        (void)snprintf(why, size, "%s: %s", argv[0], reply != NULL ? reply->str : c->errstr);
    freeReplyObject(reply);
    return good;
}

struct redisContext *lk_bench_redis_server_connect(const lk_bench_redis_server *server, char *why,
                                                   size_t size)
{
    const struct timeval patience = {.tv_sec = 5};
    redisContext *c = server->port > 0 ? redisConnectWithTimeout(server->host, server->port, patience)
                                       : redisConnectUnixWithTimeout(server->host, patience);
    const char *auth[] = {"AUTH", server->user, server->password};
    const char *db[] = {"SELECT", server->database};
    const bool named = server->user[0] != '\0';
    if (c == NULL || c->err != 0) {
        (void)snprintf(why, size, "can't connect to Redis: %s", c != NULL ? c->errstr : "out of memory");
        goto bad;
    }
    if (!named)
        auth[1] = server->password;
    if (server->password[0] != '\0' && !ask(c, why, size, named ? 3 : 2, auth))
        goto bad;
    if (server->database[0] != '\0' && !ask(c, why, size, 2, db))
        goto bad;
    return c;
bad:
    if (c != NULL)
        redisFree(c);
    return NULL;
}

static redisReply *info(const char *section)
{
    redisReply *reply = admin != NULL ? redisCommand(admin, "INFO %s", section) : NULL;
    if (reply != NULL && reply->type != REDIS_REPLY_STRING) {
        freeReplyObject(reply);
        reply = NULL;
    }
    return reply;
}

static void read_version(lk_bench_redis_server *server)
{
    redisReply *reply = info("server");
    if (reply != NULL)
        lk_server_redis_version(reply->str, server->version, sizeof server->version);
    freeReplyObject(reply);
}

/* ------------------------------------------------------------------ starting ---- */

static bool launch(lk_bench_redis_server *server)
{
    static const char *const options[] = {"--appendonly", "no", "--maxclients", "20000", NULL};
    lk_server *own = &server->own;
    if (!lk_server_start(own, &lk_server_redis, &(lk_server_setup){.options = options}) ||
        !lk_server_await(own)) {
        lk_bench_progress("%s", own->error);
        return false;
    }
    server->cpu = -1;
    server->port = own->port;
    (void)snprintf(server->host, sizeof server->host, "%s", own->place.address);
    (void)snprintf(server->uri, sizeof server->uri, "redis://%s:%d/0", server->host, server->port);
    return true;
}

bool lk_bench_redis_server_need(lk_bench *b)
{
    char why[256] = "";
    if (b->uri == NULL && !launch(&b->server))
        return false;
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    admin = lk_bench_redis_server_connect(&b->server, why, sizeof why);
    if (admin == NULL) {
        lk_bench_progress("%s", why);
        return false;
    }
    (void)fcntl(admin->fd, F_SETFD, FD_CLOEXEC);
    read_version(&b->server);
    return true;
}

bool lk_bench_redis_server_pin(lk_bench *b, int cpu)
{
    if (b->server.own.pid <= 0 || cpu < 0)
        return false;
    if (b->server.cpu != cpu && !lk_bench_pin_process(b->server.own.pid, cpu))
        return false;
    b->server.cpu = cpu;
    return true;
}

void lk_bench_redis_server_stop(lk_bench *b)
{
    if (admin != NULL)
        redisFree(admin);
    admin = NULL;
    lk_server_remove(&b->server.own); /* it has nothing to save */
}

/* ------------------------------------------------------------------ counting ---- */

/* Commands that scripts call are counted by the server like those that clients send. The lock scripts call
 * these, and neither side sends them itself while it is measured, but for LPUSH and BLPOP, which no script
 * calls. */
static bool is_called_by_scripts(const char *name, size_t length)
{
    static const char *const names[] = {
        "get",   "set",    "del",      "pexpire", "pttl", "time",   "zadd",   "zrem",
        "zcard", "zrange", "zpopmin",  "publish", "type", "exists", "unlink", "zscore",
        "info",  "strlen", "getrange", "incr",    "mget", "incrby", "zrank",  "pubsub|numsub"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && strncmp(name, names[i], length) == 0)
            return true;
    return false;
}

int64_t lk_bench_redis_server_keys(lk_bench *b)
{
    (void)b;
    redisReply *reply = redisCommand(admin, "DBSIZE");
    const int64_t keys = reply != NULL && reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return keys;
}

int64_t lk_bench_redis_server_commands(lk_bench *b)
{
    static const char prefix[] = "cmdstat_", calls[] = ":calls=";
    redisReply *reply = info("commandstats");
    int64_t total = 0;
    (void)b;
    for (const char *at = reply != NULL ? reply->str : NULL; at != NULL;) {
        const char *name = strstr(at, prefix);

        if (name == NULL)
            break;
        name += sizeof prefix - 1;
        const char *colon = strstr(name, calls);
        if (colon == NULL)
            break;
        if (!is_called_by_scripts(name, (size_t)(colon - name)))
            total += strtoll(colon + sizeof calls - 1, NULL, 10);
        at = colon;
    }
    freeReplyObject(reply);
    return total;
}

/* ------------------------------------------------------------------ scripts ---- */

enum { SLOW_US = 500, SLOW_MOST = 1024 };

void lk_bench_redis_server_watch_scripts(lk_bench *b)
{
    (void)b;
    freeReplyObject(
        redisCommand(admin, "CONFIG SET slowlog-log-slower-than %d slowlog-max-len %d", SLOW_US, SLOW_MOST));
    freeReplyObject(redisCommand(admin, "SLOWLOG RESET"));
}

/* An entry: its number, when it was, its microseconds, and the words of the command. */
static long long script_us(const redisReply *entry)
{
    const redisReply *words = entry->elements > 3 ? entry->element[3] : NULL;
    if (words == NULL || words->elements == 0 || strncasecmp(words->element[0]->str, "EVAL", 4) != 0)
        return 0;
    return entry->element[2]->integer;
}

double lk_bench_redis_server_longest_script_ms(lk_bench *b)
{
    redisReply *entries = redisCommand(admin, "SLOWLOG GET %d", SLOW_MOST);
    long long longest = SLOW_US;
    (void)b;
    for (size_t i = 0; entries != NULL && i < entries->elements; i++) {
        const long long us = script_us(entries->element[i]);
        longest = us > longest ? us : longest;
    }
    freeReplyObject(entries);
    return (double)longest / 1000;
}
