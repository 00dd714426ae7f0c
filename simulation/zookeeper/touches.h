/* touches.h: the sessions that a follower has heard of since the leader's last PING, whose reply tells of them
 * (LearnerSessionTracker). */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int64_t session;
    int32_t timeout_ms;
} lk_simzk_touch;

/* All zero: none. */
typedef struct {
    lk_simzk_touch *items;
    size_t count, room;
} lk_simzk_touches;

void lk_simzk_touches_add(lk_simzk_touches *touches, int64_t session, int32_t timeout_ms);
void lk_simzk_touches_remove(lk_simzk_touches *touches, int64_t session);
/* All of them, of which none is left then. */
lk_simzk_touches lk_simzk_touches_take(lk_simzk_touches *touches);
void lk_simzk_touches_free(lk_simzk_touches *touches);
