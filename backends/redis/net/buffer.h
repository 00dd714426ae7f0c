/* buffer.h: bytes on their way out. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *data;
    size_t len, cap;
} lk_redis_buffer;

enum {
    LK_REDIS_BUFFER_FIRST = 4096,
    LK_REDIS_BUFFER_KEEP = 1 << 20 /* one that grew beyond it is given back when it is empty */
};

/* False when memory ran out: nothing was added. */
static inline bool lk_redis_buffer_add(lk_redis_buffer *b, const char *data, size_t len)
{
    if (b->cap - b->len < len) {
        size_t cap = b->cap > 0 ? b->cap : LK_REDIS_BUFFER_FIRST;
        while (cap - b->len < len)
            cap *= 2;
        char *grown = realloc(b->data, cap);
        if (grown == NULL)
            return false;
        b->data = grown;
        b->cap = cap;
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return true;
}

static inline void lk_redis_buffer_empty(lk_redis_buffer *b)
{
    b->len = 0;
    if (b->cap > LK_REDIS_BUFFER_KEEP) {
        free(b->data);
        *b = (lk_redis_buffer){0};
    }
}
