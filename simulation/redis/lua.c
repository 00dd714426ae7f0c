/*
 * lua.c: scripts in a Lua 5.1 that has what Redis' has: redis.call and its kind, KEYS, ARGV, no way out. One interpreter a server, whose scripts stay in its registry by the name "f_" and their hash.
 *
 * Unlike in Redis, what stands in the globals or in `redis` can be written over by a script, because Debian's Lua
 * knows no table that can only be read; new globals are refused as there. math.random is left out.
 */

#include <inttypes.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "lua_reply.h"

enum { NAME_ROOM = LK_SR_SHA1_LEN + 3 };
enum { REPL_NONE, REPL_AOF, REPL_REPLICA, REPL_ALL };

struct lk_sr_lua {
    lk_sr_server *server;
    lua_State *state;
    lk_sr_call *call; /* of the script at work */
    unsigned database;
    int told; /* REPL_..., who hears of what it writes */
    lk_sr_bytes scratch;
    lk_sr_text *argv;
    size_t room;
};

static const char self_name[] = "lk_sr_lua";

static lk_sr_lua *self_of(lua_State *state)
{
    lua_getfield(state, LUA_REGISTRYINDEX, self_name);
    lk_sr_lua *lua = lua_touserdata(state, -1);
    lua_pop(state, 1);
    return lua;
}

static void name_of(const char *hash, char name[NAME_ROOM])
{
    memcpy(name, "f_", 2);
    memcpy(name + 2, hash, LK_SR_SHA1_LEN + 1);
}

/* ------------------------------------------------------------------ redis.* ---- */

/* Write a number in full. Nearly all are whole ones, which are quicker to write as such. */
static int print_number(char *text, size_t size, lua_Number number)
{
    static const lua_Number most = 1e15; /* below it "%.17g" writes all digits, without an exponent */
    if (number >= 1 && number < most && number == (lua_Number)(int64_t)number)
        return snprintf(text, size, "%" PRId64, (int64_t)number);
    return snprintf(text, size, "%.17g", number);
}

/* The arguments as a request; false: one of them is neither a text nor a number. */
static bool read_arguments(lk_sr_lua *lua, size_t argc)
{
    lua_State *state = lua->state;
    if (argc > lua->room) {
        lua->room = argc;
        lua->argv = lk_sr_resize(lua->argv, argc * sizeof *lua->argv);
    }
    for (size_t i = 0; i < argc; i++) {
        const int at = (int)i + 1;
        char number[64];
        if (lua_type(state, at) == LUA_TNUMBER) {
            const int len = print_number(number, sizeof number, lua_tonumber(state, at));
            lua_pushlstring(state, number, (size_t)len);
            lua_replace(state, at);
        }
        lua->argv[i].data = lua_tolstring(state, at, &lua->argv[i].len);
        if (lua->argv[i].data == NULL)
            return false;
    }
    return true;
}

/* Leaves the answer on the stack; true: it is an error. */
static bool call_command(lua_State *state)
{
    lk_sr_lua *lua = self_of(state);
    const size_t argc = (size_t)lua_gettop(state);
    if (argc == 0) {
        lk_sr_lua_push_error(state,
                             lk_sr_word("Please specify at least one argument for this redis lib call"));
        return true;
    }
    if (!read_arguments(lua, argc)) {
        lk_sr_lua_push_error(state,
                             lk_sr_word("Lua redis lib command arguments must be strings or integers"));
        return true;
    }
    lk_sr_call call = {.server = lua->server,
                       .client = lua->call->client,
                       .argv = lua->argv,
                       .argc = argc,
                       .out = &lua->scratch,
                       .database = &lua->database,
                       .script = true,
                       .untold = (lua->told & REPL_REPLICA) == 0};
    lua->scratch.len = 0;
    lua->server->script_call(&call);
    lk_sr_lua_push_reply(state, lk_sr_view(&lua->scratch));
    return lua->scratch.data[0] == '-';
}

