/* value.c: see value.h. */
#include <stdlib.h>
#include <string.h>

#include "value.h"

static void put_hex(uint64_t n, char text[16])
{
    for (int i = 16; i-- > 0; n >>= 4)
        text[i] = "0123456789abcdef"[n & 15];
}

void lk_redis_value_text(const lk_redis_values *values, uint64_t number, char text[LK_REDIS_VALUE_LEN + 1])
{
    const uint64_t low = values->low + number;
    const uint64_t high = values->high + (low < number ? 1 : 0);
    put_hex(high, text);
    put_hex(low, text + 16);
    text[LK_REDIS_VALUE_LEN] = '\0';
}

bool lk_redis_value_number(const lk_redis_values *values, const char *text, uint64_t *number)
{
    char half[17] = "";
    if (strspn(text, "0123456789abcdef") != LK_REDIS_VALUE_LEN)
        return false;
    memcpy(half, text, 16);
    const uint64_t high = strtoull(half, NULL, 16), low = strtoull(text + 16, NULL, 16);
    *number = low - values->low;
    return high == values->high + (low < *number ? 1 : 0) && *number != 0;
}

bool lk_redis_read_number(const char **text, int64_t *number)
{
    const size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > LK_REDIS_DIGITS_MAX || (*text)[digits] != ' ')
        return false;
    *number = strtoll(*text, NULL, 10);
    *text += digits + 1;
    return true;
}
