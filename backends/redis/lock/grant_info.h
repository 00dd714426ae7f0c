/* grant_info.h: telling others who holds what. */
#pragma once

#include "instance.h"

/* What is told of a grant: "value since_ms token instance owner"; answers `info`. */
enum { LK_REDIS_INFO_MAX = 2 * LK_REDIS_VALUE_LEN + LOCKER_OWNER_MAX + 64 };
const char *lk_redis_info_text(lk_redis *r, const lk_redis_claim *data, char info[LK_REDIS_INFO_MAX]);
/* A claim was granted; data->since is set. With the mutex or without. */
void lk_redis_note_grant(lk_redis *r, lk_redis_claim *data);
/* It is gone: no note is sent for it any more. */
void lk_redis_note_forget_locked(lk_redis *r, lk_redis_claim *data) LK_REDIS_LOCKED;
/* Submit what is due; answers when it wants to be called again. The caller pumps. */
int64_t lk_redis_notes_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;
/* Submit all that is there. The caller pumps. */
void lk_redis_notes_flush_locked(lk_redis *r) LK_REDIS_LOCKED;
