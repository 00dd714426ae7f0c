/* slot.h: the hash slot of a key, as Redis Cluster has it. */
#pragma once

#include "bytes.h"

enum { LK_SR_NODES_MAX = 8 /* of a cluster */ };

enum { LK_SR_SLOTS = 16384 };

/** Of the part in the first braces, where there is one that is not empty. */
unsigned lk_sr_slot_of(lk_sr_text key);
