/* scripts.c: commands on scripts. */
#include <string.h>

#include "call.h"
#include "commands.h"

static const char busy_error[] = "-NOTBUSY No scripts in execution right now.";

/* The same few scripts come again and again. */
static void hash_of(lk_sr_text script, char hash[LK_SR_SHA1_LEN + 1])
{
    enum { KNOWN = 16 };
    static struct {
        lk_sr_bytes text;
        char hash[LK_SR_SHA1_LEN + 1];
    } known[KNOWN];
    static unsigned count;
    unsigned i = 0;
    while (i < KNOWN && !lk_sr_same(lk_sr_view(&known[i].text), script))
        i++;
    if (i == KNOWN) {
        i = count++ % KNOWN;
        lk_sr_bytes_set(&known[i].text, script);
        lk_sr_sha1(script, known[i].hash);
    }
    memcpy(hash, known[i].hash, sizeof known[i].hash);
}

/* How many of the arguments are keys; false: that makes no sense, which was answered. */
static bool read_keys(lk_sr_call *call, int64_t *keys)
{
    if (!lk_sr_call_integer(call, 2, keys))
        return false;
    if (*keys > (int64_t)call->argc - 3)
        lk_sr_reply_error(call->out, "Number of keys can't be greater than number of args");
    else if (*keys < 0)
        lk_sr_reply_error(call->out, "Number of keys can't be negative");
    else
        return true;
    return false;
}

static void run(lk_sr_call *call, const char *hash, int64_t keys)
{
    if (lk_sr_is_stale(call->server))
        lk_sr_reply_error(call->out, LK_SR_STALE);
    else
        lk_sr_lua_run(call->server->lua, hash, call, (size_t)keys);
}

void lk_sr_eval(lk_sr_call *call)
{
    char hash[LK_SR_SHA1_LEN + 1];
    int64_t keys;
    if (!read_keys(call, &keys))
        return;
    hash_of(call->argv[1], hash);
    if (lk_sr_lua_knows(call->server->lua, hash) ||
        lk_sr_lua_load(call->server->lua, call->argv[1], hash, call->out))
        run(call, hash, keys);
}

/* In small letters, as scripts are named; false: it is no name at all. */
static bool read_hash(lk_sr_text text, char hash[LK_SR_SHA1_LEN + 1])
{
    if (text.len != LK_SR_SHA1_LEN)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.data[i];
        hash[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    hash[LK_SR_SHA1_LEN] = '\0';
    return true;
}

void lk_sr_evalsha(lk_sr_call *call)
{
    char hash[LK_SR_SHA1_LEN + 1];
    int64_t keys;
    const bool named = read_hash(call->argv[1], hash);
    if (named && !read_keys(call, &keys))
        return;
    if (named && lk_sr_lua_knows(call->server->lua, hash))
        run(call, hash, keys);
    else
        lk_sr_reply_error(call->out, "-NOSCRIPT No matching script. Please use EVAL.");
}

void lk_sr_script_load(lk_sr_call *call)
{
    char hash[LK_SR_SHA1_LEN + 1];
    hash_of(call->argv[2], hash);
    if (lk_sr_lua_knows(call->server->lua, hash) ||
        lk_sr_lua_load(call->server->lua, call->argv[2], hash, call->out))
        lk_sr_reply_bulk(call->out, lk_sr_word(hash));
}

void lk_sr_script_exists(lk_sr_call *call)
{
    char hash[LK_SR_SHA1_LEN + 1];
    lk_sr_reply_array(call->out, call->argc - 2);
    for (size_t i = 2; i < call->argc; i++)
        lk_sr_reply_integer(call->out,
                            read_hash(call->argv[i], hash) && lk_sr_lua_knows(call->server->lua, hash));
}

void lk_sr_script_flush(lk_sr_call *call)
{
    const bool known =
        call->argc == 2 ||
        (call->argc == 3 && (lk_sr_is(call->argv[2], "sync") || lk_sr_is(call->argv[2], "async")));
    if (!known) {
        lk_sr_reply_error(call->out, "SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    lk_sr_lua_free(call->server->lua);
    call->server->lua = lk_sr_lua_new(call->server);
    lk_sr_reply_status(call->out, "OK");
}

void lk_sr_script_kill(lk_sr_call *call)
{
    lk_sr_reply_error(call->out, "%s", busy_error);
}
