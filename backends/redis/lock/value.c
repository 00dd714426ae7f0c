/* value.c: see value.h. */
#include <string.h>

#include "value.h"

enum { HALF = LK_REDIS_VALUE_LEN / 2 };

static void put_hex(const lk_redis_values *values, uint64_t n, char text[HALF])
{
    for (int i = HALF; (i -= 2) >= 0; n >>= 8)
        memcpy(text + i, values->hex[n & 255], 2);
}

void lk_redis_values_init(lk_redis_values *values, const uint64_t random[2])
{
    for (int byte = 0; byte < 256; byte++) {
        values->hex[byte][0] = "0123456789abcdef"[byte / 16];
        values->hex[byte][1] = "0123456789abcdef"[byte % 16];
    }
    put_hex(values, random[0], values->name);
    put_hex(values, random[0], values->name + HALF);
    values->name[LK_REDIS_VALUE_LEN] = '\0';
    atomic_init(&values->counter, 0);
    values->low = random[1] >> 1; /* so that a number never carries into the half that names the instance */
}

void lk_redis_value_text(const lk_redis_values *values, uint64_t number, char text[LK_REDIS_VALUE_LEN + 1])
{
    memcpy(text, values->name, HALF);
    put_hex(values, values->low + number, text + HALF);
    text[LK_REDIS_VALUE_LEN] = '\0';
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool lk_redis_value_number(const lk_redis_values *values, const char *text, uint64_t *number)
{
    uint64_t low = 0;
    if (strncmp(text, values->name, HALF) != 0)
        return false;
    for (int i = HALF; i < LK_REDIS_VALUE_LEN; i++) {
        const int digit = digit_of(text[i]);
        if (digit < 0)
            return false;
        low = low << 4 | (unsigned)digit;
    }
    *number = low - values->low;
    return low > values->low && digit_of(text[LK_REDIS_VALUE_LEN]) < 0;
}

bool lk_redis_read_number(const char **text, char end, int64_t *number)
{
    const char *at = *text;
    int64_t n = 0;
    while (*at >= '0' && *at <= '9' && at < *text + LK_REDIS_DIGITS_MAX)
        n = 10 * n + (*at++ - '0');
    if (at == *text || *at != end)
        return false;
    *number = n;
    *text = at + 1;
    return true;
}
