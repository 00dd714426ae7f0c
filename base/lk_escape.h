/* lk_escape.h: a text as part of a name that every service and filesystem takes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

static inline bool lk_escape_spares(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/** Letters, digits, '_', '-' and '.' stand for themselves, but for a leading '.'; every other byte becomes %XX. So different
 * texts stay different. `out` has 3 * len bytes; returns the end, where no NUL is set. */
static inline char *lk_escape(char *out, const char *text, size_t len)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (lk_escape_spares(c) && !(c == '.' && i == 0)) {
            *out++ = (char)c;
        } else {
            *out++ = '%';
            *out++ = digits[c >> 4];
            *out++ = digits[c & 15];
        }
    }
    return out;
}
