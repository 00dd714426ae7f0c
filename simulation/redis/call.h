/* call.h: what commands have in common (numbers and keys among their arguments, what replicas hear of them), and what the files
 * that run commands offer each other. */
#pragma once

#include "state.h"

/** The argument as an integer; false: it is none, which was answered. */
bool lk_sr_call_integer(lk_sr_call *call, size_t index, int64_t *number);

/** The key, NULL when there is none of that name or its time is over. */
lk_sr_key *lk_sr_call_key(lk_sr_call *call, lk_sr_text name);

/** The same; false: it is of another kind, which was answered. */
bool lk_sr_call_typed(lk_sr_call *call, lk_sr_text name, lk_sr_kind kind, lk_sr_key **key);
/* Remove the key if it has no items any more. */
void lk_sr_call_remove_empty(lk_sr_call *call, lk_sr_key *key);
/* Carry out ZREM or HDEL: remove the items that the call names from its key, of that kind, and answer how many. */
void lk_sr_call_remove_items(lk_sr_call *call, lk_sr_kind kind);

lk_sr_keyspace *lk_sr_call_space(lk_sr_call *call);

/** Removes the key, when it is there. */
bool lk_sr_call_remove(lk_sr_call *call, lk_sr_text name);

/** Replicas hear another command instead of the one that was given. */
void lk_sr_call_instead(lk_sr_call *call, size_t argc, const lk_sr_text *argv);

/** Sets the key's end and tells replicas of it; an end that has come removes it. */
void lk_sr_call_expire(lk_sr_call *call, lk_sr_key *key, int64_t at_ms);

/** Runs the command, and hands on what it changed. */
void lk_sr_call_run(lk_sr_call *call);

/** Removes keys whose time is over. */
void lk_sr_sweep(lk_sr_server *server);

/* ------------------------------------------------------------------ clients.c ---- */

/** The client's next requests wait, for what `block` says. */
void lk_sr_clients_block(lk_sr_client *client, lk_sr_block block);

/** The server closes it; its answers are still sent. */
void lk_sr_close(lk_sr_client *client);

/** It waits no more. */
void lk_sr_clients_release(lk_sr_client *client);

/** Replicas have confirmed more: those that waited for it are answered. Who may go on does so by lk_sr_resume(). */
void lk_sr_clients_confirmed(lk_sr_server *server);

/** Those whose time is over are answered; a pause that is over is. */
void lk_sr_clients_look(lk_sr_server *server);

/** The server is a replica now: whoever waits is told so and closed. */
void lk_sr_clients_unblock(lk_sr_server *server);

/** When lk_sr_clients_look() has something to do, of the server's clock in ms; INT64_MAX: never. */
int64_t lk_sr_clients_due(const lk_sr_server *server);

/** The client is called so; false: that is no name, which was answered. */
bool lk_sr_client_take_name(lk_sr_call *call, lk_sr_text name);

/** Closes it for somebody: at once, unless he does it to himself, who is answered before. */
void lk_sr_clients_kill(lk_sr_call *call, lk_sr_client *client);

/** The pause is over. */
void lk_sr_clients_unpause(lk_sr_server *server);

/* ------------------------------------------------------------------ dispatch.c ---- */

/** Runs the requests of what the client has sent, until one has to wait. */
void lk_sr_dispatch(lk_sr_client *client);

/** Those that may go on do so, and answers leave. For who was called from outside, at the end of that. */
void lk_sr_resume(lk_sr_server *server);

/* ------------------------------------------------------------------ publish.c ---- */

bool lk_sr_has_subscribed(const lk_sr_client *client);

/** To those who have subscribed here; answers how many. `shard`: to a shard's channel. */
int64_t lk_sr_deliver(lk_sr_server *server, lk_sr_text channel, lk_sr_text message, bool shard);

/** The slot's channels are not this server's any more: who has subscribed to them is told. */
void lk_sr_shard_leave(lk_sr_server *server, unsigned slot);

/* ------------------------------------------------------------------ redirect.c ---- */

/** False: another node is to be asked, or nobody can serve it now, which was answered. */
bool lk_sr_is_served_here(lk_sr_call *call);

/** Why a script may not give this command; NULL: it may. */
const char *lk_sr_refused_elsewhere(const lk_sr_call *call);

/* ------------------------------------------------------------------ script_call.c ---- */

/** `call` has no command yet. */
void lk_sr_script_call(lk_sr_call *call);

/* ------------------------------------------------------------------ lua.c ---- */

lk_sr_lua *lk_sr_lua_new(lk_sr_server *server);
void lk_sr_lua_free(lk_sr_lua *lua);

/** Whether there is a script of that name. */
bool lk_sr_lua_knows(const lk_sr_lua *lua, const char *hash);

/** Compiles a script; false: `out` has the error. */
bool lk_sr_lua_load(lk_sr_lua *lua, lk_sr_text script, const char *hash, lk_sr_bytes *out);

/** Runs a script that is known; `call` has its keys from argument 3 on, so many, and then its other arguments. */
void lk_sr_lua_run(lk_sr_lua *lua, const char *hash, lk_sr_call *call, size_t keys);

/* ------------------------------------------------------------------ info.c ---- */

#define LK_SR_VERSION "7.0.15"
