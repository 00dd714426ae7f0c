/* keeper.h: the keeper, one thread for each locker. */
#pragma once

#include "state.h"

/** 0, or an errno. */
int lk_keeper_start(locker *l) LK_EXCLUDES(l->mutex);
/** It tells what was lost before it ends. */
void lk_keeper_stop(locker *l) LK_EXCLUDES(l->mutex);
