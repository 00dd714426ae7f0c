/* messages.h: wake-ups, on this instance's own channel. */
#ifndef LK_REDIS_MESSAGES_H
#define LK_REDIS_MESSAGES_H

#include "instance.h"

/* Of net.h, with an lk_redis as the owner. */
void lk_redis_on_message(void *self, const redisReply *text) LK_REDIS_LOCKED;

#endif
