/* ask.h: asking for a place's next step. */
#pragma once

#include "place.h"

/* The watch on who is ahead is there, and tells of what comes after this revision. */
void lk_etcd_place_watched_locked(lk_etcd *e, lk_etcd_place *place, int64_t revision) LK_REQUIRES(*e->net);
/* Ask for its next step, in its turn. False: not sent. */
bool lk_etcd_place_ask_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
/* The lines go on that stand still. */
void lk_etcd_lines_look_after_locked(lk_etcd *e) LK_REQUIRES(*e->net);
