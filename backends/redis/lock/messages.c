/*
 * messages.c: the second connection, on which wake-ups come. It subscribes to one channel, this instance's
 * own: a release in any process tells there that it handed a lock to one of our waiters ("value number
 * lock"), and a break that it took a lock away from us ("value broken lock"). It is made when somebody first
 * has to wait, or has held a lock for some milliseconds. A message that gets lost costs no more than a poll,
 * or is made up for by the next renewal.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "internal.h"

enum { FILLS_MAX = 16 }; /* how often one turn receives */
static const char broken[] = " broken ";
static const int64_t hop_us = 200; /* what a hand-over takes, for the reckoning of how long they go on */

/* What a subscription says is an array of three, by what it begins with. */
static bool is_push(const redisReply *reply, const char *kind, int third)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
           reply->element[0]->type == REDIS_REPLY_STRING && strcmp(reply->element[0]->str, kind) == 0 &&
           reply->element[2]->type == third;
}

bool lk_subscribe(struct lk_redis *r, struct lk_link *link, int64_t until, struct lk_connect_error *why)
{
    char channel[64], *bytes;
    size_t len;
    redisReply *reply = NULL;
    struct lk_argv a = {0};
    bool subscribed = false;
    (void)snprintf(channel, sizeof(channel), "locker:wake:%s", r->instance);
    lk_argv_text(&a, "SUBSCRIBE");
    lk_argv_text(&a, channel);
    why->permanent = false;
    if (!lk_argv_format(&a, &bytes, &len)) {
        locker_error_set(&why->error, LOCKER_NOMEM, 0, "out of memory");
        return false;
    }
    const int failure = lk_link_exchange(link, bytes, len, &reply, 1, until);
    free(bytes);
    if (failure != 0) {
        locker_error_set(&why->error, LOCKER_UNAVAILABLE, failure, "can't subscribe at %s: %s", link->peer,
                         strerror(failure));
    } else if (reply->type == REDIS_REPLY_ERROR) {
        why->permanent = true;
        locker_error_set(&why->error, LOCKER_DENIED, 0, "can't subscribe at %s: %s; give the user &locker:*",
                         link->peer, reply->str);
    } else if (!is_push(reply, "subscribe", REDIS_REPLY_INTEGER)) {
        (void)lk_reply_nonsense("subscribing", &why->error);
    } else {
        subscribed = true;
    }
    if (reply != NULL)
        freeReplyObject(reply);
    return subscribed;
}

void lk_subscriber_install_locked(struct lk_redis *r, struct lk_link *link)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data = {.ptr = &r->sub}};
    if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, link->fd, &event) != 0) {
        lk_link_free(link, true); /* no memory in the kernel: waiters poll */
        lk_back_off_locked(r);
        return;
    }
    r->sub.link = link;
    r->sub.look = true;
    atomic_store_explicit(&r->sub.ready, true, memory_order_relaxed);
    lk_claims_wake_locked(r); /* what was missed meanwhile is found by another attempt, which enrols too */
    r->svc->attend(r->svc);   /* a message may be in the parser already */
}

void lk_subscriber_lose_locked(struct lk_redis *r)
{
    if (r->sub.link == NULL)
        return;
    atomic_store_explicit(&r->sub.ready, false, memory_order_relaxed);
    (void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, r->sub.link->fd, NULL);
    lk_link_free(r->sub.link, false);
    r->sub.link = NULL;
    lk_note_locked(r, LOCKER_LOG_INFO, "redis: lost the subscription; subscribing again");
    lk_connector_want_locked(r);
}

/* The lock was handed to a value that nobody here knows any more: give it back. */
static void give_back_locked(struct lk_redis *r, const char *value, const char *lock, size_t lock_len)
{
    struct lk_keys keys;
    if (lk_keys_init_raw(&keys, lock, lock_len))
        (void)lk_cleanup_start_locked(r, &keys, value, NULL);
}

/* Whether the claim is of that lock. */
static bool is_lock_of(const struct lk_redis *r, const locker_claim *claim, const char *lock, size_t lock_len)
{
    const size_t space = strlen(r->set.name_space);
    const size_t prefix = space > 0 ? space + 1 : 0;
    return lock_len == prefix + claim->key_len && memcmp(lock, r->set.name_space, space) == 0 &&
           (prefix == 0 || lock[space] == ':') && memcmp(lock + prefix, claim->key, claim->key_len) == 0;
}

