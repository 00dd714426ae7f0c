/* torn_inspect.c: see torn_inspect.h. */
#include <stdio.h>
#include <stdlib.h>

#include "torn.h"
#include "torn_inspect.h"

enum { LOOK = 3, ALL = 7, MESSAGE_MAX = LK_REDIS_VALUE_LEN + LK_REDIS_NUMBER_MAX + 16 };

/* What the commands have in common. */
typedef struct {
    lk_redis *r;
    uint16_t slot;
    lk_redis_call *call; /* as the caller made it, and then of what was asked last */
    locker_error *err;
} inquiry;

/* The answer is the caller's. */
static lk_redis_outcome ask(inquiry *q, const lk_redis_command *a, redisReply **reply)
{
    lk_redis_call call = *q->call;
    const lk_redis_outcome outcome = lk_redis_torn_ask(q->r, q->slot, &call, a, q->err);
    *reply = outcome == LK_REDIS_CALL_ANSWERED ? call.reply : NULL;
    return outcome;
}

static lk_redis_outcome ask_script(inquiry *q, const char *text, const char *key, redisReply **reply)
{
    const lk_redis_command a = LK_REDIS_COMMAND("EVAL", text, "1", key);
    return ask(q, &a, reply);
}

static bool is_array(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == LOOK;
}

/* One answer of three, whose parts go into it. NULL: no memory. */
static redisReply *join(redisReply *lock, redisReply *info, redisReply *queue)
{
    redisReply *const all = calloc(1, sizeof *all);
    if (all == NULL || (all->element = calloc(ALL, sizeof(redisReply *))) == NULL) {
        free(all);
        return NULL;
    }
    all->type = REDIS_REPLY_ARRAY;
    all->elements = ALL;
    for (size_t i = 0; i < LOOK; i++) {
        all->element[i] = lock->element[i];
        all->element[LOOK + 1 + i] = queue->element[i];
        lock->element[i] = queue->element[i] = NULL;
    }
    all->element[LOOK] = info;
    freeReplyObject(lock);
    freeReplyObject(queue);
    return all;
}

static lk_redis_outcome look(inquiry *q, lk_redis_keys *keys, redisReply **seen)
{
    redisReply *part[LOOK] = {0};
    const char *const key[LOOK] = {keys->lock, lk_redis_keys_info(keys), lk_redis_keys_queue(keys)};
    const char *const script[LOOK] = {lk_redis_migrating_lock_text, lk_redis_migrating_info_text,
                                      lk_redis_migrating_queue_text};
    *seen = NULL;
    for (size_t i = 0; i < LOOK; i++) {
        const lk_redis_outcome outcome = ask_script(q, script[i], key[i], &part[i]);
        const bool answered = outcome == LK_REDIS_CALL_ANSWERED;
        if (answered && (i == 1 ? part[i]->type == REDIS_REPLY_STRING : is_array(part[i])))
            continue;
        *seen = part[i]; /* an error, or nothing */
        for (size_t had = 0; had < i; had++)
            freeReplyObject(part[had]);
        return outcome;
    }
    *seen = join(part[0], part[1], part[2]);
    if (*seen != NULL)
        return LK_REDIS_CALL_ANSWERED;
    for (size_t i = 0; i < LOOK; i++)
        freeReplyObject(part[i]);
    lk_out_of_memory(q->err);
    return LK_REDIS_CALL_NOMEM;
}

/* Set `inst` to the instance that the holder's info names, or, where it has none yet, to the one that follows from the value, of 32
 * characters. True: by the info. */
static bool holder_of(const redisReply *seen, const char *value, char inst[LK_REDIS_VALUE_LEN + 1])
{
    const char *const info = seen->element[LOOK]->str, *at = info + LK_REDIS_VALUE_LEN + 1;
    const size_t half = LK_REDIS_VALUE_LEN / 2;
    int64_t since, token;
    if (strncmp(info, value, LK_REDIS_VALUE_LEN) == 0 && info[LK_REDIS_VALUE_LEN] == ' ' &&
        lk_redis_read_number(&at, ' ', &since) && lk_redis_read_number(&at, ' ', &token) &&
        strspn(at, "0123456789abcdef") == LK_REDIS_VALUE_LEN) {
        memcpy(inst, at, LK_REDIS_VALUE_LEN);
        inst[LK_REDIS_VALUE_LEN] = '\0';
        return true;
    }
    memcpy(inst, value, half);
    memcpy(inst + half, value, half + 1);
    inst[LK_REDIS_VALUE_LEN] = '\0';
    return false;
}

