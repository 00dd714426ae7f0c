/* keys.c: hash slots, and the names of a lock's keys. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "net/command.h"

/* ------------------------------------------------------------------ hash slots ---- */

static inline uint16_t crc_byte(const lk_redis_slots *slots, uint16_t crc, char byte)
{
    return (uint16_t)(crc << 8) ^ slots->crc[crc >> 8 ^ (unsigned char)byte];
}

static inline uint16_t crc_digit(const lk_redis_slots *slots, uint16_t crc, uint32_t digit)
{
    return crc_byte(slots, crc, (char)('0' + digit));
}

static uint16_t crc_zeros(const lk_redis_slots *slots, uint16_t crc, unsigned count)
{
    while (count-- > 0)
        crc = crc_byte(slots, crc, '\0');
    return crc;
}

void lk_redis_slots_init(lk_redis_slots *slots)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned crc = byte << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
        slots->crc[byte] = (uint16_t)crc;
    }
    for (uint32_t digit = 0; digit < 10; digit++)
        slots->hundreds[digit] = crc_zeros(slots, crc_digit(slots, 0, digit), 2);
    for (uint8_t n = 0; n < 100; n++)
        slots->two[crc_digit(slots, crc_digit(slots, 0, n / 10), n % 10) % LK_REDIS_SLOTS] = n + 1;
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

static uint16_t crc_of_number(const lk_redis_slots *slots, uint32_t n)
{
    return crc_digit(slots, n >= 10 ? crc_of_number(slots, n / 10) : 0, n % 10);
}

/* The least number that hashes to the slot. What the last digits do to a CRC is the same whatever stands before them, so the last
 * two are not tried one by one: the slot, and the CRC with zero bytes in their place, tell which they have to be. */
static uint32_t number_of(const lk_redis_slots *slots, uint16_t slot)
{
    for (uint32_t n = 0; n < 10; n++)
        if (crc_of_number(slots, n) % LK_REDIS_SLOTS == slot)
            return n;
    if (slots->two[slot] > 10)
        return slots->two[slot] - 1u;
    for (uint32_t thousands = 0;; thousands++) {
        const uint16_t head = crc_zeros(slots, thousands > 0 ? crc_of_number(slots, thousands) : 0, 3);
        for (uint32_t digit = thousands > 0 ? 0 : 1; digit < 10; digit++) {
            const uint8_t two = slots->two[(head ^ slots->hundreds[digit] ^ slot) % LK_REDIS_SLOTS];
            if (two > 0)
                return 1000 * thousands + 100 * digit + two - 1;
        }
    }
}

uint64_t lk_redis_slot_find_tag(lk_redis_slots *slots, uint16_t slot)
{
    char text[2 + LK_REDIS_NUMBER_MAX] = "{";
    uint64_t tag; /* none is longer */
    *lk_redis_put_digits(text + 1, number_of(slots, slot)) = '}';
    memcpy(&tag, text, sizeof tag);
    LK_WRITE(slots->tag[slot], tag);
    return tag;
}

/* ------------------------------------------------------------------ names of keys ---- */

/* The names of a lock's keys.
 *
 * The lock is `namespace:key` (or the key alone). Two companions stand beside it, in the same slot of Redis Cluster:
 * `{lock}:locker:queue` says who waits, and `{lock}:locker:info` tells of a grant that lasts. When the name has a hash tag of
 * its own, `a{b}c`, they are `a{b}c:locker:queue` and so on; but a name that could be one in braces already, `{b}`, gets a dot
 * first: `{b}.:locker:queue`. A name with a closing brace but without a tag, `a}b`, can't be put in braces: its companions
 * bring the tag of its slot along, and stand under the namespace: `namespace:locker:{4711}:a}b:queue`.
 *
 * The counter of fencing numbers is the slot's, `namespace:locker:fence:{4711}`, under the namespace as well, so that one
 * pattern of ACL covers all. A namespace with an opening brace that begins no tag makes names whose slot is another; a single
 * server does not mind, and for a cluster it is refused.
 *
 * No two locks share a companion. What stands before the suffix is of one of four kinds, and each kind tells the name: `{`
 * name `}`; a dotted one, that is, `{`, anything, `}` and one dot or more, from which one dot is to be taken; one that begins
 * with `locker:` behind the namespace; and a name that is none of these, as it is. And no lock is another's companion,
 * because no name looks like one (lk_redis_key_is_reserved). The marks of break end in a value, which is random. */