/* Somebody broke the lock: no value is ever given twice, so it is about this claim and no other. One that
 * waits may have been given the lock and not know yet. */
static void take_broken_locked(struct lk_redis *r, locker_claim *claim)
{
    struct lk_claim_data *data = lk_claim_data(claim);
    if (atomic_load_explicit(&data->held, memory_order_relaxed)) {
        r->svc->lease_lost(r->svc, claim, "its lock was broken by an operator");
        return;
    }
    atomic_store_explicit(&data->given, 0, memory_order_relaxed);
    r->svc->wake(r->svc, claim);
}

/* "value number direct_us lock", or "value broken lock". Number 0: none, because fencing is off, or because
 * the lock is left free for a moment; a client that polls may have it then and tells nobody when it gives it
 * back, so the waiter looks again soon. Whoever writes into queues may hand a value another lock than the one
 * that it waits for: then nobody here wants that. */
static void take_message_locked(struct lk_redis *r, const redisReply *text)
{
    char value[LK_VALUE_LEN + 1];
    uint64_t number;
    if (text->len < LK_VALUE_LEN + 4 || text->str[LK_VALUE_LEN] != ' ')
        return;
    memcpy(value, text->str, LK_VALUE_LEN);
    value[LK_VALUE_LEN] = '\0';
    if (!lk_value_number(r, value, &number))
        return;
    locker_claim *claim = lk_claims_find_locked(r, number);
    const char *const over = text->str + text->len;
    if (strncmp(text->str + LK_VALUE_LEN, broken, sizeof(broken) - 1) == 0) {
        const char *lock = text->str + LK_VALUE_LEN + sizeof(broken) - 1;
        if (claim != NULL && is_lock_of(r, claim, lock, (size_t)(over - lock)))
            take_broken_locked(r, claim);
        return;
    }
    char *end;
    const unsigned long long fence = strtoull(text->str + LK_VALUE_LEN + 1, &end, 10);
    if (*end != ' ')
        return;
    const unsigned long long direct_us = strtoull(end + 1, &end, 10);
    if (*end != ' ')
        return;
    const char *const lock = end + 1;
    const size_t lock_len = (size_t)(over - lock);
    if (claim == NULL || !is_lock_of(r, claim, lock, lock_len)) {
        give_back_locked(r, value, lock, lock_len);
        return;
    }
    struct lk_claim_data *data = lk_claim_data(claim);
    if (atomic_load_explicit(&data->held, memory_order_relaxed))
        return;
    data->direct_us = (int64_t)(direct_us % LK_FENCE_MOST) + hop_us;
    data->polls = fence == 0 ? 1 : 0;
    atomic_store_explicit(&data->given, fence, memory_order_relaxed);
    r->svc->wake(r->svc, claim);
}

void lk_subscriber_read_locked(struct lk_redis *r)
{
    char data[4096];
    redisReply *reply;
    bool drained = false;
    int fills = 0;
    r->sub.look = false;
    while (r->sub.link != NULL) {
        const int got = lk_link_next_reply(r->sub.link, &reply);
        if (got > 0) {
            const bool message = is_push(reply, "message", REDIS_REPLY_STRING);
            if (message)
                take_message_locked(r, reply->element[2]);
            freeReplyObject(reply);
            if (!message)
                lk_subscriber_lose_locked(r);
            continue;
        }
        if (got == 0 && drained)
            return;
        if (got == 0 && fills++ == FILLS_MAX) { /* others want a turn, however much comes */
            r->sub.look = true;
            r->svc->attend(r->svc);
            return;
        }
        const ssize_t n = got == 0 ? lk_link_receive(r->sub.link, data, sizeof(data)) : 0;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0 || lk_link_feed(r->sub.link, data, (size_t)n) != 0)
            lk_subscriber_lose_locked(r);
        drained = n > 0 && (size_t)n < sizeof(data) && !r->set.tls; /* epoll tells of what comes later */
    }
}
