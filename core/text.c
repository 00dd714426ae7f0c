/* text.c: what keys and labels may be, and the hash of a key, which drivers get with it. */
#include <string.h>

#include "lk_printable.h"
#include "text.h"

/* Whether eight bytes are ASCII without control characters.
 * (https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord) */
static bool plain_word(const unsigned char *s)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t word;
    memcpy(&word, s, sizeof word);
    const uint64_t below_space = word - each * 0x20;
    const uint64_t is_delete = (word ^ each * 0x7F) - each;
    return ((word | below_space | is_delete) & each * 0x80) == 0;
}

/* Whether all is, as in nearly every key; eight bytes at a time, the last ones some perhaps again. */
static bool plain(const unsigned char *s, size_t n)
{
    size_t i = 0;
    if (n < 8)
        return false; /* not worth the trouble */
    while (i < n - 8 && plain_word(s + i))
        i += 8;
    return i >= n - 8 && plain_word(s + n - 8);
}

locker_status lk_text_check(const char *text, size_t most, const char *what, size_t *length,
                            locker_error *err)
{
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = text == NULL ? 0 : strnlen(text, most + 1);
    if (n == 0 || n > most)
        return lk_invalid(err, "%s is %s: give 1 to %zu bytes", what,
                          text == NULL ? "missing"
                          : n == 0     ? "empty"
                                       : "too long",
                          most);
    if (length != NULL)
        *length = n;
    if (plain(s, n))
        return LOCKER_OK;
    for (size_t i = 0, step; i < n; i += step) {
        step = lk_utf8_length(s + i);
        if (step == 0)
            return lk_invalid(err, "%s is not UTF-8 (byte %zu is 0x%02x)", what, i + 1, s[i]);
        if (step == 1 && lk_is_control(s[i]))
            return lk_invalid(err, "%s has a control character (byte %zu is 0x%02x)", what, i + 1, s[i]);
        if (lk_is_control(lk_utf8_code(s + i, step)))
            return lk_invalid(err, "%s has a control character (U+%04X at byte %zu): leave it out", what,
                              (unsigned)lk_utf8_code(s + i, step), i + 1);
    }
    return LOCKER_OK;
}

static const uint64_t golden = UINT64_C(0x9E3779B97F4A7C15); /* 2^64 over the golden ratio */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * golden;
    return hash ^ hash >> 32;
}

/* Eight bytes at a time: each lock call hashes its key. A product's low bits know nothing of the high ones of what was
 * multiplied, where the end of the key stands: so its high bits are the hash. */
uint32_t locker_key_hash(const char *key, size_t key_len)
{
    uint64_t hash = key_len, word = 0;
    if (key_len < sizeof word) {
        for (size_t i = 0; i < key_len; i++)
            word = word << 8 | (unsigned char)key[i];
    } else {
        for (size_t i = 0; i < key_len - sizeof word; i += sizeof word) {
            memcpy(&word, key + i, sizeof word);
            hash = mix(hash, word);
        }
        memcpy(&word, key + key_len - sizeof word, sizeof word); /* the last ones, some perhaps again */
    }
    return (uint32_t)(mix(hash, word) * golden >> 32);
}

bool lk_text_is_slip(const char *given, const char *name)
{
    while (*given != '\0' && *given == *name) {
        given++;
        name++;
    }
    if (*given == '\0' || *name == '\0')
        return strlen(given) + strlen(name) == 1;
    return strcmp(given + 1, name + 1) == 0 || strcmp(given + 1, name) == 0 || strcmp(given, name + 1) == 0 ||
           (given[0] == name[1] && given[1] == name[0] && strcmp(given + 2, name + 2) == 0);
}
