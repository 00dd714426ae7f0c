/* grant.h: locking a file, and making that a grant. */
#pragma once

#include "instance.h"
#include "name.h"

/* Let go of everything: the claim is as acquire first saw it. */
void lk_file_reset(lk_file *self, lk_file_claim *c, bool locked);
/* Have a waiting claim try again soon: another keeps it out for a moment, of whose end no watch tells. */
void lk_file_retry_later(const lk_file *self, lk_file_claim *c);
/* Lock the file, and make that a grant. BUSY with the descriptor still open: others have it. */
locker_status lk_file_take(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err);
/* Before all else: that it wants one of so many permits. CONFIG: the file is used otherwise. */
locker_status lk_file_join(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err);
/* The claim met those who hold the file beside others, `in_use` as in locker_other_use(). BUSY, or CONFIG; or LK_FILE_AGAIN:
 * they all had been broken, and there is a fresh file. */
locker_status lk_file_kept_out(lk_file *self, const lk_file_name *name, const lk_file_claim *c,
                               int32_t in_use, locker_error *err);
