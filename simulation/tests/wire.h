/* wire.h: the simulated ZooKeeper's interface to a client (simulation/zookeeper), spoken with a real server.
 * Requests may be sent one behind the other. What the network does fails the program, after wire_before_failure(). */
#pragma once

#include "servers/server.h"
#include "simulation/zookeeper/zookeeper.h"

typedef struct wire wire;

/* A session: none yet, or one that was there before. */
typedef struct {
    int64_t session, seen;
    unsigned char password[16];
    int32_t timeout_ms;
} wire_hello;

extern void (*wire_before_failure)(void); /* NULL: nothing */

wire *wire_connect(const lk_server *server, const wire_hello *hello);
void wire_send(wire *w, const lk_simzk_request *request);
/* Waits for it; NULL: the server has closed the connection. To be freed by lk_simzk_answer_free(). */
lk_simzk_answer *wire_receive(wire *w);
/* What the server's welcome gave. */
const unsigned char *wire_password(const wire *w);
/* Waits until the server has closed it, too. NULL is allowed. */
void wire_close(wire *w);
