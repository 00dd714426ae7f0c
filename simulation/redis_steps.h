/* redis_steps.h: the steps of models/lease.pml that a simulated Redis server takes. */
#pragma once

#include "redis_service.h"

/** At the beginning of a run. */
void lk_sim_redis_steps_begin(lk_sim_redis *redis);
