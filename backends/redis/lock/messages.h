/* messages.h: wake-ups, on this instance's own channel. */
#pragma once

#include "instance.h"

/* Of net.h, with an lk_redis as the owner. */
void lk_redis_on_message(void *self, const redisReply *text) LK_REDIS_LOCKED;
