/* recovery.c: see recovery.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "batch.h"
#include "grant_info.h"
#include "net/reply.h"
#include "recovery.h"
#include "recovery_scripts.h"
#include "sharing.h"

static const char mark_name[] = "locker:recovery";

bool lk_redis_recovery_init(lk_redis *r)
{
    const lk_redis_prefix *const prefix = &r->set.prefix;
    if (r->set.recovery_ns == 0)
        return true;
    r->recovery.mark = malloc(prefix->len + sizeof mark_name);
    r->recovery.scripts = lk_redis_recovery_scripts_make(r->recovery.text);
    if (r->recovery.mark == NULL || r->recovery.scripts == NULL)
        return false;
    memcpy(r->recovery.mark, prefix->text, prefix->len);
    memcpy(r->recovery.mark + prefix->len, mark_name, sizeof mark_name);
    return true;
}

void lk_redis_recovery_clear(lk_redis *r)
{
    free(r->recovery.mark);
    free(r->recovery.scripts);
}

/* ------------------------------------------------------------------ the server's life ---- */

static bool is_named(const lk_redis_server *server)
{
    return server->run[0] != '\0' && server->replication[0] != '\0';
}

static void read_life_locked(lk_redis *r) LK_REDIS_LOCKED
{
    const lk_redis_server *const server = &r->nodes->commands->socket->server;
    (void)snprintf(r->recovery.life, sizeof r->recovery.life, "%" PRId64 " %s %s ",
                   r->set.recovery_ns / LK_MS, server->run, server->replication);
}

/* One that does not say who it is has no life that could be known, and its scripts do nothing. */
static lk_redis_command meeting(const lk_redis *r, const char *life, char ms[LK_REDIS_NUMBER_MAX])
{
    (void)lk_redis_number_text(ms, (uint64_t)(r->set.recovery_ns / LK_MS));
    return LK_REDIS_COMMAND("EVAL", lk_redis_recovery_meet_text, "1", r->recovery.mark, life, ms);
}

static void met_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    const lk_redis *const r = context;
    locker_error error = {0};
    locker_status status;
    int64_t left_ms;
    if (reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_INTEGER) {
        if (reply->integer > 0)
            r->shared.svc->log(
                r->shared.svc, LOCKER_LOG_WARN,
                "redis: the server's data are of another life of it, or gone: holders set their "
                "locks again, and nothing new is granted for %lld ms (recovery)",
                reply->integer);
        return;
    }
    if (!lk_redis_recovery_refuses(r, reply, &left_ms, &status, &error))
        (void)lk_redis_reply_error(reply, "looking whether its data are known", &error);
    r->shared.svc->log(r->shared.svc, LOCKER_LOG_WARN, "redis: %s", error.text);
}

void lk_redis_recovery_meet_locked(lk_redis *r)
{
    char ms[LK_REDIS_NUMBER_MAX];
    if (r->set.recovery_ns == 0)
        return;
    read_life_locked(r);
    if (!is_named(&r->nodes->commands->socket->server))
        return;
    const lk_redis_command a = meeting(r, r->recovery.life, ms);
    (void)lk_redis_submit_command_locked(r->nodes->commands, &a, met_locked, r);
}

locker_status lk_redis_recovery_check(lk_redis *r, locker_error *err)
{
    char ms[LK_REDIS_NUMBER_MAX], life[LK_REDIS_LIFE_MAX];
    lk_redis_call call = {.until = lk_redis_now(&r->shared) + r->set.target.command_timeout_ns};
    locker_error spare;
    if (r->set.recovery_ns == 0)
        return LOCKER_OK;
    if (err == NULL)
        err = &spare;
    lk_redis_lock(&r->shared);
    call.only = LK_READ(r->nodes->commands->connection);
    memcpy(life, r->recovery.life, sizeof life);
    const bool named = r->nodes->commands->socket != NULL && is_named(&r->nodes->commands->socket->server);
    lk_redis_unlock(&r->shared);
    if (!named)
        return lk_denied(err, "Redis does not say which life of the server this is, which 'recovery' needs; "
                              "give the user the right to INFO");
    const lk_redis_command a = meeting(r, life, ms);
    locker_status status = LOCKER_OK;
    int64_t left_ms;
    if (lk_redis_ask(r->nodes->commands, &call, &a, 1, err) != LK_REDIS_CALL_ANSWERED)
        return lk_unavailable(err, "the connection to Redis was lost; try again");
    if (call.reply->type != REDIS_REPLY_INTEGER &&
        !lk_redis_recovery_refuses(r, call.reply, &left_ms, &status, err))
        status = lk_redis_reply_error(call.reply, "looking whether its data are known", err);
    freeReplyObject(call.reply);
    return status;
}

/* ------------------------------------------------------------------ what is refused ---- */

locker_status lk_redis_recovery_check_ttl(const lk_redis *r, int64_t ttl_ns, locker_error *err)
{
    if (r->set.recovery_ns == 0 || ttl_ns <= r->set.recovery_ns)
        return LOCKER_OK;
    return lk_misconfigured(err,
                            "a lease of %" PRId64 " ms is longer than recovery, %" PRId64
                            " ms; make it shorter, or recovery longer for all clients of this server",
                            ttl_ns / LK_MS, r->set.recovery_ns / LK_MS);
}

