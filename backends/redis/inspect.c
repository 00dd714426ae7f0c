/* inspect.c: for operators: who holds a lock and who waits, taking it away by force, and a ping. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static void copy_owner(char *out, const char *text)
{
    (void)snprintf(out, LOCKER_OWNER_MAX + 1, "%s", text);
}

/* "last value since_ms token owner": the grant that it tells of may be an earlier one. */
static void read_info(const char *text, const char *value, locker_info *info)
{
    char whose[LK_VALUE_LEN + 1];
    uint64_t last, token;
    int64_t since;
    int at = 0;
    if (sscanf(text, "%" SCNu64 " %32s %" SCNd64 " %" SCNu64 "%n", &last, whose, &since, &token, &at) != 4)
        return;
    if (info->held && strcmp(whose, value) != 0)
        return;
    info->token = token;
    if (!info->held)
        return;
    info->since_unix_ms = since;
    copy_owner(info->owner, text[at] == ' ' ? text + at + 1 : "");
}

/* "instance value ttl fenced owner" */
static const char *owner_of_member(const char *member)
{
    for (int spaces = 0; *member != '\0'; member++) {
        if (*member == ' ' && ++spaces == 4)
            return member + 1;
    }
    return "";
}

static locker_status read_queue(const redisReply *queue, locker_info *info, locker_error *err)
{
    if (queue->elements == 0)
        return LOCKER_OK;
    info->queue = calloc(queue->elements, sizeof(*info->queue));
    if (info->queue == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    info->queue_len = queue->elements;
    for (size_t i = 0; i < queue->elements; i++) {
        if (queue->element[i]->type == REDIS_REPLY_STRING)
            copy_owner(info->queue[i].owner, owner_of_member(queue->element[i]->str));
    }
    return LOCKER_OK;
}

/* {held, value, PTTL, info, how many wait, the first of them} */
static locker_status read_look(const redisReply *reply, locker_info *info, locker_error *err)
{
    static const int kinds[] = {REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER,
                                REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 6)
        return lk_reply_nonsense("looking at a lock", err);
    for (size_t i = 0; i < 6; i++) {
        if (reply->element[i]->type != kinds[i])
            return lk_reply_nonsense("looking at a lock", err);
    }
    info->held = reply->element[0]->integer == 1;
    info->remaining_ms = info->held && reply->element[2]->integer >= 0 ? reply->element[2]->integer : -1;
    info->waiters = reply->element[4]->integer;
    read_info(reply->element[3]->str, reply->element[1]->str, info);
    return read_queue(reply->element[5], info, err);
}

/* A call without an answer. */
static locker_status unanswered(enum lk_outcome outcome, locker_error *err)
{
    switch (outcome) {
    case LK_CALL_REFUSED:
    case LK_CALL_AWAY:
        return err->status;
    case LK_CALL_NOMEM:
        return LOCKER_NOMEM;
    case LK_CALL_CUT:
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "the connection to Redis was lost; try again");
    default:
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "Redis did not answer in time");
    }
}

static locker_status look(struct lk_redis *r, enum lk_script which, const char *key, size_t key_len,
                          int64_t until, locker_info *info, locker_error *err)
{
    const struct lk_argv none = {0};
    struct lk_keys keys;
    struct lk_call call = {.until = until};
    enum lk_outcome outcome;
    locker_status status;
    if (!lk_keys_init(&keys, r->set.name_space, key, key_len))
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    /* Looking twice does no harm; breaking twice might break another's lock. */
    do {
        outcome = lk_call_script(r, &call, which, &keys, &none, err);
    } while (outcome == LK_CALL_CUT && which == LK_SCRIPT_SHOW);
    if (outcome != LK_CALL_ANSWERED) {
        status = unanswered(outcome, err);
    } else {
        const enum lk_fault fault = lk_reply_fault(call.reply);
        status = fault == LK_FAULT_NONE ? read_look(call.reply, info, err)
                                        : lk_fault_error(fault, call.reply, "looking at a lock", err);
        if (fault == LK_FAULT_MOVED) {
            pthread_mutex_lock(&r->lock);
            lk_moved_locked(r, call.reply);
            pthread_mutex_unlock(&r->lock);
        }
        freeReplyObject(call.reply);
    }
    lk_keys_clear(&keys);
    return status;
}

locker_status lk_redis_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                            locker_error *err)
{
    locker_error spare;
    return look(self, LK_SCRIPT_SHOW, key, key_len, until, info, err != NULL ? err : &spare);
}

locker_status lk_redis_break(void *self, const char *key, size_t key_len, int64_t until, locker_info *broken,
                             locker_error *err)
{
    locker_error spare;
    if (err == NULL)
        err = &spare;
    const locker_status status = look(self, LK_SCRIPT_BREAK, key, key_len, until, broken, err);
    if (status == LOCKER_OK && !broken->held)
        return locker_error_set(err, LOCKER_INVALID, 0, "nobody holds it");
    return status;
}

locker_status lk_redis_ping(void *self, int64_t until, locker_error *err)
{
    struct lk_redis *r = self;
    struct lk_argv a = {0};
    struct lk_call call = {.until = until};
    locker_error spare;
    locker_status status = LOCKER_OK;
    if (err == NULL)
        err = &spare;
    lk_argv_text(&a, "PING");
    enum lk_outcome outcome;
    do {
        outcome = lk_call(r, &call, &a, err);
    } while (outcome == LK_CALL_CUT);
    if (outcome != LK_CALL_ANSWERED)
        return unanswered(outcome, err);
    const enum lk_fault fault = lk_reply_fault(call.reply);
    if (fault != LK_FAULT_NONE)
        status = lk_fault_error(fault, call.reply, "answering a ping", err);
    freeReplyObject(call.reply);
    return status;
}
