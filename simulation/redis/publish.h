/* publish.h: who has subscribed, and messages that do not come of a command here. */
#pragma once

#include "state.h"

bool lk_sr_has_subscribed(const lk_sr_client *client);

/** To those who have subscribed here; answers how many. `shard`: to a shard's channel. */
int64_t lk_sr_deliver(lk_sr_server *server, lk_sr_text channel, lk_sr_text message, bool shard);

/** The slot's channels are not this server's any more: who has subscribed to them is told. */
void lk_sr_shard_leave(lk_sr_server *server, unsigned slot);
