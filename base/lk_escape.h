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

/** What it stands for in an escape; -1: it is none. */
static inline int lk_escape_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/** What `text` was before lk_escape(), cut at `size` bytes. Returns the length. */
static inline size_t lk_unescape(char *out, size_t size, const char *text)
{
    size_t len = 0;
    for (; len < size && *text != '\0'; len++) {
        const int high = *text == '%' ? lk_escape_digit(text[1]) : -1;
        const int low = high >= 0 ? lk_escape_digit(text[2]) : -1;
        if (low >= 0)
            out[len] = (char)(high << 4 | low);
        else
            out[len] = *text;
        text += low >= 0 ? 3 : 1;
    }
    return len;
}
