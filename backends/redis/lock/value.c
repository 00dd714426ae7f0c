/* value.c: see value.h. */
#include <stdlib.h>
#include <string.h>

#include "value.h"

/* Eight hex digits at once: each renewal of each lease writes a value. The digits are spread over the bytes
 * of a word, the first one lowest, and each gets '0' added, and from ten on what lies between '9' and 'a'. */
static void put_hex(uint32_t n, char text[8])
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t x = __builtin_bswap32(n), ten_up;
    x = (x << 16 | x) & UINT64_C(0x0000FFFF0000FFFF);
    x = (x << 8 | x) & UINT64_C(0x00FF00FF00FF00FF);
    x = (x >> 4 & each * 0x0F) | (x << 8 & each * 0x0F00);
    ten_up = (x + each * 6) >> 4 & each;
    x += each * '0' + ten_up * ('a' - '0' - 10);
    for (unsigned i = 0; i < 8; i++, x >>= 8)
        text[i] = (char)(x & 0xFF);
}

void lk_redis_value_text(const lk_redis_values *values, uint64_t number, char text[LK_REDIS_VALUE_LEN + 1])
{
    const uint64_t low = values->low + number;
    const uint64_t high = values->high + (low < number ? 1 : 0);
    put_hex((uint32_t)(high >> 32), text);
    put_hex((uint32_t)high, text + 8);
    put_hex((uint32_t)(low >> 32), text + 16);
    put_hex((uint32_t)low, text + 24);
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
