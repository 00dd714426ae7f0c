/* lk_buffer.h: bytes on their way out, which are added at the end. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

/** All zeros: empty. free() its data. */
typedef struct {
    char *data;
    size_t len, cap;
} lk_buffer;

enum {
    LK_BUFFER_FIRST = 4096,
    LK_BUFFER_KEEP = 1 << 20 /* one that grew beyond it is given back when it is empty */
};

/** Room for so many bytes behind those that are there, which whoever fills it adds to `len`; NULL when memory ran out. */
static inline char *lk_buffer_room(lk_buffer *b, size_t len)
{
    if (b->cap - b->len < len) {
        size_t cap = b->cap > 0 ? b->cap : LK_BUFFER_FIRST;
        while (cap - b->len < len)
            cap *= 2;
        char *grown = realloc(b->data, cap);
        if (grown == NULL)
            return NULL;
        b->data = grown;
        b->cap = cap;
    }
    return b->data + b->len;
}

static inline void lk_buffer_empty(lk_buffer *b)
{
    b->len = 0;
    if (b->cap > LK_BUFFER_KEEP) {
        free(b->data);
        *b = (lk_buffer){0};
    }
}
