/* number.c: numbers and patterns as Redis reads them. */
#include "bytes.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 20, FLOAT_MAX = 255 };

static bool add_digit(uint64_t *number, char digit, uint64_t most)
{
    if (digit < '0' || digit > '9' || *number > (most - (uint64_t)(digit - '0')) / 10)
        return false;
    *number = *number * 10 + (uint64_t)(digit - '0');
    return true;
}

bool lk_sr_integer(lk_sr_text text, int64_t *number)
{
    const bool negative = text.len > 1 && text.data[0] == '-';
    const size_t first = negative ? 1 : 0;
    const uint64_t most = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t value = 0;
    if (text.len == 0 || text.len > DIGITS_MAX || (text.data[first] == '0' && text.len > 1))
        return false;
    for (size_t i = first; i < text.len; i++) {
        if (!add_digit(&value, text.data[i], most))
            return false;
    }
    *number = (int64_t)(negative ? 0 - value : value);
    return true;
}

bool lk_sr_float(lk_sr_text text, double *number)
{
    char copy[FLOAT_MAX + 1], *end;
    if (text.len == 0 || text.len > FLOAT_MAX || isspace((unsigned char)text.data[0]))
        return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    errno = 0;
    *number = strtod(copy, &end);
    return (size_t)(end - copy) == text.len && !isnan(*number) &&
           !(errno == ERANGE && (isinf(*number) || fpclassify(*number) == FP_ZERO));
}

/* `[...]`; moves the pattern behind it. */
static bool in_set(lk_sr_text *pattern, char byte)
{
    size_t i = 1;
    bool found = false;
    const bool negated = pattern->len > 1 && pattern->data[1] == '^';
    for (i += negated; i < pattern->len && pattern->data[i] != ']'; i++) {
        char from = pattern->data[i];
        if (from == '\\' && i + 1 < pattern->len) {
            found = found || pattern->data[++i] == byte;
        } else if (i + 2 < pattern->len && pattern->data[i + 1] == '-') {
            char to = pattern->data[i + 2];
            found = found || (byte >= (from < to ? from : to) && byte <= (from < to ? to : from));
            i += 2;
        } else {
            found = found || from == byte;
        }
    }
    i += i < pattern->len;
    pattern->data += i;
    pattern->len -= i;
    return found != negated;
}

/* One byte against what the pattern begins with; moves the pattern behind that. */
static bool takes_byte(lk_sr_text *pattern, char byte)
{
    if (pattern->data[0] == '[')
        return in_set(pattern, byte);
    const bool escaped = pattern->data[0] == '\\' && pattern->len > 1;
    const char wanted = pattern->data[escaped ? 1 : 0];
    pattern->data += escaped ? 2 : 1;
    pattern->len -= escaped ? 2 : 1;
    return wanted == byte || (wanted == '?' && !escaped);
}

bool lk_sr_matches(lk_sr_text pattern, lk_sr_text text)
{
    while (pattern.len > 0) {
        if (pattern.data[0] == '*') {
            const lk_sr_text rest = {pattern.data + 1, pattern.len - 1};
            for (size_t i = 0; i <= text.len; i++) {
                if (lk_sr_matches(rest, (lk_sr_text){text.data + i, text.len - i}))
                    return true;
            }
            return false;
        }
        if (text.len == 0 || !takes_byte(&pattern, text.data[0]))
            return false;
        text.data++;
        text.len--;
    }
    return text.len == 0;
}
