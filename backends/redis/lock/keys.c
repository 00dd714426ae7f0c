/* keys.c: the names of a lock's keys.
 *
 * The lock is `namespace:key` (or the key alone). Two companions stand beside it, in the same slot of Redis Cluster:
 * `{lock}:locker:queue` says who waits, and `{lock}:locker:info` tells of a grant that lasts. When the name has a hash tag of
 * its own, `a{b}c`, they are `a{b}c:locker:queue` and so on; but a name that could be one in braces already, `{b}`, gets a dot
 * first: `{b}.:locker:queue`. A name with a closing brace but without a tag, `a}b`, can't be put in braces: its companions
 * bring the tag of its slot along, and stand under the namespace: `namespace:locker:{4711}:a}b:queue`.
 *
 * The counter of fencing numbers is the slot's, `namespace:locker:fence:{4711}`, under the namespace as well, so that one
 * pattern of ACL covers all. (A namespace with an opening brace alone makes names whose slot is another; a single server
 * does not mind.)
 *
 * No two locks share a companion. What stands before the suffix is of one of four kinds, and each kind tells the name: `{`
 * name `}`; a dotted one, that is, `{`, anything, `}` and one dot or more, from which one dot is to be taken; one that begins
 * with `locker:` behind the namespace; and a name that is none of these, as it is. And no lock is another's companion,
 * because no name looks like one (lk_redis_key_is_reserved). The marks of break end in a value, which is random. */
#include <stdio.h>
#include <stdlib.h>

#include "keys.h"

/* Of `:locker:queue`; behind a tag only `:queue`, as `locker:` stands in front. */
enum { SHORT = sizeof ":locker" - 1 };

static const char info_suffix[] = ":locker:info";
static const char queue_suffix[] = ":locker:queue";
static const char old_fence_suffix[] = ":locker:fence";

/* How companions are made from the lock's name. */
typedef enum { BRACED, DOTTED, PLAIN, TAGGED } form;

typedef struct {
    const char *space, *key;
    size_t space_len, key_len; /* of the namespace with its colon */
    uint32_t tag;
} parts;

/* Whether Redis Cluster would hash a part of the name only (slot.h). */
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

static form form_of(const char *lock, size_t len)
{
    if (memchr(lock, '}', len) == NULL)
        return BRACED;
    if (!has_tag(lock, len))
        return TAGGED;
    return is_braced(lock, len) ? DOTTED : PLAIN;
}

static inline char *put(char *out, const char *text, size_t len)
{
    memcpy(out, text, len);
    return out + len;
}

static char *put_space(char *out, const parts *p)
{
    if (p->space_len == 0)
        return out;
    out = put(out, p->space, p->space_len - 1);
    *out++ = ':';
    return out;
}

static inline char *put_lock(char *out, const parts *p)
{
    return put(put_space(out, p), p->key, p->key_len);
}

static char *put_tagged(char *out, const parts *p, const char *suffix)
{
    out = put_space(out, p);
    out += sprintf(out, "locker:{%u}:", (unsigned)p->tag);
    return put(put(out, p->key, p->key_len), suffix + SHORT, strlen(suffix + SHORT));
}

static inline char *put_companion(char *out, const parts *p, form how, const char *suffix)
{
    if (how == TAGGED)
        return put_tagged(out, p, suffix);
    if (how == BRACED)
        *out++ = '{';
    out = put_lock(out, p);
    if (how == BRACED)
        *out++ = '}';
    if (how == DOTTED)
        *out++ = '.';
    return put(out, suffix, strlen(suffix));
}

static parts parts_of(const char *name_space, const char *key, size_t key_len, uint32_t tag)
{
    const size_t space = strlen(name_space);
    return (parts){name_space, key, space + (space > 0), key_len, tag};
}

static char *end_name(char *out)
{
    *out = '\0';
    return out + 1;
}

static char *put_fence(char *out, const parts *p)
{
    static const char name[] = "locker:fence:{";
    char digits[10];
    size_t at = sizeof digits;
    uint32_t rest = p->tag;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    out = put(put(put_space(out, p), name, sizeof name - 1), digits + at, sizeof digits - at);
    *out++ = '}';
    return out;
}

bool lk_redis_keys_init(lk_redis_keys *keys, const char *name_space, const char *key, size_t key_len,
                        uint32_t tag)
{
    const parts p = parts_of(name_space, key, key_len, tag);
    const size_t lock_len = p.space_len + key_len;
    keys->lock = malloc(lock_len + 1 + 4 * (lock_len + LK_REDIS_COMPANION_MORE));
    if (keys->lock == NULL)
        return false;
    keys->info = end_name(put_lock(keys->lock, &p));
    const form how = form_of(keys->lock, lock_len);
    keys->queue = end_name(put_companion(keys->info, &p, how, info_suffix));
    keys->fence = end_name(put_companion(keys->queue, &p, how, queue_suffix));
    keys->old_fence = end_name(put_fence(keys->fence, &p));
    (void)end_name(put_companion(keys->old_fence, &p, how == TAGGED ? BRACED : how, old_fence_suffix));
    return true;
}

void lk_redis_keys_clear(lk_redis_keys *keys)
{
    free(keys->lock);
    keys->lock = NULL;
}

char *lk_redis_companion_put(char *out, lk_redis_companion which, const char *name_space, const char *key,
                             size_t key_len, uint32_t tag)
{
    const parts p = parts_of(name_space, key, key_len, tag);
    const size_t lock_len = (size_t)(put_lock(out, &p) - out);
    return put_companion(out, &p, form_of(out, lock_len),
                         which == LK_REDIS_INFO ? info_suffix : queue_suffix);
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
    for (size_t i = 0; i < key_len; i++)
        if (begins_with(key + i, key_len - i, part))
            return true;
    return false;
}

/* What begins so, or holds it behind another namespace, is a counter or the companion of a name without a tag. */
bool lk_redis_key_is_reserved(const char *key, size_t key_len)
{
    return begins_with(key, key_len, "locker:") || contains(key, key_len, ":locker:fence:{") ||
           contains(key, key_len, ":locker:{") || ends_with(key, key_len, info_suffix) ||
           ends_with(key, key_len, queue_suffix) || ends_with(key, key_len, old_fence_suffix);
}

bool lk_redis_namespace_is_reserved(const char *name_space)
{
    const size_t len = strlen(name_space);
    return strcmp(name_space, "locker") == 0 || begins_with(name_space, len, "locker:") ||
           ends_with(name_space, len, ":locker") || contains(name_space, len, ":locker:");
}
