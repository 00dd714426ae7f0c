/* tracker.h: the sessions that a leader, or a server that is alone, watches over: until when each lasts, and whose it is
 * (SessionTrackerImpl, ExpiryQueue). Times are ms of that server's clock. */
#pragma once

#include "../lists.h"
#include "zookeeper.h"

typedef struct {
    lk_list sessions;
    int32_t tick_ms;
    int64_t next_ms; /* when the next bucket of sessions ends */
} lk_simzk_tracker;

void lk_simzk_tracker_init(lk_simzk_tracker *t, int32_t tick_ms, int64_t now_ms);
void lk_simzk_tracker_free(lk_simzk_tracker *t);

/* Begin to watch over a session, or go on. */
void lk_simzk_tracker_add(lk_simzk_tracker *t, int64_t session, int32_t timeout_ms, int64_t now_ms);
void lk_simzk_tracker_remove(lk_simzk_tracker *t, int64_t session);
/* Its client has been heard of. False: there is none, or it is being closed. */
bool lk_simzk_tracker_touch(lk_simzk_tracker *t, int64_t session, int32_t timeout_ms, int64_t now_ms);
bool lk_simzk_tracker_has(const lk_simzk_tracker *t, int64_t session);
void lk_simzk_tracker_closing(lk_simzk_tracker *t, int64_t session);
/* Whether it may be served for that owner (0: nobody says). The first one that asks owns it. alone: as a server that is
 * answers. */
lk_simzk_error lk_simzk_tracker_check(lk_simzk_tracker *t, int64_t session, uint64_t owner, bool alone);
void lk_simzk_tracker_own(lk_simzk_tracker *t, int64_t session, uint64_t owner);
/* The next session whose time is over: it is closing now. 0: none in this bucket any more. Called until then, and as long
 * as a bucket is due. */
int64_t lk_simzk_tracker_expire(lk_simzk_tracker *t, int64_t now_ms);
