/* lua_reply.h: answers as values of Lua, and values as answers. */
#pragma once

#include <lua.h>

#include "bytes.h"

/** Pushes an error's table: "-CODE text", or "text", whose code is ERR. */
void lk_sr_lua_push_error(lua_State *state, lk_sr_text text);

/** Pushes what a command has answered. */
void lk_sr_lua_push_reply(lua_State *state, lk_sr_text reply);

/** The value on top of the stack, which it leaves there. */
void lk_sr_lua_put_value(lua_State *state, lk_sr_bytes *out);
