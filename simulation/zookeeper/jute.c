/* jute.c: see jute.h. */
#include "jute.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* By lk_simzk_kind. */
static const int32_t codes[] = {1, 15, 19, 2, 5, 13, 14, 3, 4, 8, 9, 11, 100, 101, 18, -11};

int32_t lk_simzk_code_of(lk_simzk_kind kind)
{
    return codes[kind];
}

lk_simzk_kind lk_simzk_kind_of(int32_t code)
{
    for (int kind = 0; kind < LK_SIMZK_ERROR; kind++)
        if (codes[kind] == code)
            return (lk_simzk_kind)kind;
    return LK_SIMZK_ERROR;
}

/* ------------------------------------------------------------------ writing ---- */

void lk_simzk_put_bytes(lk_simzk_writer *w, const void *bytes, size_t len)
{
    if (w->len + len > w->room) {
        w->room = 2 * (w->len + len);
        w->bytes = realloc(w->bytes, w->room);
        if (w->bytes == NULL)
            abort();
    }
    if (len > 0)
        memcpy(w->bytes + w->len, bytes, len);
    w->len += len;
}

void lk_simzk_put_int(lk_simzk_writer *w, int32_t value)
{
    const uint32_t big = htonl((uint32_t)value);
    lk_simzk_put_bytes(w, &big, sizeof big);
}

void lk_simzk_put_long(lk_simzk_writer *w, int64_t value)
{
    lk_simzk_put_int(w, (int32_t)(uint32_t)((uint64_t)value >> 32));
    lk_simzk_put_int(w, (int32_t)(uint32_t)value);
}

void lk_simzk_put_bool(lk_simzk_writer *w, bool value)
{
    lk_simzk_put_bytes(w, value ? "\1" : "", 1);
}

void lk_simzk_put_data(lk_simzk_writer *w, lk_simzk_data data)
{
    lk_simzk_put_int(w, data.len);
    if (data.len > 0)
        lk_simzk_put_bytes(w, data.bytes, (size_t)data.len);
}

void lk_simzk_put_text(lk_simzk_writer *w, const char *text)
{
    lk_simzk_put_data(w, (lk_simzk_data){text, (int32_t)strlen(text)});
}

void lk_simzk_put_texts(lk_simzk_writer *w, lk_simzk_texts texts)
{
    lk_simzk_put_int(w, (int32_t)texts.count);
    for (size_t i = 0; i < texts.count; i++)
        lk_simzk_put_text(w, texts.items[i]);
}

void lk_simzk_put_multi(lk_simzk_writer *w, int32_t code, bool done, int32_t error)
{
    lk_simzk_put_int(w, code);
    lk_simzk_put_bool(w, done);
    lk_simzk_put_int(w, error);
}

size_t lk_simzk_put_frame(lk_simzk_writer *w)
{
    lk_simzk_put_int(w, 0);
    return w->len;
}

void lk_simzk_end_frame(lk_simzk_writer *w, size_t begun)
{
    const uint32_t len = htonl((uint32_t)(w->len - begun));
    memcpy(w->bytes + begun - sizeof len, &len, sizeof len);
}

/* ------------------------------------------------------------------ reading ---- */

/* NULL: there are not so many. */
static const unsigned char *take_bytes(lk_simzk_reader *r, size_t len)
{
    if (r->is_broken || len > r->len - r->at) {
        r->is_broken = true;
        return NULL;
    }
    r->at += len;
    return r->bytes + r->at - len;
}

int32_t lk_simzk_take_int(lk_simzk_reader *r)
{
    uint32_t big = 0;
    const unsigned char *const bytes = take_bytes(r, sizeof big);
    if (bytes != NULL)
        memcpy(&big, bytes, sizeof big);
    return (int32_t)ntohl(big);
}

int64_t lk_simzk_take_long(lk_simzk_reader *r)
{
    const uint64_t high = (uint32_t)lk_simzk_take_int(r);
    return (int64_t)(high << 32 | (uint32_t)lk_simzk_take_int(r));
}

bool lk_simzk_take_bool(lk_simzk_reader *r)
{
    const unsigned char *const byte = take_bytes(r, 1);
    return byte != NULL && *byte != 0;
}

lk_simzk_data lk_simzk_take_data(lk_simzk_reader *r, lk_simzk_arena *arena)
{
    lk_simzk_data data = {NULL, lk_simzk_take_int(r)};
    const unsigned char *const bytes = data.len >= 0 ? take_bytes(r, (size_t)data.len) : NULL;
    if (bytes == NULL)
        data.len = -1;
    else
        data.bytes = lk_simzk_arena_copy(arena, bytes, (size_t)data.len);
    return data;
}

const char *lk_simzk_take_text(lk_simzk_reader *r, lk_simzk_arena *arena)
{
    const int32_t len = lk_simzk_take_int(r);
    const unsigned char *const bytes = len >= 0 ? take_bytes(r, (size_t)len) : NULL;
    if (bytes == NULL)
        return "";
    char *const text = lk_simzk_arena_alloc(arena, (size_t)len + 1);
    memcpy(text, bytes, (size_t)len);
    return text;
}

size_t lk_simzk_take_count(lk_simzk_reader *r, size_t least)
{
    const int32_t count = lk_simzk_take_int(r);
    if (count > 0 && (size_t)count > (r->len - r->at) / least)
        r->is_broken = true;
    return count > 0 && !r->is_broken ? (size_t)count : 0;
}

lk_simzk_texts lk_simzk_take_texts(lk_simzk_reader *r, lk_simzk_arena *arena)
{
    const size_t count = lk_simzk_take_count(r, sizeof(int32_t));
    const char **const items = lk_simzk_arena_alloc(arena, count * sizeof *items);
    for (size_t i = 0; i < count; i++)
        items[i] = lk_simzk_take_text(r, arena);
    return (lk_simzk_texts){items, count};
}
