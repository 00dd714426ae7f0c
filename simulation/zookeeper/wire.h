/* wire.h: a client library's connection to a simulated server, as bytes: what comes becomes requests, and answers go back. */
#pragma once

#include "zookeeper.h"

typedef struct lk_simzk_wire lk_simzk_wire;

/* Who is told of what is said on it. */
typedef struct {
    void (*asked)(void *context, const lk_simzk_request *request);
    /* Of a reply: what was asked. It ends behind so many bytes of the output that is being made. */
    void (*answered)(void *context, const lk_simzk_answer *answer, lk_simzk_kind asked, size_t end);
    void *context;
} lk_simzk_wire_listener;

lk_simzk_wire *lk_simzk_wire_new(lk_simzk *z, int server);
void lk_simzk_wire_listen(lk_simzk_wire *wire, lk_simzk_wire_listener listener);
/* Bytes from the client have arrived. False: they are none of the protocol, or of what is simulated of it. */
bool lk_simzk_wire_feed(lk_simzk_wire *wire, const void *bytes, size_t count);
/* All that the server has answered meanwhile. It is there until the next call. */
const void *lk_simzk_wire_output(lk_simzk_wire *wire, size_t *count);
/* The server has closed it, and its output was taken. */
bool lk_simzk_wire_is_closed(const lk_simzk_wire *wire);
/* The session, once it is known; for people. */
int64_t lk_simzk_wire_session(const lk_simzk_wire *wire);
/* The client's end is closed. */
void lk_simzk_wire_free(lk_simzk_wire *wire);
