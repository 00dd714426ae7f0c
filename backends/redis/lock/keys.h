/* keys.h: the names of a lock's keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lk_atomic.h"
#include "net/cluster.h"

/* ------------------------------------------------------------------ hash slots ---- */

/* Hash slots, as Redis Cluster has them, and the tag of each: what stands in braces in the name of a key that is to
 * be in a certain slot. https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
 *
 * The tag of a slot is the decimal form of the least number that hashes to it. It is part of the names of keys that all
 * clients and releases share, so it never changes. */

typedef struct {
    uint16_t crc[256];           /* CRC16-XMODEM, by a byte; constant, as the next two */
    uint16_t hundreds[10];       /* that of a digit and two zero bytes */
    uint8_t two[LK_REDIS_SLOTS]; /* by the slot of a text of two digits: the number, plus 1; 0: of none */
    /* in braces; 0: not looked for yet. Relaxed: it is always the same */
    atomic_uint_least64_t tag[LK_REDIS_SLOTS];
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
/* Beside a lock stand its waiters, what is known about its grant, and where earlier releases count, of which some may lock the same
 * keys. */
typedef enum { LK_REDIS_QUEUE, LK_REDIS_INFO, LK_REDIS_OLD_FENCE } lk_redis_companion;

/* The names of a lock's keys: a plain string, and the counter of its slot's fencing numbers; the others are made when they
 * are asked for. */
typedef struct {
    char *lock; /* at the start of one allocation, which holds the others too */
    char *fence;
    char *made[3];    /* companions; NULL: not made yet */
    size_t len;       /* of `lock` */
    size_t space;     /* of the namespace in it, with its colon */
    lk_redis_tag tag; /* of its slot */
} lk_redis_keys;

/* `tag`: of the lock's slot (keys.h). False when memory ran out. Free with lk_redis_keys_clear(). */
bool lk_redis_keys_init(lk_redis_keys *keys, const lk_redis_prefix *prefix, const char *key, size_t key_len,
                        lk_redis_tag tag);
void lk_redis_keys_clear(lk_redis_keys *keys);
/* The name of a companion, which is made when it is asked for. */
const char *lk_redis_keys_companion(lk_redis_keys *keys, lk_redis_companion which);

/* The mark that break leaves of a value, as the scripts name it; free it. NULL: no memory. */
char *lk_redis_keys_mark(lk_redis_keys *keys, const char *value);

/* A lock's name, and how its companions are made of it (keys.c). */
typedef enum { LK_REDIS_BRACED = 0, LK_REDIS_DOTTED, LK_REDIS_PLAIN, LK_REDIS_TAGGED } lk_redis_form;
typedef struct {
    const char *lock;
    size_t len, space; /* the namespace's with its colon */
    lk_redis_form form;
    lk_redis_tag tag; /* of its slot, where the form is TAGGED */
} lk_redis_name;
lk_redis_form lk_redis_form_of(const char *lock, size_t len);

/* Put a companion's name to `out` as an argument of a command, and return its end. The name has at most LK_REDIS_COMPANION_MORE bytes
 * more than the lock's; the bytes behind the end, up to LK_REDIS_NUMBER_MAX + 16, may change. */
enum { LK_REDIS_COMPANIONS = 3, LK_REDIS_COMPANION_MORE = 48 };
char *lk_redis_companion_argument(const lk_redis_name *name, lk_redis_companion which, char *out);

/* Whether the key's lock could be another's companion; and whether that is worth asking, which it is of few. */
bool lk_redis_key_is_reserved(const char *key, size_t key_len);
static inline bool lk_redis_key_looks_reserved(const char *key, size_t key_len)
{
    const char last = key[key_len - 1];
    return key[0] == 'l' || last == 'o' || last == 'e' || last == 'y' || memchr(key, '{', key_len) != NULL;
}
/* Whether a namespace would make that of keys that don't look so. */
bool lk_redis_namespace_is_reserved(const char *name_space);
/* True if a lock of this namespace and its counter would be in different slots. */
bool lk_redis_namespace_tears_slots(const char *name_space);