static int redis_call(lua_State *state)
{
    return call_command(state) ? lua_error(state) : 1;
}

static int redis_pcall(lua_State *state)
{
    (void)call_command(state);
    return 1;
}

static int redis_sha1hex(lua_State *state)
{
    char hex[LK_SR_SHA1_LEN + 1];
    size_t len;
    if (lua_gettop(state) != 1) {
        lk_sr_lua_push_error(state, lk_sr_word("wrong number of arguments"));
        return lua_error(state);
    }
    const char *text = lua_tolstring(state, 1, &len);
    lk_sr_sha1((lk_sr_text){text, text != NULL ? len : 0}, hex);
    lua_pushstring(state, hex);
    return 1;
}

static bool is_one_text(lua_State *state)
{
    if (lua_gettop(state) == 1 && lua_type(state, 1) == LUA_TSTRING)
        return true;
    lk_sr_lua_push_error(state, lk_sr_word("wrong number or type of arguments"));
    return false;
}

static int redis_error_reply(lua_State *state)
{
    lk_sr_bytes text = {NULL, 0, 0};
    if (!is_one_text(state))
        return 1;
    const char *given = lua_tostring(state, 1);
    lk_sr_put(&text, lk_sr_word(given[0] == '-' ? "" : "-"));
    lk_sr_put(&text, lk_sr_word(given));
    lk_sr_lua_push_error(state, lk_sr_view(&text));
    lk_sr_bytes_free(&text);
    return 1;
}

static int redis_status_reply(lua_State *state)
{
    if (!is_one_text(state))
        return 1;
    lua_newtable(state);
    lua_pushvalue(state, 1);
    lua_setfield(state, -2, "ok");
    return 1;
}

static int redis_log(lua_State *state)
{
    if (lua_gettop(state) < 2)
        lk_sr_lua_push_error(state, lk_sr_word("redis.log() requires two arguments or more."));
    else if (!lua_isnumber(state, 1))
        lk_sr_lua_push_error(state, lk_sr_word("First argument must be a number (log level)."));
    else
        return 0;
    return lua_error(state);
}

static int redis_set_repl(lua_State *state)
{
    const lua_Number told = lua_tonumber(state, -1);
    if (lua_gettop(state) != 1) {
        lk_sr_lua_push_error(state, lk_sr_word("redis.set_repl() requires two arguments."));
        return lua_error(state);
    }
    if (told < REPL_NONE || told > REPL_ALL) {
        lk_sr_lua_push_error(
            state,
            lk_sr_word(
                "Invalid replication flags. Please use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."));
        return lua_error(state);
    }
    self_of(state)->told = (int)told;
    return 0;
}

static int redis_replicate_commands(lua_State *state)
{
    lua_pushboolean(state, 1);
    return 1;
}

static const luaL_Reg redis_functions[] = {
    {"call", redis_call},
    {"pcall", redis_pcall},
    {"sha1hex", redis_sha1hex},
    {"error_reply", redis_error_reply},
    {"status_reply", redis_status_reply},
    {"log", redis_log},
    {"replicate_commands", redis_replicate_commands},
    {"set_repl", redis_set_repl},
    {NULL, NULL},
};

static const struct {
    const char *name;
    int value;
} told[] = {{"REPL_NONE", REPL_NONE},
            {"REPL_AOF", REPL_AOF},
            {"REPL_SLAVE", REPL_REPLICA},
            {"REPL_REPLICA", REPL_REPLICA},
            {"REPL_ALL", REPL_ALL}};

/* ------------------------------------------------------------------ the sandbox ---- */

/* As Lua's, but for an error that is a table: then it is its text. */
static int plain_pcall(lua_State *state)
{
    luaL_checkany(state, 1);
    const int failed = lua_pcall(state, lua_gettop(state) - 1, LUA_MULTRET, 0);
    if (failed != 0 && lua_istable(state, -1)) {
        lua_getfield(state, -1, "err");
        if (lua_isstring(state, -1))
            lua_replace(state, -2);
    }
    lua_pushboolean(state, failed == 0);
    lua_insert(state, 1);
    return lua_gettop(state);
}

