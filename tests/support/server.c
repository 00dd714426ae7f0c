/* server.c: a redis-server of a test's own; see server.h. */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "expect.h"

enum { FIRST_PORT = 12000, PORTS = 20000 };

/* ------------------------------------------------------------------ starting and stopping ---- */

static bool port_is_free(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    bool is_free;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_free = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return is_free;
}

int lk_free_port(void)
{
    static unsigned next;

    if (next == 0)
        next = (unsigned)getpid() * 31u + (unsigned)lk_test_now_ms();
    for (int tries = 0; tries < 1000; tries++) {
        next = next * 1103515245u + 12345u;
        int port = FIRST_PORT + (int)((next >> 8) % PORTS);

        if (port_is_free(port))
            return port;
    }
    test_fails("no free port from %d to %d", FIRST_PORT, FIRST_PORT + PORTS);
}

static void run(struct lk_server *server)
{
    const char *argv[LK_SERVER_OPTIONS_MAX + 32] = {"redis-server", NULL};
    size_t count = 1;
    char port[16], log[96];
    int out, in = open("/dev/null", O_RDONLY | O_CLOEXEC);

    snprintf(port, sizeof port, "%d", server->port);
    snprintf(log, sizeof log, "%s/log", server->directory);
    out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const char *fixed[] = {"--port",          port,     "--unixsocket", server->socket, "--dir",
                           server->directory, "--bind", "127.0.0.1",    "--save",       "",
                           "--daemonize",     "no"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        argv[count++] = fixed[i];
    for (size_t i = 0; server->options[i] != NULL; i++)
        argv[count++] = server->options[i];
    server->pid = lk_child_exec(argv, in, out, out);
    close(in);
    close(out);
    if (server->pid < 0)
        test_fails("can't run redis-server: %s; install redis-server", strerror(errno));
}

static void disconnect(struct lk_server *server)
{
    if (server->admin != NULL)
        redisFree(server->admin);
    server->admin = NULL;
}

/* Connects as the user `admin`, made on the way; false when the server doesn't serve yet. */
static bool connect_admin(struct lk_server *server)
{
    static const char *const steps[] = {"AUTH admin admin", "PING"};
    const struct timeval patience = {.tv_sec = LK_TEST_PATIENCE_MS / 1000};
    redisContext *context = redisConnectUnixWithTimeout(server->socket, patience);
    bool good = context != NULL && context->err == 0 && redisSetTimeout(context, patience) == REDIS_OK;

    if (good)
        fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    for (size_t i = 0; good && i < sizeof steps / sizeof steps[0]; i++) {
        redisReply *reply = redisCommand(context, steps[i]);

        if (reply != NULL && reply->type == REDIS_REPLY_ERROR && i == 0) {
            freeReplyObject(reply);
            reply = redisCommand(context, "ACL SETUSER admin on >admin ~* &* +@all");
        }
        good = reply != NULL && reply->type != REDIS_REPLY_ERROR;
        freeReplyObject(reply);
    }
    server->admin = good ? context : NULL;
    if (!good && context != NULL)
        redisFree(context);
    return good;
}

/* True when it serves, or has ended. */
static bool serves_or_ended(void *context)
{
    struct lk_server *server = context;

    if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
        server->pid = 0;
        return true;
    }
    return connect_admin(server);
}

static void fail_with_log(struct lk_server *server)
{
    char path[96], text[4096];
    size_t got = 0;
    FILE *log;

    snprintf(path, sizeof path, "%s/log", server->directory);
    log = fopen(path, "re");
    if (log != NULL) {
        got = fread(text, 1, sizeof text - 1, log);
        fclose(log);
    }
    text[got] = '\0';
    print_error("%s", text);
    test_fails("redis-server ended instead of serving on port %d", server->port);
}

struct lk_server *lk_server_start(const char *const *options)
{
    struct lk_server *server = calloc(1, sizeof *server);

    if (server == NULL)
        test_fails("out of memory (%s)", "server");
    lk_private_directory(server->directory);
    snprintf(server->socket, sizeof server->socket, "%s/socket", server->directory);
    for (size_t i = 0; options != NULL && options[i] != NULL && i + 1 < LK_SERVER_OPTIONS_MAX; i++)
        server->options[i] = options[i];
    /* another process may take the port between the choice and the server's bind */
    for (int tries = 0; tries < 3 && server->admin == NULL; tries++) {
        server->port = lk_free_port();
        run(server);
        lk_require(serves_or_ended, server, "redis-server should answer");
    }
    if (server->admin == NULL)
        fail_with_log(server);
    return server;
}

void lk_server_kill(struct lk_server *server)
{
    disconnect(server);
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    server->pid = 0;
    server->frozen = false;
}

void lk_server_launch(struct lk_server *server, bool keep_data)
{
    if (!keep_data) {
        lk_remove_directory(server->directory);
        lk_private_directory(server->directory);
        snprintf(server->socket, sizeof server->socket, "%s/socket", server->directory);
    }
    run(server);
    lk_require(serves_or_ended, server, "redis-server should answer again");
    if (server->admin == NULL)
        fail_with_log(server);
}

void lk_server_freeze(struct lk_server *server)
{
    int status = 0;

    kill(server->pid, SIGSTOP);
    if (waitpid(server->pid, &status, WUNTRACED) != server->pid || !WIFSTOPPED(status))
        test_fails("the server on port %d did not stop", server->port);
    server->frozen = true;
}

void lk_server_thaw(struct lk_server *server)
{
    kill(server->pid, SIGCONT);
    server->frozen = false;
}

void lk_server_free(struct lk_server *server)
{
    if (server == NULL)
        return;
    lk_server_kill(server);
    lk_remove_directory(server->directory);
    free(server);
}

/* ------------------------------------------------------------------ commands ---- */

static redisReply *command(struct lk_server *server, const char *format, va_list args)
{
    redisReply *reply = NULL;

    for (int tries = 0; reply == NULL && tries < 2; tries++) {
        va_list copy;

        if (server->admin == NULL && !connect_admin(server))
            break;
        va_copy(copy, args);
        reply = redisvCommand(server->admin, format, copy);
        va_end(copy);
        if (reply == NULL)
            disconnect(server);
    }
    if (reply == NULL)
        test_fails("the server gave no reply to %s", format);
    if (reply->type == REDIS_REPLY_ERROR)
        test_fails("the server refused %s: %s", format, reply->str);
    return reply;
}

void lk_server_do(struct lk_server *server, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    freeReplyObject(command(server, format, args));
    va_end(args);
}

int64_t lk_server_integer(struct lk_server *server, const char *format, ...)
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

bool lk_server_text(struct lk_server *server, char *text, size_t size, const char *format, ...)
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
