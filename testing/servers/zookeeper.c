/* zookeeper.c: ZooKeeper servers, alone and as members of an ensemble; see zookeeper.h. */
#include "servers/zookeeper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define JAR "/usr/share/java/zookeeper.jar"

enum { PATIENCE_MS = 120000 }; /* a busy machine takes half a minute for three JVMs */

bool lk_zookeeper_set_password(lk_server *server, const char *password)
{
    return lk_server_write(server, "jaas.conf",
                           "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
                           "  user_%s=\"%s\"\n  user_%s=\"%s\";\n};\n",
                           LK_SASL_USER, password, LK_SASL_OTHER, LK_SASL_OTHERS);
}

/* The members' addresses, a line each. */
static void list_members(const lk_server *server, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; server->id > 0 && i < LK_ENSEMBLE && at < size; i++) {
        const lk_server *member = &server->members[i];

        at += (size_t)snprintf(text + at, size - at, "server.%d=%s:%d:%d\n", member->id,
                               member->place.address, member->quorum_port, member->election_port);
    }
}

static bool prepare(lk_server *server)
{
    const lk_server_setup *setup = &server->setup;
    const int tick_ms = setup->tick_ms > 0 ? setup->tick_ms : LK_ZOOKEEPER_TICK_MS;
    if (access(JAR, R_OK) < 0) {
        server->missing = true;
        return lk_server_fails(server, "there is no " JAR ": install the package zookeeper");
    }
    char members[256];
    list_members(server, members, sizeof members);
    return lk_server_write(
               server, "zoo.cfg",
               "tickTime=%d\nminSessionTimeout=%d\nmaxSessionTimeout=120000\ninitLimit=50\n"
               "syncLimit=%d\ndataDir=%s\nclientPort=%d\nclientPortAddress=%s\n"
               "admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\nenforceQuota=true\n%s",
               tick_ms, 2 * tick_ms, setup->sync_limit > 0 ? setup->sync_limit : 10, server->directory,
               server->port, server->place.address, members) &&
           (server->id == 0 || lk_server_write(server, "myid", "%d\n", server->id)) &&
           (setup->login == LK_LOGIN_NONE || lk_zookeeper_set_password(server, LK_SASL_PASSWORD));
}

/* The options of a Java machine come before its class. */
static void command(const lk_server *server, lk_command *line)
{
    lk_command_add(line, "java");
    lk_command_add(line, "-XX:+UseSerialGC");
    lk_command_add(line, "-XX:-UsePerfData");
    lk_command_add_all(line, server->setup.options);
    if (server->setup.login != LK_LOGIN_NONE) {
        lk_command_print(line, "-Djava.security.auth.login.config=%s/jaas.conf", server->directory);
        lk_command_add(
            line, "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider");
        lk_command_add(line, server->setup.login == LK_LOGIN_SASL
                                 ? "-Dzookeeper.skipACL=yes"
                                 : "-Dzookeeper.sessionRequireClientSASLAuth=true");
    }
    lk_command_add(line, "-cp");
    lk_command_add(line, JAR ":/usr/share/java/slf4j-simple.jar");
    lk_command_add(line, "org.apache.zookeeper.server.quorum.QuorumPeerMain");
    lk_command_print(line, "%s/zoo.cfg", server->directory);
}

static bool ask(const lk_server *server, const char *question, char *answer, size_t size)
{
    const ssize_t length = (ssize_t)strlen(question);
    const int fd = lk_server_connect(server, 1000);
    size_t got = 0;
    if (fd < 0)
        return false;
    ssize_t more;
    if (send(fd, question, (size_t)length, MSG_NOSIGNAL) == length)
        while (got + 1 < size && (more = TEMP_FAILURE_RETRY(recv(fd, answer + got, size - 1 - got, 0))) > 0)
            got += (size_t)more;
    answer[got] = '\0';
    close(fd);
    return got > 0;
}

bool lk_zookeeper_is(const lk_server *server, const char *mode)
{
    char line[32];
    snprintf(line, sizeof line, "Mode: %s", mode);
    char answer[2048];
    return lk_server_ask(server, "srvr", answer, sizeof answer) && strstr(answer, line) != NULL;
}

static bool serves(const lk_server *server)
{
    return lk_zookeeper_is(server, "");
}

static void version(const lk_server *server, char *text, size_t size)
{
    static const char label[] = "Zookeeper version: ";
    char answer[2048];
    const char *at;
    if (lk_server_ask(server, "srvr", answer, sizeof answer) && (at = strstr(answer, label)) != NULL) {
        at += sizeof label - 1;
        snprintf(text, size, "ZooKeeper %.*s", (int)strcspn(at, "-,\n"), at);
    }
}

const lk_server_kind lk_server_zookeeper = {
    .name = "ZooKeeper server",
    .word = "zookeeper",
    .package = "default-jre-headless",
    .port = 2181,
    .patience_ms = PATIENCE_MS,
    .prepare = prepare,
    .command = command,
    .serves = serves,
    .ask = ask,
    .version = version,
    .is = lk_zookeeper_is,
};