static int no_such_global(lua_State *state)
{
    const char *name = lua_tostring(state, -1);
    return luaL_error(state, "Script attempted to access nonexistent global variable '%s'",
                      name != NULL ? name : "?");
}

static int no_new_global(lua_State *state)
{
    return luaL_error(state, "Attempt to modify a readonly table");
}

/* Says where in the script an error arose. */
static int explain(lua_State *state)
{
    lua_Debug where;
    bool known = lua_getstack(state, 1, &where) != 0 && lua_getinfo(state, "Sl", &where) != 0;
    if (known && strcmp(where.what, "C") == 0)
        known = lua_getstack(state, 2, &where) != 0 && lua_getinfo(state, "Sl", &where) != 0;
    if (!lua_istable(state, 1)) {
        lua_newtable(state);
        lua_getglobal(state, "tostring");
        lua_pushvalue(state, 1);
        lua_call(state, 1, 1);
        lua_pushfstring(state, "ERR %s", lua_tostring(state, -1));
        lua_setfield(state, 2, "err");
        lua_settop(state, 2);
        lua_replace(state, 1);
    }
    if (known) {
        lua_pushstring(state, where.source);
        lua_setfield(state, 1, "source");
        lua_pushinteger(state, where.currentline);
        lua_setfield(state, 1, "line");
    }
    return 1;
}

static void open_library(lua_State *state, const char *name, lua_CFunction open)
{
    lua_pushcfunction(state, open);
    lua_pushstring(state, name);
    lua_call(state, 1, 0);
}

static void close_sandbox(lua_State *state)
{
    static const char *const removed[] = {"print", "dofile", "loadfile", "require", "module"};
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        lua_pushnil(state);
        lua_setglobal(state, removed[i]);
    }
    lua_getglobal(state, "math");
    lua_pushnil(state);
    lua_setfield(state, -2, "random");
    lua_pushnil(state);
    lua_setfield(state, -2, "randomseed");
    lua_pop(state, 1);
    lua_newtable(state);
    lua_pushcfunction(state, no_such_global);
    lua_setfield(state, -2, "__index");
    lua_pushcfunction(state, no_new_global);
    lua_setfield(state, -2, "__newindex");
    lua_setmetatable(state, LUA_GLOBALSINDEX);
}

lk_sr_lua *lk_sr_lua_new(lk_sr_server *server)
{
    lk_sr_lua *lua = lk_sr_make(sizeof *lua);
    lua_State *state = luaL_newstate();
    if (state == NULL)
        abort();
    lua->server = server;
    lua->state = state;
    open_library(state, "", luaopen_base);
    open_library(state, LUA_TABLIBNAME, luaopen_table);
    open_library(state, LUA_STRLIBNAME, luaopen_string);
    open_library(state, LUA_MATHLIBNAME, luaopen_math);
    luaL_register(state, "redis", redis_functions);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        lua_pushinteger(state, told[i].value);
        lua_setfield(state, -2, told[i].name);
    }
    lua_pop(state, 1);
    lua_pushcfunction(state, plain_pcall);
    lua_setglobal(state, "pcall");
    lua_pushlightuserdata(state, lua);
    lua_setfield(state, LUA_REGISTRYINDEX, self_name);
    close_sandbox(state);
    return lua;
}

void lk_sr_lua_free(lk_sr_lua *lua)
{
    if (lua == NULL)
        return;
    lua_close(lua->state);
    lk_sr_bytes_free(&lua->scratch);
    free(lua->argv);
    free(lua);
}

/* ------------------------------------------------------------------ scripts ---- */

bool lk_sr_lua_knows(const lk_sr_lua *lua, const char *hash)
{
    char name[NAME_ROOM];
    name_of(hash, name);
    lua_getfield(lua->state, LUA_REGISTRYINDEX, name);
    const bool known = lua_isfunction(lua->state, -1);
    lua_pop(lua->state, 1);
    return known;
}

