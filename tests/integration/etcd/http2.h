/* http2.h: just enough of HTTP/2 for a test to say what it likes. What can't be sent is not. */
#pragma once

#include <stddef.h>

enum {
    LK_HTTP2_FRAME = 9, /* a frame's head */
    LK_HTTP2_DATA = 0,
    LK_HTTP2_HEADERS = 1,
    LK_HTTP2_SETTINGS = 4,
    LK_HTTP2_GOAWAY = 7,
    LK_HTTP2_END_STREAM = 1 /* a flag */
};

void lk_http2_frame(int fd, int type, int flags, unsigned stream, const void *payload, size_t length);

/** A header: lines of "name: value", each of which is shorter than 127 bytes. */
void lk_http2_header(int fd, int flags, unsigned stream, const char *lines);
