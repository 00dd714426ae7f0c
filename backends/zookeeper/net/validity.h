/* validity.h: until when the leader has a session for certain. The rule of backends/zookeeper/DESIGN.md ("D, and why it
 * is right"), and nothing else: it knows times, and neither servers nor the client library. Times are ns of
 * one clock. models/README.md (session) has the assumptions about servers.
 *
 * A fixed offset from the sending of the ordered request (3/4 T, or T/2) would be wrong: the server may be cut off right after
 * its answer, and the last touch before may be old, because the client was stopped or idle. With something sent every T/8, D is at
 * least 0.49 T after the sending of the ordered request, and 0.71 T at T = 30 s with `tick` = 2 s. A touch may be lost if it comes
 * in the microseconds in which a server swaps its table for a PING; only a cut before the next touch makes that matter.
 *
 * Two things are told apart. A request that was *answered* has touched the session, at the server that
 * answered, which passes that on when the leader pings it. A request that was *ordered* proves that the
 * leader has what the server had to pass on well before. */
#pragma once

#include <stdint.h>

enum { LK_ZK_TOUCHES = 32 };

/* A request that was answered. */
typedef struct {
    int64_t sent, answered;
} lk_zk_touch;

/* What is known of one session. All zero: there is none. */
typedef struct {
    int64_t timeout_ns;                 /* T */
    int64_t pass_on_ns;                 /* P: so long after an answer its touch has been passed on */
    int64_t begun;                      /* the present connection, or the last */
    int64_t known;                      /* A: a touch of then is at the leader; 0: none */
    lk_zk_touch touches[LK_ZK_TOUCHES]; /* on this connection; a ring, spaced out */
    uint64_t count;                     /* all that there ever were */
} lk_zk_validity;

/* It has a connection, which began then: not after anything that was sent on it. tick_ns: of the servers; 0:
 * it is not known. A new session begins with all zero. */
void lk_zk_validity_connected(lk_zk_validity *v, int64_t begun, int64_t timeout_ns, int64_t tick_ns);
/* The server itself, or the leader, has answered a request. Called in the order of sending. */
void lk_zk_validity_answered(lk_zk_validity *v, int64_t sent, int64_t now);
/* The leader has ordered a request of this connection, and a majority has agreed. */
void lk_zk_validity_ordered(lk_zk_validity *v, int64_t sent);
/* D: the leader does not end the session before. */
int64_t lk_zk_validity_deadline(const lk_zk_validity *v);
/* What D will be once a request that is sent then has been ordered. */
int64_t lk_zk_validity_promise(const lk_zk_validity *v, int64_t sent);
