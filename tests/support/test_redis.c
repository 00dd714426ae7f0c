/* test_redis.c: a redis-server of a test's own, and commands to it; see test_redis.h. */
#include "test_redis.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

enum { OPTIONS_MAX = 32 };

typedef struct {
    lk_server server;
    const char *options[OPTIONS_MAX]; /* its own, and those of the test */
    redisContext *admin;              /* our connection; NULL while there is none */
    pid_t admin_to;                   /* the process at its other end */
} test_redis;

static test_redis *of(lk_server *server)
{
    return (test_redis *)server; /* which is its first member */
}

/* ------------------------------------------------------------------ starting and stopping ---- */

lk_server *lk_test_redis(const char *const *options)
{
    static const char *const admin[] = {"--user", "admin", "on", ">admin", "~*", "&*", "+@all"};
    test_redis *redis = calloc(1, sizeof *redis);
    size_t count = sizeof admin / sizeof admin[0];
    if (redis == NULL)
        test_fails("out of memory (%s)", "server");
    memcpy(redis->options, admin, sizeof admin);
    while (options != NULL && *options != NULL && count + 1 < OPTIONS_MAX)
        redis->options[count++] = *options++;
    lk_test_need(&redis->server, lk_server_start(&redis->server, &lk_server_redis,
                                                 &(lk_server_setup){.options = redis->options}) &&
                                     lk_server_await(&redis->server));
    return &redis->server;
}

static void disconnect(lk_server *server)
{
    redisFree(of(server)->admin); /* NULL is allowed */
    of(server)->admin = NULL;
}

void lk_test_redis_free(lk_server *server)
{
    if (server != NULL)
        disconnect(server);
    lk_test_free(server);
}

/* ------------------------------------------------------------------ commands ---- */

static redisContext *log_in(const lk_server *server)
{
    const struct timeval patience = {.tv_sec = LK_TEST_PATIENCE_MS / 1000};
    char socket[LK_SCRATCH_PATH + 8];
    redisContext *context;
    redisReply *reply = NULL;
    snprintf(socket, sizeof socket, "%s/socket", server->directory);
    context = redisConnectUnixWithTimeout(socket, patience);
    if (context != NULL && context->err == 0 && redisSetTimeout(context, patience) == REDIS_OK) {
        fcntl(context->fd, F_SETFD, FD_CLOEXEC);
        reply = redisCommand(context, "AUTH admin admin");
    }
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        redisFree(context);
        context = NULL;
    }
    freeReplyObject(reply);
    return context;
}

static redisReply *command(lk_server *server, const char *format, va_list args)
{
    test_redis *redis = of(server);
    redisReply *reply = NULL;
    if (redis->admin_to != server->pid) /* it was killed and started again */
        disconnect(server);
    if (redis->admin == NULL)
        redis->admin = log_in(server);
    redis->admin_to = server->pid;
    if (redis->admin != NULL)
        reply = redisvCommand(redis->admin, format, args);
    if (reply == NULL)
        test_fails("the server gave no reply to %s", format);
    if (reply->type == REDIS_REPLY_ERROR)
        test_fails("the server refused %s: %s", format, reply->str);
    return reply;
}

void lk_server_do(lk_server *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    freeReplyObject(command(server, format, args));
    va_end(args);
}

int64_t lk_server_integer(lk_server *server, const char *format, ...)
{
    redisReply *reply;
    va_list args;
    int64_t value;
    va_start(args, format);
    reply = command(server, format, args);
    va_end(args);
    value = reply->type == REDIS_REPLY_INTEGER ? reply->integer
            : reply->type == REDIS_REPLY_ARRAY ? (int64_t)reply->elements
                                               : -1;
    freeReplyObject(reply);
    return value;
}

bool lk_server_text(lk_server *server, char *text, size_t size, const char *format, ...)
{
    redisReply *reply;
    va_list args;
    bool there;
    va_start(args, format);
    reply = command(server, format, args);
    va_end(args);
    there = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
    snprintf(text, size, "%s", there ? reply->str : "");
    freeReplyObject(reply);
    return there;
}
