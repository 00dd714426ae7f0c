/* descriptors.h: what the keeper and the leader sleep on. */
#pragma once

#include "state.h"

/** The keeper's epoll with its wake-up and timer. 0, or an errno. */
int lk_descriptors_open(locker *l);
/** The driver's descriptor, and what a leader sleeps on if it can have one. 0, or an errno. */
int lk_descriptors_add_driver(locker *l);
/** Also in a fork's child. */
void lk_descriptors_close(locker *l);
