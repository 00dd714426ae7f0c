/* value.c: see value.h. */
#include <stdlib.h>
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

bool lk_redis_value_number(const lk_redis_values *values, const char *text, uint64_t *number)
{
    if (strspn(text, "0123456789abcdef") != LK_REDIS_VALUE_LEN || memcmp(text, values->name, HALF) != 0)
        return false;
    const uint64_t low = strtoull(text + HALF, NULL, 16);
    *number = low - values->low;
    return low > values->low;
}

bool lk_redis_read_number(const char **text, char end, int64_t *number)
{
    const size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > LK_REDIS_DIGITS_MAX || (*text)[digits] != end)
        return false;
    *number = strtoll(*text, NULL, 10);
    *text += digits + 1;
    return true;
}
