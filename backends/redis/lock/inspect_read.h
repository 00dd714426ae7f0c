/* inspect_read.h: what the answers of looks at locks say of those who wait. */
#pragma once

#include "instance.h"

void lk_redis_copy_owner(char *out, const char *text);
/* The members of a lock's queue, the first of them, into info->queue. */
locker_status lk_redis_read_queue(const redisReply *queue, locker_info *info, locker_error *err);
