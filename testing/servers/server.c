/* server.c: what is the same for all kinds of servers; see server.h. */
#include "servers/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "servers/port.h"
#include "servers/process.h"
#include "servers/wait.h"

enum { TRIES = 3, PATH_ROOM = LK_SCRATCH_PATH + 16 };

/* ------------------------------------------------------------------ for kinds ---- */

void lk_command_add(lk_command *command, const char *word)
{
    if (command->count + 1 < sizeof command->words / sizeof command->words[0])
        command->words[command->count++] = word;
}

void lk_command_add_all(lk_command *command, const char *const *words)
{
    while (words != NULL && *words != NULL)
        lk_command_add(command, *words++);
}

void lk_command_print(lk_command *command, const char *format, ...)
{
    char *word = command->text + command->used;
    const size_t room = sizeof command->text - command->used;
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(word, room, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= room)
        return;
    command->used += (size_t)length + 1;
    lk_command_add(command, word);
}

bool lk_server_fails(lk_server *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(server->error, sizeof server->error, format, args);
    va_end(args);
    return false;
}

bool lk_server_write(lk_server *server, const char *name, const char *format, ...)
{
    char path[PATH_ROOM];
    bool good = false;
    snprintf(path, sizeof path, "%s/%.15s", server->directory, name);
    FILE *file = fopen(path, "we");
    if (file != NULL) {
        va_list args;
        va_start(args, format);
        good = vfprintf(file, format, args) >= 0;
        va_end(args);
        good = fclose(file) == 0 && good;
    }
    return good || lk_server_fails(server, "can't write %s: %s", path, strerror(errno));
}

int lk_server_connect(const lk_server *server, int patience_ms)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->port)};
    const struct timeval patience = {.tv_sec = patience_ms / 1000, .tv_usec = patience_ms % 1000 * 1000L};
    const int fd = lk_network_socket(&server->place);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* bounds connect too */
    if (inet_pton(AF_INET, server->place.address, &address.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ------------------------------------------------------------------ starting ---- */

static bool choose_ports(lk_server *server)
{
    const int there = server->kind->port;
    const bool here = server->place.netns <= 0;
    server->port = here ? lk_free_port() : there;
    server->quorum_port = here ? lk_free_port() : there + 1;
    server->election_port = here ? lk_free_port() : there + 2;
    return (server->port > 0 && server->quorum_port > 0 && server->election_port > 0) ||
           lk_server_fails(server, "there is no free port");
}

static bool run(lk_server *server)
{
    lk_command command = {.count = 0};
    server->kind->command(server, &command);
    char log[PATH_ROOM];
    snprintf(log, sizeof log, "%s/log", server->directory);
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    server->pid =
        lk_process_start(&(lk_start){.argv = command.words,
                                     .out = out,
                                     .err = out,
                                     .netns = server->place.netns,
                                     .apart = true}); /* the program stops it when the rest has ended */
    if (server->pid < 0) {
        server->pid = 0;
        server->missing = true;
        lk_server_fails(server, "can't run %s: %s; install the package %s", command.words[0], strerror(errno),
                        server->kind->package != NULL ? server->kind->package : command.words[0]);
    }
    if (out >= 0)
        close(out);
    return server->pid > 0;
}

static bool prepare_and_run(lk_server *server)
{
    return (server->kind->prepare == NULL || server->kind->prepare(server)) && run(server);
}

bool lk_server_reserve(lk_server *server, const lk_server_kind *kind, const lk_server_setup *setup)
{
    memset(server, 0, sizeof *server);
    server->kind = kind;
    if (setup != NULL)
        server->setup = *setup;
    server->place = setup != NULL && setup->place != NULL ? *setup->place : lk_here;
    server->setup.place = NULL; /* the caller's */
    return choose_ports(server) &&
           lk_scratch_make(kind->word, server->directory, server->error, sizeof server->error);
}

bool lk_server_start(lk_server *server, const lk_server_kind *kind, const lk_server_setup *setup)
{
    return lk_server_reserve(server, kind, setup) && prepare_and_run(server);
}

bool lk_server_launch(lk_server *server, bool keep_data)
{
    if (keep_data)
        return run(server);
    if (!lk_scratch_empty(server->directory))
        return lk_server_fails(server, "can't make %s: %s", server->directory, strerror(errno));
    return prepare_and_run(server);
}

static bool serves_or_ended(void *context)
{
    lk_server *server = context;
    if (server->pid > 0 && waitpid(server->pid, NULL, WNOHANG) == server->pid)
        server->pid = 0;
    return server->pid == 0 || server->kind->serves(server);
}

bool lk_server_await(lk_server *server)
{
    for (int tries = 1;; tries++) {
        const bool ready = lk_until(serves_or_ended, server, server->kind->patience_ms);

        if (ready && server->pid > 0)
            return server->served = true;
        if (server->pid > 0)
            return lk_server_fails(server, "the %s on port %d does not answer", server->kind->name,
                                   server->port);
        if (server->served || server->id > 0 || server->place.netns > 0 || tries == TRIES ||
            !choose_ports(server) || !prepare_and_run(server))
            return lk_server_fails(server, "the %s on port %d ended instead of serving", server->kind->name,
                                   server->port);
    }
}

/* ------------------------------------------------------------------ what is done to it ---- */

void lk_server_kill(lk_server *server)
{
    lk_process_kill(server->pid);
    server->pid = 0;
    server->frozen = false;
}

bool lk_server_freeze(lk_server *server)
{
    server->frozen = lk_process_freeze(server->pid);
    return server->frozen ||
           lk_server_fails(server, "the %s on port %d did not stop", server->kind->name, server->port);
}

void lk_server_thaw(lk_server *server)
{
    if (server->pid > 0)
        kill(server->pid, SIGCONT);
    server->frozen = false;
}

void lk_server_remove(lk_server *server)
{
    lk_server_kill(server);
    lk_scratch_remove(server->directory);
    server->directory[0] = '\0';
}

/* ------------------------------------------------------------------ what it says ---- */

bool lk_server_ask(const lk_server *server, const char *question, char *answer, size_t size)
{
    answer[0] = '\0';
    return server->pid > 0 && !server->frozen && server->kind->ask(server, question, answer, size);
}

void lk_server_version(const lk_server *server, char *text, size_t size)
{
    text[0] = '\0';
    server->kind->version(server, text, size);
}

void lk_server_log(const lk_server *server, char *text, size_t size)
{
    char path[PATH_ROOM];
    size_t got = 0;
    snprintf(path, sizeof path, "%s/log", server->directory);
    FILE *log = fopen(path, "re");
    if (log != NULL) {
        if (fseek(log, -(long)(size - 1), SEEK_END) < 0)
            rewind(log);
        got = fread(text, 1, size - 1, log);
        fclose(log);
    }
    text[got] = '\0';
}
