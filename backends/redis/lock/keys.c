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
#include <stdlib.h>

#include "keys.h"

/* Of `:locker:queue`; behind a tag only `:queue`, as `locker:` stands in front. */
enum { SHORT = sizeof ":locker" - 1 };

static const char info_suffix[] = ":locker:info";
static const char queue_suffix[] = ":locker:queue";
static const char old_fence_suffix[] = ":locker:fence";

/* How companions are made from the lock's name. */
typedef enum { BRACED, DOTTED, PLAIN, TAGGED } form;

/* A lock's name, which has the namespace in front. */
typedef struct {
    const char *lock;
    size_t len, space; /* of the namespace with its colon */
    lk_redis_tag tag;
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

static char *put_companion(char *out, const parts *p, form how, const char *suffix)
{
    if (how == TAGGED) {
        out = put(put(out, p->lock, p->space), "locker:", sizeof "locker:" - 1);
        out = lk_redis_tag_put(out, p->tag);
        *out++ = ':';
        out = put(out, p->lock + p->space, p->len - p->space);
        return put(out, suffix + SHORT, strlen(suffix + SHORT));
    }
    if (how == BRACED)
        *out++ = '{';
    out = put(out, p->lock, p->len);
    if (how == BRACED)
        *out++ = '}';
    if (how == DOTTED)
        *out++ = '.';
    return put(out, suffix, strlen(suffix));
}

/* Room for any of the names. */
static size_t room_of(size_t lock_len)
{
    return lock_len + LK_REDIS_COMPANION_MORE;
}

bool lk_redis_keys_init(lk_redis_keys *keys, const char *name_space, const char *key, size_t key_len,
                        lk_redis_tag tag)
{
    static const char counter[] = "locker:fence:";
    size_t space = strlen(name_space);
    space += space > 0;
    *keys = (lk_redis_keys){.len = space + key_len, .space = space, .tag = tag};
    keys->lock = malloc(5 * room_of(keys->len));
    if (keys->lock == NULL)
        return false;
    if (space > 0) {
        memcpy(keys->lock, name_space, space - 1);
        keys->lock[space - 1] = ':';
    }
    memcpy(keys->lock + space, key, key_len);
    keys->lock[keys->len] = '\0';
    keys->fence = keys->lock + keys->len + 1;
    if (space > 0)
        memcpy(keys->fence, keys->lock, space);
    memcpy(keys->fence + space, counter, sizeof counter - 1);
    *lk_redis_tag_put(keys->fence + space + sizeof counter - 1, tag) = '\0';
    return true;
}

void lk_redis_keys_clear(lk_redis_keys *keys)
{
    free(keys->lock);
    keys->lock = NULL;
}

/* The nth that is made when it is asked for. */
static const char *made(lk_redis_keys *keys, size_t n, bool earlier, const char *suffix)
{
    if (keys->made[n] == NULL) {
        const parts p = {keys->lock, keys->len, keys->space, keys->tag};
        const form how = form_of(keys->lock, keys->len);
        char *const out = keys->lock + (2 + n) * room_of(keys->len);
        *put_companion(out, &p, earlier && how == TAGGED ? BRACED : how, suffix) = '\0';
        keys->made[n] = out;
    }
    return keys->made[n];
}

const char *lk_redis_keys_queue(lk_redis_keys *keys)
{
    return made(keys, 0, false, queue_suffix);
}

const char *lk_redis_keys_info(lk_redis_keys *keys)
{
    return made(keys, 1, false, info_suffix);
}

const char *lk_redis_keys_old_fence(lk_redis_keys *keys)
{
    return made(keys, 2, true, old_fence_suffix);
}

char *lk_redis_companion_put(char *out, lk_redis_companion which, const char *lock, size_t len, size_t space,
                             lk_redis_tag tag)
{
    const parts p = {lock, len, space, tag};
    return put_companion(out, &p, form_of(lock, len), which == LK_REDIS_INFO ? info_suffix : queue_suffix);
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
