/*
 * checks.c: a multi of checks: whether nodes are there, as the leader says. It has to order such a request like a write,
 * but nothing is read or written, so that no watch fires.
 */
#include <stdlib.h>
#include <string.h>

#include "state.h"

enum { CHECK_BYTES = 17 }; /* what a check takes beside its path */

lk_zk_checks *lk_zk_checks_new(void)
{
    return calloc(1, sizeof(lk_zk_checks));
}

char *lk_zk_checks_path(lk_zk_checks *c)
{
    const bool fits =
        c->count < LK_ZK_CHECKS_MAX && c->used + c->count * CHECK_BYTES + LK_ZK_PATH_MAX <= sizeof(c->paths);
    return fits ? c->paths + c->used : NULL;
}

void lk_zk_checks_add(lk_zk_checks *c, void *item)
{
    const char *path = c->paths + c->used;
    zoo_check_op_init(&c->ops[c->count], path, -1);
    c->items[c->count++] = item;
    c->used += strlen(path) + 1;
}

bool lk_zk_checks_send_locked(lk_zk_net *net, lk_zk_checks *c, lk_zk_done_fn done)
{
    c->net = net;
    return c->count > 0 && lk_zk_multi_locked(net, c->ops, c->results, c->count, done, c) != NULL;
}
