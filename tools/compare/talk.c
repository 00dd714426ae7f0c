/* talk.c: commands to spawned servers; see talk.h. */
#include "talk.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "../cli.h"
#include "netns.h"
#include "process.h"

enum { FIRST_PORT = 12000, PORTS = 20000 };

static void be_patient(int fd, time_t seconds)
{
    const struct timeval patience = {.tv_sec = seconds};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* bounds connect too */
}

static bool send_all(int fd, const char *text)
{
    const size_t length = strlen(text);

    return send(fd, text, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* Read until the answer is whole: a line, or for a string as many bytes as its first line says. */
static bool read_answer(int fd, char *text, size_t size)
{
    size_t got = 0, wanted = 0;
    ssize_t more;

    while (got + 1 < size && (more = recv(fd, text + got, size - 1 - got, 0)) > 0) {
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

bool lk_talk_redis(const char *socket_path, const char *command, char *answer, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char line[512], text[16384] = "";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = false;

    answer[0] = '\0';
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
    snprintf(line, sizeof(line), "%s\r\n", command);
    if (fd < 0)
        return false;
    be_patient(fd, 2);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && send_all(fd, line) &&
        read_answer(fd, text, sizeof(text))) {
        good = text[0] != '-';
        strip(text);
        snprintf(answer, size, "%s", text);
    }
    close(fd);
    return good;
}

bool lk_talk_zookeeper(int netns, const char *address, int port, const char *word, char *answer, size_t size)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = -1;
    size_t got = 0;
    ssize_t more;

    answer[0] = '\0';
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1 || (fd = lk_netns_socket(netns)) < 0)
        return false;
    be_patient(fd, 1);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 && send_all(fd, word)) {
        while (got + 1 < size && (more = recv(fd, answer + got, size - 1 - got, 0)) > 0)
            got += (size_t)more;
        answer[got] = '\0';
    }
    close(fd);
    return got > 0;
}

static bool port_is_free(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    bool is_free;

    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_free = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return is_free;
}

int lk_talk_free_port(void)
{
    static unsigned next;

    if (next == 0)
        next = (unsigned)getpid() * 31U + (unsigned)(lk_now_ns() / 1000000);
    for (int tries = 0; tries < 1000; tries++) {
        next = next * 1103515245U + 12345U;
        int port = FIRST_PORT + (int)((next >> 8) % PORTS);

        if (port_is_free(port))
            return port;
    }
    lk_die(LK_EXIT_SYSTEM, "no free port from %d to %d", FIRST_PORT, FIRST_PORT + PORTS - 1);
}