/* What was compiled in this process, for whichever server: each server compiles the same few scripts whenever it starts. */
static struct {
    char hash[LK_SR_SHA1_LEN + 1];
    lk_sr_bytes code;
} compiled[24];
static unsigned compiled_count;

static lk_sr_text compiled_find(const char *hash)
{
    for (unsigned i = 0; i < compiled_count; i++)
        if (strcmp(compiled[i].hash, hash) == 0)
            return lk_sr_view(&compiled[i].code);
    return lk_sr_word("");
}

static int add_code(lua_State *state, const void *bytes, size_t count, void *code)
{
    (void)state;
    lk_sr_put(code, (lk_sr_text){bytes, count});
    return 0;
}

/* Keep the code of the function on the stack. */
static void compiled_add(lua_State *state, const char *hash)
{
    if (compiled_count == sizeof compiled / sizeof compiled[0])
        return;
    memcpy(compiled[compiled_count].hash, hash, sizeof compiled[0].hash);
    (void)lua_dump(state, add_code, &compiled[compiled_count].code);
    compiled_count++;
}

bool lk_sr_lua_load(lk_sr_lua *lua, lk_sr_text script, const char *hash, lk_sr_bytes *out)
{
    char name[NAME_ROOM];
    const lk_sr_text code = compiled_find(hash), source = script.data != NULL ? script : lk_sr_word(""),
                     chunk = code.len > 0 ? code : source;
    name_of(hash, name);
    if (luaL_loadbuffer(lua->state, chunk.data, chunk.len, "@user_script") == 0) {
        if (code.len == 0)
            compiled_add(lua->state, hash);
        lua_setfield(lua->state, LUA_REGISTRYINDEX, name);
        return true;
    }
    lk_sr_reply_error(out, "Error compiling script (new function): %s", lua_tostring(lua->state, -1));
    lua_pop(lua->state, 1);
    return false;
}

static void set_list(lua_State *state, const char *name, const lk_sr_text *words, size_t count)
{
    lua_pushstring(state, name);
    lua_createtable(state, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(state, words[i].data, words[i].len);
        lua_rawseti(state, -2, (int)i + 1);
    }
    lua_rawset(state, LUA_GLOBALSINDEX);
}

/* The error on the stack, as it is answered. */
static void put_failure(lua_State *state, const char *hash, lk_sr_bytes *out)
{
    lk_sr_bytes text = {NULL, 0, 0};
    lua_getfield(state, -1, "err");
    lua_getfield(state, -2, "line");
    lua_getfield(state, -3, "source");
    const char *err = lua_tostring(state, -3), *line = lua_tostring(state, -2),
               *source = lua_tostring(state, -1);
    lk_sr_put(&text, lk_sr_word("-"));
    lk_sr_put(&text, lk_sr_word(err != NULL ? err : ""));
    if (line != NULL && source != NULL)
        lk_sr_print(&text, " script: %s, on %s:%s.", hash, source, line);
    lk_sr_reply_error_text(out, lk_sr_view(&text));
    lk_sr_bytes_free(&text);
    lua_pop(state, 3);
}

void lk_sr_lua_run(lk_sr_lua *lua, const char *hash, lk_sr_call *call, size_t keys)
{
    lua_State *state = lua->state;
    char name[NAME_ROOM];
    name_of(hash, name);
    lua->call = call;
    lua->database = *call->database;
    lua->server->script_writes = false;
    lua->told = REPL_ALL;
    lua_pushcfunction(state, explain);
    lua_getfield(state, LUA_REGISTRYINDEX, name);
    set_list(state, "KEYS", call->argv + 3, keys);
    set_list(state, "ARGV", call->argv + 3 + keys, call->argc - 3 - keys);
    if (lua_pcall(state, 0, 1, -2) != 0)
        put_failure(state, hash, call->out);
    else
        lk_sr_lua_put_value(state, call->out);
    lua_settop(state, 0);
    lua->call = NULL;
}
