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

/* Ten numbers, which differ in their last digit alone. */
static void look_at_tens(lk_redis_slots *slots, uint32_t tens)
{
    char text[8] = "{"; /* with room for what follows: no tag is longer */
    size_t len = 1;
    uint16_t crc = 0;
    for (uint32_t power = 100000; tens > 0 && power > 0; power /= 10)
        if (tens >= power)
            text[len++] = (char)('0' + tens / power % 10);
    (void)crc_without_brace(slots, text + 1, len - 1, &crc);
    text[len + 1] = '}';
    for (uint32_t last = 0; last < 10; last++) {
        text[len] = (char)('0' + last);
        atomic_uint_least64_t *const tag = &slots->tag[crc_byte(slots, crc, text[len]) % LK_REDIS_SLOTS];
        uint64_t bytes;
        memcpy(&bytes, text, sizeof bytes);
        if (LK_READ(*tag) == 0)
            LK_WRITE(*tag, bytes);
    }
}

/* All numbers are gone through in their order, once, so a slot that is come by for the first time has found its tag. */
lk_redis_tag lk_redis_slot_tag(lk_redis_slots *slots, uint16_t slot)
{
    if (LK_READ(slots->tag[slot]) == 0) {
        uint32_t tens = atomic_load_explicit(&slots->tens, memory_order_acquire);
        for (; LK_READ(slots->tag[slot]) == 0; tens++)
            look_at_tens(slots, tens);
        if (tens > LK_READ(slots->tens))
            atomic_store_explicit(&slots->tens, tens, memory_order_release);
    }
    return (lk_redis_tag){LK_READ(slots->tag[slot])};
}
