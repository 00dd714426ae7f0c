/* inspect.c: for operators: who holds a lock and who waits, taking it away by force, and a ping. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { LOOK_TURNS = 3 };
static const int64_t look_again_ns = 10 * LK_MS; /* and twice as long each time */

static void copy_owner(char *out, const char *text)
{
    (void)snprintf(out, LOCKER_OWNER_MAX + 1, "%s", text);
}

/* "value since_ms token owner": the grant that it tells of may be an earlier one. False: it is about another
 * value, or makes no sense. */
static bool read_info(const char *text, const char *value, locker_info *info)
{
    char *end;
    if (strlen(value) != LK_VALUE_LEN || strncmp(text, value, LK_VALUE_LEN) != 0 || text[LK_VALUE_LEN] != ' ')
        return false;
    const long long since = strtoll(text + LK_VALUE_LEN + 1, &end, 10);
    if (*end != ' ')
        return false;
    const unsigned long long token = strtoull(end + 1, &end, 10);
    if (*end != ' ')
        return false;
    info->token = token;
    info->since_unix_ms = since > 0 ? since : -1;
    copy_owner(info->owner, end + 1);
    return true;
}

/* "instance value ttl numbers owner" */
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

/* Whether the value looks like one of this driver's; other clients use such values too. */
static bool is_ours(const char *value)
{
    return strlen(value) == LK_VALUE_LEN && strspn(value, "0123456789abcdef") == LK_VALUE_LEN;
}

/* {held, value, PTTL, info, how many wait, the first of them, the counter}. *early: the holder has not said
 * yet who it is. */
static locker_status read_look(const redisReply *reply, locker_info *info, bool *early, locker_error *err)
{
    static const int kinds[] = {REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER,
                                REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY,
                                REDIS_REPLY_STRING};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != sizeof(kinds) / sizeof(kinds[0]))
        return lk_reply_nonsense("looking at a lock", err);
    for (size_t i = 0; i < reply->elements; i++) {
        if (reply->element[i]->type != kinds[i])
            return lk_reply_nonsense("looking at a lock", err);
    }
    const char *value = reply->element[1]->str;
    info->held = reply->element[0]->integer == 1;
    info->remaining_ms = info->held && reply->element[2]->integer >= 0 ? reply->element[2]->integer : -1;
    info->waiters = reply->element[4]->integer;
    if (!info->held)
        info->token = strtoull(reply->element[6]->str, NULL, 10); /* the last number given out */
    else if (!read_info(reply->element[3]->str, value, info))
        *early = is_ours(value);
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
                          int64_t until, locker_info *info, bool *early, locker_error *err)
{
    const struct lk_argv none = {0};
    struct lk_keys keys;
    struct lk_call call = {.until = until};
    enum lk_outcome outcome;
    locker_status status;
    if (!lk_keys_init(&keys, r->set.name_space, key, key_len))
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    pthread_mutex_lock(&r->lock); /* holders in this process need not be waited for */
    lk_notes_flush_locked(r);
    pthread_mutex_unlock(&r->lock);
    /* Looking twice does no harm; breaking twice might break another's lock. */
    do {
        outcome = lk_call_script(r, &call, which, &keys, &none, err);
    } while (outcome == LK_CALL_CUT && which == LK_SCRIPT_SHOW);
    if (outcome != LK_CALL_ANSWERED) {
        status = unanswered(outcome, err);
    } else {
        const enum lk_fault fault = lk_reply_fault(call.reply);
        status = fault == LK_FAULT_NONE ? read_look(call.reply, info, early, err)
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
    struct lk_redis *r = self;
    locker_error spare;
    locker_status status;
    for (int turn = 0;; turn++) { /* a holder says who it is a few milliseconds after its grant (note.c) */
        bool early = false;
        status = look(r, LK_SCRIPT_SHOW, key, key_len, until, info, &early, err != NULL ? err : &spare);
        const int64_t again = lk_redis_now(r) + (look_again_ns << turn);
        if (status != LOCKER_OK || !early || turn == LOOK_TURNS || again >= until)
            return status;
        free(info->queue);
        info->queue = NULL;
        info->queue_len = 0;
        lk_pause(r, NULL, again);
    }
}

locker_status lk_redis_break(void *self, const char *key, size_t key_len, int64_t until, locker_info *broken,
                             locker_error *err)
{
    locker_error spare;
    if (err == NULL)
        err = &spare;
    bool early = false;
    locker_status status =
        lk_redis_show(self, key, key_len, until, broken, err); /* until its holder is known */
    free(broken->queue);
    broken->queue = NULL;
    broken->queue_len = 0;
    if (status == LOCKER_OK)
        status = look(self, LK_SCRIPT_BREAK, key, key_len, until, broken, &early, err);
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
