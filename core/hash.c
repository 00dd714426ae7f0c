/* hash.c: the hash of a key, which drivers get with it. */
#include <string.h>

#include <locker/driver.h>

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15); /* 2^64 over the golden ratio */
    return hash ^ hash >> 32;
}

/* A product's low bits know nothing of the high ones of what was multiplied, where the end of the key stands:
 * so its high bits are the hash. */
static uint32_t finish(uint64_t hash)
{
    return (uint32_t)(hash * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

/* Eight bytes at a time: each lock call hashes its key. */
uint32_t locker_key_hash(const char *key, size_t key_len)
{
    uint64_t hash = key_len, word = 0;
    if (key_len < sizeof word) {
        for (size_t i = 0; i < key_len; i++)
            word = word << 8 | (unsigned char)key[i];
        return finish(mix(hash, word));
    }
    for (size_t i = 0; i < key_len - sizeof word; i += sizeof word) {
        memcpy(&word, key + i, sizeof word);
        hash = mix(hash, word);
    }
    memcpy(&word, key + key_len - sizeof word, sizeof word); /* the last ones, some perhaps again */
    return finish(mix(hash, word));
}
