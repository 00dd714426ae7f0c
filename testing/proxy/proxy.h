/* proxy.h: a TCP proxy between clients and a server on this machine, which holds back, delays, cuts and harms
 * the traffic as it is told. It knows connections, gates, and where messages end; what a request and a reply
 * are tells it a protocol (redis.h, zookeeper.h). For tests and measurements alike: it reports errors, and
 * fails nobody.
 *
 * One thread serves all connections. Everything here may be called from any other one. What is set holds for
 * each message that comes after the call has returned. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/protocol.h"

typedef struct lk_proxy lk_proxy;

/** What becomes of the reply to the request that a harm is set for. The server has carried the request out by
 * then in every case but the last. */
typedef enum {
    LK_PROXY_CUT = 1, /* `bytes` of it are passed on, and then the connection is closed */
    LK_PROXY_GARBAGE, /* nonsense comes instead of it */
    LK_PROXY_FORGE,   /* lk_proxy_forge() */
    LK_PROXY_FLOOD,   /* lk_proxy_flood() */
    LK_PROXY_SWALLOW, /* it and all that follows on the connection is kept back, without closing */
    LK_PROXY_TRICKLE, /* it is passed on one byte at a time */
    LK_PROXY_WITHHOLD /* the request itself never arrives, and the connection is closed */
} lk_harm;

/* ---- beginning and end */

/** Listens on a port of its own, for a server at 127.0.0.1:port; NULL with errno. protocol NULL: a message is
 * what came at once, and nothing can be said of requests. Serves nobody yet. */
lk_proxy *lk_proxy_open(const lk_protocol *protocol, int port);

/** Serves on a thread of its own; false with errno. */
bool lk_proxy_start(lk_proxy *proxy);

/** Serves on the calling thread, for ever: for a process that is nothing else. */
void lk_proxy_serve(lk_proxy *proxy);

/** Ends it and its connections. NULL is allowed. */
void lk_proxy_free(lk_proxy *proxy);

/** The port on which it listens. */
int lk_proxy_port(const lk_proxy *proxy);

/* ---- gates: for all that comes */

/** Keeps back what clients send, and what the server sends; it flows when they are false again. A connection
 * whose sender closes it meanwhile is closed. */
void lk_proxy_hold(lk_proxy *proxy, bool requests, bool replies);

/** Keeps back what comes on the connections that are open now, also when the client closes them meanwhile, as
 * a network may; new ones pass. With false it arrives, if the server still listens. */
void lk_proxy_hold_old(lk_proxy *proxy, bool on);

/** Passes on what comes so many ms later, in each direction; the end of a connection, too. */
void lk_proxy_delay(lk_proxy *proxy, int64_t requests_ms, int64_t replies_ms);

/** Closes all connections; clients may connect again. */
void lk_proxy_cut_all(lk_proxy *proxy);

/** While on, a client that connects is cut off at once. */
void lk_proxy_refuse(lk_proxy *proxy, bool on);

/** While on, what the server tells of its own accord is dropped, and nothing else. */
void lk_proxy_drop_unasked(lk_proxy *proxy, bool on);

/** How many were dropped since the start. */
unsigned lk_proxy_dropped(lk_proxy *proxy);

/* ---- harms: for one reply. A harm replaces one that has not met its request yet. */

/** Harms the reply to the nth request of that kind, from 1, counted from this call on. */
void lk_proxy_harm(lk_proxy *proxy, lk_harm harm, const char *kind, unsigned nth, size_t bytes);

/** Harm the reply to each request of that kind from this call on, until lk_proxy_harm_none() or another harm. */
void lk_proxy_harm_each(lk_proxy *proxy, lk_harm harm, const char *kind, size_t bytes);
void lk_proxy_harm_none(lk_proxy *proxy);

/** What `forge` makes of the reply to the next request of that kind comes instead of it. */
void lk_proxy_forge(lk_proxy *proxy, const char *kind, lk_forge *forge);

/** Instead of the reply to the next request of that kind comes `head`, and then `more`, again and again until
 * the client closes the connection. Both are static text; "": nothing. */
void lk_proxy_flood(lk_proxy *proxy, const char *kind, const char *head, const char *more);

/** While it is set, no request of that kind arrives: what `forge` makes of it comes in answer. `forge` NULL: not any more. For four kinds
 * at once. */
void lk_proxy_answer(lk_proxy *proxy, const char *kind, lk_forge *forge);

/** How many harms were done since the start. */
unsigned lk_proxy_harmed(lk_proxy *proxy);

/** Copies the beginning of the request that was withheld last; answers how much was copied. */
size_t lk_proxy_withheld(lk_proxy *proxy, char *bytes, size_t size);

/** How many requests of that kind were passed to the server, or met a harm or an answer, since the start. */
unsigned lk_proxy_requests(lk_proxy *proxy, const char *kind);
