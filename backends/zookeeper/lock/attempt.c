/* attempt.c: the waits of one attempt for a claim. */
#include "attempt.h"

bool lk_zk_attempt_wait_unlocking(lk_zk_attempt *a, lk_zk_wait_fn wait)
{
    a->outcome = wait(a->z->net, &a->call, a->until);
    return a->outcome == LK_ZK_DONE;
}

void lk_zk_attempt_drop_locked(lk_zk_attempt *a)
{
    lk_zk_node *node = a->data->node;
    a->data->node = NULL;
    a->checks = 0;
    if (node != NULL)
        lk_zk_node_leave_locked(a->z, node);
}
