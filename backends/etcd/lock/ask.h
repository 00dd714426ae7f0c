/* ask.h: asking for a place's next step. */
#pragma once

#include "place.h"

/* Ask for its next step. False: not sent. */
bool lk_etcd_place_ask_locked(lk_etcd *e, lk_etcd_place *place) LK_REQUIRES(*e->net);