/* Of `:locker:queue`; behind a tag only `:queue`, as `locker:` stands in front. */
enum { SHORT = sizeof ":locker" - 1 };

static const struct {
    char text[16]; /* which are copied whole: a length that is constant makes no call */
    size_t len;
} suffixes[] = {
    [LK_REDIS_QUEUE] = {":locker:queue", sizeof ":locker:queue" - 1},
    [LK_REDIS_INFO] = {":locker:info", sizeof ":locker:info" - 1},
    [LK_REDIS_OLD_FENCE] = {":locker:fence", sizeof ":locker:fence" - 1},
};

/* Whether Redis Cluster would hash a part of the name only (keys.h). */
static bool has_tag(const char *name, size_t len)
{
    const char *open = memchr(name, '{', len);
    if (open == NULL)
        return false;
    const size_t rest = len - (size_t)(open + 1 - name);
    const char *end = memchr(open + 1, '}', rest);
    return end != NULL && end > open + 1;
}

/* `{`, anything, `}`, and then dots or none. */
static bool is_braced(const char *name, size_t len)
{
    while (len > 0 && name[len - 1] == '.')
        len--;
    return len > 1 && name[0] == '{' && name[len - 1] == '}';
}

lk_redis_form lk_redis_form_of(const char *lock, size_t len)
{
    if (memchr(lock, '}', len) == NULL)
        return LK_REDIS_BRACED;
    if (!has_tag(lock, len))
        return LK_REDIS_TAGGED;
    return is_braced(lock, len) ? LK_REDIS_DOTTED : LK_REDIS_PLAIN;
}

static inline char *put(char *out, const char *text, size_t len)
{
    memcpy(out, text, len);
    return out + len;
}

static char *put_tagged(const lk_redis_name *name, lk_redis_companion which, char *out)
{
    out = put(put(out, name->lock, name->space), "locker:", sizeof "locker:" - 1);
    out = lk_redis_tag_put(out, name->tag);
    *out++ = ':';
    out = put(out, name->lock + name->space, name->len - name->space);
    return put(out, suffixes[which].text + SHORT, suffixes[which].len - SHORT);
}

static char *companion_put(const lk_redis_name *name, lk_redis_companion which, char *out)
{
    if (name->form == LK_REDIS_TAGGED)
        return put_tagged(name, which, out);
    if (name->form == LK_REDIS_BRACED)
        *out++ = '{';
    out = put(out, name->lock, name->len);
    if (name->form == LK_REDIS_BRACED)
        *out++ = '}';
    if (name->form == LK_REDIS_DOTTED)
        *out++ = '.';
    memcpy(out, suffixes[which].text, sizeof suffixes[which].text);
    return out + suffixes[which].len;
}

/* The name is put behind where its length will stand. */
char *lk_redis_companion_argument(const lk_redis_name *name, lk_redis_companion which, char *out)
{
    char *const at = out + LK_REDIS_NUMBER_MAX + 3;
    const size_t len = (size_t)(companion_put(name, which, at) - at);
    out = lk_redis_put_line(out, '$', len);
    memmove(out, at, len);
    return lk_redis_put_end(out + len);
}

/* Room for any of the names. */
static size_t room_of(size_t lock_len)
{
    return lock_len + LK_REDIS_COMPANION_MORE;
}

