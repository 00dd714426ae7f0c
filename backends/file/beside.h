/* beside.h: the bytes of a lock file by which several hold it at once. */
#pragma once

#include "instance.h"

/* One by one they come in: what is looked at meanwhile stays so, as far as it is about those who hold beside others. 0, or an
 * errno; EAGAIN: one who was on its way in was stopped, or many come. `patient`: it is worth a long wait. */
int lk_file_gate_enter(int fd, bool patient);
void lk_file_gate_leave(int fd);

enum { LK_FILE_USE_UNKNOWN = -1 };
/* With how many permits others use the file; 0: with none; or UNKNOWN. */
int32_t lk_file_use_of_others(int fd);
/* Inside the gate: say that the file is used with so many permits. 0, or an errno; EBUSY: it is used otherwise, *in_use as in
 * locker_other_use(). */
int lk_file_use_join(int fd, int32_t permits, int32_t *in_use);

/* The byte that a holder has for itself, which says which slot it has; of one that shares the lock, 0. */
off_t lk_file_holder_byte(int32_t slot, uint64_t token);

/* Bytes of holders that were broken and have not let go of the file: they hold nothing. */
typedef struct {
    off_t *bytes;
    size_t count;
} lk_file_broken;

/* Whether anybody holds it beside others, who wasn't broken. */
bool lk_file_is_shared(int fd, const lk_file_broken *broken);

/* Return a slot that the claim could have now, though not the least. -1: all are held, or that can't be told, or it takes more than so
 * many queries of the kernel. The answer is certain inside the gate, and a hint elsewhere. */
int32_t lk_file_permit_find(lk_file *self, const lk_file_claim *c, const lk_file_broken *broken,
                            int32_t queries);
/* Remember a slot of the claim's key to begin the next search with. */
void lk_file_permit_note(lk_file *self, const lk_file_claim *c, int32_t slot);
