/* resp.h: where a message of Redis' protocol (RESP2) ends; for the proxy, which counts requests and replies.
 */
#ifndef LK_TEST_RESP_H
#define LK_TEST_RESP_H

#include <stddef.h>

/** The length in bytes of the first message in data; 0 when it isn't all there yet. What is no message at all
 * counts as one of `len` bytes. */
size_t lk_resp_length(const char *data, size_t len);

#endif
