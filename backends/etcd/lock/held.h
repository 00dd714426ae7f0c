/* held.h: places that are held. */
#pragma once

#include "place.h"

/* Its claim has it: from then on its end is told. */
void lk_etcd_place_granted_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Its own watch is no more, but its key may be there. */
void lk_etcd_place_unwatched_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* What the keeper does for those that are held: watch them, or have the time written. Returns when it wants to be called. */
int64_t lk_etcd_places_look_after_locked(lk_etcd *e, int64_t now) LK_REQUIRES(*e->net);
