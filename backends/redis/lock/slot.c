/* slot.c: see slot.h. */
#include <stdbool.h>
#include <string.h>

#include "slot.h"

void lk_redis_slots_init(lk_redis_slots *slots)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned crc = byte << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
        slots->crc[byte] = (uint16_t)crc;
    }
}

static inline uint16_t crc_byte(const lk_redis_slots *slots, uint16_t crc, char byte)
{
    return (uint16_t)(crc << 8) ^ slots->crc[crc >> 8 ^ (unsigned char)byte];
}

static uint16_t crc_text(const lk_redis_slots *slots, uint16_t crc, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        crc = crc_byte(slots, crc, text[i]);
    return crc;
}

/* A name in its pieces. */
typedef struct {
    const char *space, *key;
    size_t space_len, len; /* of the space with its colon, and of all */
} parts;

static char at(const parts *name, size_t i)
{
    if (i >= name->space_len)
        return name->key[i - name->space_len];
    return i + 1 < name->space_len ? name->space[i] : ':';
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

uint16_t lk_redis_slot_of(const lk_redis_slots *slots, const char *name_space, const char *key,
                          size_t key_len)
{
    const size_t space = strlen(name_space), colon = space > 0;
    const parts name = {name_space, key, space + colon, space + colon + key_len};
    if (memchr(name_space, '{', space) != NULL || memchr(key, '{', key_len) != NULL)
        return crc_of_braced(slots, &name) % LK_REDIS_SLOTS;
    const uint16_t crc = crc_text(slots, crc_text(slots, 0, name_space, space), ":", colon);
    return crc_text(slots, crc, key, key_len) % LK_REDIS_SLOTS;
}

/* All numbers are gone through from 0 on, so each slot that is come by for the first time has found its tag as well: ten
 * numbers that differ in their last digit alone at a time. */
static void look_for_tag(lk_redis_slots *slots, uint16_t slot)
{
    for (uint32_t tens = 0; LK_READ(slots->tag[slot]) == 0; tens++) {
        char digits[10];
        size_t at = sizeof digits;
        for (uint32_t rest = tens; rest > 0; rest /= 10)
            digits[--at] = (char)('0' + rest % 10);
        const uint16_t crc = crc_text(slots, 0, digits + at, sizeof digits - at);
        for (uint32_t last = 0; last < 10; last++) {
            atomic_uint_least32_t *const tag =
                &slots->tag[crc_byte(slots, crc, (char)('0' + last)) % LK_REDIS_SLOTS];
            if (LK_READ(*tag) == 0)
                LK_WRITE(*tag, tens * 10 + last + 1);
        }
    }
}

uint32_t lk_redis_slot_tag(lk_redis_slots *slots, uint16_t slot)
{
    if (LK_READ(slots->tag[slot]) == 0)
        look_for_tag(slots, slot);
    return LK_READ(slots->tag[slot]) - 1;
}
