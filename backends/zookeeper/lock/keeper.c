/* keeper.c: the keeper's turn: driving when nobody else does, and then whatever is due. */
#include "connection_events.h"
#include "ending.h"
#include "grant_time.h"
#include "heartbeat.h"
#include "node_timers.h"
#include "operations.h"
#include "own_watch.h"
#include "recover_create.h"

int64_t lk_zk_dispatch(void *self)
{
    static const lk_zk_timer_work timers = {lk_zk_watch_own_locked, lk_zk_grant_time_write_locked};
    lk_zk *z = self;
    lk_zk_enter(z->net);
    int64_t next = lk_zk_drive_locked(z->net);
    const int64_t now = lk_zk_now(z);
    if (lk_zk_is_up_locked(z->net) && now >= z->resume_at)
        lk_zk_resume_locked(z);
    next = lk_time_earlier(next, lk_zk_is_up_locked(z->net) ? z->resume_at : LOCKER_NEVER);
    next = lk_time_earlier(next, lk_zk_node_timers_run_locked(z, now, &timers));
    next = lk_time_earlier(next, lk_zk_delete_left_locked(z, now));
    next = lk_time_earlier(next, lk_zk_search_due_locked(z, now));
    next = lk_time_earlier(next, lk_zk_heartbeat_locked(z, now));
    next = lk_zk_keeper_next_locked(z->net, next); /* somebody may have wanted it sooner in between */
    lk_zk_leave(z->net);
    return next;
}
