/* batch.h: commands over the locks of many claims. Each has a key or two for a lock, so it is written straight into its bytes:
 * with many leases this is most of what keeping them costs. */
#pragma once

#include "instance.h"

enum { LK_REDIS_BATCH_BYTES = 128 /* a command's own, without its script's text */ };

/* The most that a claim takes of one: its lock, a companion, its value and a number. */
static inline size_t lk_redis_batch_room(const lk_redis *r, const locker_claim *claim)
{
    const size_t lock_len = r->set.prefix.len + claim->key_len;
    return 2 * lock_len + LK_REDIS_COMPANION_MORE + LK_REDIS_VALUE_LEN +
           (size_t)4 * (LK_REDIS_NUMBER_MAX + 5);
}

/* The beginning of a script's command, as far as the number of its keys; `more`: the arguments behind the keys. */
char *lk_redis_batch_begin(char *out, const char *script, bool whole, size_t keys, size_t more);
/* A claim's lock, and that companion of it behind it, as arguments. */
char *lk_redis_batch_keys(lk_redis *r, const locker_claim *claim, lk_redis_companion which, char *out);
