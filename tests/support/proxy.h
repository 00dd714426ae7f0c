/*
 * proxy.h: a TCP proxy between a client and a redis-server, which harms the traffic as the test tells it. It
 * understands the protocol just enough to tell requests and replies apart. One thread serves all connections.
 */
#ifndef LK_TEST_PROXY_H
#define LK_TEST_PROXY_H

#include <stddef.h>
#include <stdint.h>

struct lk_proxy;

/** What becomes of the reply to the request that a fault is set for. The server has carried the request out
 * by then in every case. */
enum lk_proxy_harm {
    LK_PROXY_CUT = 1, /* `bytes` of it are passed on, and then the connection is closed */
    LK_PROXY_GARBAGE, /* nonsense comes instead of it */
    LK_PROXY_SWALLOW, /* it and all that follows on the connection is kept back, without closing */
    LK_PROXY_TRICKLE, /* it is passed on one byte at a time */
    LK_PROXY_FLOOD    /* lk_proxy_flood() */
};

/** Starts a proxy to 127.0.0.1:port. Fails the test when it can't. */
struct lk_proxy *lk_proxy_start(int port);

/** Ends it and its connections. NULL is allowed. */
void lk_proxy_free(struct lk_proxy *proxy);

/** The port on which it listens. */
int lk_proxy_port(const struct lk_proxy *proxy);

/** Harms the reply to the nth request (from 1, counted from this call on) that contains `text`. */
void lk_proxy_harm(struct lk_proxy *proxy, enum lk_proxy_harm harm, const char *text, unsigned nth,
                   size_t bytes);

/** Harms the reply to the next request that contains `text`: `head` comes instead, and then `more`, again and
 * again until the client closes the connection. Both are static text; "": nothing. */
void lk_proxy_flood(struct lk_proxy *proxy, const char *text, const char *head, const char *more);

/** How many harms were done since the start. */
unsigned lk_proxy_harmed(struct lk_proxy *proxy);

/** Waits until that many harms were done; fails the test when they never are. */
void lk_proxy_await_harm(struct lk_proxy *proxy, unsigned count);

/** Passes each reply on after that time, in ms; 0: at once. */
void lk_proxy_delay(struct lk_proxy *proxy, int64_t ms);

/** Keeps back what clients send, and what the server sends; nothing is lost, it flows when they are 0 again.
 */
void lk_proxy_hold(struct lk_proxy *proxy, int requests, int replies);

/** Keeps back what comes on the connections that are open now, also when the client closes them meanwhile, as
 * a network may; new ones pass. With 0 it arrives, if the server still listens. */
void lk_proxy_hold_old(struct lk_proxy *proxy, int on);

/** Closes all connections; clients may connect again. */
void lk_proxy_cut_all(struct lk_proxy *proxy);

/** While on, a client that connects is cut off at once. */
void lk_proxy_refuse(struct lk_proxy *proxy, int on);

/** How many requests that contain `text` were passed to the server since the start ("": all). */
unsigned lk_proxy_requests(struct lk_proxy *proxy, const char *text);

#endif
