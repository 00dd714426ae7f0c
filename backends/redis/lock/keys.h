/* keys.h: the names of a lock's keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A plain string, what is known about its grant, who waits, and the fencing numbers of its slot. */
typedef struct {
    char *lock; /* at the start of one allocation, which holds the others too */
    char *info, *queue, *fence;
    char *old_fence; /* where releases before 0.2 counted; such may lock the same keys */
} lk_redis_keys;

/* `tag`: of the lock's slot (slot.h). False when memory ran out. Free with lk_redis_keys_clear(). */
bool lk_redis_keys_init(lk_redis_keys *keys, const char *name_space, const char *key, size_t key_len,
                        uint32_t tag);
void lk_redis_keys_clear(lk_redis_keys *keys);

/* Writes the name of one of those companions to `out`, without a NUL, and answers its end. It takes LK_REDIS_COMPANION_MORE
 * bytes at most beside the namespace and the key. */
typedef enum { LK_REDIS_INFO, LK_REDIS_QUEUE } lk_redis_companion;
enum { LK_REDIS_COMPANION_MORE = 48 };
char *lk_redis_companion_put(char *out, lk_redis_companion which, const char *name_space, const char *key,
                             size_t key_len, uint32_t tag);

/* Whether the key's lock could be another's companion; and whether that is worth asking, which it is of few. */
bool lk_redis_key_is_reserved(const char *key, size_t key_len);
static inline bool lk_redis_key_looks_reserved(const char *key, size_t key_len)
{
    const char last = key[key_len - 1];
    return key[0] == 'l' || last == 'o' || last == 'e' || memchr(key, '{', key_len) != NULL;
}
/* Whether a namespace would make that of keys that don't look so. */
bool lk_redis_namespace_is_reserved(const char *name_space);
