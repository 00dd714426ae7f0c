/* sharing_inspect.c: see sharing_inspect.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "inspect_read.h"
#include "net/reply.h"
#include "node.h"
#include "recovery.h"
#include "script_call.h"
#include "sharing.h"
#include "sharing_inspect.h"

static const locker_break_options anybody = LOCKER_BREAK_OPTIONS_INIT;

enum { TRIES_MAX = 3, PARTS = 3 /* of what is told of a holder */ };

/* Whom a break is to be about. */
typedef struct {
    char *values; /* one behind the other, ended by a NUL */
    size_t count;
} named;

static locker_status unanswered(const lk_redis_inquiry *q, lk_redis_outcome outcome)
{
    if (outcome == LK_REDIS_CALL_CUT)
        return lk_unavailable(q->err, "the connection to the server was lost; try again");
    return outcome == LK_REDIS_CALL_LATE ? lk_unavailable(q->err, "the server did not answer in time")
                                         : q->err->status;
}

/* Looking twice does no harm; breaking twice might break another's lock. */
static locker_status ask(const lk_redis_inquiry *q, lk_redis_script which, const char *const *more,
                         redisReply **reply)
{
    int tries = which == LK_REDIS_SCRIPT_SHARED_SHOW ? TRIES_MAX : 1;
    unsigned hops = 0;
    for (;;) {
        lk_redis_call call = {.until = q->until};
        lk_redis_node *const node = lk_redis_node_for(q->r, q->slot, &call);
        lk_redis_command a;
        lk_redis_script_begin(q->r, &a, which, q->keys, NULL);
        lk_redis_command_texts(&a, more);
        const lk_redis_outcome outcome = lk_redis_ask_script(node, &call, which, &a, q->err);
        if (outcome == LK_REDIS_CALL_REMAPPED || (outcome == LK_REDIS_CALL_CUT && --tries > 0))
            continue;
        if (outcome != LK_REDIS_CALL_ANSWERED)
            return unanswered(q, outcome);
        lk_redis_heed(node, q->slot, call.reply);
        *reply = call.reply;
        if (lk_redis_reply_fault(call.reply) != LK_REDIS_FAULT_MOVED || hops++ == LK_REDIS_HOPS_MAX)
            return LOCKER_OK;
        freeReplyObject(call.reply);
        *reply = NULL;
    }
}

/* What is no answer of the script. */
static locker_status refused(const lk_redis_inquiry *q, const redisReply *reply)
{
    locker_status status;
    int64_t left_ms;
    if (lk_redis_recovery_refuses(q->r, reply, &left_ms, &status, q->err))
        return status;
    return lk_redis_reply_error(reply, "looking at a lock that several hold", q->err);
}

/* {marker, the holders, whether there may be more, how many wait, the first of them}; of no marker {''}. */
static bool is_look(const redisReply *reply)
{
    static const int kinds[] = {REDIS_REPLY_STRING, REDIS_REPLY_ARRAY, REDIS_REPLY_INTEGER,
                                REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY};
    bool is = reply != NULL && reply->type == REDIS_REPLY_ARRAY &&
              (reply->elements == 1 || reply->elements == sizeof kinds / sizeof kinds[0]);
    for (size_t i = 0; is && i < reply->elements; i++)
        is = reply->element[i]->type == kinds[i];
    return is;
}

/* "since_ms token slot instance 1 owner"; 0: it is not told its number. */
static void read_info(const char *text, locker_holder *holder)
{
    int64_t since, token, slot, told;
    holder->since_unix_ms = holder->slot = -1;
    if (!lk_redis_read_number(&text, ' ', &since) || !lk_redis_read_number(&text, ' ', &token) ||
        !lk_redis_read_number(&text, ' ', &slot) || strlen(text) <= LK_REDIS_VALUE_LEN)
        return;
    text += LK_REDIS_VALUE_LEN + 1;
    if (!lk_redis_read_number(&text, ' ', &told))
        return;
    holder->since_unix_ms = since > 0 ? since : -1;
    holder->token = told != 0 ? (uint64_t)token : 0;
    holder->slot = (int32_t)slot;
    lk_redis_copy_owner(holder->owner, text);
}

/* Of a holder's three parts. False: they make no sense. */
static bool read_holder(redisReply *const *part, const lk_redis_marker *marker, locker_holder *holder)
{
    *holder = (locker_holder){.slot = -1};
    if (part[0]->type != REDIS_REPLY_STRING || part[0]->len != LK_REDIS_VALUE_LEN ||
        part[1]->type != REDIS_REPLY_INTEGER || part[2]->type != REDIS_REPLY_STRING)
        return false;
    read_info(part[2]->str, holder);
    holder->remaining_ms = part[1]->integer >= 0 ? part[1]->integer : 0;
    if (marker->permits == 0)
        holder->slot = -1;
    return true;
}

static bool is_among(const redisReply *values, const redisReply *value)
{
    size_t i = 0;
    while (i < values->elements && (values->element[i]->type != REDIS_REPLY_STRING ||
                                    strcmp(values->element[i]->str, value->str) != 0))
        i++;
    return i < values->elements;
}

/* Of those in the list whom `only` names; with `values`, those whose values are among them. They are put down in `whom`, too. */
static void pick_holders(const redisReply *list, const lk_redis_marker *marker,
                         const locker_break_options *only, const redisReply *values, locker_info *info,
                         named *whom)
{
    for (size_t i = 0; i + PARTS <= list->elements; i += PARTS) {
        redisReply *const *const part = list->element + i;
        locker_holder *const one = &info->holders[info->holders_len];
        if (!read_holder(part, marker, one) || !locker_break_names(only, one->owner, one->token) ||
            (values != NULL && !is_among(values, part[0])))
            continue;
        info->holders_len++;
        memcpy(whom->values + LK_REDIS_VALUE_LEN * whom->count++, part[0]->str, LK_REDIS_VALUE_LEN);
    }
    whom->values[LK_REDIS_VALUE_LEN * whom->count] = '\0';
}

