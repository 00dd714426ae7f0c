/* lk_printable.h: which characters change what a terminal or a log shows, and texts without them.
 *
 * They are the control characters (C0, DEL, C1), the line and paragraph separators, and the characters that reorder text
 * (Unicode's Bidi_Control). Keys and labels can't have them. What comes from outside, such as a server's error or a path, is
 * printed with escapes in their place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Return the length in bytes of the UTF-8 character at `s`; 0: it is none (RFC 3629: overlong, a surrogate, past U+10FFFF). */
static inline size_t lk_utf8_length(const unsigned char *s)
{
    const size_t n = s[0] < 0x80                   ? 1
                     : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                     : (s[0] & 0xF0) == 0xE0       ? 3
                     : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                                   : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

/** Return the code point of the UTF-8 character of `n` bytes at `s`. */
static inline uint32_t lk_utf8_code(const unsigned char *s, size_t n)
{
    uint32_t code = n == 1 ? s[0] : s[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (s[i] & 0x3F);
    return code;
}

/** True if the code point changes what a terminal or a log shows around it. */
static inline bool lk_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E ||
           code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

/** Copy `text` to `out` of `size` bytes (at least 1) as one line of printable UTF-8: a control character becomes \xNN or
 * \uNNNN, a byte that is no UTF-8 \xNN. What finds no room is cut off, never inside a character or an escape. Returns the
 * length. `out` must not overlap `text`. */
static inline size_t lk_printable(char *out, size_t size, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t length = 0;
    while (*s != '\0') {
        const size_t n = lk_utf8_length(s);
        const uint32_t code = n == 0 ? *s : lk_utf8_code(s, n);
        char escape[8];
        size_t wanted = n;
        if (n == 0 || lk_is_control(code))
            wanted = (size_t)snprintf(escape, sizeof escape, n > 1 ? "\\u%04X" : "\\x%02X",
                                      (unsigned)code & 0xFFFF);
        else
            for (size_t i = 0; i < n; i++)
                escape[i] = (char)s[i];
        if (length + wanted >= size)
            break;
        for (size_t i = 0; i < wanted; i++)
            out[length++] = escape[i];
        s += n == 0 ? 1 : n;
    }
    out[length] = '\0';
    return length;
}

/** Remove the beginning of a character that was cut off at the end of a text of `length` bytes. */
static inline void lk_trim_cut_character(char *text, size_t length)
{
    size_t at = length;
    while (at > 0 && length - at < 4 && ((unsigned char)text[at - 1] & 0xC0) == 0x80)
        at--;
    if (at > 0 && (unsigned char)text[at - 1] >= 0xC0 &&
        lk_utf8_length((const unsigned char *)text + at - 1) == 0)
        text[at - 1] = '\0';
}