/* The holder is told, or learns it by its next renewal. */
static void tell(inquiry *q, lk_redis_keys *keys, const redisReply *seen, const char *value)
{
    char inst[LK_REDIS_VALUE_LEN + 1], channel[LK_REDIS_CHANNEL_MAX], tag[sizeof(uint64_t) + 1] = "";
    redisReply *reply = NULL;
    char *const text = malloc(keys->len + MESSAGE_MAX);
    if (text == NULL)
        return;
    const bool noted = holder_of(seen, value, inst);
    const lk_redis_command counter = LK_REDIS_COMMAND("GET", keys->fence);
    if (!noted)
        (void)ask(q, &counter, &reply);
    const bool counts = reply != NULL && reply->type == REDIS_REPLY_STRING &&
                        strspn(reply->str, "0123456789") == reply->len && reply->len < LK_REDIS_NUMBER_MAX;
    (void)snprintf(text, keys->len + MESSAGE_MAX, "%s %s%s %s", value, noted ? "broken" : "taken ",
                   noted    ? ""
                   : counts ? reply->str
                            : "0",
                   keys->lock);
    *lk_redis_tag_put(tag, lk_redis_slot_tag(&q->r->slots, q->slot)) = '\0';
    (void)snprintf(channel, sizeof channel, "locker:wake:%s%s", inst, tag);
    freeReplyObject(reply);
    const lk_redis_command publish = LK_REDIS_COMMAND("SPUBLISH", channel, text);
    (void)ask(q, &publish, &reply);
    freeReplyObject(reply);
    free(text);
}

/* True if the value has the length of our holders' values, by which they can be told. */
static bool is_holder(const char *value, bool is_type)
{
    return !is_type && strlen(value) == LK_REDIS_VALUE_LEN;
}

/* The mark comes first: it says nothing while the lock has the value. */
static lk_redis_outcome take_away(inquiry *q, lk_redis_keys *keys, const redisReply *seen, const char *value,
                                  bool is_type, redisReply **dropped)
{
    char ttl[LK_REDIS_NUMBER_MAX];
    redisReply *reply = NULL;
    char *const mark = lk_redis_keys_mark(keys, value);
    if (mark == NULL) {
        lk_out_of_memory(q->err);
        return LK_REDIS_CALL_NOMEM;
    }
    const long long left = seen->element[2]->integer;
    (void)lk_redis_number_text(ttl, left > 0 ? (uint64_t)left : 1);
    const lk_redis_command set = LK_REDIS_COMMAND("SET", mark, "1", "PX", ttl);
    const lk_redis_command drop =
        is_type ? LK_REDIS_COMMAND("EVAL", lk_redis_migrating_drop_hash_text, "1", keys->lock)
                : LK_REDIS_COMMAND("EVAL", lk_redis_migrating_drop_text, "1", keys->lock, value);
    const bool marks = left > 0 && is_holder(value, is_type);
    lk_redis_outcome outcome = marks ? ask(q, &set, &reply) : LK_REDIS_CALL_ANSWERED;
    const bool ready = outcome == LK_REDIS_CALL_ANSWERED && (!marks || reply->type == REDIS_REPLY_STATUS);
    if (ready) {
        freeReplyObject(reply);
        reply = NULL;
        outcome = ask(q, &drop, &reply);
    }
    free(mark);
    *dropped = reply;
    return outcome;
}

lk_redis_outcome lk_redis_torn_look(lk_redis *r, uint16_t slot, lk_redis_keys *keys, const char *value,
                                    bool is_type, lk_redis_call *call, locker_error *err)
{
    inquiry q = {r, slot, call, err};
    redisReply *seen, *dropped = NULL;
    lk_redis_outcome outcome = look(&q, keys, &seen);
    const bool theirs =
        outcome == LK_REDIS_CALL_ANSWERED && value != NULL && seen->type == REDIS_REPLY_ARRAY &&
        seen->element[0]->type == REDIS_REPLY_INTEGER && seen->element[0]->integer == (is_type ? 2 : 1) &&
        seen->element[1]->type == REDIS_REPLY_STRING && strcmp(seen->element[1]->str, value) == 0;
    if (theirs) {
        outcome = take_away(&q, keys, seen, value, is_type, &dropped);
        if (outcome != LK_REDIS_CALL_ANSWERED || dropped->type == REDIS_REPLY_ERROR) {
            freeReplyObject(seen);
            seen = dropped;
        } else if (dropped->type == REDIS_REPLY_INTEGER && dropped->integer == 1) {
            if (is_holder(value, is_type))
                tell(&q, keys, seen, value);
            freeReplyObject(dropped);
        } else { /* another has it by now */
            freeReplyObject(dropped);
            freeReplyObject(seen);
            outcome = look(&q, keys, &seen);
        }
    }
    call->reply = call->replies[0] = seen;
    return outcome;
}
