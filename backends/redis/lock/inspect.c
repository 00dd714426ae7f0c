/* inspect.c: for operators: who holds a lock and who waits, taking it away by force, and a ping. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grant_info.h"
#include "net/reply.h"
#include "operations.h"
#include "script_call.h"

enum { LOOK_TURNS = 3, DIGITS_MAX = 17 };
static const int64_t look_again_ns = 10 * LK_MS; /* and twice as long each time */

static void copy_owner(char *out, const char *text)
{
    (void)snprintf(out, LOCKER_OWNER_MAX + 1, "%s", text);
}

/* Digits and a space: a number that Lua's doubles hold, as all of ours are. Moves *text behind them. */
static bool read_number(const char **text, int64_t *number)
{
    const size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > DIGITS_MAX || (*text)[digits] != ' ')
        return false;
    *number = strtoll(*text, NULL, 10);
    *text += digits + 1;
    return true;
}

/* Whether the text begins with 32 hex digits, as values and names of instances do, and `end`. */
static bool is_name(const char *text, char end)
{
    return strspn(text, "0123456789abcdef") == LK_REDIS_VALUE_LEN && text[LK_REDIS_VALUE_LEN] == end;
}

/* "value since_ms token instance owner": the grant that it tells of may be an earlier one. False: it is about
 * another value, or makes no sense. */
static bool read_info(const char *text, const char *value, locker_info *info)
{
    int64_t since, token;
    if (!is_name(value, '\0') || strncmp(text, value, LK_REDIS_VALUE_LEN) != 0 ||
        text[LK_REDIS_VALUE_LEN] != ' ')
        return false;
    text += LK_REDIS_VALUE_LEN + 1;
    if (!read_number(&text, &since) || !read_number(&text, &token) || !is_name(text, ' '))
        return false;
    info->token = (uint64_t)token;
    info->since_unix_ms = since > 0 ? since : -1;
    copy_owner(info->owner, text + LK_REDIS_VALUE_LEN + 1);
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
    info->queue = calloc(queue->elements, sizeof *info->queue);
    if (info->queue == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    info->queue_len = queue->elements;
    info->queue_stride = sizeof *info->queue;
    for (size_t i = 0; i < queue->elements; i++) {
        if (queue->element[i]->type == REDIS_REPLY_STRING)
            copy_owner(info->queue[i].owner, owner_of_member(queue->element[i]->str));
    }
    return LOCKER_OK;
}

/* The last number given out; 0 when the counter is somebody's nonsense. */
static uint64_t read_counter(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    return digits <= DIGITS_MAX && text[digits] == '\0' ? strtoull(text, NULL, 10) : 0;
}

/* What a look says beyond what its caller is told. */
struct sight {
    char *value; /* the lock's, to be freed; NULL: nobody holds it */
    size_t len;
    bool early; /* the holder has not said yet who it is */
};

static locker_status keep_value(struct sight *sight, const redisReply *value, locker_error *err)
{
    sight->len = value->len;
    sight->value = malloc(value->len + 1);
    if (sight->value == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    memcpy(sight->value, value->str, value->len + 1);
    return LOCKER_OK;
}

/* {held, value, PTTL, info, how many wait, the first of them, the counter} */
static locker_status read_look(const redisReply *reply, locker_info *info, struct sight *sight,
                               locker_error *err)
{
    static const int kinds[] = {REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER,
                                REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY,
                                REDIS_REPLY_STRING};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != sizeof kinds / sizeof kinds[0])
        return lk_redis_reply_nonsense("looking at a lock", err);
    for (size_t i = 0; i < reply->elements; i++) {
        if (reply->element[i]->type != kinds[i])
            return lk_redis_reply_nonsense("looking at a lock", err);
    }
    const char *value = reply->element[1]->str;
    info->held = reply->element[0]->integer == 1;
    info->remaining_ms = info->held && reply->element[2]->integer >= 0 ? reply->element[2]->integer : -1;
    info->waiters = reply->element[4]->integer;
    if (!info->held)
        info->token = read_counter(reply->element[6]->str);
    else if (!read_info(reply->element[3]->str, value, info))
        sight->early = is_name(value, '\0'); /* as of this driver's; other clients use such values too */
    if (info->held && keep_value(sight, reply->element[1], err) != LOCKER_OK)
        return LOCKER_NOMEM;
    return read_queue(reply->element[5], info, err);
}

/* A call without an answer. */
static locker_status unanswered(lk_redis_outcome outcome, locker_error *err)
{
    switch (outcome) {
    case LK_REDIS_CALL_REFUSED:
    case LK_REDIS_CALL_AWAY:
        return err->status;
    case LK_REDIS_CALL_NOMEM:
        return LOCKER_NOMEM;
    case LK_REDIS_CALL_CUT:
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "the connection to Redis was lost; try again");
    default:
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "Redis did not answer in time");
    }
}

