/* dial.c: reaching a host. The sockets are made here and not by hiredis, so that they are close-on-exec
 * from the start and the bound on connecting is ours with every version of it. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "dial.h"
#include "lk_fd.h"
#include "lk_resolve.h"

static const int64_t silence_ns = LK_S; /* who says nothing to the begin of TLS for so long may speak none */
static const int64_t plain_ns = 250 * LK_MS; /* how long that one is asked */

/* Connect a non-blocking socket; 0, or an errno. */
static int connect_until(int fd, const struct sockaddr *address, socklen_t len, int64_t until)
{
    if (connect(fd, address, len) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return errno;
    int failure = lk_redis_wait_for(fd, POLLOUT, until);
    socklen_t size = sizeof failure;
    if (failure == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
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
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

/* A socket that is connected; -1 with *failure, an errno. */
static int open_address(int family, int protocol, const struct sockaddr *address, socklen_t len,
                        int64_t until, int *failure)
{
    const int fd = lk_fd_high(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
    *failure = fd < 0 ? errno : connect_until(fd, address, len, until);
    if (fd < 0 || *failure == 0)
        return fd;
    close(fd);
    return -1;
}

static int open_unix(const char *path, int64_t until, int *failure)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        *failure = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    return open_address(AF_UNIX, 0, (const struct sockaddr *)&address, sizeof address, until, failure);
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

static void cant_reach(const lk_redis_target *t, const char *peer, int failure, const char *text,
                       lk_redis_failure *why)
{
    locker_error_set(&why->error, LOCKER_UNAVAILABLE, failure, "can't reach %s at %s: %s; %s",
                     t->service->name, peer, text,
                     no_descriptor(failure) ? "raise the limit on open files (ulimit -n)"
                                            : "check that it runs there");
}

struct addrinfo *lk_redis_resolve(const lk_redis_target *t, const char *host, int port, const char *peer,
                                  lk_redis_failure *why)
{
    int rc;
    struct addrinfo *const found = lk_resolve(host, port, &rc);
    if (found != NULL)
        return found;
    const int failure = no_descriptor(errno) ? errno : 0; /* it calls that a name that isn't known */
    why->permanent = why->deserted = false;
    cant_reach(t, peer, failure, failure != 0 || rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc), why);
    return NULL;
}

/* Whether what listens there is a Redis that speaks no TLS: to the begin of TLS it would say nothing. It is asked on a
 * connection of its own, and told nothing. */
static bool speaks_plainly(const struct addrinfo *address, int64_t until)
{
    static const char question[] = "PING\r\n";
    char answer[1];
    int failure;
    const int fd = open_address(address->ai_family, address->ai_protocol, address->ai_addr,
                                address->ai_addrlen, until, &failure);
    if (fd < 0)
        return false;
    const bool answered = send(fd, question, sizeof question - 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0 &&
                          lk_redis_wait_for(fd, POLLIN, until) == 0 &&
                          recv(fd, answer, sizeof answer, MSG_DONTWAIT) == 1;
    close(fd);
    return answered && (answer[0] == '+' || answer[0] == '-');
}

/* The handshake, step by step. 0, or an errno; ENOPROTOOPT: it is a Redis that speaks no TLS. */
static int finish_handshake(lk_redis_socket *socket, const struct addrinfo *address, int64_t until)
{
    const int64_t began = lk_redis_system_now();
    const int64_t silent_at = began + lk_time_earlier(silence_ns, lk_time_left(began, until) / 2);
    bool doubted = false;
    for (;;) {
        short waits;
        int failure = lk_tls_handshake(socket->tls, &waits);
        if (failure != EAGAIN)
            return failure;
        const bool doubting = !doubted && !lk_tls_heard(socket->tls);
        failure = lk_redis_wait_for(socket->fd, waits, doubting ? silent_at : until);
        if (failure == ETIMEDOUT && doubting) {
            doubted = true;
            if (speaks_plainly(address, lk_time_earlier(until, lk_redis_system_now() + plain_ns)))
                return ENOPROTOOPT;
        } else if (failure != 0) {
            return failure;
        }
    }
}

/* False: why says it. What the other end said, or is, is a reason to give up for good; that it said nothing is none. */
static bool begin_tls(const lk_redis_target *t, lk_redis_socket *socket, const char *host,
                      const struct addrinfo *address, int64_t until, lk_redis_failure *why)
{
    socket->tls = lk_tls_new(&t->tls, socket->fd, host);
    if (socket->tls == NULL) {
        lk_out_of_memory(&why->error);
        return false;
    }
    const int failure = finish_handshake(socket, address, until);
    if (failure == 0)
        return true;
    why->permanent = failure == ENOPROTOOPT;
    if (why->permanent)
        locker_error_set(
            &why->error, LOCKER_PROTOCOL, 0,
            "%s at %s speaks no TLS at this port; name its port for TLS, or %s on a network that you "
            "trust",
            t->service->name, socket->peer, t->service->without_tls);
    else if (!lk_tls_told(socket->tls, socket->peer, &why->error, &why->permanent))
        locker_error_set(&why->error, LOCKER_UNAVAILABLE, failure,
                         "what listens at %s did not finish the handshake of TLS: %s; is it a port for TLS?",
                         socket->peer,
                         failure == ECONNRESET ? "it closed the connection" : strerror(failure));
    return false;
}

lk_redis_socket *lk_redis_dial(const lk_redis_target *t, const char *host, const struct addrinfo *address,
                               const char *peer, int64_t until, lk_redis_failure *why)
{
    int failure = 0;
    why->permanent = false;
    const int fd = address == NULL ? open_unix(t->unix_path, until, &failure)
                                   : open_address(address->ai_family, address->ai_protocol, address->ai_addr,
                                                  address->ai_addrlen, until, &failure);
    if (fd >= 0 || !is_deserted(failure))
        why->deserted = false;
    if (fd < 0) {
        cant_reach(t, peer, failure, strerror(failure), why);
        return NULL;
    }
    if (address != NULL)
        tune(fd);
    (void)fcntl(fd, F_SETFL,
                fcntl(fd, F_GETFL) & ~O_NONBLOCK); /* each call says by itself whether it blocks */
    lk_redis_socket *socket = lk_redis_socket_new(fd, peer);
    if (socket == NULL) {
        lk_out_of_memory(&why->error);
        return NULL;
    }
    if (address != NULL && t->tls.on && !begin_tls(t, socket, host, address, until, why)) {
        lk_redis_socket_free(socket, true);
        return NULL;
    }
    return socket;
}
