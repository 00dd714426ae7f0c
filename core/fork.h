/* fork.h: telling a fork's child, to which the locker does not belong. */
#pragma once

#include <unistd.h>

#include "state.h"

void lk_fork_watch(locker *l);
void lk_fork_unwatch(locker *l);

static inline bool lk_forked(const locker *l)
{
    return l->fork_page != NULL ? *l->fork_page == 0 : l->pid != getpid();
}
