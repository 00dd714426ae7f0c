/* batch.c: see batch.h. */
#include "batch.h"

char *lk_redis_batch_begin(char *out, const char *script, bool whole, size_t keys, size_t more)
{
    out = lk_redis_put_line(out, '*', 3 + keys + more);
    out = lk_redis_put_text(out, whole ? "EVAL" : "EVALSHA");
    out = lk_redis_put_text(out, script);
    return lk_redis_put_number(out, keys);
}

static char *put_lock(const lk_redis *r, const locker_claim *claim, char *out)
{
    const size_t space = strlen(r->set.name_space);
    out = lk_redis_put_line(out, '$', space + (space > 0) + claim->key_len);
    if (space > 0) {
        memcpy(out, r->set.name_space, space);
        out += space;
        *out++ = ':';
    }
    memcpy(out, claim->key, claim->key_len);
    return out + claim->key_len;
}

char *lk_redis_batch_keys(lk_redis *r, const locker_claim *claim, lk_redis_companion which, char *out)
{
    char *const end = put_lock(r, claim, out);
    const size_t space = strlen(r->set.name_space), prefix = space + (space > 0),
                 len = prefix + claim->key_len;
    const lk_redis_tag tag = lk_redis_slot_tag(&r->slots, lk_redis_claim_of(claim)->slot);
    out = lk_redis_put_end(end);
    /* The companion's length stands before it, and is known behind it: of two digits as a rule. */
    char *const name = out + sizeof "$99\r\n" - 1;
    const size_t size = (size_t)(lk_redis_companion_put(name, which, end - len, len, prefix, tag) - name);
    char number[LK_REDIS_NUMBER_MAX + 3];
    char *const after = lk_redis_put_line(number, '$', size);
    const size_t head = (size_t)(after - number);
    if (out + head != name)
        memmove(out + head, name, size);
    memcpy(out, number, head);
    return lk_redis_put_end(out + head + size);
}