bool lk_redis_keys_init(lk_redis_keys *keys, const lk_redis_prefix *prefix, const char *key, size_t key_len,
                        lk_redis_tag tag)
{
    static const char counter[] = "locker:fence:";
    const size_t space = prefix->len;
    *keys = (lk_redis_keys){.len = space + key_len, .space = space, .tag = tag};
    keys->lock = malloc((2 + LK_REDIS_COMPANIONS) * room_of(keys->len));
    if (keys->lock == NULL)
        return false;
    *put(put(keys->lock, prefix->text, space), key, key_len) = '\0';
    keys->fence = keys->lock + keys->len + 1;
    char *const end = put(put(keys->fence, prefix->text, space), counter, sizeof counter - 1);
    *lk_redis_tag_put(end, tag) = '\0';
    return true;
}

void lk_redis_keys_clear(lk_redis_keys *keys)
{
    free(keys->lock);
    keys->lock = NULL;
}

const char *lk_redis_keys_companion(lk_redis_keys *keys, lk_redis_companion which)
{
    if (keys->made[which] == NULL) {
        const lk_redis_form form = lk_redis_form_of(keys->lock, keys->len);
        const bool earlier = which == LK_REDIS_OLD_FENCE && form == LK_REDIS_TAGGED;
        const lk_redis_name name = {keys->lock, keys->len, keys->space, earlier ? LK_REDIS_BRACED : form,
                                    keys->tag};
        char *const out = keys->lock + (2 + (size_t)which) * room_of(keys->len);
        *companion_put(&name, which, out) = '\0';
        keys->made[which] = out;
    }
    return keys->made[which];
}

char *lk_redis_keys_mark(lk_redis_keys *keys, const char *value)
{
    const char *const queue = lk_redis_keys_companion(keys, LK_REDIS_QUEUE);
    const int len = (int)(strlen(queue) - strlen("queue"));
    const size_t room = (size_t)len + sizeof "broken:" + strlen(value);
    char *const mark = malloc(room);
    if (mark != NULL)
        (void)snprintf(mark, room, "%.*sbroken:%s", len, queue, value);
    return mark;
}

static bool ends_with(const char *key, size_t key_len, const char *suffix)
{
    const size_t len = strlen(suffix);
    return key_len >= len && memcmp(key + key_len - len, suffix, len) == 0;
}

static bool begins_with(const char *key, size_t key_len, const char *prefix)
{
    const size_t len = strlen(prefix);
    return key_len >= len && memcmp(key, prefix, len) == 0;
}

static bool contains(const char *key, size_t key_len, const char *part)
{
    return memmem(key, key_len, part, strlen(part)) != NULL;
}

/* What begins so, or holds it behind another namespace, is a counter, the companion of a name without a tag, or the mark of
 * `recovery`. */
bool lk_redis_key_is_reserved(const char *key, size_t key_len)
{
    const bool has_brace = memchr(key, '{', key_len) != NULL;
    return begins_with(key, key_len, "locker:") ||
           (has_brace &&
            (contains(key, key_len, ":locker:fence:{") || contains(key, key_len, ":locker:{") ||
             contains(key, key_len, ":locker:shared:") || contains(key, key_len, ":locker:recovery:{"))) ||
           ends_with(key, key_len, ":locker:recovery") ||
           ends_with(key, key_len, suffixes[LK_REDIS_INFO].text) ||
           ends_with(key, key_len, suffixes[LK_REDIS_QUEUE].text) ||
           ends_with(key, key_len, suffixes[LK_REDIS_OLD_FENCE].text);
}

bool lk_redis_namespace_is_reserved(const char *name_space)
{
    const size_t len = strlen(name_space);
    return strcmp(name_space, "locker") == 0 || begins_with(name_space, len, "locker:") ||
           ends_with(name_space, len, ":locker") || contains(name_space, len, ":locker:");
}

bool lk_redis_namespace_tears_slots(const char *name_space)
{
    return strchr(name_space, '{') != NULL && !has_tag(name_space, strlen(name_space));
}
