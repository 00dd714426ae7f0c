/* subscription.c: the connection for messages. Its owner makes up for lost messages by polls. */
#include <errno.h>
#include <sys/epoll.h>

#include "command.h"
#include "lk_poll.h"
#include "subscription.h"

enum { FILLS_MAX = 16 }; /* receives in one turn */

/* Return true if the reply is a push message: an array of three that begins with this kind. */
static bool is_push(const redisReply *reply, const char *kind, int third)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
           reply->element[0]->type == REDIS_REPLY_STRING && strcmp(reply->element[0]->str, kind) == 0 &&
           reply->element[2]->type == third;
}

/* Write the command for a channel, whose name is short. In a cluster: for all wanted slots. */
static size_t put_command(const lk_redis_subscription *sub, const char *name, char bytes[256])
{
    lk_redis_command a = LK_REDIS_COMMAND(name);
    if (sub->slots == NULL)
        lk_redis_command_text(&a, sub->channel);
    assert(lk_redis_command_room(&a) <= 256);
    return (size_t)(lk_redis_command_put(&a, bytes) - bytes);
}

bool lk_redis_subscribe(const lk_redis_subscription *sub, lk_redis_socket *socket, int64_t until,
                        lk_redis_failure *why)
{
    char bytes[256];
    redisReply *reply = NULL;
    bool subscribed = false;
    if (sub->slots != NULL)
        return true;
    const size_t len = put_command(sub, "SUBSCRIBE", bytes);
    const int failure = lk_redis_socket_exchange(socket, bytes, len, &reply, 1, until);
    why->permanent = false;
    if (failure != 0) {
        locker_error_set(&why->error, LOCKER_UNAVAILABLE, failure, "cannot subscribe at %s: %s", socket->peer,
                         strerror(failure));
    } else if (reply->type == REDIS_REPLY_ERROR) {
        why->permanent = true;
        lk_denied(&why->error, "cannot subscribe at %s: %s; give the user the right &locker:wake:*",
                  socket->peer, reply->str);
    } else if (!is_push(reply, "subscribe", REDIS_REPLY_INTEGER)) {
        (void)lk_redis_reply_error(reply, "subscribing", &why->error);
    } else {
        subscribed = true;
    }
    freeReplyObject(reply);
    return subscribed;
}

/* Send pending bytes as far as the socket has room. epoll reports when it has more. */
static void send_locked(lk_redis_subscription *sub) LK_REDIS_LOCKED
{
    lk_redis_slot_channels *const c = sub->slots;
    lk_redis_socket *const socket = sub->socket;
    unsigned wanted = EPOLLIN | EPOLLRDHUP;
    if (c == NULL || socket == NULL)
        return;
    ssize_t n = 1;
    while (n > 0 && (c->gone < c->out.len || socket->unsent)) {
        n = lk_redis_socket_send(socket, c->out.data + c->gone, c->out.len - c->gone);
        c->gone += n > 0 ? (size_t)n : 0;
        if (socket->unsent)
            break;
    }
    if (n < 0 && errno != EAGAIN) /* the next receive reports the error */
        return;
    if (c->gone == c->out.len)
        c->out.len = c->gone = 0;
    if (c->out.len > 0 || socket->unsent)
        wanted |= (unsigned)socket->send_waits;
    struct epoll_event event = {.events = wanted, .data = {.ptr = sub}};
    (void)epoll_ctl(sub->shared->epoll_fd, EPOLL_CTL_MOD, socket->fd, &event);
}

void lk_redis_subscription_want_locked(lk_redis_subscription *sub, uint16_t slot)
{
    lk_redis_slot_channels_want_locked(sub->slots, sub->owner, slot);
    if (sub->socket == NULL)
        lk_redis_slot_channels_end_locked(sub->slots); /* the commands are sent on the next connection */
    else if (sub->slots->out.len > 0)
        send_locked(sub);
}

void lk_redis_subscription_again_locked(lk_redis_subscription *sub)
{
    if (sub->socket == NULL)
        return;
    lk_redis_slot_channels_again_locked(sub->slots, sub->owner);
    if (sub->slots->out.len > 0)
        send_locked(sub);
}

bool lk_redis_subscription_install_locked(lk_redis_subscription *sub, lk_redis_socket *socket)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data = {.ptr = sub}};
    if (epoll_ctl(sub->shared->epoll_fd, EPOLL_CTL_ADD, socket->fd, &event) != 0) {
        lk_redis_socket_free(socket, true); /* the kernel has no memory: waiters poll instead */
        lk_redis_reconnect_back_off_locked(sub->reconnect);
        return false;
    }
    sub->socket = socket;
    sub->ending = false;
    sub->look = true; /* the parser may hold a message already */
    LK_WRITE(sub->ready, true);
    if (sub->slots != NULL) {
        lk_redis_slot_channels_begin_locked(sub->slots, sub->owner);
        send_locked(sub);
    }
    sub->shared->svc->attend(sub->shared->svc);
    return true;
}

