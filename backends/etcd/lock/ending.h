/* ending.h: how a place ends. */
#pragma once

#include "place.h"

/* Its claim lets go of it; what there is of it is deleted in the background. */
void lk_etcd_place_leave_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* Delete it, where that is needed, unless a request for that is under way. */
void lk_etcd_place_delete_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* What the keeper does for those that were left. */
int64_t lk_etcd_places_left_locked(lk_etcd *e, int64_t now) LK_REQUIRES(*e->net);
