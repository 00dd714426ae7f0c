/* etcd.c: etcd servers; see etcd.h. */
#include "servers/etcd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000, ANSWER_MS = 3000, TICKS = 10 };

/* ------------------------------------------------------------------ starting ---- */

static void add(lk_command *line, const char *option, const char *value)
{
    lk_command_add(line, option);
    lk_command_add(line, value);
}

static void add_url(lk_command *line, const char *option, const char *scheme, const char *address, int port)
{
    lk_command_add(line, option);
    lk_command_print(line, "%s://%s:%d", scheme, address, port);
}

/* With a name of its own for what they are together: a server of before, whose port one has now, is none of them. */
static void add_members(const lk_server *server, lk_command *line)
{
    const lk_server *first = server->id > 0 ? server->members : server;
    const int count = server->id > 0 ? LK_ENSEMBLE : 1;
    char text[300];
    size_t at = 0;
    for (int i = 0; i < count && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%sm%d=http://%s:%d", i > 0 ? "," : "",
                               first[i].id, first[i].place.address, first[i].quorum_port);
    lk_command_add(line, "--name");
    lk_command_print(line, "m%d", server->id);
    lk_command_add(line, "--initial-cluster");
    lk_command_print(line, "%s", text);
    add_url(line, "--initial-advertise-peer-urls", "http", server->place.address, server->quorum_port);
    add_url(line, "--listen-peer-urls", "http", server->place.address, server->quorum_port);
    lk_command_add(line, "--initial-cluster-token");
    lk_command_print(line, "%s", first->directory);
}

static void add_file(lk_command *line, const char *option, const char *directory, const char *name)
{
    lk_command_add(line, option);
    lk_command_print(line, "%s/%s", directory, name);
}

/* With an authority's certificate a server wants one of each client, whatever else it is told. */
static bool wants_certificates(const lk_server *server)
{
    const char *const *options = server->setup.options;
    for (size_t i = 0; options != NULL && options[i] != NULL; i++)
        if (strcmp(options[i], "--client-cert-auth") == 0)
            return true;
    return false;
}

static void add_clients(const lk_server *server, lk_command *line)
{
    const char *const certificates = server->setup.certificates, *const address = server->place.address;
    add_url(line, "--advertise-client-urls", certificates != NULL ? "https" : "http", address, server->port);
    lk_command_add(line, "--listen-client-urls");
    if (certificates == NULL) {
        lk_command_print(line, "http://%s:%d", address, server->port);
        return;
    }
    lk_command_print(line, "https://%s:%d,http://%s:%d", address, server->port, address,
                     server->election_port);
    add_file(line, "--cert-file", certificates, "server.crt");
    add_file(line, "--key-file", certificates, "server.key");
    if (wants_certificates(server))
        add_file(line, "--trusted-ca-file", certificates, "ca.crt");
}

static void command(const lk_server *server, lk_command *line)
{
    const int usual_ms = server->id > 0 ? LK_ETCD_ENSEMBLE_TICK_MS : LK_ETCD_TICK_MS,
              tick_ms = server->setup.tick_ms > 0 ? server->setup.tick_ms : usual_ms;
    const char *const named = getenv("LOCKER_TEST_ETCD");
    lk_command_add(line, named != NULL && named[0] != '\0' ? named : "etcd");
    lk_command_add(line, "--data-dir");
    lk_command_print(line, "%s/data", server->directory);
    add_members(server, line);
    add_clients(server, line);
    lk_command_add(line, "--heartbeat-interval");
    lk_command_print(line, "%d", tick_ms);
    lk_command_add(line, "--election-timeout");
    lk_command_print(line, "%d", TICKS * tick_ms);
    add(line, "--logger", "zap");
    add(line, "--log-level", "warn");
    lk_command_add_all(line, server->setup.options);
}

/* ------------------------------------------------------------------ asking ---- */

static int connect_to(const lk_server *server)
{
    lk_server plain = *server;
    if (server->setup.certificates != NULL)
        plain.port = server->election_port;
    return lk_server_connect(&plain, ANSWER_MS);
}

static bool send_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        const ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        text += sent;
        length -= (size_t)sent;
    }
    return true;
}

static bool send_question(int fd, const char *question)
{
    const char *body = strchr(question, ' ');
    const int length = body != NULL ? (int)(body - question) : (int)strlen(question);
    char head[512];
    const int size = body == NULL
                         ? snprintf(head, sizeof head, "GET %s HTTP/1.0\r\n\r\n", question)
                         : snprintf(head, sizeof head, "POST %.*s HTTP/1.0\r\nContent-Length: %zu\r\n\r\n",
                                    length, question, strlen(body + 1));
    return size < (int)sizeof head && send_all(fd, head, (size_t)size) &&
           (body == NULL || send_all(fd, body + 1, strlen(body + 1)));
}

/* The answer ends with the connection. */
static bool ask(const lk_server *server, const char *question, char *answer, size_t size)
{
    enum { HEAD = 1024 }; /* of what comes, at most */
    char *const text = malloc(size + HEAD);
    const int fd = text != NULL ? connect_to(server) : -1;
    size_t got = 0;
    ssize_t more = -1;
    if (fd >= 0 && send_question(fd, question))
        while (got + 1 < size + HEAD &&
               (more = TEMP_FAILURE_RETRY(recv(fd, text + got, size + HEAD - 1 - got, 0))) > 0)
            got += (size_t)more;
    if (text != NULL)
        text[got] = '\0';
    const char *body = got > 0 ? strstr(text, "\r\n\r\n") : NULL;
    if (body != NULL)
        snprintf(answer, size, "%s", body + 4);
    const bool good = body != NULL && more == 0 && strncmp(text + strcspn(text, " "), " 200 ", 5) == 0;
    if (fd >= 0)
        close(fd);
    free(text);
    return good;
}

/* One that has no room left for data serves, too. */
static bool serves(const lk_server *server)
{
    char answer[256];
    return ask(server, "/health?exclude=NOSPACE", answer, sizeof answer) &&
           strstr(answer, "\"health\":\"true\"") != NULL;
}

/* Copies the value of a member; "" when there is none. */
static void member_of(const char *answer, const char *name, char *value, size_t size)
{
    char label[40];
    snprintf(label, sizeof label, "\"%s\":\"", name);
    const char *at = strstr(answer, label);
    if (at != NULL)
        at += strlen(label);
    snprintf(value, size, "%.*s", at != NULL ? (int)strcspn(at, "\"") : 0, at != NULL ? at : "");
}

static bool is(const lk_server *server, const char *mode)
{
    char answer[1024], self[24], leader[24];
    if (!ask(server, "/v3/maintenance/status {}", answer, sizeof answer))
        return false;
    member_of(answer, "member_id", self, sizeof self);
    member_of(answer, "leader", leader, sizeof leader);
    return leader[0] != '\0' && (strcmp(self, leader) == 0) == (strcmp(mode, "leader") == 0);
}

static void version(const lk_server *server, char *text, size_t size)
{
    char answer[256], number[32] = "";
    if (lk_server_ask(server, "/version", answer, sizeof answer))
        member_of(answer, "etcdserver", number, sizeof number);
    if (number[0] != '\0')
        snprintf(text, size, "etcd %s", number);
}

const lk_server_kind lk_server_etcd = {
    .name = "etcd server",
    .word = "etcd",
    .package = "etcd-server",
    .port = 2379,
    .patience_ms = PATIENCE_MS,
    .command = command,
    .serves = serves,
    .ask = ask,
    .version = version,
    .is = is,
};
