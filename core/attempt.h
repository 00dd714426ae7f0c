/* attempt.h: the inside of a lock call: standing in the FIFO, attempting, waiting. */
#pragma once

#include "state.h"

/** A call, with its options resolved. */
typedef struct lk_request {
    locker *l;
    const locker_lock_options *options;
    const char *key;
    size_t key_len;
    int64_t start;      /**< when it came */
    int64_t deadline;   /**< when it gives up; LOCKER_NEVER */
    bool try;           /**< it doesn't wait for another holder */
    bool start_is_past; /**< the call has waited or attempted since `start` */
    bool lost_early;    /**< its grant was lost before it had its handle */
    lk_claim *claim;
    locker_handle **out; /**< set once it is held */
    lk_wait wait;
    locker_error last; /**< why the latest attempt failed */
} lk_request;

/** Stand in the key's FIFO. OK: promoted (it contends now), or granted by a hand-over. Else why not. */
locker_status lk_fifo_wait_unlocking(lk_request *r) LK_REQUIRES(r->l->mutex);
/** Make attempts until there is a grant (OK), or a reason to stop; then the driver has withdrawn. */
locker_status lk_attempt_unlocking(lk_request *r) LK_REQUIRES(r->l->mutex);
