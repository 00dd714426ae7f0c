/* socket.c: a socket to a Redis server, and the bounds on what it receives. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lk_poll.h"
#include "socket.h"

/* A value is complete, and so are the arrays of which it was the last element. */
static inline void finish_value(lk_redis_guard *g)
{
    while (g->depth > 0 && --g->left[g->depth - 1] == 0)
        g->depth--;
    if (g->depth == 0) {
        g->bytes = g->elements = 0;
        g->number++;
    }
}

static inline bool is_passing(const lk_redis_guard *g)
{
    return g->passing != 0 && g->number + 1 == g->passing;
}

static inline size_t bytes_max(const lk_redis_guard *g)
{
    return is_passing(g) ? LK_REDIS_GUARD_PASSING : LK_REDIS_GUARD_REPLY;
}

static bool open_array(lk_redis_guard *g, size_t count)
{
    if (count > LK_REDIS_GUARD_ELEMENTS - g->elements || g->depth == LK_REDIS_GUARD_DEPTH)
        return false;
    if (!is_passing(g))
        g->elements += count;
    g->left[g->depth++] = count;
    return true;
}

/* A line is complete. Take its kind and, behind '$' or '*', its number. */
static bool end_line(lk_redis_guard *g)
{
    const char kind = g->head[0];
    const bool counts = kind == '$' || kind == '*', negative = g->line > 1 && g->head[1] == '-';
    const size_t first = negative ? 2 : 1;
    int64_t number = 0;
    for (size_t i = first; counts && i < g->line; i++) {
        if (g->head[i] < '0' || g->head[i] > '9')
            return false;
        number = number * 10 + (g->head[i] - '0');
    }
    if (counts && (g->line == first || number > LK_REDIS_GUARD_REPLY))
        return false;
    g->line = 0;
    g->ended = false;
    if (kind == '*' && number > 0 && !negative)
        return open_array(g, (size_t)number);
    if (kind == '$' && !negative)
        g->skip = (size_t)number + 2;
    else
        finish_value(g);
    return true;
}

static bool take_text(lk_redis_guard *g, const char *data, size_t len)
{
    if (g->line == 0 && len > 0)
        g->head[0] = *data;
    const char kind = g->head[0];
    const bool counts = kind == '$' || kind == '*';
    const bool known = g->line + len > 0 && (counts || kind == '+' || kind == '-' || kind == ':');
    for (size_t i = 0; counts && i < len && g->line + i < sizeof g->head; i++)
        g->head[g->line + i] = data[i];
    g->line += len;
    return known && g->line <= (counts ? sizeof g->head : LK_REDIS_GUARD_LINE) &&
           memchr(data, '\n', len) == NULL;
}

/* Take bytes of a string, of a line with or without its carriage return, or the line feed behind that. */
static bool take(lk_redis_guard *g, const char *data, size_t len)
{
    if (g->skip > 0) {
        g->skip -= len;
        if (g->skip == 0)
            finish_value(g);
        return true;
    }
    if (g->ended)
        return *data == '\n' && end_line(g);
    g->ended = data[len - 1] == '\r';
    return take_text(g, data, g->ended ? len - 1 : len);
}

bool lk_redis_guard_allows(lk_redis_guard *g, const char *data, size_t len)
{
    for (size_t n = 1; len > 0; data += n, len -= n) {
        const char *end = g->skip == 0 && !g->ended ? memchr(data, '\r', len) : NULL;
        if (g->skip > 0)
            n = g->skip < len ? g->skip : len;
        else if (g->ended)
            n = 1;
        else
            n = end != NULL ? (size_t)(end - data) + 1 : len;
        g->bytes += n;
        if (g->bytes > bytes_max(g) || !take(g, data, n))
            return false;
    }
    return true;
}

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
    if (failure != 0 && socket->tls != NULL) /* the other end may have sent why it closed */
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
