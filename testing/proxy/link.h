/* link.h: a client's connection and ours to the server: what comes on one of them leaves by the other as the
 * rules say. The proxy's thread alone uses it. */
#pragma once

#include "proxy/rules.h"
#include "proxy/way.h"

typedef struct {
    lk_way ways[2];           /* LK_UP, from the client; LK_DOWN */
    uint64_t asked, answered; /* requests passed, and replies to them */
    lk_fault fault;           /* of a reply that is due */
    lk_forge *answer;         /* to the request that was judged last; NULL: none */
    int64_t faulted;          /* the number of that */
    bool mute;                /* nothing goes to the client any more */
    bool held;                /* nothing goes to the server, until it is let go */
} lk_link;

/** Passes on what may leave now; false when the connection is to be closed. */
bool lk_link_pass(lk_link *link, lk_rules *rules, int64_t now);
