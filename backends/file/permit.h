/* permit.h: which slot a permit gets. */
#pragma once

#include "beside.h"
#include "instance.h"

/* Return a slot that the claim could have now, though not the least. -1: all are held, or that can't be told, or it takes more than so
 * many queries of the kernel. The answer is certain inside the gate, and a hint elsewhere. */
int32_t lk_file_permit_find(lk_file *self, const lk_file_claim *c, const lk_file_broken *broken,
                            int32_t queries);
/* Remember a slot of the claim's key to begin the next search with. */
void lk_file_permit_note(lk_file *self, const lk_file_claim *c, int32_t slot);
