/* redis.c: where a message of Redis' protocol ends, and what it is; see redis.h. */
#include "proxy/redis.h"

#include <stdlib.h>
#include <string.h>

/* What is no message at all counts as one of `len` bytes. */
static size_t length(const char *data, size_t len)
{
    const char *end = memmem(data, len, "\r\n", 2);
    if (end == NULL)
        return 0;
    const size_t head = (size_t)(end - data) + 2;
    long count = strtol(data + 1, NULL, 10);
    size_t used;
    switch (data[0]) {
    case '+':
    case '-':
    case ':':
        return head;
    case '$':
        used = head + (count < 0 ? 0 : (size_t)count + 2);
        return used <= len ? used : 0;
    case '*':
        for (used = head; count > 0; count--) {
            const size_t one = used < len ? length(data + used, len - used) : 0;

            if (one == 0)
                return 0;
            used += one;
        }
        return used;
    default:
        return len;
    }
}

static bool is(const lk_message *request, const char *text)
{
    return text[0] == '\0' || memmem(request->bytes, request->length, text, strlen(text)) != NULL;
}

static int64_t number(const lk_message *message)
{
    return message->nth > 0 ? (int64_t)message->nth : LK_UNASKED;
}

static const char nonsense[] = "\x01this is no reply\r\n";

const lk_protocol lk_proxy_redis = {length, is, number, nonsense, sizeof nonsense - 1};
