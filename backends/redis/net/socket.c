/* socket.c: sending, receiving and parsing on one socket; see socket.h. */
#include "socket.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct lk_link *lk_link_new(int fd, const char *peer)
{
    const struct timeval nap = {.tv_sec = 0, .tv_usec = LK_NAP_NS / LK_US};
    struct lk_link *link = calloc(1, sizeof(*link));
    if (link == NULL) {
        close(fd);
        return NULL;
    }
    link->fd = fd;
    link->reader = redisReaderCreate();
    if (link->reader == NULL || pthread_mutex_init(&link->tls_lock, NULL) != 0) {
        if (link->reader != NULL)
            redisReaderFree(link->reader);
        close(fd);
        free(link);
        return NULL;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &nap, sizeof(nap));
    strncpy(link->peer, peer, sizeof(link->peer) - 1);
    return link;
}

void lk_link_free(struct lk_link *link, bool reset)
{
    if (link == NULL)
        return;
    if (reset) {
        const struct linger drop = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &drop, sizeof(drop));
    }
    if (link->tls != NULL)
        redisFree(link->tls);
    else
        close(link->fd);
    redisReaderFree(link->reader);
    pthread_mutex_destroy(&link->tls_lock);
    free(link);
}

#ifdef LOCKER_REDIS_TLS
/* OpenSSL writes with write(), so SIGPIPE is kept from the application by blocking it in this thread, and
 * taking it away if it came meanwhile. */
struct pipe_guard {
    sigset_t before;
    bool was_pending;
};

static void pipe_guard_enter(struct pipe_guard *guard)
{
    sigset_t only, pending;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    sigpending(&pending);
    guard->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &only, &guard->before);
}

static void pipe_guard_leave(const struct pipe_guard *guard)
{
    const int saved = errno;
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    if (!guard->was_pending) {
        const struct timespec at_once = {0, 0};
        while (sigtimedwait(&only, NULL, &at_once) == -1 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = saved;
}

static ssize_t tls_send(struct lk_link *link, const char *data, size_t len)
{
    struct pipe_guard guard;
    ssize_t result = (ssize_t)len;
    int done = 0;
    pthread_mutex_lock(&link->tls_lock);
    pipe_guard_enter(&guard);
    /* hiredis sends from its own buffer: what does not go out at once stays there, and `unsent` says so. */
    if ((len > 0 && redisAppendFormattedCommand(link->tls, data, len) != REDIS_OK) ||
        redisBufferWrite(link->tls, &done) != REDIS_OK) {
        errno = ECONNRESET;
        result = -1;
    }
    link->unsent = !done;
    pipe_guard_leave(&guard);
    pthread_mutex_unlock(&link->tls_lock);
    return result;
}

static ssize_t tls_receive(struct lk_link *link, char *data, size_t cap)
{
    struct pipe_guard guard;
    pthread_mutex_lock(&link->tls_lock);
    pipe_guard_enter(&guard);
    ssize_t n = link->tls->funcs->read(link->tls, data, cap);
    if (n == 0) {
        n = -1;
        errno = EAGAIN;
    } else if (n < 0) {
        n = 0; /* the end, however it came */
    }
    pipe_guard_leave(&guard);
    pthread_mutex_unlock(&link->tls_lock);
    return n;
}
#endif

ssize_t lk_link_send(struct lk_link *link, const char *data, size_t len)
{
#ifdef LOCKER_REDIS_TLS
    if (link->tls != NULL)
        return tls_send(link, data, len);
#endif
    ssize_t n;
    do {
        n = send(link->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EWOULDBLOCK)
        errno = EAGAIN;
    return n;
}

ssize_t lk_link_receive(struct lk_link *link, char *data, size_t cap)
{
#ifdef LOCKER_REDIS_TLS
    if (link->tls != NULL)
        return tls_receive(link, data, cap);
#endif
    ssize_t n;
    do {
        n = recv(link->fd, data, cap, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EWOULDBLOCK)
        errno = EAGAIN;
    return n;
}

ssize_t lk_link_nap(struct lk_link *link, char *data, size_t cap)
{
    const ssize_t n = recv(link->fd, data, cap, 0);
    if (n < 0 && (errno == EWOULDBLOCK || errno == EINTR))
        errno = EAGAIN;
    return n;
}

int lk_link_feed(struct lk_link *link, const char *data, size_t len)
{
    if (!lk_guard_allows(&link->guard, data, len))
        return EPROTO;
    return redisReaderFeed(link->reader, data, len) == REDIS_OK ? 0 : ENOMEM;
}

int lk_link_next_reply(struct lk_link *link, redisReply **reply)
{
    void *parsed = NULL;
    *reply = NULL;
    if (redisReaderGetReply(link->reader, &parsed) != REDIS_OK)
        return -1;
    *reply = parsed;
    return parsed != NULL ? 1 : 0;
}

/* Wait for `events`; 0, or an errno. */
static int wait_for(const struct lk_link *link, short events, int64_t until)
{
    struct pollfd waits = {.fd = link->fd, .events = events, .revents = 0};
    for (;;) {
        const int64_t now = lk_system_now();
        if (now >= until)
            return ETIMEDOUT;
        const int n = lk_poll_until(&waits, 1, now, until);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return errno;
    }
}

static int send_all(struct lk_link *link, const char *data, size_t len, int64_t until)
{
    while (len > 0 || link->unsent) {
        const ssize_t n = lk_link_send(link, data, len);
        if (n < 0 && errno != EAGAIN)
            return errno;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
        if (n < 0 || link->unsent) {
            const int failure = wait_for(link, POLLOUT, until);
            if (failure != 0)
                return failure;
        }
    }
    return 0;
}

int lk_link_exchange(struct lk_link *link, const char *data, size_t len, redisReply **replies, size_t count,
                     int64_t until)
{
    char bytes[4096];
    int failure = send_all(link, data, len, until);
    for (size_t i = 0; i < count; i++)
        replies[i] = NULL;
    for (size_t i = 0; i < count && failure == 0;) {
        const int got = lk_link_next_reply(link, &replies[i]);
        if (got < 0)
            return EPROTO;
        if (got > 0) {
            i++;
            continue;
        }
        const ssize_t n = lk_link_receive(link, bytes, sizeof(bytes));
        if (n == 0)
            failure = ECONNRESET;
        else if (n < 0)
            failure = errno == EAGAIN ? wait_for(link, POLLIN, until) : errno;
        else
            failure = lk_system_now() < until ? lk_link_feed(link, bytes, (size_t)n) : ETIMEDOUT;
    }
    return failure;
}
