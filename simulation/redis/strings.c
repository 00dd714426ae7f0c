/* strings.c: commands on strings: SET and its kind, and counters. */
#include <inttypes.h>
#include <stdio.h>

#include "call.h"
#include "commands.h"

/* ------------------------------------------------------------------ GET, SET ---- */

/* False: it is no string, which was answered. */
static bool answer_value(lk_sr_call *call)
{
    lk_sr_key *key;
    if (!lk_sr_call_typed(call, call->argv[1], LK_SR_STRING, &key))
        return false;
    if (key == NULL)
        lk_sr_reply_nil(call->out);
    else
        lk_sr_reply_bulk(call->out, lk_sr_view(&key->text));
    return true;
}

void lk_sr_get(lk_sr_call *call)
{
    (void)answer_value(call);
}

/* The key with that value, of whatever kind it was. */
static lk_sr_key *put(lk_sr_call *call, lk_sr_text name, lk_sr_text value, bool keep_end)
{
    lk_sr_key *key = lk_sr_call_key(call, name);
    if (key == NULL)
        key = lk_sr_keyspace_add(lk_sr_call_space(call), name, LK_SR_STRING);
    lk_sr_items_free(&key->items);
    key->kind = LK_SR_STRING;
    lk_sr_bytes_set(&key->text, value);
    if (!keep_end)
        key->expires_ms = -1;
    call->changed = true;
    return key;
}

/* What SET's options say. */
typedef struct {
    bool nx, xx, get, keep_end;
    const lk_sr_text *end; /* NULL: none */
    bool seconds, absolute;
} set_options;

/* An option with a time. */
static bool read_end(set_options *o, lk_sr_text option, const lk_sr_text *value)
{
    const bool seconds = lk_sr_is(option, "ex") || lk_sr_is(option, "exat");
    const bool absolute = lk_sr_is(option, "exat") || lk_sr_is(option, "pxat");
    const bool known = seconds || absolute || lk_sr_is(option, "px");
    const bool again = o->end == NULL || (o->seconds == seconds && o->absolute == absolute);
    if (!known || !again || o->keep_end || value == NULL)
        return false;
    o->end = value;
    o->seconds = seconds;
    o->absolute = absolute;
    return true;
}

static bool read_options(const lk_sr_call *call, set_options *o)
{
    for (size_t i = 3; i < call->argc; i++) {
        const lk_sr_text option = call->argv[i];
        if (lk_sr_is(option, "nx") && !o->xx)
            o->nx = true;
        else if (lk_sr_is(option, "xx") && !o->nx)
            o->xx = true;
        else if (lk_sr_is(option, "get"))
            o->get = true;
        else if (lk_sr_is(option, "keepttl") && o->end == NULL)
            o->keep_end = true;
        else if (!read_end(o, option, i + 1 < call->argc ? &call->argv[i + 1] : NULL))
            return false;
        else
            i++;
    }
    return true;
}

/* When it ends, on the server's clock; false: the number is none, which was answered. */
static bool end_of(lk_sr_call *call, const set_options *o, int64_t *at_ms)
{
    if (!lk_sr_integer(*o->end, at_ms)) {
        lk_sr_reply_error(call->out, LK_SR_NO_NUMBER);
        return false;
    }
    const int64_t now_ms = o->absolute ? 0 : lk_sr_clock_ms(call->server);
    if (*at_ms > 0 && (!o->seconds || *at_ms <= INT64_MAX / 1000)) {
        *at_ms = (int64_t)((uint64_t)*at_ms * (o->seconds ? 1000 : 1) + (uint64_t)now_ms);
        if (*at_ms > 0)
            return true;
    }
    lk_sr_reply_error(call->out, "invalid expire time in 'set' command");
    return false;
}

static void tell_replicas(lk_sr_call *call, int64_t at_ms, bool keep_end)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, at_ms);
    const lk_sr_text argv[] = {lk_sr_word("SET"), call->argv[1], call->argv[2],
                               lk_sr_word(keep_end ? "KEEPTTL" : "PXAT"), lk_sr_word(text)};
    lk_sr_call_instead(call, at_ms >= 0 ? 5 : keep_end ? 4 : 3, argv);
}

void lk_sr_set(lk_sr_call *call)
{
    set_options o = {.end = NULL};
    int64_t at_ms = -1;
    if (!read_options(call, &o)) {
        lk_sr_reply_error(call->out, LK_SR_SYNTAX);
        return;
    }
    if ((o.end != NULL && !end_of(call, &o, &at_ms)) || (o.get && !answer_value(call)))
        return;
    const bool found = lk_sr_call_key(call, call->argv[1]) != NULL;
    if ((o.nx && found) || (o.xx && !found)) {
        if (!o.get)
            lk_sr_reply_nil(call->out);
        return;
    }
    lk_sr_key *key = put(call, call->argv[1], call->argv[2], o.keep_end);
    if (at_ms >= 0)
        key->expires_ms = at_ms; /* even if that is over: whoever looks next removes it */
    tell_replicas(call, at_ms, o.keep_end);
    if (call->server->setup.put != NULL && !call->server->applying)
        call->server->setup.put(call->server->setup.context, call->argv[1]);
    if (!o.get)
        lk_sr_reply_status(call->out, "OK");
}

void lk_sr_setnx(lk_sr_call *call)
{
    const bool found = lk_sr_call_key(call, call->argv[1]) != NULL;
    if (!found)
        (void)put(call, call->argv[1], call->argv[2], false);
    lk_sr_reply_integer(call->out, !found);
}

void lk_sr_msetnx(lk_sr_call *call)
{
    bool found = false;
    if (call->argc % 2 == 0) {
        lk_sr_reply_error(call->out, "wrong number of arguments for 'msetnx' command");
        return;
    }
    for (size_t i = 1; i < call->argc && !found; i += 2)
        found = lk_sr_call_key(call, call->argv[i]) != NULL;
    for (size_t i = 1; i < call->argc && !found; i += 2)
        (void)put(call, call->argv[i], call->argv[i + 1], false);
    lk_sr_reply_integer(call->out, !found);
}

/* ------------------------------------------------------------------ counters ---- */

static void count(lk_sr_call *call, int64_t by)
{
    lk_sr_key *key;
    int64_t number = 0;
    if (!lk_sr_call_typed(call, call->argv[1], LK_SR_STRING, &key))
        return;
    if (key != NULL && !lk_sr_integer(lk_sr_view(&key->text), &number)) {
        lk_sr_reply_error(call->out, LK_SR_NO_NUMBER);
        return;
    }
    if (__builtin_add_overflow(number, by, &number)) {
        lk_sr_reply_error(call->out, "increment or decrement would overflow");
        return;
    }
    char text[24];
    const int len = snprintf(text, sizeof text, "%" PRId64, number);
    (void)put(call, call->argv[1], (lk_sr_text){text, (size_t)len}, true);
    lk_sr_reply_integer(call->out, number);
}

void lk_sr_incr(lk_sr_call *call)
{
    count(call, 1);
}

void lk_sr_decr(lk_sr_call *call)
{
    count(call, -1);
}

void lk_sr_incrby(lk_sr_call *call)
{
    int64_t by;
    if (lk_sr_call_integer(call, 2, &by))
        count(call, by);
}

void lk_sr_decrby(lk_sr_call *call)
{
    int64_t by;
    if (!lk_sr_call_integer(call, 2, &by))
        return;
    if (by == INT64_MIN)
        lk_sr_reply_error(call->out, "decrement would overflow");
    else
        count(call, -by);
}
