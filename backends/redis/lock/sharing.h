/* sharing.h: show and break, also of locks that several hold at once: shared ones, and permits. Their scripts are lua/shared_*.lua; how they stand in the
 * server is told in lua/sets.lua. A claim asks for itself each time that it looks, and whoever lets it in tells it to ask. In a
 * migrating slot of a Cluster nothing of this works, because it takes several keys at once: an attempt is UNAVAILABLE until the slot
 * has migrated. */
#pragma once

#include "claim.h"
#include "instance.h"

/* The members of a lock's queue, the first of them, into info->queue. */
locker_status lk_redis_read_queue(const redisReply *queue, locker_info *info, locker_error *err);

/* What an operator asks about a lock. */
typedef struct {
    lk_redis *r;
    uint16_t slot;
    lk_redis_keys *keys;
    int64_t until;
    locker_error *err; /* never NULL */
} lk_redis_inquiry;

/* Ask by a script, with a fourth key (NULL: none) and more arguments. OK: *reply is the server's answer, or an error. */
locker_status lk_redis_inquire(const lk_redis_inquiry *q, lk_redis_script which, const char *fourth,
                               const lk_redis_command *more, redisReply **reply);
/* Return the error for a call without an answer, of which `err` may tell. */
locker_status lk_redis_unanswered(lk_redis_outcome outcome, locker_error *err);

/* As lk_redis_show() and lk_redis_break(), of a lock whose key was seen to be a marker. *gone: it is none any more, or those whom
 * `only` names have left; nothing is told, nor has changed. Nobody is in its set: `info` tells of none, and *none is so. */
locker_status lk_redis_sharing_show(const lk_redis_inquiry *q, locker_info *info, bool *gone);
locker_status lk_redis_sharing_break(const lk_redis_inquiry *q, const locker_break_options *only,
                                     locker_info *broken, bool *gone, bool *none);
