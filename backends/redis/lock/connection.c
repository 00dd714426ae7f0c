/* connection.c: see connection.h. */
#include "connection.h"

#include "claim_table.h"
#include "cleanup.h"

/* The order matters. What is known of the server comes first: commands that are made from here on use it. Messages come
 * from the master alone, so a subscription with the one before is of no use. What nobody wants any more is given back
 * before anybody asks for something new; and who waits for the connection comes last. */
void lk_redis_on_up(void *self, const lk_redis_up *up)
{
    lk_redis *r = self;
    if (up->server_us != 0)
        lk_redis_server_time_set_locked(&r->time, up->server_us, up->server_at);
    lk_redis_fence_least_set(&r->least, up->server_us);
    if (up->other)
        lk_redis_net_resubscribe_locked(r->net);
    if (up->again)
        r->shared.svc->suspect(r->shared.svc, false);
    (void)lk_redis_cleanups_run_locked(r, lk_redis_now(&r->shared));
    lk_redis_net_admit_unlocking(r->net);
}

void lk_redis_on_down(void *self)
{
    const lk_redis *r = self;
    r->shared.svc->suspect(r->shared.svc, true);
}

void lk_redis_on_subscribed(void *self)
{
    lk_redis *r = self;
    /* Another attempt finds what was missed, and enrols too. */
    lk_redis_claims_wake_locked(&r->claims, r->shared.svc);
}
