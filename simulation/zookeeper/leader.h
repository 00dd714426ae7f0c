/* leader.h: a server that leads, or is alone: it brings the others to its history, orders what is written, and ends
 * sessions (Leader, LearnerHandler). */
#pragma once

#include "network.h"

void lk_simzk_lead(lk_simzk_server *s);
/* Frees what that takes. */
void lk_simzk_lead_end(lk_simzk_server *s);
void lk_simzk_lead_receive(lk_simzk_server *s, int from, lk_simzk_message *message);
/* The connection with a follower is broken. */
void lk_simzk_lead_lost(lk_simzk_server *s, int follower);
/* What waited for its own disk is on it. */
void lk_simzk_lead_written(lk_simzk_server *s, lk_simzk_message *message);
/* A request of one of its own clients, or of its own. */
void lk_simzk_lead_request(lk_simzk_server *s, lk_simzk_call *call);
/* Whatever is due by its clock; when that is next. */
void lk_simzk_lead_tick(lk_simzk_server *s);
int64_t lk_simzk_lead_due(const lk_simzk_server *s);
