/* clients.h: one server's connections with clients. */
#pragma once

#include "state.h"

/* The server closes it; its watches are gone. */
void lk_simzk_hang_up(lk_simzk_server *s, lk_simzk_connection *c);
/* All of that session, but for one; `but` NULL: all. */
void lk_simzk_hang_up_session(lk_simzk_server *s, int64_t session, const lk_simzk_connection *but);
void lk_simzk_hang_up_all(lk_simzk_server *s);
/* What tells a client that its session is there, or not any more. */
void lk_simzk_welcome(lk_simzk_server *s, lk_simzk_connection *c, bool valid);
/* By what a client proves that a session is its own. */
uint64_t lk_simzk_password(int64_t session);
