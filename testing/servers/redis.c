/* redis.c: redis-servers; see redis.h. */
#include "servers/redis.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "servers/process.h"
#include "servers/wait.h"

enum { PATIENCE_MS = 30000, ANSWER_S = 10 };

const char *lk_server_redis_program(void)
{
    const char *named = getenv("LOCKER_TEST_REDIS_SERVER");
    if (named != NULL && named[0] != '\0')
        return named;
    return !lk_program_exists("redis-server") && lk_program_exists("valkey-server") ? "valkey-server"
                                                                                    : "redis-server";
}

static void command_for(const lk_server *server, lk_command *line, const char *configuration)
{
    lk_command_add(line, lk_server_redis_program());
    if (configuration != NULL)
        lk_command_print(line, "%s/%s", server->directory, configuration);
    lk_command_add(line, "--port");
    lk_command_print(line, "%d", server->port);
    lk_command_add(line, "--bind");
    lk_command_add(line, server->place.address);
    lk_command_add(line, "--dir");
    lk_command_add(line, server->directory);
    lk_command_add(line, "--unixsocket");
    lk_command_print(line, "%s/socket", server->directory);
    lk_command_add(line, "--daemonize");
    lk_command_add(line, "no");
    lk_command_add_all(line, server->setup.options);
}

static void command(const lk_server *server, lk_command *line)
{
    command_for(server, line, NULL);
    lk_command_add(line, "--save");
    lk_command_add(line, "");
}

/* It writes there what it learns. */
static const char sentinel_file[] = "sentinel.conf";

static bool prepare_sentinel(lk_server *server)
{
    return lk_server_write(server, sentinel_file, "protected-mode no\n");
}

static void command_sentinel(const lk_server *server, lk_command *line)
{
    command_for(server, line, sentinel_file);
    lk_command_add(line, "--sentinel");
}

static void add_pair(lk_command *line, const char *name, const char *value)
{
    lk_command_add(line, name);
    lk_command_add(line, value);
}

static void speak_tls(const lk_server *server, lk_command *line)
{
    static const char *const files[] = {"--tls-ca-cert-file", "ca.crt",         "--tls-cert-file",
                                        "server.crt",         "--tls-key-file", "server.key"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i += 2) {
        lk_command_add(line, files[i]);
        lk_command_print(line, "%s/%s", server->setup.certificates, files[i + 1]);
    }
    lk_command_add(line, "--tls-port");
    lk_command_print(line, "%d", server->port);
    add_pair(line, "--port", "0");
    add_pair(line, "--tls-cluster", "yes");
    add_pair(line, "--tls-replication", "yes");
}

/* Replicas stay with their master, and one without slots stays a master: who moves slots about says what becomes of it. */
static void command_cluster(const lk_server *server, lk_command *line)
{
    command(server, line);
    add_pair(line, "--cluster-enabled", "yes");
    add_pair(line, "--cluster-config-file", "nodes.conf");
    lk_command_add(line, "--cluster-port");
    lk_command_print(line, "%d", server->quorum_port);
    lk_command_add(line, "--cluster-node-timeout");
    lk_command_print(line, "%d", server->setup.tick_ms);
    add_pair(line, "--cluster-allow-replica-migration", "no");
    add_pair(line, "--repl-diskless-sync-delay", "0");
    add_pair(line, "--protected-mode", "no");
    if (server->setup.certificates != NULL)
        speak_tls(server, line);
}

/* ------------------------------------------------------------------ asking ---- */

/* Read until the answer is whole: a line, or for a string as many bytes as its first line says. */
static bool read_answer(int fd, char *text, size_t size)
{
    size_t got = 0, wanted = 0;
    ssize_t more;
    while (got + 1 < size && (more = TEMP_FAILURE_RETRY(recv(fd, text + got, size - 1 - got, 0))) > 0) {
        got += (size_t)more;
        text[got] = '\0';
        const char *end = strstr(text, "\r\n");

        if (end == NULL)
            continue;
        if (wanted == 0)
            wanted = (size_t)(end - text) + 2 +
                     (text[0] == '$' && text[1] != '-' ? strtoul(text + 1, NULL, 10) + 2 : 0);
        if (got >= wanted)
            return true;
    }
    return false;
}

/* Leave the text alone of what came: without its kind, its length and its line's end. */
static void strip(char *text)
{
    char *from = text[0] == '$' && text[1] != '-' ? strstr(text, "\r\n") + 2 : text + 1;
    memmove(text, from, strlen(from) + 1);
    text[strlen(text) >= 2 ? strlen(text) - 2 : 0] = '\0';
}