void lk_redis_subscription_lose_locked(lk_redis_subscription *sub)
{
    if (sub->socket == NULL)
        return;
    LK_WRITE(sub->ready, false);
    if (sub->slots != NULL)
        lk_redis_slot_channels_end_locked(sub->slots);
    (void)epoll_ctl(sub->shared->epoll_fd, EPOLL_CTL_DEL, sub->socket->fd, NULL);
    lk_redis_socket_free(sub->socket, false);
    sub->socket = NULL;
    sub->shared->svc->log(sub->shared->svc, LOCKER_LOG_INFO, "redis: the subscription has ended");
    lk_redis_reconnect_want_locked(sub->reconnect);
}

/* Note that the user lacks the right to the channel. The refusal is reported once, and the next waiter
 * tries again. */
static void refuse_locked(lk_redis_subscription *sub, const redisReply *reply) LK_REDIS_LOCKED
{
    lk_denied(&sub->refused,
              "cannot subscribe at %s: %s; give the user the rights +ssubscribe and &locker:wake:*",
              sub->socket->peer, reply->str);
    sub->slots->events.on_subscribed(sub->owner, NULL);
}

/* Handle a reply. Return false if the subscription cannot go on. */
static bool hear_locked(lk_redis_subscription *sub, const redisReply *reply) LK_REDIS_LOCKED
{
    if (is_push(reply, sub->slots != NULL ? "smessage" : "message", REDIS_REPLY_STRING)) {
        sub->on_message(sub->owner, reply->element[2]);
        return true;
    }
    if (sub->slots == NULL ||
        (reply->type == REDIS_REPLY_ERROR && lk_redis_reply_fault(reply) == LK_REDIS_FAULT_DENIED)) {
        if (sub->slots != NULL)
            refuse_locked(sub, reply);
        return false;
    }
    const bool is_last =
        is_push(reply, "sunsubscribe", REDIS_REPLY_INTEGER) && reply->element[2]->integer == 0;
    return lk_redis_slot_channels_hear_locked(sub->slots, sub->owner, reply) && !(sub->ending && is_last);
}

static void read_locked(lk_redis_subscription *sub) LK_REDIS_LOCKED
{
    char data[4096];
    redisReply *reply;
    bool drained = false;
    int fills = 0;
    sub->look = false;
    if (sub->slots != NULL && sub->slots->out.len > 0)
        send_locked(sub);
    while (sub->socket != NULL) {
        const int got = lk_redis_socket_next_reply(sub->socket, &reply);
        if (got > 0) {
            const bool known = hear_locked(sub, reply);
            freeReplyObject(reply);
            if (!known)
                lk_redis_subscription_lose_locked(sub);
            continue;
        }
        if (got == 0 && drained)
            return;
        if (got == 0 && fills++ == FILLS_MAX) { /* other connections get a turn, however much comes */
            sub->look = true;
            sub->shared->svc->attend(sub->shared->svc);
            return;
        }
        const ssize_t n = got == 0 ? lk_redis_socket_receive(sub->socket, data, sizeof data) : 0;
        if (n < 0 && errno == EAGAIN)
            return;
        drained = n > 0 && (size_t)n < sizeof data && !sub->socket->more; /* epoll reports what comes later */
        if (n <= 0 || lk_redis_socket_feed(sub->socket, data, (size_t)n) != 0)
            lk_redis_subscription_lose_locked(sub);
    }
}

void lk_redis_subscription_read_locked(lk_redis_subscription *sub)
{
    read_locked(sub);
    if (sub->slots != NULL)
        lk_redis_slot_channels_tell_locked(sub->slots, sub->owner);
}

void lk_redis_unsubscribe_unlocking(lk_redis_subscription *sub, int64_t until)
{
    char bytes[256];
    const size_t len = put_command(sub, sub->slots != NULL ? "SUNSUBSCRIBE" : "UNSUBSCRIBE", bytes);
    sub->ending = true;
    if (sub->socket == NULL || lk_redis_socket_send(sub->socket, bytes, len) != (ssize_t)len)
        return;
    for (int64_t now; sub->socket != NULL && (now = lk_redis_now(sub->shared)) < until;) {
        struct pollfd answer = {.fd = sub->socket->fd, .events = POLLIN};
        const bool waits = !sub->look;
        lk_redis_unlock(sub->shared);
        if (waits)
            (void)lk_poll_until(&answer, 1, now, until);
        lk_redis_lock(sub->shared);
        lk_redis_subscription_read_locked(sub);
    }
}