/* `only`: the arguments of the script. */
static locker_status look(lk_redis *r, lk_redis_script which, const lk_redis_command *only, const char *key,
                          size_t key_len, int64_t until, locker_info *info, struct sight *sight,
                          locker_error *err)
{
    lk_redis_keys keys;
    lk_redis_call call = {.until = until};
    lk_redis_outcome outcome;
    locker_status status;
    if (!lk_redis_keys_init(&keys, r->set.name_space, key, key_len))
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    lk_redis_lock(&r->shared); /* holders in this process need not be waited for */
    lk_redis_notes_flush_locked(r);
    lk_redis_unlock(&r->shared);
    /* Looking twice does no harm; breaking twice might break another's lock. */
    do {
        outcome = lk_redis_ask_script(r, &call, which, &keys, only, err);
    } while (outcome == LK_REDIS_CALL_CUT && which == LK_REDIS_SCRIPT_SHOW);
    if (outcome != LK_REDIS_CALL_ANSWERED) {
        status = unanswered(outcome, err);
    } else {
        const lk_redis_fault fault = lk_redis_reply_fault(call.reply);
        status = fault == LK_REDIS_FAULT_NONE
                     ? read_look(call.reply, info, sight, err)
                     : lk_redis_fault_error(fault, call.reply, "looking at a lock", err);
        if (fault == LK_REDIS_FAULT_MOVED) {
            lk_redis_lock(&r->shared);
            lk_redis_net_moved_locked(r->net, call.reply);
            lk_redis_unlock(&r->shared);
        }
        freeReplyObject(call.reply);
    }
    lk_redis_keys_clear(&keys);
    return status;
}

static void forget(locker_info *info)
{
    free(info->queue);
    *info = (locker_info)LOCKER_INFO_INIT;
}

/* Look until the holder is known: it says who it is a few milliseconds after its grant (grant_info.c). */
static locker_status look_well(lk_redis *r, const char *key, size_t key_len, int64_t until, locker_info *info,
                               struct sight *sight, locker_error *err)
{
    const lk_redis_command none = {0};
    for (int turn = 0;; turn++) {
        *sight = (struct sight){0};
        const locker_status status =
            look(r, LK_REDIS_SCRIPT_SHOW, &none, key, key_len, until, info, sight, err);
        const int64_t again = lk_redis_now(&r->shared) + (look_again_ns << turn);
        if (status != LOCKER_OK || !sight->early || turn == LOOK_TURNS || again >= until)
            return status;
        forget(info);
        free(sight->value);
        lk_redis_pause(&r->shared, NULL, again);
    }
}

locker_status lk_redis_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                            locker_error *err)
{
    struct sight sight;
    locker_error spare;
    const locker_status status =
        look_well(self, key, key_len, until, info, &sight, err != NULL ? err : &spare);
    free(sight.value);
    return status;
}

/* Take the lock from the one that was seen. *gone: another has it by now, or nobody; nothing has changed. */
static locker_status break_seen(lk_redis *r, const char *key, size_t key_len, int64_t until,
                                const struct sight *seen, locker_info *broken, bool *gone, locker_error *err)
{
    struct sight now = {0};
    lk_redis_command only = {0};
    lk_redis_command_add(&only, seen->value, seen->len);
    const locker_status status =
        look(r, LK_REDIS_SCRIPT_BREAK, &only, key, key_len, until, broken, &now, err);
    *gone = status == LOCKER_OK &&
            (now.value == NULL || now.len != seen->len || memcmp(now.value, seen->value, now.len) != 0);
    free(now.value);
    return status;
}

locker_status lk_redis_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                             int64_t until, locker_info *broken, locker_error *err)
{
    locker_error spare;
    if (err == NULL)
        err = &spare;
    for (;;) {
        struct sight seen;
        bool gone = true;
        locker_status status = look_well(self, key, key_len, until, broken, &seen, err);
        if (status == LOCKER_OK && seen.value == NULL) {
            forget(broken);
            return locker_error_set(err, LOCKER_INVALID, 0, "nobody holds it");
        }
        if (status == LOCKER_OK)
            status = locker_break_check(only, broken, err);
        if (status != LOCKER_OK) {
            free(seen.value);
            if (status != LOCKER_BUSY) /* that tells who holds it */
                forget(broken);
            return status;
        }
        forget(broken);
        status = break_seen(self, key, key_len, until, &seen, broken, &gone, err);
        free(seen.value);
        if (status != LOCKER_OK || !gone)
            return status;
        forget(broken);
        if (lk_redis_now(&((lk_redis *)self)->shared) >= until)
            return locker_error_set(err, LOCKER_UNAVAILABLE, 0,
                                    "it changes hands faster than it can be broken; try again");
    }
}

locker_status lk_redis_ping(void *self, int64_t until, locker_error *err)
{
    lk_redis *r = self;
    lk_redis_command a = {0};
    lk_redis_call call = {.until = until};
    locker_error spare;
    locker_status status = LOCKER_OK;
    if (err == NULL)
        err = &spare;
    lk_redis_command_text(&a, "PING");
    lk_redis_outcome outcome;
    do {
        outcome = lk_redis_ask(r->net, &call, &a, err);
    } while (outcome == LK_REDIS_CALL_CUT);
    if (outcome != LK_REDIS_CALL_ANSWERED)
        return unanswered(outcome, err);
    const lk_redis_fault fault = lk_redis_reply_fault(call.reply);
    if (fault != LK_REDIS_FAULT_NONE)
        status = lk_redis_fault_error(fault, call.reply, "answering a ping", err);
    else if (call.reply->type != REDIS_REPLY_STATUS || strcmp(call.reply->str, "PONG") != 0)
        status = lk_redis_reply_nonsense("answering a ping", err);
    freeReplyObject(call.reply);
    return status;
}
