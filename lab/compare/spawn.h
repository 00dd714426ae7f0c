/* spawn.h: what the kinds of backends that --spawn starts have in common: one server or several, whose
 * directories are in the scratch directory, and which die with our process. Those that start one end the
 * program with one line when it can't be started, and those that answer bool say whether all serve. */
#pragma once

#include "backend.h"
#include "servers/server.h"

/** Start the kind's servers, each alone. */
void lk_spawn_start(lk_backend *backend);

/** Wait until all serve, and say where, and what they are. */
bool lk_spawn_await(lk_backend *backend);

/** Kill all of them; and start those that are dead again. */
void lk_spawn_kill(lk_backend *backend);
bool lk_spawn_start_again(lk_backend *backend, bool keep_data);

/** As it was at first, without the data: for one server alone. */
bool lk_spawn_heal(lk_backend *backend);

/** What the scenarios are done with. */
void lk_spawn_stop(lk_backend *backend);

/** A copy of one server, in a place of its own; the holder is in another, the rival at the hub. */
bool lk_spawn_open_cut(lk_compare_cut *cut, const lk_network *network);
void lk_spawn_close_cut(lk_compare_cut *cut);

/* ------------------------------------------------------------------ an ensemble ---- */

/** Start three that agree; kill the leader, and wait for another one; start those that are dead again. */
void lk_spawn_ensemble_start(lk_backend *backend);
bool lk_spawn_ensemble_fail_over(lk_backend *backend);
bool lk_spawn_ensemble_heal(lk_backend *backend);

/** A copy of one: the holder's connection to its follower stays; that follower is cut from the leader, which is the rival's. */
bool lk_spawn_ensemble_open_cut(lk_compare_cut *cut, const lk_network *network);

/* ------------------------------------------------------------------ for kinds ---- */

/** Room for servers. */
lk_server *lk_spawn_room(size_t count);

/** End the program, with the server's error, unless it is `good`. */
void lk_spawn_need(const lk_server *server, bool good);

/** Write the URI of a server that is alone, or of its ensemble. */
void lk_spawn_uri(const lk_kind *kind, const lk_server *server, char *uri, size_t size);
