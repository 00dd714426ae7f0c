/* guard.c: bounds on what a server may send us; see guard.h. */
#include <string.h>

#include "guard.h"

/* One value is complete, and with it the arrays that it was the last of. */
static inline void finish_value(lk_redis_guard *g)
{
    while (g->depth > 0 && --g->left[g->depth - 1] == 0)
        g->depth--;
    if (g->depth == 0) {
        g->bytes = g->elements = 0;
        g->number++;
    }
}

static inline bool is_passing(const lk_redis_guard *g)
{
    return g->passing != 0 && g->number + 1 == g->passing;
}

static inline size_t bytes_max(const lk_redis_guard *g)
{
    return is_passing(g) ? LK_REDIS_GUARD_PASSING : LK_REDIS_GUARD_REPLY;
}

static bool open_array(lk_redis_guard *g, size_t count)
{
    if (count > LK_REDIS_GUARD_ELEMENTS - g->elements || g->depth == LK_REDIS_GUARD_DEPTH)
        return false;
    if (!is_passing(g))
        g->elements += count;
    g->left[g->depth++] = count;
    return true;
}

/* A line is complete: its kind, and behind '$' or '*' a number. */
static bool end_line(lk_redis_guard *g)
{
    const char kind = g->head[0];
    const bool counts = kind == '$' || kind == '*', negative = g->line > 1 && g->head[1] == '-';
    const size_t first = negative ? 2 : 1;
    int64_t number = 0;
    for (size_t i = first; counts && i < g->line; i++) {
        if (g->head[i] < '0' || g->head[i] > '9')
            return false;
        number = number * 10 + (g->head[i] - '0');
    }
    if (counts && (g->line == first || number > LK_REDIS_GUARD_REPLY))
        return false;
    g->line = 0;
    g->ended = false;
    if (kind == '*' && number > 0 && !negative)
        return open_array(g, (size_t)number);
    if (kind == '$' && !negative)
        g->skip = (size_t)number + 2;
    else
        finish_value(g);
    return true;
}

static bool take_text(lk_redis_guard *g, const char *data, size_t len)
{
    if (g->line == 0 && len > 0)
        g->head[0] = *data;
    const char kind = g->head[0];
    const bool counts = kind == '$' || kind == '*';
    const bool known = g->line + len > 0 && (counts || kind == '+' || kind == '-' || kind == ':');
    for (size_t i = 0; counts && i < len && g->line + i < sizeof g->head; i++)
        g->head[g->line + i] = data[i];
    g->line += len;
    return known && g->line <= (counts ? sizeof g->head : LK_REDIS_GUARD_LINE) &&
           memchr(data, '\n', len) == NULL;
}

/* Bytes of a string; or of a line, with its carriage return or without; or the line feed behind that. */
static bool take(lk_redis_guard *g, const char *data, size_t len)
{
    if (g->skip > 0) {
        g->skip -= len;
        if (g->skip == 0)
            finish_value(g);
        return true;
    }
    if (g->ended)
        return *data == '\n' && end_line(g);
    g->ended = data[len - 1] == '\r';
    return take_text(g, data, g->ended ? len - 1 : len);
}

bool lk_redis_guard_allows(lk_redis_guard *g, const char *data, size_t len)
{
    for (size_t n = 1; len > 0; data += n, len -= n) {
        const char *end = g->skip == 0 && !g->ended ? memchr(data, '\r', len) : NULL;
        if (g->skip > 0)
            n = g->skip < len ? g->skip : len;
        else if (g->ended)
            n = 1;
        else
            n = end != NULL ? (size_t)(end - data) + 1 : len;
        g->bytes += n;
        if (g->bytes > bytes_max(g) || !take(g, data, n))
            return false;
    }
    return true;
}
