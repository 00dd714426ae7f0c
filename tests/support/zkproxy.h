/*
 * zkproxy.h: a TCP proxy between clients and a ZooKeeper server, which harms the traffic as the test tells
 * it. It knows frames, and the number and kind of a request. One thread serves all connections. proxy.h is
 * the same for Redis.
 */
#ifndef LK_TEST_ZKPROXY_H
#define LK_TEST_ZKPROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_zkp;

/** Kinds of requests: ZooKeeper's numbers, and the first of a connection, which has none. */
enum {
    LK_ZKP_CONNECT = 0,
    LK_ZKP_CREATE = 1,
    LK_ZKP_DELETE = 2,
    LK_ZKP_EXISTS = 3,
    LK_ZKP_GET = 4,
    LK_ZKP_SET = 5,
    LK_ZKP_SYNC = 9,
    LK_ZKP_LIST = 12, /* with or without the node's own data */
    LK_ZKP_MULTI = 14,
    LK_ZKP_CREATE2 = 15,
    LK_ZKP_CREATE_CONTAINER = 19
};

/** What becomes of the reply to the request that a fault is set for. The server has carried the request out
 * by then, but for the last. */
enum lk_zkp_harm {
    LK_ZKP_CUT = 1, /* `bytes` of it are passed on, and then the connection is closed */
    LK_ZKP_GARBAGE, /* nonsense comes instead of it */
    LK_ZKP_SWALLOW, /* it and all that follows on the connection is kept back, without closing */
    LK_ZKP_EXPIRED, /* it says that the session has expired */
    LK_ZKP_WITHHOLD /* the request itself never arrives, and the connection is closed */
};

/** Starts a proxy to 127.0.0.1:port. Fails the test when it can't. */
struct lk_zkp *lk_zkp_start(int port);

/** Ends it and its connections. NULL is allowed. */
void lk_zkp_free(struct lk_zkp *proxy);

/** The port on which it listens. */
int lk_zkp_port(const struct lk_zkp *proxy);

/** Harms the reply to the nth request (from 1, counted from this call on) of that kind. */
void lk_zkp_harm(struct lk_zkp *proxy, enum lk_zkp_harm harm, int kind, unsigned nth, size_t bytes);

/** Waits until that many harms were done since the start; fails the test when they never are. */
void lk_zkp_await_harm(struct lk_zkp *proxy, unsigned count);

/** The path in the request that was withheld last. */
void lk_zkp_withheld(struct lk_zkp *proxy, char *path, size_t size);

/** Passes each reply on after that time, in ms; 0: at once. */
void lk_zkp_delay(struct lk_zkp *proxy, int64_t ms);

/** Keeps back what clients send, and what the server sends; it flows when they are false again. */
void lk_zkp_hold(struct lk_zkp *proxy, bool requests, bool replies);

/** Closes all connections; clients may connect again. */
void lk_zkp_cut_all(struct lk_zkp *proxy);

/** While on, a client that connects is cut off at once. */
void lk_zkp_refuse(struct lk_zkp *proxy, bool on);

/** While on, what the server tells of its own accord (watches) is dropped, and nothing else. */
void lk_zkp_drop_events(struct lk_zkp *proxy, bool on);

/** How many were dropped since the start. */
unsigned lk_zkp_dropped_events(struct lk_zkp *proxy);

/** How many requests of that kind were passed to the server since the start. */
unsigned lk_zkp_requests(struct lk_zkp *proxy, int kind);

/** Waits until `more` of that kind were passed since lk_zkp_passed(); fails the test when they never are. */
struct lk_zkp_passed {
    struct lk_zkp *proxy;
    int kind;
    unsigned count;
};
struct lk_zkp_passed lk_zkp_passed(struct lk_zkp *proxy, int kind);
void lk_zkp_await_passed(struct lk_zkp_passed since, unsigned more);

#endif
