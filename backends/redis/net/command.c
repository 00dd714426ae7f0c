/* command.c: see command.h. */
#include "command.h"

char *lk_redis_put_digits(char *out, uint64_t n)
{
    char digits[LK_REDIS_NUMBER_MAX];
    size_t at = sizeof digits;
    for (; n >= 10; n /= 10)
        digits[--at] = (char)('0' + n % 10);
    *out++ = (char)('0' + n);
    while (at < sizeof digits)
        *out++ = digits[at++];
    return out;
}

const char *lk_redis_number_text(char *out, uint64_t n)
{
    *lk_redis_put_digits(out, n) = '\0';
    return out;
}

static char *put_argument(char *out, const char *text, size_t len)
{
    out = lk_redis_put_line(out, '$', len);
    memcpy(out, text, len);
    return lk_redis_put_end(out + len);
}

char *lk_redis_put_text(char *out, const char *text)
{
    return put_argument(out, text, strlen(text));
}

char *lk_redis_put_number(char *out, size_t n)
{
    char text[LK_REDIS_NUMBER_MAX];
    return put_argument(out, text, (size_t)(lk_redis_put_digits(text, n) - text));
}

size_t lk_redis_command_room(const lk_redis_command *a)
{
    size_t room = 3 + LK_REDIS_NUMBER_MAX;
    for (int i = 0; i < a->argc; i++)
        room += 3 + LK_REDIS_NUMBER_MAX + a->len[i] + 2;
    return room;
}

char *lk_redis_command_put(const lk_redis_command *a, char *out)
{
    out = lk_redis_put_line(out, '*', (size_t)a->argc);
    for (int i = 0; i < a->argc; i++)
        out = put_argument(out, a->argv[i], a->len[i]);
    return out;
}
