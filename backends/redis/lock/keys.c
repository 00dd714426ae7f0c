/* keys.c: the names of a lock's keys.
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
 * ends like one (lk_redis_key_is_reserved). The marks of break end in a value, which is random. */
#include <stdlib.h>
#include <string.h>

#include "keys.h"

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

/* Answers where the next one is to stand. */
static inline char *put_companion(char *out, const char *lock, size_t lock_len, char mark, const char *suffix,
                                  size_t suffix_size)
{
    if (mark == '}')
        *out++ = '{';
    memcpy(out, lock, lock_len);
    out += lock_len;
    if (mark != '\0')
        *out++ = mark;
    memcpy(out, suffix, suffix_size);
    return out + suffix_size;
}

bool lk_redis_keys_init(lk_redis_keys *keys, const char *name_space, const char *key, size_t key_len)
{
    const size_t prefix = name_space[0] != '\0' ? strlen(name_space) + 1 : 0;
    const size_t lock_len = prefix + key_len;
    keys->lock = malloc(lock_len + 1 + 3 * (lock_len + 2) + sizeof info_suffix + sizeof queue_suffix +
                        sizeof fence_suffix);
    if (keys->lock == NULL)
        return false;
    if (prefix > 0) {
        memcpy(keys->lock, name_space, prefix - 1);
        keys->lock[prefix - 1] = ':';
    }
    memcpy(keys->lock + prefix, key, key_len);
    keys->lock[lock_len] = '\0';
    const char mark = behind(keys->lock, lock_len);
    keys->info = keys->lock + lock_len + 1;
    keys->queue = put_companion(keys->info, keys->lock, lock_len, mark, info_suffix, sizeof info_suffix);
    keys->fence = put_companion(keys->queue, keys->lock, lock_len, mark, queue_suffix, sizeof queue_suffix);
    (void)put_companion(keys->fence, keys->lock, lock_len, mark, fence_suffix, sizeof fence_suffix);
    return true;
}

void lk_redis_keys_clear(lk_redis_keys *keys)
{
    free(keys->lock);
    keys->lock = NULL;
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

bool lk_redis_key_is_reserved(const char *name_space, const char *key, size_t key_len)
{
    return ends_with(name_space, key, key_len, info_suffix) ||
           ends_with(name_space, key, key_len, queue_suffix) ||
           ends_with(name_space, key, key_len, fence_suffix);
}
