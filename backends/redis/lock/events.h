/* events.h: what an instance does when its connections come up and go down, and when messages come. */
#pragma once

#include "instance.h"

/* Of net.h, with an lk_redis as the owner. */
void lk_redis_on_up(void *self, const lk_redis_up *up) LK_REDIS_LOCKED;
void lk_redis_on_down(void *self) LK_REDIS_LOCKED;
void lk_redis_on_subscribed(void *self) LK_REDIS_LOCKED;
void lk_redis_on_message(void *self, const redisReply *text) LK_REDIS_LOCKED;
