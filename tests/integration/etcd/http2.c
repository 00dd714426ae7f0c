/* http2.c: see http2.h. */
#include "http2.h"

#include <string.h>
#include <sys/socket.h>

enum { HEADER_MOST = 400, PAYLOAD_MOST = 2000, END_HEADERS = 4 };

void lk_http2_frame(int fd, int type, int flags, unsigned stream, const void *payload, size_t length)
{
    unsigned char frame[LK_HTTP2_FRAME + PAYLOAD_MOST] = {0};
    if (length > PAYLOAD_MOST)
        return;
    frame[1] = (unsigned char)(length >> 8);
    frame[2] = (unsigned char)length;
    frame[3] = (unsigned char)type;
    frame[4] = (unsigned char)flags;
    frame[7] = (unsigned char)(stream >> 8);
    frame[8] = (unsigned char)stream;
    memcpy(frame + LK_HTTP2_FRAME, payload, length);
    (void)send(fd, frame, LK_HTTP2_FRAME + length, MSG_NOSIGNAL);
}

static unsigned char *put_text(unsigned char *at, const char *text, size_t length)
{
    *at++ = (unsigned char)length;
    memcpy(at, text, length);
    return at + length;
}

/* In HPACK: each field is named anew, and none is remembered. */
void lk_http2_header(int fd, int flags, unsigned stream, const char *lines)
{
    unsigned char block[HEADER_MOST], *at = block;
    for (const char *line = lines; *line != '\0';) {
        const char *const value = strstr(line, ": ") + 2, *const end = strchrnul(value, '\n');
        if (at + (end - line) + 1 > block + sizeof block)
            return;
        *at++ = 0;
        at = put_text(at, line, (size_t)(value - 2 - line));
        at = put_text(at, value, (size_t)(end - value));
        line = *end == '\n' ? end + 1 : end;
    }
    lk_http2_frame(fd, LK_HTTP2_HEADERS, flags | END_HEADERS, stream, block, (size_t)(at - block));
}
