/* wire.h: a client's connection to a simulated member, as bytes: HTTP/2 with gRPC's messages. Its requests are asked of the member, and
 * answers go back. */
#pragma once

#include "etcd.h"

typedef struct lk_simetcd_wire lk_simetcd_wire;

lk_simetcd_wire *lk_simetcd_wire_new(lk_simetcd *e, int member);
/* Bytes from the client have arrived. False: they are none of the protocol. A member that has no leader yet since it has started reads
 * them when it has one. */
bool lk_simetcd_wire_feed(lk_simetcd_wire *wire, const void *bytes, size_t count);
/* All that is to be sent. It is there until the next call. */
const void *lk_simetcd_wire_output(lk_simetcd_wire *wire, size_t *count);
/* The server has closed it, and its output was taken. */
bool lk_simetcd_wire_is_closed(const lk_simetcd_wire *wire);
/* The client's end is closed, or the member has ended. */
void lk_simetcd_wire_free(lk_simetcd_wire *wire);
