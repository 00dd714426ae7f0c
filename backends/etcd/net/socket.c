/* socket.c: the socket: connecting, sending and receiving without waiting. It is watched by the driving
 * thread, or by the keeper's epoll as a one-shot. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lk_fd.h"
#include "lk_poll.h"
#include "lk_wakeup.h"
#include "state.h"

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLHUP == EPOLLHUP && POLLERR == EPOLLERR,
               "poll and epoll use the same event bits");

int64_t lk_etcd_now(const lk_etcd_net *net)
{
    return net->clock->now(net->clock->context);
}

void lk_etcd_break_locked(lk_etcd_net *net, locker_status status, int os_error, const char *format, ...)
{
    char text[LOCKER_ERROR_TEXT_MAX];
    va_list arguments;
    if (net->broken || net->stage == LK_ETCD_AWAY)
        return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)locker_error_set(&net->trouble, status, os_error, "%s", text);
    net->broken = true;
}

/* Set the socket's options. Requests are small and wait for their answers. A peer that has vanished is
 * noticed within half a minute. */
static void tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 15},
        {IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

int lk_etcd_socket_open_locked(lk_etcd_net *net)
{
    const lk_address *const to = &net->endpoints->list[net->endpoint];
    const int fd = lk_fd_high(socket(to->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return errno;
    tune(fd);
    net->fd = fd;
    if (connect(fd, (const struct sockaddr *)&to->address, to->len) == 0 || errno == EINPROGRESS ||
        errno == EINTR)
        return 0;
    const int failure = errno;
    lk_etcd_socket_close_locked(net, true);
    return failure;
}

int lk_etcd_socket_finish_locked(lk_etcd_net *net)
{
    int failure = 0;
    socklen_t size = sizeof failure;
    return getsockopt(net->fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 ? failure : errno;
}

ssize_t lk_etcd_socket_send_locked(lk_etcd_net *net, const void *bytes, size_t len)
{
    ssize_t n;
    if (net->secure != NULL)
        return lk_tls_send(net->secure, bytes, len, &net->waits, &net->unsent);
    do {
        n = send(net->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n;
}

ssize_t lk_etcd_socket_receive_locked(lk_etcd_net *net, void *bytes, size_t len)
{
    ssize_t n;
    bool more; /* TLS is read until it has no more */
    if (net->secure != NULL)
        return lk_tls_receive(net->secure, bytes, len, &more);
    do {
        n = recv(net->fd, bytes, len, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
}

/* Close the socket. It is removed from the epoll explicitly: if a fork's child has the socket too, closing
 * would leave it in the epoll. */
void lk_etcd_socket_close_locked(lk_etcd_net *net, bool reset)
{
    const struct linger drop = {.l_onoff = 1, .l_linger = 0};
    if (net->fd < 0)
        return;
    if (reset)
        (void)setsockopt(net->fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
    if (net->in_epoll)
        (void)epoll_ctl(net->epoll_fd, EPOLL_CTL_DEL, net->fd, NULL);
    lk_tls_free(net->secure, !reset);
    net->secure = NULL;
    net->unsent = false;
    close(net->fd);
    net->fd = -1;
    net->in_epoll = false;
    net->armed = 0;
}

short lk_etcd_socket_events_locked(const lk_etcd_net *net)
{
    if (net->fd < 0)
        return 0;
    if (net->stage == LK_ETCD_CONNECTING)
        return POLLOUT;
    if (net->stage == LK_ETCD_SECURING)
        return net->waits;
    return (short)(POLLIN | (net->out.len > 0 || net->unsent ? POLLOUT : 0));
}

static void tell_epoll_locked(lk_etcd_net *net, short events) LK_REQUIRES(*net)
{
    struct epoll_event event = {.events = (uint32_t)events | EPOLLONESHOT, .data = {.fd = net->fd}};
    const int what = net->in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (net->fd >= 0 && epoll_ctl(net->epoll_fd, what, net->fd, &event) == 0)
        net->in_epoll = true;
    net->armed = events;
}

void lk_etcd_arm_locked(lk_etcd_net *net)
{
    const short events = lk_etcd_socket_events_locked(net);
    if (events != 0 && events != net->armed)
        tell_epoll_locked(net, events);
}

void lk_etcd_disarm_locked(lk_etcd_net *net)
{
    if (net->armed != 0)
        tell_epoll_locked(net, 0);
}

/* Return the socket's events. The epoll is always asked, because it reports a socket's end unasked, and
 * would stay readable. */
short lk_etcd_told_locked(lk_etcd_net *net)
{
    struct epoll_event event;
    struct pollfd waits = {.fd = net->fd, .events = lk_etcd_socket_events_locked(net)};
    if (net->in_epoll && epoll_wait(net->epoll_fd, &event, 1, 0) > 0) {
        net->armed = 0; /* the one-shot is used up */
        return (short)event.events;
    }
    if (net->fd < 0 || net->armed == waits.events)
        return 0;
    return lk_poll_until(&waits, 1, 0, 0) > 0 ? waits.revents : 0;
}

void lk_etcd_kick_locked(lk_etcd_net *net)
{
    if (net->polling)
        lk_wakeup_ring(net->kick_fd);
}

void lk_etcd_keeper_by_locked(lk_etcd_net *net, int64_t at)
{
    if (net->keeper_at <= at)
        return;
    net->keeper_at = at;
    if (!net->in_turn)
        net->svc->attend(net->svc);
}
