/* fresh.h: a fresh file in the place of one that is held. */
#pragma once

#include "beside.h"
#include "instance.h"
#include "name.h"
#include "tickets.h"

/* Put one, in whose record the token is, at the name of the open file `held`, whose record said `record`, and of which we have
 * byte 2. LK_FILE_AGAIN: it changed hands meanwhile. */
locker_status lk_file_replace(lk_file *self, const lk_file_name *name, int parent, int held,
                              const lk_file_record *record, locker_error *err);
/* List the queue of the claim's file, and the holders there that were broken. 0, or an errno. The caller closes the tickets and frees
 * broken->bytes, also after an error. */
int lk_file_list_broken(const lk_file *self, const lk_file_claim *c, lk_file_tickets *t,
                        lk_file_broken *broken);
/* The claim is kept out of its file by those who share it: if they all were broken, and just have not let go of it, it gets a
 * fresh one. LK_FILE_AGAIN: it does; BUSY: somebody holds it; MET_BREAKER: another puts one there just now. */
locker_status lk_file_leave_broken(lk_file *self, const lk_file_name *name, const lk_file_claim *c,
                                   locker_error *err);
