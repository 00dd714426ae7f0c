/* lk_hash.h: a hash of a text, for tables. */
#pragma once

#include <stdint.h>

/** FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
static inline uint32_t lk_hash_text(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}
