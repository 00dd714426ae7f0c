/* slot.c: see slot.h. */
#include <stdbool.h>
#include <string.h>

#include "net/command.h"
#include "slot.h"

static inline uint16_t crc_byte(const lk_redis_slots *slots, uint16_t crc, char byte)
{
    return (uint16_t)(crc << 8) ^ slots->crc[crc >> 8 ^ (unsigned char)byte];
}

static inline uint16_t crc_digit(const lk_redis_slots *slots, uint16_t crc, uint32_t digit)
{
    return crc_byte(slots, crc, (char)('0' + digit));
}

static uint16_t crc_zeros(const lk_redis_slots *slots, uint16_t crc, unsigned count)
{
    while (count-- > 0)
        crc = crc_byte(slots, crc, '\0');
    return crc;
}

void lk_redis_slots_init(lk_redis_slots *slots)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned crc = byte << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
        slots->crc[byte] = (uint16_t)crc;
    }
    for (uint32_t digit = 0; digit < 10; digit++)
        slots->hundreds[digit] = crc_zeros(slots, crc_digit(slots, 0, digit), 2);
    for (uint8_t n = 0; n < 100; n++)
        slots->two[crc_digit(slots, crc_digit(slots, 0, n / 10), n % 10) % LK_REDIS_SLOTS] = n + 1;
}

/* A name in its pieces. */
typedef struct {
    const lk_redis_prefix *prefix;
    const char *key;
    size_t len; /* of all */
} parts;

static char at(const parts *name, size_t i)
{
    const size_t prefix = name->prefix->len;
    return i < prefix ? name->prefix->text[i] : name->key[i - prefix];
}

/* Where the first of these stands from `from` on; `len`: nowhere. */
static size_t find(const parts *name, size_t from, char wanted)
{
    while (from < name->len && at(name, from) != wanted)
        from++;
    return from;
}

/* A part of the name in braces, if it has one that is not empty, is hashed alone. */
static uint16_t crc_of_braced(const lk_redis_slots *slots, const parts *name)
{
    const size_t open = find(name, 0, '{'), close = find(name, open + 1, '}');
    const bool has_tag = close < name->len && close > open + 1;
    uint16_t crc = 0;
    for (size_t i = has_tag ? open + 1 : 0; i < (has_tag ? close : name->len); i++)
        crc = crc_byte(slots, crc, at(name, i));
    return crc;
}

/* The CRC as it goes on over a text. False: there is a brace in it. */
static bool crc_without_brace(const lk_redis_slots *slots, const char *text, size_t len, uint16_t *crc)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '{')
            return false;
        *crc = crc_byte(slots, *crc, text[i]);
    }
    return true;
}

uint16_t lk_redis_slot_of(const lk_redis_slots *slots, const lk_redis_prefix *prefix, const char *key,
                          size_t key_len)
{
    uint16_t crc = 0;
    if (crc_without_brace(slots, prefix->text, prefix->len, &crc) &&
        crc_without_brace(slots, key, key_len, &crc))
        return crc % LK_REDIS_SLOTS;
    const parts name = {prefix, key, prefix->len + key_len};
    return crc_of_braced(slots, &name) % LK_REDIS_SLOTS;
}

static uint16_t crc_of_number(const lk_redis_slots *slots, uint32_t n)
{
    return crc_digit(slots, n >= 10 ? crc_of_number(slots, n / 10) : 0, n % 10);
}

/* The least number that hashes to the slot. What the last digits do to a CRC is the same whatever stands before them, so the last
 * two are not tried one by one: the slot, and the CRC with zero bytes in their place, tell which they have to be. */
static uint32_t number_of(const lk_redis_slots *slots, uint16_t slot)
{
    for (uint32_t n = 0; n < 10; n++)
        if (crc_of_number(slots, n) % LK_REDIS_SLOTS == slot)
            return n;
    if (slots->two[slot] > 10)
        return slots->two[slot] - 1u;
    for (uint32_t thousands = 0;; thousands++) {
        const uint16_t head = crc_zeros(slots, thousands > 0 ? crc_of_number(slots, thousands) : 0, 3);
        for (uint32_t digit = thousands > 0 ? 0 : 1; digit < 10; digit++) {
            const uint8_t two = slots->two[(head ^ slots->hundreds[digit] ^ slot) % LK_REDIS_SLOTS];
            if (two > 0)
                return 1000 * thousands + 100 * digit + two - 1;
        }
    }
}

uint64_t lk_redis_slot_find_tag(lk_redis_slots *slots, uint16_t slot)
{
    char text[2 + LK_REDIS_NUMBER_MAX] = "{";
    uint64_t tag; /* none is longer */
    *lk_redis_put_digits(text + 1, number_of(slots, slot)) = '}';
    memcpy(&tag, text, sizeof tag);
    LK_WRITE(slots->tag[slot], tag);
    return tag;
}
