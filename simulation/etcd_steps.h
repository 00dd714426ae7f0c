/* etcd_steps.h: the steps of models/etcd.pml that a simulated etcd takes. */
#pragma once

#include "etcd_service.h"

/** At the beginning of a run. */
void lk_sim_etcd_steps_begin(lk_sim_etcd *etcd);
