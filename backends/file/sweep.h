/* sweep.h: removing lock files that nobody uses. */
#pragma once

#include "instance.h"

typedef struct {
    size_t most;                    /* lock files that are left alone */
    size_t keep;                    /* how many are left when there are more */
    size_t list;                    /* how many one part of a sweep looks at */
    void (*between)(lk_file *self); /* called every some files, with no lock held; NULL: nothing is */
} lk_file_sweep_limits;

/* Nobody else sees the instance yet. */
void lk_file_sweep_init(lk_file *self);
/* A fresh file was granted, or a grant of one has ended: now and then this asks dispatch for a sweep. */
void lk_file_sweep_count_locked(lk_file *self, bool fresh) LK_REQUIRES(self->mutex);
/* Do a part of the sweep that is due, if one is. Return true if there is more to do. `between` as above. */
bool lk_file_sweep_go_on(lk_file *self, void (*between)(lk_file *self));
/* Remove the grant's fresh file if sweeps are far behind. The caller is about to let go of the grant, and has found the file at its
 * name. */
void lk_file_sweep_own(lk_file *self, const lk_file_claim *c);
/* Finish what is due; the instance is being closed. */
void lk_file_sweep_close(lk_file *self);
/* Sweep a part of the directory, from `at` on; 0 is the beginning. Return where the next part begins; 0: this was the last part. */
long lk_file_sweep_part(lk_file *self, const lk_file_sweep_limits *limits, long at);
