/* wake.c: the mutex, what is done before it is released, and who is to look again: a thread that drives, the keeper. */
#include "wake.h"
#include "lk_wakeup.h"
#include "socket.h"
#include "state.h"

void lk_zk_kick_locked(lk_zk_net *net)
{
    if (net->polling)
        lk_wakeup_ring(net->kick_fd);
}

void lk_zk_keeper_by_locked(lk_zk_net *net, int64_t at)
{
    if (net->keeper_at <= at)
        return;
    net->keeper_at = at;
    net->svc->attend(net->svc);
}

int64_t lk_zk_keeper_next_locked(lk_zk_net *net, int64_t next)
{
    net->keeper_at = lk_time_earlier(net->keeper_at, next);
    return net->keeper_at;
}

/* ------------------------------------------------------------------ the mutex ---- */

void lk_zk_enter(lk_zk_net *net)
{
    lk_zk_net_lock(net);
}

void lk_zk_leave(lk_zk_net *net)
{
    lk_zk_push_locked(net);
    lk_zk_net_unlock(net);
}
