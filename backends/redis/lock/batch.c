/* batch.c: see batch.h. */
#include "batch.h"

char *lk_redis_batch_begin(char *out, const char *script, bool whole, size_t keys, size_t more)
{
    out = lk_redis_put_line(out, '*', 3 + keys + more);
    out = lk_redis_put_text(out, whole ? "EVAL" : "EVALSHA");
    out = lk_redis_put_text(out, script);
    return lk_redis_put_number(out, keys);
}

char *lk_redis_batch_keys(lk_redis *r, const locker_claim *claim, lk_redis_companion which, char *out)
{
    const lk_redis_prefix *const prefix = &r->set.prefix;
    const size_t len = prefix->len + claim->key_len;
    char *const lock = lk_redis_put_line(out, '$', len);
    memcpy(lock, prefix->text, prefix->len);
    memcpy(lock + prefix->len, claim->key, claim->key_len);
    lk_redis_name name = {.lock = lock, .len = len, .space = prefix->len};
    const lk_redis_claim *const data = lk_redis_claim_of(claim);
    if (!data->braced)
        name.form = lk_redis_form_of(lock, len);
    if (name.form == LK_REDIS_TAGGED)
        name.tag = lk_redis_slot_tag(&r->slots, data->slot);
    return lk_redis_companion_argument(&name, which, lk_redis_put_end(lock + len));
}
