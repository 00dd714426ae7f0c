/* bytes.c: see bytes.h. */
#include "bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void *lk_sr_make(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL)
        abort();
    return memory;
}

void *lk_sr_resize(void *memory, size_t size)
{
    void *fresh = realloc(memory, size);
    if (fresh == NULL)
        abort();
    return fresh;
}

static void make_room(lk_sr_bytes *bytes, size_t more)
{
    size_t room = bytes->room > 0 ? bytes->room : 32;
    while (room < bytes->len + more)
        room *= 2;
    if (room == bytes->room)
        return;
    bytes->data = lk_sr_resize(bytes->data, room);
    bytes->room = room;
}

void lk_sr_put(lk_sr_bytes *bytes, lk_sr_text text)
{
    if (text.len == 0)
        return;
    make_room(bytes, text.len);
    memcpy(bytes->data + bytes->len, text.data, text.len);
    bytes->len += text.len;
}

void lk_sr_print(lk_sr_bytes *bytes, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof text)
        abort();
    lk_sr_put(bytes, (lk_sr_text){text, (size_t)len});
}

void lk_sr_drop(lk_sr_bytes *bytes, size_t count)
{
    if (count < bytes->len)
        memmove(bytes->data, bytes->data + count, bytes->len - count);
    bytes->len -= count;
}

void lk_sr_bytes_set(lk_sr_bytes *bytes, lk_sr_text text)
{
    bytes->len = 0;
    lk_sr_put(bytes, text);
}

void lk_sr_bytes_free(lk_sr_bytes *bytes)
{
    free(bytes->data);
    *bytes = (lk_sr_bytes){NULL, 0, 0};
}

lk_sr_text lk_sr_view(const lk_sr_bytes *bytes)
{
    return (lk_sr_text){bytes->data, bytes->len};
}

lk_sr_text lk_sr_word(const char *word)
{
    return (lk_sr_text){word, strlen(word)};
}

bool lk_sr_same(lk_sr_text a, lk_sr_text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool lk_sr_is(lk_sr_text text, const char *word)
{
    return text.len == strlen(word) && (text.len == 0 || strncasecmp(text.data, word, text.len) == 0);
}

int lk_sr_compare(lk_sr_text a, lk_sr_text b)
{
    const size_t both = a.len < b.len ? a.len : b.len;
    const int order = both > 0 ? memcmp(a.data, b.data, both) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}
