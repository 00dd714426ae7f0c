/* keys.c: commands on keys of any kind: removing them, their ends, and all of them. */
#include "call.h"
#include "commands.h"

void lk_sr_del(lk_sr_call *call)
{
    int64_t removed = 0;
    for (size_t i = 1; i < call->argc; i++)
        removed += lk_sr_call_remove(call, call->argv[i]);
    lk_sr_reply_integer(call->out, removed);
}

void lk_sr_exists(lk_sr_call *call)
{
    int64_t found = 0;
    for (size_t i = 1; i < call->argc; i++)
        found += lk_sr_call_key(call, call->argv[i]) != NULL;
    lk_sr_reply_integer(call->out, found);
}

void lk_sr_type(lk_sr_call *call)
{
    static const char *const names[] = {"string", "list", "hash", "zset"};
    const lk_sr_key *key = lk_sr_call_key(call, call->argv[1]);
    lk_sr_reply_status(call->out, key != NULL ? names[key->kind] : "none");
}

/* ------------------------------------------------------------------ ends ---- */

enum { ONLY_NONE = 1, ONLY_SOME = 2, ONLY_LATER = 4, ONLY_SOONER = 8 };

/* False: it was answered what is wrong. */
static bool read_conditions(lk_sr_call *call, unsigned *only)
{
    for (size_t i = 3; i < call->argc; i++) {
        const lk_sr_text option = call->argv[i];
        const unsigned one = lk_sr_is(option, "nx")   ? ONLY_NONE
                             : lk_sr_is(option, "xx") ? ONLY_SOME
                             : lk_sr_is(option, "gt") ? ONLY_LATER
                             : lk_sr_is(option, "lt") ? ONLY_SOONER
                                                      : 0;
        if (one == 0) {
            lk_sr_reply_error(call->out, "Unsupported option %.*s", LK_SR_SHOWN(option));
            return false;
        }
        *only |= one;
    }
    if ((*only & ONLY_NONE) != 0 && *only != ONLY_NONE)
        lk_sr_reply_error(call->out, "NX and XX, GT or LT options at the same time are not compatible");
    else if ((*only & ONLY_LATER) != 0 && (*only & ONLY_SOONER) != 0)
        lk_sr_reply_error(call->out, "GT and LT options at the same time are not compatible");
    else
        return true;
    return false;
}

static bool allows(unsigned only, int64_t at_ms, int64_t now_at_ms)
{
    const bool none = now_at_ms < 0;
    return !((only & ONLY_NONE) != 0 && !none) && !((only & ONLY_SOME) != 0 && none) &&
           !((only & ONLY_LATER) != 0 && (none || at_ms <= now_at_ms)) &&
           !((only & ONLY_SOONER) != 0 && !none && at_ms >= now_at_ms);
}

static void expire(lk_sr_call *call, int64_t base_ms, bool seconds)
{
    unsigned only = 0;
    int64_t at_ms;
    if (!read_conditions(call, &only) || !lk_sr_call_integer(call, 2, &at_ms))
        return;
    if ((seconds && __builtin_mul_overflow(at_ms, INT64_C(1000), &at_ms)) || at_ms > INT64_MAX - base_ms) {
        lk_sr_reply_error(call->out, "invalid expire time in '%s' command", call->command->name);
        return;
    }
    at_ms += base_ms;
    lk_sr_key *key = lk_sr_call_key(call, call->argv[1]);
    const bool done = key != NULL && allows(only, at_ms, key->expires_ms);
    if (done)
        lk_sr_call_expire(call, key, at_ms);
    lk_sr_reply_integer(call->out, done);
}

void lk_sr_expire(lk_sr_call *call)
{
    expire(call, lk_sr_clock_ms(call->server), true);
}

void lk_sr_pexpire(lk_sr_call *call)
{
    expire(call, lk_sr_clock_ms(call->server), false);
}

void lk_sr_expireat(lk_sr_call *call)
{
    expire(call, 0, true);
}

void lk_sr_pexpireat(lk_sr_call *call)
{
    expire(call, 0, false);
}

void lk_sr_persist(lk_sr_call *call)
{
    lk_sr_key *key = lk_sr_call_key(call, call->argv[1]);
    const bool done = key != NULL && key->expires_ms >= 0;
    if (done) {
        key->expires_ms = -1;
        call->changed = true;
    }
    lk_sr_reply_integer(call->out, done);
}

/* Below 0: there is no key, or it has no end. */
static int64_t left_ms(lk_sr_call *call)
{
    const lk_sr_key *key = lk_sr_call_key(call, call->argv[1]);
    if (key == NULL || key->expires_ms < 0)
        return key == NULL ? -2 : -1;
    const int64_t left = key->expires_ms - lk_sr_clock_ms(call->server);
    return left > 0 ? left : 0;
}

void lk_sr_pttl(lk_sr_call *call)
{
    lk_sr_reply_integer(call->out, left_ms(call));
}

void lk_sr_ttl(lk_sr_call *call)
{
    const int64_t left = left_ms(call);
    lk_sr_reply_integer(call->out, left < 0 ? left : (int64_t)(((uint64_t)left + 500) / 1000));
}

void lk_sr_pexpiretime(lk_sr_call *call)
{
    const lk_sr_key *key = lk_sr_call_key(call, call->argv[1]);
    lk_sr_reply_integer(call->out, key != NULL ? key->expires_ms : -2);
}

/* ------------------------------------------------------------------ all of them ---- */

void lk_sr_dbsize(lk_sr_call *call)
{
    lk_sr_reply_integer(call->out, (int64_t)lk_sr_call_space(call)->table.count);
}

static bool read_flush(lk_sr_call *call)
{
    if (call->argc == 1 ||
        (call->argc == 2 && (lk_sr_is(call->argv[1], "sync") || lk_sr_is(call->argv[1], "async"))))
        return true;
    lk_sr_reply_error(call->out, LK_SR_SYNTAX);
    return false;
}

void lk_sr_flushall(lk_sr_call *call)
{
    if (!read_flush(call))
        return;
    for (int i = 0; i < LK_SR_DATABASES; i++)
        lk_sr_keyspace_clear(&call->server->spaces[i]);
    call->changed = true;
    lk_sr_reply_status(call->out, "OK");
}

void lk_sr_flushdb(lk_sr_call *call)
{
    if (!read_flush(call))
        return;
    lk_sr_keyspace_clear(lk_sr_call_space(call));
    call->changed = true;
    lk_sr_reply_status(call->out, "OK");
}
