/* election.h: servers that look for a leader agree on the one with the newest history (FastLeaderElection). */
#pragma once

#include "network.h"

/* Begin to look. */
void lk_simzk_elect(lk_simzk_server *s);
/* Any server gets votes, of whatever role. */
void lk_simzk_elect_receive(lk_simzk_server *s, int from, const lk_simzk_vote *vote);
/* Of one that looks: whatever is due by its clock; when that is next. */
void lk_simzk_elect_tick(lk_simzk_server *s);
int64_t lk_simzk_elect_due(const lk_simzk_server *s);
/* Whom it has found; -1: nobody yet. */
int lk_simzk_elected(const lk_simzk_server *s);
