/* batch.c: see batch.h. */
#include "batch.h"

char *lk_redis_batch_begin(char *out, const char *script, bool whole, size_t keys, size_t more)
{
    out = lk_redis_put_line(out, '*', 3 + keys + more);
    out = lk_redis_put_text(out, whole ? "EVAL" : "EVALSHA");
    out = lk_redis_put_text(out, script);
    return lk_redis_put_number(out, keys);
}

char *lk_redis_batch_lock(const lk_redis *r, const locker_claim *claim, char *out)
{
    const size_t name_space = strlen(r->set.name_space);
    out = lk_redis_put_line(out, '$', name_space + (name_space > 0) + claim->key_len);
    memcpy(out, r->set.name_space, name_space);
    out += name_space;
    if (name_space > 0)
        *out++ = ':';
    memcpy(out, claim->key, claim->key_len);
    return lk_redis_put_end(out + claim->key_len);
}

/* Its length stands before it, and is known behind it. */
char *lk_redis_batch_companion(lk_redis *r, const locker_claim *claim, lk_redis_companion which, char *out)
{
    char *const name = out + LK_REDIS_NUMBER_MAX + 3;
    const uint32_t tag = lk_redis_slot_tag(&r->slots, lk_redis_claim_of(claim)->slot);
    const char *const end =
        lk_redis_companion_put(name, which, r->set.name_space, claim->key, claim->key_len, tag);
    const size_t len = (size_t)(end - name);
    out = lk_redis_put_line(out, '$', len);
    memmove(out, name, len);
    return lk_redis_put_end(out + len);
}
