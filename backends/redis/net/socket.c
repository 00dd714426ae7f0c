/* socket.c: sending, receiving and parsing on one socket; see socket.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lk_poll.h"
#include "socket.h"

lk_redis_socket *lk_redis_socket_new(int fd, const char *peer)
{
    const struct timeval nap = {.tv_sec = 0, .tv_usec = LK_REDIS_NAP_NS / LK_US};
    lk_redis_socket *socket = calloc(1, sizeof *socket);
    redisReader *const reader = socket != NULL ? redisReaderCreate() : NULL;
    if (reader == NULL) {
        close(fd);
        free(socket);
        return NULL;
    }
    socket->fd = fd;
    socket->reader = reader;
    socket->send_waits = POLLOUT;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &nap, sizeof nap);
    strncpy(socket->peer, peer, sizeof socket->peer - 1);
    return socket;
}

void lk_redis_socket_free(lk_redis_socket *socket, bool reset)
{
    if (socket == NULL)
        return;
    if (reset) {
        const struct linger drop = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(socket->fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
    }
    lk_tls_free(socket->tls, !reset);
    close(socket->fd);
    redisReaderFree(socket->reader);
    free(socket->map);
    free(socket);
}

ssize_t lk_redis_socket_send(lk_redis_socket *socket, const char *data, size_t len)
{
    ssize_t n;
    if (socket->tls != NULL)
        return lk_tls_send(socket->tls, data, len, &socket->send_waits, &socket->unsent);
    do {
        n = send(socket->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n;
}

ssize_t lk_redis_socket_receive(lk_redis_socket *socket, char *data, size_t cap)
{
    ssize_t n;
    if (socket->tls != NULL)
        return lk_tls_receive(socket->tls, data, cap, &socket->more);
    do {
        n = recv(socket->fd, data, cap, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
}

ssize_t lk_redis_socket_nap(lk_redis_socket *socket, char *data, size_t cap)
{
    const ssize_t n = recv(socket->fd, data, cap, 0);
    if (n < 0 && errno == EINTR)
        errno = EAGAIN;
    return n;
}

int lk_redis_socket_feed(lk_redis_socket *socket, const char *data, size_t len)
{
    if (!lk_redis_guard_allows(&socket->guard, data, len))
        return EPROTO;
    return redisReaderFeed(socket->reader, data, len) == REDIS_OK ? 0 : ENOMEM;
}

int lk_redis_socket_next_reply(lk_redis_socket *socket, redisReply **reply)
{
    void *parsed = NULL;
    *reply = NULL;
    if (redisReaderGetReply(socket->reader, &parsed) != REDIS_OK)
        return -1;
    *reply = parsed;
    return parsed != NULL ? 1 : 0;
}

int lk_redis_wait_for(int fd, short events, int64_t until)
{
    struct pollfd waits = {.fd = fd, .events = events, .revents = 0};
    for (;;) {
        const int64_t now = lk_redis_system_now();
        if (now >= until)
            return ETIMEDOUT;
        const int n = lk_poll_until(&waits, 1, now, until);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return errno;
    }
}

static int send_all(lk_redis_socket *socket, const char *data, size_t len, int64_t until)
{
    while (len > 0 || socket->unsent) {
        const ssize_t n = lk_redis_socket_send(socket, data, len);
        if (n < 0 && errno != EAGAIN)
            return errno;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
        const int failure =
            n < 0 || socket->unsent ? lk_redis_wait_for(socket->fd, socket->send_waits, until) : 0;
        if (failure != 0)
            return failure;
    }
    return 0;
}

int lk_redis_socket_exchange(lk_redis_socket *socket, const char *data, size_t len, redisReply **replies,
                             size_t count, int64_t until)
{
    char bytes[4096];
    int failure = send_all(socket, data, len, until);
    if (failure != 0 && socket->tls != NULL) /* why it was closed may be there to be read */
        (void)lk_redis_socket_receive(socket, bytes, sizeof bytes);
    for (size_t i = 0; i < count && failure == 0;) {
        const int got = lk_redis_socket_next_reply(socket, &replies[i]);
        if (got < 0)
            return EPROTO;
        if (got > 0) {
            i++;
            continue;
        }
        const ssize_t n = lk_redis_socket_receive(socket, bytes, sizeof bytes);
        if (n == 0)
            failure = ECONNRESET;
        else if (n < 0)
            failure = errno == EAGAIN ? lk_redis_wait_for(socket->fd, POLLIN, until) : errno;
        else
            failure =
                lk_redis_system_now() < until ? lk_redis_socket_feed(socket, bytes, (size_t)n) : ETIMEDOUT;
    }
    return failure;
}
