/* several.h: a handle of several keys: one of the parts, which are handles of a key each. */
#pragma once

#include "state.h"

locker_state lk_several_state(const lk_several *all);
int64_t lk_several_remaining_ms(const lk_several *all);
int lk_several_fd(lk_several *all);
locker_status lk_several_unlock(lk_several *all, locker_error *err);
void lk_several_free(lk_several *all);
/** The index-th part; NULL past the last. */
const locker_handle *lk_several_part(const lk_several *all, size_t index);
size_t lk_several_count(const lk_several *all);

/* What handle.c and lock.c have for parts. */

/** locker_unlock() of a part. */
locker_status lk_part_unlock(locker_handle *part, locker_error *err);
/** Release a part in the background, from a callback. */
void lk_part_let_go(locker_handle *part);
/** When a call with these options that begins now gives up waiting, in ns of the locker's clock; of a try, LOCKER_NEVER. */
int64_t lk_deadline(const locker *l, const locker_lock_options *options);
/** locker_lock() until that `deadline`. */
locker_status lk_part_lock(locker *l, const char *key, const locker_lock_options *options, int64_t deadline,
                           locker_handle **out, locker_error *err);
