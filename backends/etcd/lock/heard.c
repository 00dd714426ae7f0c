/* heard.c: answers that say nothing, of a member that is up. */
#include "heard.h"

enum { REFUSALS_MAX = 3 };

void lk_etcd_heard_locked(lk_etcd *e, const lk_etcd_reply *reply)
{
    if (reply->status == LK_ETCD_LOST || reply->status == LK_ETCD_TOO_LARGE)
        return;
    e->refusals = lk_etcd_unknown(reply->status) ? e->refusals + 1 : 0;
    if (e->refusals < REFUSALS_MAX)
        return;
    e->refusals = 0;
    lk_etcd_leave_member_locked(e->net, reply->text);
}
