/* diagnose.c: why a server does not serve us, as far as a connection beside can tell. The client library says only that it could not connect. So a connection of our own listens first: a
 * server that has as many connections of this host as it takes closes each at once. Then it asks in words to which services of
 * most kinds answer: `ruok` is a command of ZooKeeper's, and a line that is wrong in Redis and HTTP. */
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lk_fd.h"
#include "lk_poll.h"
#include "state.h"

enum { ADDRESS_MAX = 96, ASKED_MAX = 5, TLS_ALERT = 21 };
static const int64_t whole_ns = 600 * LK_MS, connecting_ns = 200 * LK_MS, listening_ns = 100 * LK_MS,
                     answering_ns = 200 * LK_MS;
static const char question[] = "ruok\r\n\r\n";

/* What tells more comes later. */
typedef enum { UNASKED, UNREACHED, SILENT, CLOSED, ZOOKEEPER, REDIS, HTTP, TLS, OTHER, FULL } kind;

typedef struct {
    kind kind;
    int error; /* errno, of UNREACHED */
    char address[ADDRESS_MAX];
} finding;

static int64_t now(const locker_clock *clock)
{
    return clock->now(clock->context);
}

static bool begins(const char *said, ssize_t len, const char *with)
{
    return len >= (ssize_t)strlen(with) && memcmp(said, with, strlen(with)) == 0;
}

static kind kind_of(const char *said, ssize_t len)
{
    if (begins(said, len, "imok") || begins(said, len, "ruok is not")) /* in the whitelist */
        return ZOOKEEPER;
    if (begins(said, len, "HTTP/"))
        return HTTP;
    if (said[0] == TLS_ALERT)
        return TLS;
    return said[0] == '-' ? REDIS : OTHER;
}

/* Wait for what the other end says, or for its end. False: neither came. */
static bool listen_to(const locker_clock *clock, int fd, int64_t until, char *said, size_t size, ssize_t *len)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (lk_poll_until(&wait, 1, now(clock), until) <= 0)
        return false;
    *len = recv(fd, said, size, MSG_DONTWAIT);
    return true;
}

static int connect_to(const locker_clock *clock, int fd, const struct addrinfo *to, int64_t until)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (lk_poll_until(&wait, 1, now(clock), until) <= 0)
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

static int64_t until_at_most(const locker_clock *clock, int64_t ns, int64_t until)
{
    return lk_time_earlier(now(clock) + ns, until);
}

static kind converse(const locker_clock *clock, int fd, bool by_tls, int64_t until)
{
    char said[16];
    ssize_t len = 0;
    if (listen_to(clock, fd, until_at_most(clock, listening_ns, until), said, sizeof(said), &len))
        return len > 0 ? OTHER : FULL; /* ZooKeeper does not speak first */
    if (by_tls)
        return UNASKED; /* the handshake has told more, or it was a certificate that the server does not trust */
    if (send(fd, question, sizeof(question) - 1, MSG_NOSIGNAL) < 0)
        return SILENT;
    if (!listen_to(clock, fd, until_at_most(clock, answering_ns, until), said, sizeof(said), &len))
        return SILENT;
    return len > 0 ? kind_of(said, len) : CLOSED;
}

static void ask(const locker_clock *clock, finding *f, bool by_tls, int64_t until)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    char host[ADDRESS_MAX];
    struct addrinfo *to;
    char *const colon = strrchr(strcpy(host, f->address), ':'); /* of IPv6 the last one, too (resolve.c) */
    *colon = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &to) != 0)
        return;
    const int fd = lk_fd_high(socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd >= 0) {
        f->error = connect_to(clock, fd, to, until_at_most(clock, connecting_ns, until));
        const bool ended = f->error == ECONNRESET || f->error == EPIPE; /* at once */
        f->kind = f->error == 0 ? converse(clock, fd, by_tls, until) : ended ? FULL : UNREACHED;
        close(fd);
    }
    freeaddrinfo(to);
}

/* What is said of a server, behind its address. */
static const struct {
    locker_status status;
    int error;
    const char *text;
} told[] = {
    [SILENT] = {LOCKER_UNAVAILABLE, 0,
                "does not answer; check that it is ZooKeeper, and that it is not stopped"},
    [CLOSED] = {LOCKER_UNAVAILABLE, 0,
                "closes the connection at the first request; "
                "check that it is ZooKeeper, and set tls=on if this is its TLS port"},
    [REDIS] = {LOCKER_PROTOCOL, 0, "speaks Redis' protocol, not ZooKeeper's protocol; check host and port"},
    [HTTP] = {LOCKER_PROTOCOL, 0, "speaks HTTP, not ZooKeeper's protocol; check host and port"},
    [TLS] = {LOCKER_PROTOCOL, 0, "speaks TLS; set tls=on, or use its port without TLS"},
    [OTHER] = {LOCKER_PROTOCOL, 0, "does not speak ZooKeeper's protocol; check host and port"},
    [FULL] = {LOCKER_UNAVAILABLE, EUSERS,
              "closes each connection at once, as ZooKeeper does at its limit of "
              "connections from a host; raise maxClientCnxns (60 by default) in the servers' zoo.cfg"},
};

static locker_status tell(const finding *f, locker_error *err)
{
    if (f->kind == UNASKED)
        return LOCKER_OK;
    if (f->kind == UNREACHED)
        return locker_error_set(err, LOCKER_UNAVAILABLE, f->error,
                                "cannot reach ZooKeeper at %s: %s; check that ZooKeeper is running there",
                                f->address, strerror(f->error));
    if (f->kind == ZOOKEEPER)
        return lk_unavailable(err,
                              "ZooKeeper at %s is running, but serves no clients: it is not "
                              "part of a majority, or is overloaded; check the other servers",
                              f->address);
    return locker_error_set(err, told[f->kind].status, told[f->kind].error, "the server at %s %s", f->address,
                            told[f->kind].text);
}

locker_status lk_zk_diagnose(const locker_clock *clock, const char *addresses, bool by_tls, locker_error *err)
{
    const int64_t until = now(clock) + whole_ns;
    finding best = {.kind = UNASKED};
    int asked = 0;
    for (const char *at = addresses; *at != '\0' && asked < ASKED_MAX && now(clock) < until; asked++) {
        finding f = {.kind = UNASKED};
        const size_t len = strcspn(at, ",");
        if (len < sizeof(f.address)) {
            memcpy(f.address, at, len);
            ask(clock, &f, by_tls, until);
        }
        if (f.kind > best.kind)
            best = f;
        at += len + (at[len] == ',');
    }
    return tell(&best, err);
}
