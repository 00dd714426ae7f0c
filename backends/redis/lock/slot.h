/* slot.h: hash slots, as Redis Cluster has them, and the tag of each: what stands in braces in the name of a key that is to
 * be in a certain slot. https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
 *
 * The tag of a slot is the decimal form of the least number that hashes to it. It is part of the names of keys that all
 * clients and releases share, so it never changes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lk_atomic.h"
#include "net/map.h"

typedef struct {
    uint16_t crc[256];           /* CRC16-XMODEM, by a byte; constant, as the next two */
    uint16_t hundreds[10];       /* that of a digit and two zero bytes */
    uint8_t two[LK_REDIS_SLOTS]; /* by the slot of a text of two digits: the number, plus 1; 0: of none */
    atomic_uint_least64_t
        tag[LK_REDIS_SLOTS]; /* in braces; 0: not looked for yet. Relaxed: it is always the same */
} lk_redis_slots;

/* What all names of a locker's keys begin with: the namespace and a colon, or nothing. */
typedef struct {
    char *text;
    size_t len;
} lk_redis_prefix;

/* A tag in braces, "{109757}" at most: its bytes, and zeros behind them. */
typedef struct {
    uint64_t text;
} lk_redis_tag;

/* On one that is all zero. */
void lk_redis_slots_init(lk_redis_slots *slots);
/* The slot of a key's lock. */
uint16_t lk_redis_slot_of(const lk_redis_slots *slots, const lk_redis_prefix *prefix, const char *key,
                          size_t key_len);
/* The tag of a slot, which is looked for once. */
uint64_t lk_redis_slot_find_tag(lk_redis_slots *slots, uint16_t slot);
static inline lk_redis_tag lk_redis_slot_tag(lk_redis_slots *slots, uint16_t slot)
{
    const uint64_t known = LK_READ(slots->tag[slot]);
    return (lk_redis_tag){known != 0 ? known : lk_redis_slot_find_tag(slots, slot)};
}

/* Writes the tag to `out`, where eight bytes are, and answers its end. */
static inline char *lk_redis_tag_put(char *out, lk_redis_tag tag)
{
    memcpy(out, &tag.text, sizeof tag.text);
    const char *const end = memchr(out, '}', sizeof tag.text);
    return out + (end - out) + 1;
}
