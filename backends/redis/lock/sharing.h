/* sharing.h: locks that several hold at once: shared ones, and permits. Their scripts are lua/shared_*.lua; how they stand in the
 * server is told in lua/sets.lua. A claim asks for itself each time that it looks, and whoever lets it in tells it to ask. In a
 * migrating slot of a Cluster nothing of this works, because it takes several keys at once: an attempt is UNAVAILABLE until the slot
 * has migrated. */
#pragma once

#include "claim.h"
#include "instance.h"

/* What the server answered of an attempt. */
typedef struct {
    enum { LK_REDIS_IS_IN, LK_REDIS_IS_OUT, LK_REDIS_OTHER_USE, LK_REDIS_MAKES_NO_SENSE } what;
    int64_t token;   /* IN */
    int64_t left_ms; /* OUT: until it may be let in */
    int64_t state;   /* ... and how it stands, as the script *acquire* tells */
    int64_t counter;
    int32_t permits; /* OTHER_USE: it is in use with so many; 0: as a lock */
} lk_redis_sharing_answer;

/* One attempt of the claim that `member` names; `waits`: it may stand in the queue, `known`: the server may know its value. */
lk_redis_outcome lk_redis_sharing_ask(lk_redis_node *node, lk_redis_call *call, lk_redis_keys *keys,
                                      const char *member, const char *old_counter, bool waits, bool known,
                                      locker_error *err);
/* The answer; of one that is in, slot and epoch are set. */
lk_redis_sharing_answer lk_redis_sharing_read(locker_claim *claim, const redisReply *reply);
/* It was granted: word of a break finds it. */
void lk_redis_sharing_watch(lk_redis *r, lk_redis_claim *data);

/* ------------------------------------------------------------------ queues ---- */

void lk_redis_copy_owner(char *out, const char *text);
/* The members of a lock's queue, the first of them, into info->queue. */
locker_status lk_redis_read_queue(const redisReply *queue, locker_info *info, locker_error *err);

/* ------------------------------------------------------------------ show and break ---- */

/* For operators: who holds a lock that several hold, and taking it from them. */

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
