/* zookeeper_steps.h: the steps of models/queue.pml that are seen at simulated ZooKeeper servers, and on the way to them. */
#pragma once

#include "zookeeper_service.h"

/** At the beginning of a run. */
void lk_sim_zookeeper_steps_begin(lk_sim_zookeeper *zookeeper);
