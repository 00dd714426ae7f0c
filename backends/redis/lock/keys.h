/* keys.h: the names of a lock's keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A plain string, what is known about its grant, who waits, and the fencing numbers. */
typedef struct {
    char *lock; /* at the start of one allocation, which holds the others too */
    char *info, *queue, *fence;
} lk_redis_keys;

/* False when memory ran out. Free with lk_redis_keys_clear(). */
bool lk_redis_keys_init(lk_redis_keys *keys, const char *name_space, const char *key, size_t key_len);
void lk_redis_keys_clear(lk_redis_keys *keys);

/* Whether the key's lock could be another's companion; and whether that is worth asking, which it is of few. */
bool lk_redis_key_is_reserved(const char *name_space, const char *key, size_t key_len);
static inline bool lk_redis_key_looks_reserved(const char *key, size_t key_len)
{
    return key[key_len - 1] == 'o' || key[key_len - 1] == 'e'; /* the suffixes end so */
}
