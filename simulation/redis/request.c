/* request.c: see request.h. */
#include "request.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 64 * 1024, STRICT_WORDS = 10, STRICT_BYTES = 16384, BULK_MAX = 512 * 1024 * 1024 };

static void add(lk_sr_request *request, lk_sr_text word)
{
    if (request->argc == request->room) {
        request->room = request->room > 0 ? 2 * request->room : 16;
        request->argv = lk_sr_resize(request->argv, request->room * sizeof *request->argv);
    }
    request->argv[request->argc++] = word;
}

static lk_sr_request_state wrong(char *error, size_t size, const char *why)
{
    (void)snprintf(error, size, "Protocol error: %s", why);
    return LK_SR_REQUEST_WRONG;
}

/* The line that begins at `from`, without its end; moves `from` behind it. */
static lk_sr_request_state read_line(lk_sr_text bytes, size_t *from, lk_sr_text *line)
{
    const char *start = bytes.data + *from, *end = memchr(start, '\r', bytes.len - *from);
    if (end == NULL || (size_t)(end - bytes.data) + 2 > bytes.len)
        return end == NULL && bytes.len - *from > LINE_MAX_BYTES ? LK_SR_REQUEST_WRONG : LK_SR_REQUEST_PART;
    *line = (lk_sr_text){start, (size_t)(end - start)};
    *from += line->len + 2;
    return LK_SR_REQUEST_WHOLE;
}

static lk_sr_request_state read_bulk(lk_sr_request *request, lk_sr_text bytes, bool strict, char *error,
                                     size_t size)
{
    lk_sr_text line;
    int64_t len;
    const lk_sr_request_state state = read_line(bytes, &request->used, &line);
    if (state == LK_SR_REQUEST_WRONG)
        return wrong(error, size, "too big bulk count string");
    if (state == LK_SR_REQUEST_PART)
        return state;
    if (line.len == 0 || line.data[0] != '$') {
        (void)snprintf(error, size, "Protocol error: expected '$', got '%c'", line.data[0]);
        return LK_SR_REQUEST_WRONG;
    }
    if (!lk_sr_integer((lk_sr_text){line.data + 1, line.len - 1}, &len) || len < 0 || len > BULK_MAX)
        return wrong(error, size, "invalid bulk length");
    if (strict && len > STRICT_BYTES)
        return wrong(error, size, "unauthenticated bulk length");
    if (bytes.len - request->used < (size_t)len + 2)
        return LK_SR_REQUEST_PART;
    add(request, (lk_sr_text){bytes.data + request->used, (size_t)len});
    request->used += (size_t)len + 2;
    return LK_SR_REQUEST_WHOLE;
}

static lk_sr_request_state read_list(lk_sr_request *request, lk_sr_text bytes, bool strict, char *error,
                                     size_t size)
{
    lk_sr_text line;
    int64_t count;
    lk_sr_request_state state = read_line(bytes, &request->used, &line);
    if (state == LK_SR_REQUEST_WRONG)
        return wrong(error, size, "too big mbulk count string");
    if (state == LK_SR_REQUEST_PART)
        return state;
    if (!lk_sr_integer((lk_sr_text){line.data + 1, line.len - 1}, &count) || count > INT_MAX)
        return wrong(error, size, "invalid multibulk length");
    if (strict && count > STRICT_WORDS)
        return wrong(error, size, "unauthenticated multibulk length");
    for (int64_t i = 0; i < count && state == LK_SR_REQUEST_WHOLE; i++) {
        if (request->used == bytes.len)
            return LK_SR_REQUEST_PART;
        state = read_bulk(request, bytes, strict, error, size);
    }
    return state;
}

/* Words between spaces; quotes, which only a person would type, are not known here. */
static lk_sr_request_state read_inline(lk_sr_request *request, lk_sr_text bytes, char *error, size_t size)
{
    const char *end = memchr(bytes.data, '\n', bytes.len);
    if (end == NULL)
        return bytes.len > LINE_MAX_BYTES ? wrong(error, size, "too big inline request") : LK_SR_REQUEST_PART;
    request->used = (size_t)(end - bytes.data) + 1;
    if (end > bytes.data && end[-1] == '\r')
        end--;
    for (const char *at = bytes.data; at < end;) {
        const char *from = at;
        while (at < end && *at != ' ')
            at++;
        if (at > from)
            add(request, (lk_sr_text){from, (size_t)(at - from)});
        at += at < end;
    }
    return LK_SR_REQUEST_WHOLE;
}

lk_sr_request_state lk_sr_request_read(lk_sr_request *request, lk_sr_text bytes, bool strict, char *error,
                                       size_t size)
{
    request->argc = request->used = 0;
    if (bytes.len == 0)
        return LK_SR_REQUEST_PART;
    return bytes.data[0] == '*' ? read_list(request, bytes, strict, error, size)
                                : read_inline(request, bytes, error, size);
}

void lk_sr_request_free(lk_sr_request *request)
{
    free(request->argv);
}
