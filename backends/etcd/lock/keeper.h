/* keeper.h: what happens without a caller. */
#pragma once

#include "instance.h"

extern const lk_etcd_owner lk_etcd_connection_events;
int64_t lk_etcd_dispatch(void *self);
