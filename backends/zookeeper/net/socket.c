/* socket.c: the client library's socket, and who is to look at it: the thread that drives, or the keeper, by an epoll of
 * its own, in which the socket is a one-shot. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lk_wakeup.h"
#include "state.h"

void lk_zk_no_socket_locked(lk_zk_net *net)
{
    net->fd = net->armed_fd = net->corked_fd = -1;
    net->login_begun = false;
    net->turn_at = 0;
}

void lk_zk_cork_locked(lk_zk_net *net)
{
    if (net->corked_fd == net->fd)
        return;
    net->corked_fd = net->fd;
    (void)setsockopt(net->fd, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int));
}

void lk_zk_kick_locked(lk_zk_net *net)
{
    if (net->polling)
        lk_wakeup_ring(net->kick_fd);
}

void lk_zk_keeper_by_locked(lk_zk_net *net, int64_t at)
{
    if (net->keeper_at <= at)
        return;
    net->keeper_at = at;
    if (!net->in_turn)
        net->svc->attend(net->svc);
}

int64_t lk_zk_keeper_next_locked(lk_zk_net *net, int64_t next)
{
    net->in_turn = false;
    net->keeper_at = lk_time_earlier(net->keeper_at, next);
    return net->keeper_at;
}

void lk_zk_arm_socket_locked(lk_zk_net *net)
{
    const uint32_t events = EPOLLIN | ((net->interest & ZOOKEEPER_WRITE) != 0 ? EPOLLOUT : 0u);
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data = {.fd = net->fd}};
    if (epoll_ctl(net->epoll_fd, EPOLL_CTL_MOD, net->fd, &event) != 0 && errno == ENOENT)
        (void)epoll_ctl(net->epoll_fd, EPOLL_CTL_ADD, net->fd, &event);
    net->armed_fd = net->fd;
}

void lk_zk_disarm_socket_locked(lk_zk_net *net)
{
    struct epoll_event nothing = {.events = EPOLLONESHOT, .data = {.fd = net->fd}};
    if (net->armed_fd >= 0 && net->armed_fd == net->fd)
        (void)epoll_ctl(net->epoll_fd, EPOLL_CTL_MOD, net->fd, &nothing);
    net->armed_fd = -1;
}

int lk_zk_directions_locked(const lk_zk_net *net, uint32_t ready)
{
    int events = 0;
    if ((ready & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        events |= ZOOKEEPER_READ;
    if ((ready & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0)
        events |= ZOOKEEPER_WRITE & net->interest;
    return events;
}

int lk_zk_told_of_socket_locked(lk_zk_net *net)
{
    struct epoll_event event;
    if (epoll_wait(net->epoll_fd, &event, 1, 0) <= 0)
        return 0;
    const bool is_ours = net->up && net->armed_fd == net->fd && event.data.fd == net->fd;
    net->armed_fd = -1; /* a one-shot */
    return is_ours ? lk_zk_directions_locked(net, event.events) : 0;
}
