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

static size_t digits_of(size_t n)
{
    size_t digits = 1;
    while (n >= 10) {
        n /= 10;
        digits++;
    }
    return digits;
}

/* A line with a kind and a number. */
static char *put_number(char *out, char kind, size_t n)
{
    char *end = out + 1 + digits_of(n);
    *out = kind;
    for (char *digit = end - 1; digit > out; digit--) {
        *digit = (char)('0' + n % 10);
        n /= 10;
    }
    end[0] = '\r';
    end[1] = '\n';
    return end + 2;
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
    out = put_number(out, '*', (size_t)a->argc);
    for (int i = 0; i < a->argc; i++) {
        out = put_number(out, '$', a->len[i]);
        memcpy(out, a->argv[i], a->len[i]);
        out += a->len[i];
        *out++ = '\r';
        *out++ = '\n';
    }
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
