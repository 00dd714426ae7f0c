/* operations.h: what the driver offers to core, as driver.h describes it (redis.c has the rest), and to the floor below. */
#pragma once

#include "net/net.h"

locker_status lk_redis_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_redis_interrupt(void *self, locker_claim *claim);
void lk_redis_withdraw(void *self, locker_claim *claim);
locker_status lk_redis_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_redis_pass(void *self, locker_claim *from, locker_claim *to);
void lk_redis_renew(void *self, locker_claim *const *grants, size_t count);
locker_status lk_redis_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                            locker_error *err);
locker_status lk_redis_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                             int64_t until, locker_info *broken, locker_error *err);
locker_status lk_redis_ping(void *self, int64_t until, locker_error *err);

/* What is told to an owner (net.h) that is an lk_redis. */
void lk_redis_on_up(void *self, const lk_redis_up *up) LK_REDIS_LOCKED;
void lk_redis_on_down(void *self) LK_REDIS_LOCKED;
void lk_redis_on_subscribed(void *self) LK_REDIS_LOCKED;
void lk_redis_on_message(void *self, const redisReply *text) LK_REDIS_LOCKED;
