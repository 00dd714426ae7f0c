/* recovery.c: keeping locks over a loss of the server's data (recovery in instance.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "claim.h"
#include "instance.h"
#include "net/command.h"

/* ------------------------------------------------------------------ recovery ---- */

static const char mark_name[] = "locker:recovery";

bool lk_redis_recovery_init(lk_redis *r)
{
    const lk_redis_prefix *const prefix = &r->set.prefix;
    if (r->set.recovery_ns == 0)
        return true;
    r->recovery.mark = malloc(prefix->len + sizeof mark_name);
    if (r->recovery.mark == NULL)
        return false;
    memcpy(r->recovery.mark, prefix->text, prefix->len);
    memcpy(r->recovery.mark + prefix->len, mark_name, sizeof mark_name);
    return true;
}

void lk_redis_recovery_clear(lk_redis *r)
{
    free(r->recovery.mark);
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

/* Read "RECOVERY ms": the `recovery` of other clients. */
static bool is_another_time(const lk_redis *r, const redisReply *reply, locker_error *err)
{
    static const char recovers[] = "RECOVERY ";
    const char *const text = reply->type == REDIS_REPLY_ERROR ? reply->str : "";
    if (strncmp(text, recovers, sizeof recovers - 1) != 0)
        return false;
    (void)lk_misconfigured(err,
                           "recovery is %" PRId64
                           " ms here but %.12s ms for other clients; set the same everywhere: to "
                           "change it, close all clients and delete '%.120s' at Redis",
                           r->set.recovery_ns / LK_MS, text + sizeof recovers - 1, r->recovery.mark);
    return true;
}

/* The server can't write it, or the user may not. Told once. */
static void unwritten_locked(lk_redis *r, const redisReply *reply) LK_REDIS_LOCKED
{
    lk_redis_recovery *const recovery = &r->recovery;
    if (recovery->unwritten[0] == '\0')
        r->shared.svc->log(
            r->shared.svc, LOCKER_LOG_WARN,
            "redis: cannot write '%.120s', and no lock is granted without it (recovery): %.120s",
            recovery->mark, reply->str);
    (void)snprintf(recovery->unwritten, sizeof recovery->unwritten, "%s", reply->str);
}

static void met_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    lk_redis *const r = context;
    locker_error error = {0};
    if (reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_INTEGER) {
        r->recovery.unwritten[0] = '\0';
        if (reply->integer > 0)
            r->shared.svc->log(r->shared.svc, LOCKER_LOG_WARN,
                               "redis: the server was restarted or replaced, or its data are gone: holders "
                               "restore their locks, and no new lock is granted for %lld ms (recovery)",
                               reply->integer);
        return;
    }
    if (is_another_time(r, reply, &error))
        r->shared.svc->log(r->shared.svc, LOCKER_LOG_WARN, "redis: %s", error.text);
    else if (lk_redis_reply_fault(reply) == LK_REDIS_FAULT_MOVED) /* a replica by now */
        lk_redis_net_moved_locked(r->nodes->net, reply);
    else if (reply->type == REDIS_REPLY_ERROR)
        unwritten_locked(r, reply);
}

static void meet_locked(lk_redis *r) LK_REDIS_LOCKED
{
    char ms[LK_REDIS_NUMBER_MAX];
    const lk_redis_command a = meeting(r, r->recovery.life, ms);
    r->recovery.meet_at = lk_redis_now(&r->shared) + LK_REDIS_AGAIN_NS;
    (void)lk_redis_submit_command_locked(r->nodes->commands, &a, met_locked, r);
}

void lk_redis_recovery_meet_locked(lk_redis *r)
{
    if (r->set.recovery_ns == 0)
        return;
    read_life_locked(r);
    r->recovery.unwritten[0] = '\0';
    if (is_named(&r->nodes->commands->socket->server))
        meet_locked(r);
}

bool lk_redis_recovery_is_unwritten_locked(lk_redis *r, const redisReply *reply)
{
    if (r->recovery.mark == NULL || r->recovery.unwritten[0] == '\0' || reply->type != REDIS_REPLY_ERROR ||
        strncmp(reply->str, "FORGOTTEN", 9) != 0)
        return false;
    if (lk_redis_now(&r->shared) >= r->recovery.meet_at) {
        meet_locked(r);
        lk_redis_attend(r); /* it goes with the keeper's next turn, if nothing goes before */
    }
    return true;
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
        return lk_denied(err, "Redis does not show its run_id and master_replid, which "
                              "'recovery' needs; give the user the right +info");
    const lk_redis_command a = meeting(r, life, ms);
    if (lk_redis_ask(r->nodes->commands, &call, &a, 1, err) != LK_REDIS_CALL_ANSWERED)
        return lk_unavailable(err, "the connection to Redis was lost; try again");
    locker_status status = lk_redis_recovery_refuses(r, call.reply, NULL, err);
    if (call.reply->type != REDIS_REPLY_INTEGER && status == LOCKER_OK)
        status = lk_redis_reply_error(call.reply, "checking for lost data (recovery)", err);
    freeReplyObject(call.reply);
    return status;
}

/* ------------------------------------------------------------------ what is refused ---- */

