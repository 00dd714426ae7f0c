/* recovery.h: keeping locks over a loss of the server's data: a restart without them, a failover to a replica that lacks the
 * last, FLUSHALL. On by the parameter `recovery`, a time that is not shorter than any lease and the same for all clients.
 *
 * Beside the locks stands a mark, `namespace:locker:recovery`, of the life of the server that its data are known to be of: its
 * run and replication ids, as the handshake of a connection learned them. Each script is told the life that its connection is to,
 * and does nothing unless the mark names it. Whoever connects, and finds none or another's, writes it, together with the time at
 * which `recovery` will be over: until then nothing is granted, and the holders, whose leases can't last for longer, set
 * their locks again by their renewals (lua/recovery.lua). That is enough: a holder whose deadline lies ahead held the lock when the
 * data were lost, because no other client was granted it before that deadline. The holder renews before the deadline, or is LOST, and
 * the deadline is at most `recovery` after the loss. */
#pragma once

#include "instance.h"

/* Fill in what the instance needs of it; before it connects. False: no memory. */
bool lk_redis_recovery_init(lk_redis *r);
void lk_redis_recovery_clear(lk_redis *r);

/* A command connection is up: the server's life is made known there ahead of all other commands. */
void lk_redis_recovery_meet_locked(lk_redis *r) LK_REDIS_LOCKED;
/* The same for open, which says what is wrong. */
locker_status lk_redis_recovery_check(lk_redis *r, locker_error *err);

/* Whether the reply says that the mark is not there, where the server was asked to write it and could not: another connection would
 * not help, so it is asked again on this one, now and then. */
bool lk_redis_recovery_is_unwritten_locked(lk_redis *r, const redisReply *reply) LK_REDIS_LOCKED;

/* OK, or CONFIG: a lease so long would outlast it. */
locker_status lk_redis_recovery_check_ttl(const lk_redis *r, int64_t ttl_ns, locker_error *err);

/* Whether the reply says that nothing is granted yet, that the mark is not there and can't be written, or that another time is to be
 * waited; then *status is the answer, and *left_ms when to ask again (0: it does not pass). Without the mutex. */
bool lk_redis_recovery_refuses(lk_redis *r, const redisReply *reply, int64_t *left_ms, locker_status *status,
                               locker_error *err);
