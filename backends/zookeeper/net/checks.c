/*
 * checks.c: a multi of checks: whether nodes are there, as the leader says. It has to order such a request like a write,
 * but nothing is read or written, so that no watch fires.
 */
#include <stdlib.h>
#include <string.h>

#include "requests.h"

/* Far less than the 1 MB of the servers' jute.maxbuffer; and what a check takes beside its path. */
enum { BYTES_MAX = 96 * 1024, CHECK_BYTES = 17 };

bool lk_zk_checks_begin(lk_zk_checks *c)
{
    *c = (lk_zk_checks){calloc(LK_ZK_CHECKS_MAX, sizeof *c->ops), malloc(BYTES_MAX), 0, 0};
    return c->ops != NULL && c->paths != NULL;
}

void lk_zk_checks_end(lk_zk_checks *c)
{
    free(c->ops);
    free(c->paths);
}

bool lk_zk_checks_fit(const lk_zk_checks *c)
{
    return c->count < LK_ZK_CHECKS_MAX && c->used + c->count * CHECK_BYTES + LK_ZK_PATH_MAX <= BYTES_MAX;
}

char *lk_zk_checks_path(const lk_zk_checks *c)
{
    return c->paths + c->used;
}

void lk_zk_checks_add(lk_zk_checks *c)
{
    zoo_check_op_init(&c->ops[c->count++], lk_zk_checks_path(c), -1);
    c->used += strlen(lk_zk_checks_path(c)) + 1;
}

lk_zk_request *lk_zk_checks_send_locked(lk_zk_net *net, const lk_zk_checks *c, zoo_op_result_t *results,
                                        lk_zk_done_fn done, void *context)
{
    return lk_zk_multi_locked(net, c->ops, results, c->count, done, context);
}
