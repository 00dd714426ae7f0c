/* argv.c: building commands, argument by argument: no text is ever parsed by the server as a format. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void lk_argv_add(struct lk_argv *a, const char *text, size_t len)
{
    if (a->argc >= LK_ARGV_MAX)
        return; /* no command of this driver is as long */
    a->argv[a->argc] = text;
    a->len[a->argc] = len;
    a->argc++;
}

void lk_argv_text(struct lk_argv *a, const char *text)
{
    lk_argv_add(a, text, strlen(text));
}

static size_t digits_of(uint64_t n)
{
    size_t digits = 1;
    while (n >= 10) {
        n /= 10;
        digits++;
    }
    return digits;
}

/* Most are lengths, of two digits at most. */
static char *put_digits(char *out, uint64_t n)
{
    char digits[20]; /* of the largest */
    size_t at = sizeof(digits);
    for (; n >= 100; n /= 10)
        digits[--at] = (char)('0' + n % 10);
    if (n >= 10)
        *out++ = (char)('0' + n / 10);
    *out++ = (char)('0' + n % 10);
    while (at < sizeof(digits))
        *out++ = digits[at++];
    return out;
}

void lk_number_text(char *out, uint64_t n)
{
    *put_digits(out, n) = '\0';
}

char *lk_put_end(char *out)
{
    out[0] = '\r';
    out[1] = '\n';
    return out + 2;
}

char *lk_put_line(char *out, char kind, size_t n)
{
    *out = kind;
    return lk_put_end(put_digits(out + 1, n));
}

static char *put_argument(char *out, const char *text, size_t len)
{
    out = lk_put_line(out, '$', len);
    memcpy(out, text, len);
    return lk_put_end(out + len);
}

char *lk_put_text(char *out, const char *text)
{
    return put_argument(out, text, strlen(text));
}

char *lk_put_number(char *out, size_t n)
{
    out = lk_put_line(out, '$', digits_of(n));
    return lk_put_end(put_digits(out, n));
}

size_t lk_argv_size(const struct lk_argv *a)
{
    size_t size = 3 + digits_of((size_t)a->argc);
    for (int i = 0; i < a->argc; i++)
        size += 3 + digits_of(a->len[i]) + a->len[i] + 2;
    return size;
}

char *lk_argv_put(const struct lk_argv *a, char *out)
{
    out = lk_put_line(out, '*', (size_t)a->argc);
    for (int i = 0; i < a->argc; i++)
        out = put_argument(out, a->argv[i], a->len[i]);
    return out;
}

bool lk_argv_format(const struct lk_argv *a, char **bytes, size_t *len)
{
    *len = lk_argv_size(a);
    *bytes = malloc(*len);
    if (*bytes == NULL)
        return false;
    (void)lk_argv_put(a, *bytes);
    return true;
}