static int connect_to(const lk_server *server)
{
    const struct timeval patience = {.tv_sec = ANSWER_S};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", server->directory);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* bounds connect too */
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Whether one answer of a line came for each command; one that is an error is the last. */
static bool read_lines(int fd, size_t count, char *why, size_t size)
{
    char text[512];
    size_t used = 0;
    snprintf(why, size, "no answer");
    while (count > 0 && used + 1 < sizeof text) {
        if (TEMP_FAILURE_RETRY(recv(fd, text + used, 1, 0)) != 1)
            return false;
        if (text[used++] != '\n')
            continue;
        if (text[0] == '-') {
            snprintf(why, size, "%.*s", (int)strcspn(text, "\r"), text);
            return false;
        }
        used = 0;
        count--;
    }
    return count == 0;
}

bool lk_server_tell(const lk_server *server, const char *lines, size_t count, char *why, size_t size)
{
    const ssize_t length = (ssize_t)strlen(lines);
    const int fd = server->pid > 0 && !server->frozen ? connect_to(server) : -1;
    snprintf(why, size, "no connection");
    if (fd < 0)
        return false;
    const bool told =
        send(fd, lines, (size_t)length, MSG_NOSIGNAL) == length && read_lines(fd, count, why, size);
    close(fd);
    return told;
}

static bool ask(const lk_server *server, const char *question, char *answer, size_t size)
{
    char line[512], text[16384] = "";
    const int length = snprintf(line, sizeof line, "%s\r\n", question), fd = connect_to(server);
    bool good = false;
    if (fd < 0)
        return false;
    if (send(fd, line, (size_t)length, MSG_NOSIGNAL) == length && read_answer(fd, text, sizeof text)) {
        good = text[0] != '-';
        strip(text);
        snprintf(answer, size, "%s", text);
    }
    close(fd);
    return good;
}

/* Valkey tells a version of Redis, too, for clients that know of no Valkey. */
void lk_server_redis_version(const char *info, char *text, size_t size)
{
    static const char *const labels[][2] = {{"\nvalkey_version:", "Valkey"}, {"\nredis_version:", "Redis"}};
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        const char *at = strstr(info, labels[i][0]);

        if (at == NULL)
            continue;
        at += strlen(labels[i][0]);
        snprintf(text, size, "%s %.*s", labels[i][1], (int)strcspn(at, "\r\n"), at);
        return;
    }
}

/* One that wants to know who asks serves, too. */
static bool serves(const lk_server *server)
{
    char answer[256] = "";
    return ask(server, "PING", answer, sizeof answer) || strncmp(answer, "NOAUTH", 6) == 0;
}

static void version(const lk_server *server, char *text, size_t size)
{
    char answer[8192];
    if (lk_server_ask(server, "INFO server", answer, sizeof answer))
        lk_server_redis_version(answer, text, size);
}

const lk_server_kind lk_server_redis = {
    .name = "redis-server",
    .word = "redis",
    .port = 6379,
    .patience_ms = PATIENCE_MS,
    .command = command,
    .serves = serves,
    .ask = ask,
    .version = version,
};

const lk_server_kind lk_server_sentinel = {
    .name = "redis-server --sentinel",
    .word = "sentinel",
    .port = 26379,
    .patience_ms = PATIENCE_MS,
    .prepare = prepare_sentinel,
    .command = command_sentinel,
    .serves = serves,
    .ask = ask,
    .version = version,
};

const lk_server_kind lk_server_cluster = {
    .name = "redis-server of a cluster",
    .word = "node",
    .port = 6379,
    .patience_ms = PATIENCE_MS,
    .command = command_cluster,
    .serves = serves,
    .ask = ask,
    .version = version,
};

/* ------------------------------------------------------------------ a replica ---- */

static bool is_linked(void *context)
{
    char answer[8192];
    return lk_server_ask(context, "INFO replication", answer, sizeof answer) &&
           strstr(answer, "master_link_status:up") != NULL;
}

bool lk_server_follow(lk_server *replica, const lk_server *master)
{
    char question[96] = "REPLICAOF NO ONE";
    if (master != NULL)
        snprintf(question, sizeof question, "REPLICAOF %s %d", master->place.address, master->port);
    char answer[256];
    if (!lk_server_ask(replica, question, answer, sizeof answer))
        return lk_server_fails(replica, "%s was answered with '%.99s'", question, answer);
    return master == NULL || lk_until(is_linked, replica, PATIENCE_MS) ||
           lk_server_fails(replica, "the replica does not follow its master");
}

/* ------------------------------------------------------------------ Sentinels ---- */

static bool tell(lk_server *sentinel, const char *question)
{
    char answer[256] = "";
    return lk_server_ask(sentinel, question, answer, sizeof answer) ||
           lk_server_fails(sentinel, "%s was answered with '%.99s'", question, answer);
}

bool lk_server_watch(lk_server *sentinel, const char *name, const lk_server *master, int quorum, int down_ms)
{
    char monitor[200], down[200], again[200];
    snprintf(monitor, sizeof monitor, "SENTINEL MONITOR %s %s %d %d", name, master->place.address,
             master->port, quorum);
    snprintf(down, sizeof down, "SENTINEL SET %s down-after-milliseconds %d", name, down_ms);
    snprintf(again, sizeof again, "SENTINEL SET %s failover-timeout %d", name, 4 * down_ms);
    return tell(sentinel, monitor) && tell(sentinel, down) && tell(sentinel, again);
}

bool lk_server_pace(lk_server *sentinel, int publish_ms, int info_ms)
{
    char question[100];
    snprintf(question, sizeof question, "SENTINEL DEBUG PUBLISH-PERIOD %d INFO-PERIOD %d",
             publish_ms > 0 ? publish_ms : 2000, info_ms > 0 ? info_ms : 10000);
    return tell(sentinel, question);
}
