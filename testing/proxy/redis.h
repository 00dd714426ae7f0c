/* redis.h: Redis' protocol (RESP2), for a proxy. A kind of requests is a text that they contain; "": all.
 * Replies come in the order of the requests; what a subscription tells is unasked. */
#pragma once

#include "proxy/protocol.h"

extern const lk_protocol lk_proxy_redis;
