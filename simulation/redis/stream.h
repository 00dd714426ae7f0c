/* stream.h: what a master writes, on its way into the links of its replicas. */
#pragma once

#include "replication.h"
#include "state.h"

/** A command belongs to the unit at work. Without replicas nothing is kept. */
void lk_sr_stream_command(lk_sr_server *server, unsigned database, size_t argc, const lk_sr_text *argv);
void lk_sr_stream_bytes(lk_sr_server *server, unsigned database, lk_sr_text commands);

/** A command as it is sent: a list of strings. */
void lk_sr_stream_put(lk_sr_bytes *out, size_t argc, const lk_sr_text *argv);

/** The unit is whole. */
void lk_sr_stream_flush(lk_sr_server *server);

/** Whether a master has fewer replicas than it is to have for a write. */
bool lk_sr_stream_lacks_replicas(const lk_sr_server *server);

/** The link's replica has confirmed that offset; answers the master, NULL when the link is cut. */
lk_sr_server *lk_sr_stream_confirm(lk_sr_link *link, int64_t offset);

/** How many replicas have confirmed that offset. */
int64_t lk_sr_stream_confirmed(const lk_sr_server *server, int64_t offset);

/** The list of replicas in ROLE's answer. */
void lk_sr_stream_put_replicas(const lk_sr_server *server, lk_sr_bytes *out);

/** Cuts all replicas off. */
void lk_sr_stream_detach_all(lk_sr_server *server);
