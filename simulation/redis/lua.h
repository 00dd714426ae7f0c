/* lua.h: scripts in a Lua 5.1 that has what Redis' has: redis.call and its kind, KEYS, ARGV, no way out. */
#pragma once

#include "state.h"

lk_sr_lua *lk_sr_lua_new(lk_sr_server *server);
void lk_sr_lua_free(lk_sr_lua *lua);

/** Whether there is a script of that name. */
bool lk_sr_lua_knows(const lk_sr_lua *lua, const char *hash);

/** Compiles a script; false: `out` has the error. */
bool lk_sr_lua_load(lk_sr_lua *lua, lk_sr_text script, const char *hash, lk_sr_bytes *out);

/** Runs a script that is known; `call` has its keys from argument 3 on, so many, and then its other arguments. */
void lk_sr_lua_run(lk_sr_lua *lua, const char *hash, lk_sr_call *call, size_t keys);
