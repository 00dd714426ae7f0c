/* follower.h: a server that follows a leader: it takes its history and its proposals, passes on what its clients write,
 * and tells it which of them it has heard of (Learner, Follower). */
#pragma once

#include "network.h"

void lk_simzk_follow(lk_simzk_server *s, int leader);
void lk_simzk_follow_end(lk_simzk_server *s);
void lk_simzk_follow_receive(lk_simzk_server *s, lk_simzk_message *message);
void lk_simzk_follow_written(lk_simzk_server *s, const lk_simzk_message *message);
/* A request of one of its clients. */
void lk_simzk_follow_request(lk_simzk_server *s, lk_simzk_call *call);
/* A client comes back with a session: the leader says whether there is one. */
void lk_simzk_follow_revalidate(lk_simzk_server *s, const lk_simzk_connection *c);
void lk_simzk_follow_tick(lk_simzk_server *s);
int64_t lk_simzk_follow_due(const lk_simzk_server *s);
