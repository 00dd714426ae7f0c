/*
 * dial.c: reaching a host. The sockets are made here and not by hiredis, so that they are close-on-exec
 * from the start and the bound on connecting is ours with every version of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

#ifdef LOCKER_REDIS_TLS
#include <hiredis/hiredis_ssl.h>
#endif

void lk_peer_name(const char *host, int port, char *out)
{
    const bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(out, LK_PEER_MAX, "%s%.255s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

/* Connect a non-blocking socket; 0, or an errno. */
static int connect_until(int fd, const struct sockaddr *address, socklen_t len, int64_t until)
{
    if (connect(fd, address, len) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return errno;
    struct pollfd waits = {.fd = fd, .events = POLLOUT, .revents = 0};
    for (;;) {
        const int64_t now = lk_system_now();
        if (now >= until)
            return ETIMEDOUT;
        const int n = lk_poll_until(&waits, 1, now, until);
        if (n > 0)
            break;
        if (n < 0 && errno != EINTR)
            return errno;
    }
    int failure = 0;
    socklen_t size = sizeof(failure);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        return errno;
    return failure;
}

/* Commands are small and wait for their answers; a peer that vanished is noticed within half a minute. */
static void tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 15},
        {IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

static int open_unix(const char *path, int64_t until, int *failure)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        *failure = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        *failure = errno;
        return -1;
    }
    *failure = connect_until(fd, (const struct sockaddr *)&address, sizeof(address), until);
    if (*failure != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool no_descriptor(int error)
{
    return error == EMFILE || error == ENFILE;
}

/* Nobody listens there, or no way leads there. ENOENT: no Unix socket. EADDRNOTAVAIL: IPv6 is off. */
static bool is_deserted(int error)
{
    return error == ECONNREFUSED || error == ENOENT || error == ENETUNREACH || error == EHOSTUNREACH ||
           error == EADDRNOTAVAIL;
}

/* Try each address of the host. */
static int open_tcp(const char *host, int port, int64_t until, int *failure, const char **resolving)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    char service[16];
    (void)snprintf(service, sizeof(service), "%d", port);
    errno = 0;
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc != 0) { /* a host with the loopback interface alone has no configured address */
        const struct addrinfo any = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
        rc = getaddrinfo(host, service, &any, &found);
    }
    if (rc != 0 && no_descriptor(errno)) { /* it calls that a name that isn't known */
        *failure = errno;
        return -1;
    }
    if (rc != 0) {
        *resolving = rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc);
        return -1;
    }
    int fd = -1;
    *failure = ECONNREFUSED; /* what an address said behind which somebody may be is kept */
    for (const struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        const int code = fd < 0 ? errno : connect_until(fd, a->ai_addr, a->ai_addrlen, until);
        if (code != 0 && is_deserted(*failure))
            *failure = code;
        if (code != 0 && fd >= 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

#ifdef LOCKER_REDIS_TLS
/* Whether the other end had its say: it did not let the time pass, and did not go without an alert. Only then
 * is what it said a reason to give up for good. */
static bool has_refused_tls(const struct lk_link *link, const char *text, int64_t until)
{
    char byte;
    if (lk_system_now() >= until)
        return false;
    if (strstr(text, " alert ") != NULL)
        return true;
    const ssize_t n = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

/* The handshake of TLS blocks, bounded by the socket's time-outs; afterwards the socket doesn't block. */
static bool start_tls(const struct lk_settings *s, struct lk_link *link, int64_t until,
                      struct lk_connect_error *why)
{
    const struct timespec left = lk_remaining(lk_system_now(), until);
    const struct timeval bound = {.tv_sec = left.tv_sec, .tv_usec = (suseconds_t)(left.tv_nsec / 1000) + 1};
    const int flags = fcntl(link->fd, F_GETFL);
    redisContext *context = redisConnectFd(link->fd);
    if (context == NULL || context->err != 0) {
        if (context != NULL) {
            context->fd = -1;
            redisFree(context);
        }
        locker_error_set(&why->error, LOCKER_NOMEM, 0, "out of memory");
        return false;
    }
    link->tls = context;
    context->flags |= REDIS_BLOCK;
    (void)fcntl(link->fd, F_SETFL, flags & ~O_NONBLOCK);
    (void)setsockopt(link->fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    (void)setsockopt(link->fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
    if (redisInitiateSSLWithContext(context, s->tls_context) != REDIS_OK) {
        why->permanent = has_refused_tls(link, context->errstr, until);
        locker_error_set(
            &why->error, why->permanent ? LOCKER_PROTOCOL : LOCKER_UNAVAILABLE, 0,
            "no TLS with %s: %s; check that the port speaks TLS, that tls_ca is its authority, and "
            "tls_cert and tls_key if the server wants a client's certificate",
            link->peer, context->errstr);
        return false;
    }
    context->flags &= ~REDIS_BLOCK;
    (void)fcntl(link->fd, F_SETFL, flags | O_NONBLOCK);
    return true;
}
#endif

struct lk_link *lk_link_connect(const struct lk_settings *s, const char *host, int port, int64_t until,
                                struct lk_connect_error *why)
{
    char peer[LK_PEER_MAX];
    int failure = 0;
    const char *resolving = NULL;
    if (s->unix_path != NULL && host == NULL)
        (void)snprintf(peer, sizeof(peer), "%s", s->unix_path);
    else
        lk_peer_name(host, port, peer);
    why->permanent = false;
    const int fd = host == NULL ? open_unix(s->unix_path, until, &failure)
                                : open_tcp(host, port, until, &failure, &resolving);
    if (fd >= 0 || !is_deserted(failure))
        why->deserted = false;
    if (fd < 0) {
        locker_error_set(&why->error, LOCKER_UNAVAILABLE, resolving != NULL ? 0 : failure,
                         "can't reach Redis at %s: %s; %s", peer,
                         resolving != NULL ? resolving : strerror(failure),
                         no_descriptor(failure) ? "raise the limit on open files (ulimit -n)"
                                                : "check that it runs there");
        return NULL;
    }
    if (host != NULL)
        tune(fd);
    if (!s->tls) /* each call says by itself whether it blocks */
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    struct lk_link *link = lk_link_new(fd, peer);
    if (link == NULL) {
        locker_error_set(&why->error, LOCKER_NOMEM, 0, "out of memory");
        return NULL;
    }
#ifdef LOCKER_REDIS_TLS
    if (s->tls && !start_tls(s, link, until, why)) {
        lk_link_free(link, true);
        return NULL;
    }
#endif
    return link;
}