locker_status lk_redis_recovery_check_ttl(const lk_redis *r, int64_t ttl_ns, locker_error *err)
{
    if (r->set.recovery_ns == 0 || ttl_ns <= r->set.recovery_ns)
        return LOCKER_OK;
    return lk_misconfigured(
        err,
        "a lease of %" PRId64 " ms is longer than recovery, %" PRId64
        " ms; make the lease shorter, or recovery longer for all clients of the namespace",
        ttl_ns / LK_MS, r->set.recovery_ns / LK_MS);
}

/* The same for who has not the mutex; *text: why it could not be written. */
static bool is_unwritten(lk_redis *r, const redisReply *reply, char text[LK_REDIS_UNWRITTEN_MAX])
{
    lk_redis_lock(&r->shared);
    const bool is = lk_redis_recovery_is_unwritten_locked(r, reply);
    memcpy(text, r->recovery.unwritten, LK_REDIS_UNWRITTEN_MAX);
    lk_redis_unlock(&r->shared);
    return is;
}

locker_status lk_redis_recovery_refuses(lk_redis *r, const redisReply *reply, int64_t *left_ms,
                                        locker_error *err)
{
    static const char recovering[] = "RECOVERING ";
    char why[LK_REDIS_UNWRITTEN_MAX];
    int64_t left = 0;
    locker_status status = LOCKER_OK;
    if (r->recovery.mark == NULL || reply->type != REDIS_REPLY_ERROR)
        return LOCKER_OK;
    if (strncmp(reply->str, recovering, sizeof recovering - 1) == 0) {
        left = strtoll(reply->str + sizeof recovering - 1, NULL, 10);
        status =
            lk_unavailable(err,
                           "Redis is recovering: it was restarted or replaced, or its data were removed, "
                           "and holders restore their locks; no lock is granted or shown for %" PRId64
                           " ms (recovery=%" PRId64 "ms)",
                           left, r->set.recovery_ns / LK_MS);
    } else if (is_unwritten(r, reply, why)) {
        left = LK_REDIS_AGAIN_NS / LK_MS;
        status = lk_unavailable(err,
                                "Redis cannot write '%.60s', which shows whether it has lost locks "
                                "(recovery); no lock is granted until it can: %.120s",
                                r->recovery.mark, why);
    } else if (is_another_time(r, reply, err)) {
        status = LOCKER_CONFIG;
    }
    if (left_ms != NULL)
        *left_ms = left;
    return status;
}

/* ------------------------------------------------------------------ renewals with recovery ---- */

static const char counter_name[] = "locker:fence:";

/* A claim has three keys (lock, queue, counter) and seven arguments (lua/recovery.lua). */
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

/* Put the text about a claim in a set: as the script that let it in wrote it (lua/sets.lua). */
static const char *share_info_locked(lk_redis *r, const locker_claim *claim,
                                     char info[LK_REDIS_INFO_MAX]) LK_REDIS_LOCKED
{
    const lk_redis_claim *const data = lk_redis_claim_of(claim);
    (void)snprintf(info, LK_REDIS_INFO_MAX, "%" PRIu64 " %" PRIu64 " %d %s %d %.*s",
                   lk_redis_server_us(&lk_redis_node_of(r, data->slot)->time, data->since) / 1000,
                   LK_READ(data->fence), (int)claim->slot, r->values.name, data->numbers > 0,
                   LOCKER_OWNER_MAX, claim->owner);
    return info;
}

static char *put_lease_locked(lk_redis *r, const locker_claim *claim, char *out) LK_REDIS_LOCKED
{
    char value[LK_REDIS_VALUE_LEN + 1], marker[LK_REDIS_MARKER_MAX] = "", info[LK_REDIS_INFO_MAX];
    lk_redis_claim *const data = lk_redis_claim_of(claim);
    const uint64_t first = LK_READ(data->fence);
    const bool shares = !locker_claim_is_plain(claim);
    if (shares)
        lk_redis_marker_text(claim, marker);
    else
        data->noted = true; /* it may be, from here on */
    lk_redis_value_text(&r->values, data->number, value);
    out = lk_redis_put_text(out, value);
    out = lk_redis_put_number(out, (size_t)(claim->ttl_ns / LK_MS));
    out = lk_redis_put_number(out, (size_t)(shares ? first : first + data->passes));
    out = lk_redis_put_number(out, (size_t)(shares ? first : first + data->numbers - 1));
    out = lk_redis_put_text(out,
                            shares ? share_info_locked(r, claim, info) : lk_redis_info_text(r, data, info));
    out = lk_redis_put_text(out, marker);
    return lk_redis_put_number(out, shares ? (size_t)claim->slot : 0);
}

char *lk_redis_recovery_put_locked(lk_redis *r, const lk_redis_renewed *slots, size_t count,
                                   const char *script, bool whole, char *out)
{
    out = lk_redis_batch_begin(out, script, whole, 3 * count + 1, 7 * count + 1);
    for (size_t i = 0; i < count; i++) {
        out = lk_redis_batch_keys(r, slots[i].claim, LK_REDIS_QUEUE, out);
        out = put_counter(r, lk_redis_claim_of(slots[i].claim), out);
    }
    out = lk_redis_put_text(out, r->recovery.mark);
    for (size_t i = 0; i < count; i++)
        out = put_lease_locked(r, slots[i].claim, out);
    return lk_redis_put_text(out, r->recovery.life);
}
