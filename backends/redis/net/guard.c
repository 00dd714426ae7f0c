/* guard.c: bounds on what a server may send us; see guard.h. */
#include "guard.h"

/* One value is complete, and with it the arrays that it was the last of. */
static inline void finish_value(lk_redis_guard *g)
{
    while (g->depth > 0 && --g->left[g->depth - 1] == 0)
        g->depth--;
    if (g->depth == 0)
        g->bytes = g->elements = 0;
}

static bool open_array(lk_redis_guard *g)
{
    const size_t count = (size_t)g->number;
    if (count > LK_REDIS_GUARD_ELEMENTS - g->elements || g->depth == LK_REDIS_GUARD_DEPTH)
        return false;
    g->elements += count;
    g->left[g->depth++] = count;
    return true;
}

/* A line is complete. */
static inline bool end_line(lk_redis_guard *g)
{
    const char kind = g->kind;
    g->line = 0;
    if ((kind != '$' && kind != '*') || g->negative || (kind == '*' && g->number == 0)) {
        finish_value(g);
        return true;
    }
    if (kind == '*')
        return open_array(g);
    g->skip = (size_t)g->number + 2;
    return g->number <= LK_REDIS_GUARD_REPLY;
}

static bool is_text(char kind)
{
    return kind == '+' || kind == '-' || kind == ':';
}

static bool begin_line(lk_redis_guard *g, char kind)
{
    g->kind = kind;
    g->negative = g->ended = false;
    g->number = 0;
    return is_text(kind) || kind == '$' || kind == '*';
}

/* The length of a line whose text ends before `i`, if it is there as a whole; else 0. */
static size_t ended_at(const char *data, size_t len, size_t i)
{
    return i + 1 < len && data[i] == '\r' && data[i + 1] == '\n' ? i + 2 : 0;
}

/* Begin a line that is there as a whole; its length. 0: not so, or something is odd about it, which is seen
 * byte by byte. */
static size_t whole_line(lk_redis_guard *g, const char *data, size_t len)
{
    static const size_t longest = sizeof "$1048576" - 1; /* LK_REDIS_GUARD_REPLY */
    const char kind = *data;
    const size_t most = is_text(kind) ? LK_REDIS_GUARD_LINE - 1 : longest, end = len < most ? len : most;
    size_t i = 1;
    int64_t number = 0;
    if (!begin_line(g, kind))
        return 0;
    if (is_text(kind)) {
        while (i < end && data[i] > '\r')
            i++;
    } else {
        for (; i < end && data[i] >= '0' && data[i] <= '9'; i++)
            number = number * 10 + (data[i] - '0');
        g->number = number;
    }
    return ended_at(data, len, i);
}

/* The byte behind those of the line so far. */
static bool take_byte(lk_redis_guard *g, char byte)
{
    if (g->line++ == 0)
        return begin_line(g, byte);
    if (byte == '\n')
        return g->ended && end_line(g);
    if (g->ended || g->line > LK_REDIS_GUARD_LINE)
        return false;
    g->ended = byte == '\r';
    if (g->ended || (g->kind != '$' && g->kind != '*'))
        return true;
    if (byte == '-' && g->line == 2) {
        g->negative = true;
        return true;
    }
    g->number = g->number * 10 + (byte - '0');
    return byte >= '0' && byte <= '9' && g->number <= LK_REDIS_GUARD_REPLY;
}

bool lk_redis_guard_allows(lk_redis_guard *g, const char *data, size_t len)
{
    while (len > 0) {
        const size_t line = g->skip > 0 || g->line > 0 ? 0 : whole_line(g, data, len);
        const size_t n = line > 0 ? line : g->skip == 0 ? 1 : g->skip < len ? g->skip : len;
        g->bytes += n;
        if (g->bytes > LK_REDIS_GUARD_REPLY)
            return false;
        if (line > 0) {
            if (!end_line(g))
                return false;
        } else if (g->skip == 0) {
            if (!take_byte(g, *data))
                return false;
        } else if ((g->skip -= n) == 0) {
            finish_value(g);
        }
        data += n;
        len -= n;
    }
    return true;
}
