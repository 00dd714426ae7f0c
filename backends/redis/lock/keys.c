/*
 * keys.c: the names of a lock's keys, and the values that say whose a lock is.
 *
 * The lock is `namespace:key` (or the key alone). Three companions stand beside it, in the same Cluster slot:
 * `{lock}:locker:queue` says who waits, `{lock}:locker:fence` counts the fencing numbers, and
 * `{lock}:locker:info` tells of a grant that lasts. When the name has a hash tag of its own, `a{b}c`, they
 * are `a{b}c:locker:queue` and so on; but a name that could be one in braces already, `{b}`, gets a dot
 * first:
 * `{b}.:locker:queue`. A name with a closing brace but without a tag can't be kept in one slot; a single
 * server does not mind.
 *
 * No two locks share a companion. What stands before the suffix is of one of three kinds, and each kind tells
 * the name: `{` name `}`; a dotted one, that is, `{`, anything, `}` and one dot or more, from which one dot
 * is to be taken; and a name that is neither, as it is. And no lock is another's companion, because no name
 * ends like one (lk_redis_check_key). The marks of break end in a value, which is random and never used
 * again.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const char info_suffix[] = ":locker:info";
static const char queue_suffix[] = ":locker:queue";
static const char fence_suffix[] = ":locker:fence";

/* Whether Redis Cluster would hash a part of the name only:
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags */
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

/* What stands behind the name: the brace that makes it a tag, the dot, or nothing. */
static char behind(const char *lock, size_t lock_len)
{
    if (!has_tag(lock, lock_len))
        return '}';
    return is_braced(lock, lock_len) ? '.' : '\0';
}

static inline size_t put_companion(char *out, const struct lk_keys *keys, char mark, const char *suffix,
                                   size_t suffix_size)
{
    size_t n = 0;
    if (mark == '}')
        out[n++] = '{';
    memcpy(out + n, keys->lock, keys->lock_len);
    n += keys->lock_len;
    if (mark != '\0')
        out[n++] = mark;
    memcpy(out + n, suffix, suffix_size);
    return n + suffix_size - 1;
}

/* `lock` stands at the start of memory; the companions follow it. */
static void add_companions(struct lk_keys *keys)
{
    const char mark = behind(keys->lock, keys->lock_len);
    char *info = keys->memory + keys->lock_len + 1;
    keys->info = info;
    keys->info_len = put_companion(info, keys, mark, info_suffix, sizeof(info_suffix));
    char *queue = info + keys->info_len + 1;
    keys->queue = queue;
    keys->queue_len = put_companion(queue, keys, mark, queue_suffix, sizeof(queue_suffix));
    char *fence = queue + keys->queue_len + 1;
    keys->fence = fence;
    keys->fence_len = put_companion(fence, keys, mark, fence_suffix, sizeof(fence_suffix));
}

bool lk_keys_init(struct lk_keys *keys, const char *name_space, const char *key, size_t key_len)
{
    const size_t prefix = name_space[0] != '\0' ? strlen(name_space) + 1 : 0;
    const size_t lock_len = prefix + key_len;
    keys->memory = malloc(lock_len + 1 + 3 * (lock_len + 2) + sizeof(info_suffix) + sizeof(queue_suffix) +
                          sizeof(fence_suffix));
    if (keys->memory == NULL)
        return false;
    if (prefix > 0) {
        memcpy(keys->memory, name_space, prefix - 1);
        keys->memory[prefix - 1] = ':';
    }
    memcpy(keys->memory + prefix, key, key_len);
    keys->memory[lock_len] = '\0';
    keys->lock = keys->memory;
    keys->lock_len = lock_len;
    add_companions(keys);
    return true;
}

bool lk_keys_init_raw(struct lk_keys *keys, const char *lock, size_t lock_len)
{
    return lk_keys_init(keys, "", lock, lock_len);
}

void lk_keys_clear(struct lk_keys *keys)
{
    free(keys->memory);
    keys->memory = NULL;
}

/* Whether the lock of that key, `namespace:key`, ends so. */
static bool ends_with(const char *name_space, const char *key, size_t key_len, const char *suffix)
{
    const size_t len = strlen(suffix), space_len = strlen(name_space);
    const size_t of_key = key_len < len ? key_len : len;
    const size_t before = len - of_key; /* what is to stand before the key, the namespace's colon last */
    if (memcmp(key + key_len - of_key, suffix + before, of_key) != 0)
        return false;
    return before == 0 || (space_len > 0 && space_len >= before - 1 && suffix[before - 1] == ':' &&
                           memcmp(name_space + space_len - (before - 1), suffix, before - 1) == 0);
}

/* A function of its own: each lock call checks its key, and nearly all need no stack for it. */
__attribute__((noinline)) static locker_status check_suffix(const char *space, const char *key,
                                                            size_t key_len, locker_error *err)
{
    if (ends_with(space, key, key_len, info_suffix) || ends_with(space, key, key_len, queue_suffix) ||
        ends_with(space, key, key_len, fence_suffix))
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "the key ends, with its namespace, in ':locker:info', ':locker:queue' or "
                                "':locker:fence', which the Redis driver "
                                "keeps for itself; choose another");
    return LOCKER_OK;
}

locker_status lk_redis_check_key(void *self, const char *key, size_t key_len, locker_error *err)
{
    const char last = key[key_len - 1]; /* the suffixes end so */
    return last == 'o' || last == 'e'
               ? check_suffix(((const struct lk_redis *)self)->set.name_space, key, key_len, err)
               : LOCKER_OK;
}

/* Eight hex digits at once: each renewal of each lease writes a value. The digits are spread over the bytes
 * of a word, the first one lowest, and each gets '0' added, and from ten on what lies between '9' and 'a'. */
static void put_hex(uint32_t n, char text[8])
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t x = __builtin_bswap32(n), ten_up;
    x = (x << 16 | x) & UINT64_C(0x0000FFFF0000FFFF);
    x = (x << 8 | x) & UINT64_C(0x00FF00FF00FF00FF);
    x = (x >> 4 & each * 0x0F) | (x << 8 & each * 0x0F00);
    ten_up = (x + each * 6) >> 4 & each;
    x += each * '0' + ten_up * ('a' - '0' - 10);
    for (unsigned i = 0; i < 8; i++, x >>= 8)
        text[i] = (char)(x & 0xFF);
}

void lk_value_text(const struct lk_redis *r, uint64_t number, char text[LK_VALUE_LEN + 1])
{
    const uint64_t low = r->base_low + number;
    const uint64_t high = r->base_high + (low < number ? 1 : 0);
    put_hex((uint32_t)(high >> 32), text);
    put_hex((uint32_t)high, text + 8);
    put_hex((uint32_t)(low >> 32), text + 16);
    put_hex((uint32_t)low, text + 24);
    text[LK_VALUE_LEN] = '\0';
}

static bool read_hex(const char *text, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < 16; i++) {
        const char c = text[i];
        if (c >= '0' && c <= '9')
            *number = *number << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *number = *number << 4 | (uint64_t)(c - 'a' + 10);
        else
            return false;
    }
    return true;
}

bool lk_value_number(const struct lk_redis *r, const char *text, uint64_t *number)
{
    uint64_t high, low;
    if (!read_hex(text, &high) || !read_hex(text + 16, &low))
        return false;
    *number = low - r->base_low;
    return high == r->base_high + (low < *number ? 1 : 0) && *number != 0;
}
