/* sharing_inspect.h: for operators: who holds a lock that several hold, and taking it from them. */
#pragma once

#include "instance.h"

/* The lock that is asked about. */
typedef struct {
    lk_redis *r;
    uint16_t slot;
    lk_redis_keys *keys;
    int64_t until;
    locker_error *err; /* never NULL */
} lk_redis_inquiry;

/* As lk_redis_show() and lk_redis_break(), of a lock whose key was seen to be a marker. *gone: it is none any more, or those whom
 * `only` names have left; nothing is told, nor has changed. Nobody is in its set: `info` tells of none, and *none is so. */
locker_status lk_redis_sharing_show(const lk_redis_inquiry *q, locker_info *info, bool *gone);
locker_status lk_redis_sharing_break(const lk_redis_inquiry *q, const locker_break_options *only,
                                     locker_info *broken, bool *gone, bool *none);