bool lk_redis_recovery_refuses(const lk_redis *r, const redisReply *reply, int64_t *left_ms,
                               locker_status *status, locker_error *err)
{
    static const char recovering[] = LK_REDIS_RECOVERING, recovers[] = LK_REDIS_RECOVERS;
    const char *const text = reply->type == REDIS_REPLY_ERROR ? reply->str : "";
    *left_ms = 0;
    if (strncmp(text, recovering, sizeof recovering - 1) == 0) {
        *left_ms = strtoll(text + sizeof recovering - 1, NULL, 10);
        *status = lk_unavailable(
            err,
            "Redis is recovering: it has been restarted or replaced, or its data were removed, and "
            "holders set their locks again; nothing is granted, nor known of holders, for %" PRId64
            " ms (recovery=%" PRId64 "ms)",
            *left_ms, r->set.recovery_ns / LK_MS);
        return true;
    }
    if (strncmp(text, recovers, sizeof recovers - 1) != 0)
        return false;
    *status = lk_misconfigured(err,
                               "recovery is %" PRId64
                               " ms here and %.12s ms for others at this server; say the same everywhere. To "
                               "change it, close all clients, and delete '%.120s' at Redis",
                               r->set.recovery_ns / LK_MS, text + sizeof recovers - 1, r->recovery.mark);
    return true;
}

/* ------------------------------------------------------------------ renewals ---- */

static const char counter_name[] = "locker:fence:";

/* Three keys and up to six arguments for each, the first of which is the lock's with its info. */
size_t lk_redis_recovery_room(const lk_redis *r, const locker_claim *claim)
{
    return lk_redis_batch_room(r, claim) + r->set.prefix.len + sizeof counter_name + 32 +
           (size_t)4 * (LK_REDIS_NUMBER_MAX + 8) + LK_REDIS_MARKER_MAX + 8 + LK_REDIS_INFO_MAX;
}

static char *put_counter(lk_redis *r, const lk_redis_claim *data, char *out)
{
    char tag[sizeof(lk_redis_tag)];
    const lk_redis_prefix *const prefix = &r->set.prefix;
    const size_t tag_len = (size_t)(lk_redis_tag_put(tag, lk_redis_slot_tag(&r->slots, data->slot)) - tag);
    out = lk_redis_put_line(out, '$', prefix->len + sizeof counter_name - 1 + tag_len);
    memcpy(out, prefix->text, prefix->len);
    memcpy(out + prefix->len, counter_name, sizeof counter_name - 1);
    out += prefix->len + sizeof counter_name - 1;
    memcpy(out, tag, tag_len);
    return lk_redis_put_end(out + tag_len);
}

static char *put_lease_locked(lk_redis *r, const locker_claim *claim, char *out) LK_REDIS_LOCKED
{
    char value[LK_REDIS_VALUE_LEN + 1], info[LK_REDIS_INFO_MAX];
    lk_redis_claim *const data = lk_redis_claim_of(claim);
    const uint64_t first = LK_READ(data->fence);
    lk_redis_value_text(&r->values, data->number, value);
    out = lk_redis_put_text(out, value);
    out = lk_redis_put_number(out, (size_t)(claim->ttl_ns / LK_MS));
    out = lk_redis_put_number(out, (size_t)(first + data->passes));
    out = lk_redis_put_number(out, (size_t)(first + data->numbers - 1));
    data->noted = true; /* it may be, from here on */
    return lk_redis_put_text(out, lk_redis_info_text(r, data, info));
}

static char *put_share_locked(lk_redis *r, const locker_claim *claim, char *out) LK_REDIS_LOCKED
{
    char value[LK_REDIS_VALUE_LEN + 1], marker[LK_REDIS_MARKER_MAX], info[LK_REDIS_INFO_MAX];
    const lk_redis_claim *const data = lk_redis_claim_of(claim);
    const uint64_t token = LK_READ(data->fence);
    lk_redis_value_text(&r->values, data->number, value);
    lk_redis_marker_text(claim, marker);
    (void)snprintf(info, sizeof info, "%" PRIu64 " %" PRIu64 " %d %s %d %.*s",
                   lk_redis_server_us(&lk_redis_node_of(r, data->slot)->time, data->since) / 1000, token,
                   (int)claim->slot, r->values.name, data->numbers > 0, LOCKER_OWNER_MAX, claim->owner);
    out = lk_redis_put_text(out, value);
    out = lk_redis_put_number(out, (size_t)(claim->ttl_ns / LK_MS));
    out = lk_redis_put_number(out, (size_t)token);
    out = lk_redis_put_text(out, marker);
    out = lk_redis_put_number(out, (size_t)claim->slot);
    return lk_redis_put_text(out, info);
}

char *lk_redis_recovery_put_locked(lk_redis *r, const lk_redis_renewed *slots, size_t count, bool shares,
                                   const char *script, bool whole, char *out)
{
    out = lk_redis_batch_begin(out, script, whole, 3 * count + 1, (shares ? 6 : 5) * count + 1);
    for (size_t i = 0; i < count; i++) {
        out = lk_redis_batch_keys(r, slots[i].claim, shares ? LK_REDIS_QUEUE : LK_REDIS_INFO, out);
        out = put_counter(r, lk_redis_claim_of(slots[i].claim), out);
    }
    out = lk_redis_put_text(out, r->recovery.mark);
    for (size_t i = 0; i < count; i++)
        out = shares ? put_share_locked(r, slots[i].claim, out) : put_lease_locked(r, slots[i].claim, out);
    return lk_redis_put_text(out, r->recovery.life);
}
