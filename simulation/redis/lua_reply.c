/* lua_reply.c: see lua_reply.h. */
#include "lua_reply.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static lk_sr_text trimmed(lk_sr_text text)
{
    while (text.len > 0 && (text.data[0] == '\r' || text.data[0] == '\n'))
        text = (lk_sr_text){text.data + 1, text.len - 1};
    while (text.len > 0 && (text.data[text.len - 1] == '\r' || text.data[text.len - 1] == '\n'))
        text.len--;
    return text;
}

void lk_sr_lua_push_error(lua_State *state, lk_sr_text text)
{
    const bool coded = text.len > 0 && text.data[0] == '-';
    lk_sr_text code = {"ERR", 3};
    if (coded)
        text = (lk_sr_text){text.data + 1, text.len - 1};
    const char *space = coded && text.len > 0 ? memchr(text.data, ' ', text.len) : NULL;
    if (space != NULL) {
        code = (lk_sr_text){text.data, (size_t)(space - text.data)};
        text = (lk_sr_text){space + 1, text.len - code.len - 1};
    }
    text = trimmed(text);
    lk_sr_bytes full = {NULL, 0, 0};
    lk_sr_put(&full, code);
    lk_sr_put(&full, lk_sr_word(" "));
    lk_sr_put(&full, text);
    lua_newtable(state);
    lua_pushlstring(state, full.data, full.len);
    lua_setfield(state, -2, "err");
    lk_sr_bytes_free(&full);
}

/* ------------------------------------------------------------------ from an answer ---- */

static const char *push_one(lua_State *state, const char *at, const char *over);

static const char *push_array(lua_State *state, const char *at, const char *over, long count)
{
    lua_createtable(state, (int)count, 0);
    for (int i = 1; i <= count; i++) {
        at = push_one(state, at, over);
        lua_rawseti(state, -2, i);
    }
    return at;
}

/* The answer that begins there; answers what stands behind it. It is our own, and whole before `over`. */
static const char *push_one(lua_State *state, const char *at, const char *over)
{
    const char kind = *at++, *end = memchr(at, '\r', (size_t)(over - at)), *rest = end + 2;
    const long number = strtol(at, NULL, 10);
    if (lua_checkstack(state, 3) == 0)
        abort();
    switch (kind) {
    case '+':
        lua_newtable(state);
        lua_pushlstring(state, at, (size_t)(end - at));
        lua_setfield(state, -2, "ok");
        return rest;
    case '-':
        lk_sr_lua_push_error(state, (lk_sr_text){at - 1, (size_t)(end - at) + 1});
        return rest;
    case ':':
        lua_pushnumber(state, (lua_Number)strtoll(at, NULL, 10));
        return rest;
    case '*':
        return push_array(state, rest, over, number);
    default:
        if (number < 0) {
            lua_pushboolean(state, 0);
            return rest;
        }
        lua_pushlstring(state, rest, (size_t)number);
        return rest + number + 2;
    }
}

void lk_sr_lua_push_reply(lua_State *state, lk_sr_text reply)
{
    (void)push_one(state, reply.data, reply.data + reply.len);
}

/* ------------------------------------------------------------------ to an answer ---- */

/* The table's field of that name, on the stack; false: it is no text, and not there. */
static bool get_text(lua_State *state, const char *name)
{
    lua_pushstring(state, name);
    lua_rawget(state, -2);
    if (lua_type(state, -1) == LUA_TSTRING)
        return true;
    lua_pop(state, 1);
    return false;
}

static void put_status(lk_sr_bytes *out, const char *status)
{
    const size_t from = out->len;
    lk_sr_print(out, "+");
    lk_sr_put(out, lk_sr_word(status));
    for (size_t i = from; i < out->len; i++) {
        if (out->data[i] == '\r' || out->data[i] == '\n')
            out->data[i] = ' ';
    }
    lk_sr_print(out, "\r\n");
}

static void put_table(lua_State *state, lk_sr_bytes *out)
{
    lk_sr_bytes text = {NULL, 0, 0};
    size_t count = 0;
    if (get_text(state, "err")) {
        lk_sr_print(&text, "-");
        lk_sr_put(&text, lk_sr_word(lua_tostring(state, -1)));
        lk_sr_reply_error_text(out, lk_sr_view(&text));
        lua_pop(state, 1);
    } else if (get_text(state, "ok")) {
        put_status(out, lua_tostring(state, -1));
        lua_pop(state, 1);
    } else {
        for (lua_rawgeti(state, -1, 1); !lua_isnil(state, -1); lua_rawgeti(state, -1, (int)count + 1)) {
            lk_sr_lua_put_value(state, &text);
            lua_pop(state, 1);
            count++;
        }
        lua_pop(state, 1);
        lk_sr_reply_array(out, count);
        lk_sr_put(out, lk_sr_view(&text));
    }
    lk_sr_bytes_free(&text);
}

/* As x86 cuts a number down; what has no place in 64 bits becomes the least of them. */
static int64_t integer_of(lua_Number number)
{
    return number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN;
}

void lk_sr_lua_put_value(lua_State *state, lk_sr_bytes *out)
{
    size_t len;
    const char *text;
    if (lua_checkstack(state, 4) == 0) {
        lk_sr_reply_error(out, "reached lua stack limit");
        return;
    }
    switch (lua_type(state, -1)) {
    case LUA_TSTRING:
        text = lua_tolstring(state, -1, &len);
        lk_sr_reply_bulk(out, (lk_sr_text){text, len});
        break;
    case LUA_TNUMBER:
        lk_sr_reply_integer(out, integer_of(lua_tonumber(state, -1)));
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(state, -1) != 0)
            lk_sr_reply_integer(out, 1);
        else
            lk_sr_reply_nil(out);
        break;
    case LUA_TTABLE:
        put_table(state, out);
        break;
    default:
        lk_sr_reply_nil(out);
    }
}
