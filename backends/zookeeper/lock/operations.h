/* operations.h: what zookeeper.c hands out: the driver's operations, for core, and its ear, for the floor below. */
#pragma once

#include "instance.h"

extern const lk_zk_owner lk_zk_connection_events;

locker_status lk_zk_check_key(void *self, const char *key, size_t key_len, locker_error *err);
int64_t lk_zk_dispatch(void *self);
locker_status lk_zk_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_zk_interrupt(void *self, locker_claim *claim);
void lk_zk_withdraw(void *self, locker_claim *claim);
locker_status lk_zk_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_zk_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                         locker_error *err);
locker_status lk_zk_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                          int64_t until, locker_info *broken, locker_error *err);
locker_status lk_zk_ping(void *self, int64_t until, locker_error *err);
