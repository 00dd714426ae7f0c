/* server.h: one server: it starts, looks for a leader, leads or follows, and ends. */
#pragma once

#include "network.h"

/* With what is on its disk. */
void lk_simzk_server_start(lk_simzk_server *s);
/* written: what waits for its disk gets there. */
void lk_simzk_server_crash(lk_simzk_server *s, bool written);
/* Frees what it has. */
void lk_simzk_server_end(lk_simzk_server *s);
void lk_simzk_server_receive(lk_simzk_server *s, lk_simzk_link link, lk_simzk_message *message);
/* The connection with another one is broken. */
void lk_simzk_server_cut(lk_simzk_server *s, int from);
/* When something is due; and do it. */
int64_t lk_simzk_server_due(const lk_simzk_server *s);
void lk_simzk_server_tick(lk_simzk_server *s);
/* After anything else: what follows from it. */
void lk_simzk_server_settle(lk_simzk_server *s);
