/* mutex.h: an instance's mutex (shared.h) for the compiler, which checks that who touches what it guards holds it. Each
 * part reaches the mutex by a way of its own; to the compiler it is one. */
#pragma once

#include <lk_mutex.h>

extern lk_mutex lk_redis_mutex; /* there is no such object */

/* The caller holds it. A function whose name ends in _unlocking lets go of it meanwhile. */
#define LK_REDIS_LOCKED LK_REQUIRES(lk_redis_mutex)