/* The same; where there are none, all who hold it, and nobody in `whom`. */
static locker_status read_holders(const lk_redis_inquiry *q, const redisReply *list,
                                  const lk_redis_marker *marker, const locker_break_options *only,
                                  const redisReply *values, locker_info *info, named *whom)
{
    const size_t most = list->elements / PARTS;
    free(info->holders);
    free(whom->values);
    *whom = (named){malloc(most * LK_REDIS_VALUE_LEN + 1), 0};
    info->holders_len = 0;
    info->holders = calloc(most + 1, sizeof *info->holders);
    if (info->holders == NULL || whom->values == NULL)
        return lk_out_of_memory(q->err);
    pick_holders(list, marker, only, values, info, whom);
    if (whom->count == 0) {
        pick_holders(list, marker, &anybody, NULL, info, whom);
        whom->count = 0;
    }
    locker_info_settle(info, marker->permits > 0 ? LOCKER_EXCLUSIVE : LOCKER_SHARED, marker->permits);
    return LOCKER_OK;
}

/* As scripts are told whom a break names. */
typedef struct {
    char token[24], owner[1 + LOCKER_OWNER_MAX + 1];
} names;

static names names_of(const locker_break_options *only)
{
    names n = {"", ""};
    if (only->token != 0)
        (void)snprintf(n.token, sizeof n.token, "%" PRIu64, only->token);
    if (only->owner != NULL)
        (void)snprintf(n.owner, sizeof n.owner, "=%s", only->owner);
    return n;
}

/* Whom `only` names, of those who hold it. OK with *gone: it is no marker. Else the reply is the caller's. */
static locker_status look(const lk_redis_inquiry *q, const locker_break_options *only,
                          lk_redis_marker *marker, redisReply **reply, bool *gone)
{
    const names n = names_of(only);
    locker_status status =
        ask(q, LK_REDIS_SCRIPT_SHARED_SHOW, (const char *const[]){n.token, n.owner, NULL}, reply);
    *gone = false;
    if (status == LOCKER_OK && !is_look(*reply))
        status = refused(q, *reply);
    if (status == LOCKER_OK && *reply != NULL)
        *gone = (*reply)->elements == 1 || !lk_redis_marker_read((*reply)->element[0]->str, marker);
    return status;
}

locker_status lk_redis_sharing_show(const lk_redis_inquiry *q, locker_info *info, bool *gone)
{
    lk_redis_marker marker;
    redisReply *reply = NULL;
    named whom = {0};
    locker_status status = look(q, &anybody, &marker, &reply, gone);
    if (status == LOCKER_OK && !*gone) {
        info->waiters = reply->element[3]->integer;
        status = read_holders(q, reply->element[1], &marker, &anybody, NULL, info, &whom);
    }
    if (status == LOCKER_OK && !*gone)
        status = lk_redis_read_queue(reply->element[4], info, q->err);
    free(whom.values);
    freeReplyObject(reply);
    return status;
}

/* Take the lock from those who were seen, and where there may be more, from all whom `only` names; *taken: the values of those seen who
 * held it still, to be freed. */
static locker_status take_away(const lk_redis_inquiry *q, const redisReply *seen, const named *whom,
                               const locker_break_options *only, redisReply **taken)
{
    const names n = names_of(only);
    const locker_status status =
        ask(q, LK_REDIS_SCRIPT_SHARED_BREAK,
            (const char *const[]){seen->element[0]->str, whom->values,
                                  seen->element[2]->integer != 0 ? "1" : "0", n.token, n.owner, NULL},
            taken);
    return status == LOCKER_OK && *taken != NULL && (*taken)->type != REDIS_REPLY_ARRAY ? refused(q, *taken)
                                                                                        : status;
}

/* Those whom `only` names; where it names none, who holds the lock. */
static locker_status look_at_named(const lk_redis_inquiry *q, const locker_break_options *only,
                                   lk_redis_marker *marker, redisReply **reply, bool *gone)
{
    const locker_status status = look(q, only, marker, reply, gone);
    if (status != LOCKER_OK || *gone || *reply == NULL || (*reply)->element[1]->elements > 0)
        return status;
    freeReplyObject(*reply);
    *reply = NULL;
    return look(q, &anybody, marker, reply, gone);
}

locker_status lk_redis_sharing_break(const lk_redis_inquiry *q, const locker_break_options *only,
                                     locker_info *broken, bool *gone, bool *none)
{
    lk_redis_marker marker;
    redisReply *reply = NULL, *taken = NULL;
    named whom = {0};
    *none = false;
    locker_status status = look_at_named(q, only, &marker, &reply, gone);
    if (status == LOCKER_OK && !*gone) {
        status = read_holders(q, reply->element[1], &marker, only, NULL, broken, &whom);
        *none = status == LOCKER_OK && !broken->held;
        if (status == LOCKER_OK && !*none)
            status = locker_break_check(only, broken, q->err);
        if (status == LOCKER_OK && !*none) {
            status = take_away(q, reply, &whom, only, &taken);
            *gone = status == LOCKER_OK && taken != NULL && taken->elements == 0;
        }
        if (status == LOCKER_OK && !*none && !*gone)
            status = read_holders(q, reply->element[1], &marker, only, taken, broken, &whom);
    }
    free(whom.values);
    freeReplyObject(taken);
    freeReplyObject(reply);
    return status;
}
