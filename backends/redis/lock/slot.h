/* slot.h: hash slots, as Redis Cluster has them, and the tag of each: what stands in braces in the name of a key that is to
 * be in a certain slot. https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
 *
 * The tag of a slot is the decimal form of the least number that hashes to it. It is part of the names of keys that all
 * clients and releases share, so it never changes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lk_atomic.h"

enum { LK_REDIS_SLOTS = 16384 };

typedef struct {
    uint16_t crc[256]; /* CRC16-XMODEM, by a byte; constant */
    atomic_uint_least32_t
        tag[LK_REDIS_SLOTS]; /* plus 1; 0: not looked for yet. Relaxed: it is always the same */
} lk_redis_slots;

void lk_redis_slots_init(lk_redis_slots *slots);
/* The slot of the lock `name_space:key`, or of the key alone where that is empty. */
uint16_t lk_redis_slot_of(const lk_redis_slots *slots, const char *name_space, const char *key,
                          size_t key_len);
/* The tag of a slot. */
uint32_t lk_redis_slot_tag(lk_redis_slots *slots, uint16_t slot);
