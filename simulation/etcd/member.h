/* member.h: a member's life: what raft has for it to write, to send and to apply, and in which order. */
#pragma once

#include "state.h"

void lk_simetcd_member_start(lk_simetcd_member *m);
void lk_simetcd_member_end(lk_simetcd_member *m, bool written);
/* Something happens to it, now. */
void lk_simetcd_member_happens(lk_simetcd_member *m, lk_simetcd_event *event);
/* Its disk writes again. */
void lk_simetcd_member_writes_on(lk_simetcd_member *m);
