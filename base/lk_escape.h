/* lk_escape.h: a text as part of a name that every service and filesystem takes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

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

/** What `text` was before lk_escape(), cut at `size` bytes. Returns the length. */
static inline size_t lk_unescape(char *out, size_t size, const char *text)
{
    size_t len = 0;
    for (unsigned code; len < size && *text != '\0'; len++) {
        const bool coded = sscanf(text, "%%%2X", &code) == 1;
        out[len] = coded ? (char)code : *text;
        text += coded ? 3 : 1;
    }
    return len;
}
