/* inspect.c: for operators: who holds a lock and who waits, taking it away by force, and a ping. */
#include <stdio.h>

#include "instance.h"
#include "net/command.h"
#include "sharing.h"

enum { LOOK_TURNS = 3, HOLDERS_MAX = 2 };
static const int64_t look_again_ns = 10 * LK_MS; /* and twice as long each time */

/* A look at a lock, and what it sees beyond what its caller is told. */
struct look {
    lk_redis_inquiry q;
    lk_redis_keys keys;
    locker_info *info;
    redisReply *reply;       /* to be freed, or NULL */
    const redisReply *value; /* the lock's, a part of that; NULL: nobody holds it */
    const char *type; /* if it is no string, also in `value`; "": the user may not ask; NULL: a string */
    bool early;       /* the holder has not said yet who it is */
};

/* "value since_ms token instance owner": the grant that it tells of may be an earlier one. False: it is about
 * another value, or makes no sense. */
static bool read_info(const char *text, const char *value, locker_info *info)
{
    int64_t since, token;
    if (!lk_redis_is_name(value, '\0') || strncmp(text, value, LK_REDIS_VALUE_LEN) != 0 ||
        text[LK_REDIS_VALUE_LEN] != ' ')
        return false;
    text += LK_REDIS_VALUE_LEN + 1;
    if (!lk_redis_read_number(&text, ' ', &since) || !lk_redis_read_number(&text, ' ', &token) ||
        !lk_redis_is_name(text, ' '))
        return false;
    info->token = (uint64_t)token;
    info->since_unix_ms = since > 0 ? since : -1;
    (void)snprintf(info->owner, sizeof info->owner, "%s", text + LK_REDIS_VALUE_LEN + 1);
    return true;
}

/* {held, value, PTTL, info, how many wait, the first of them, the counter}. CONFIG: an application keeps data there. */
static locker_status read_look(struct look *x, const redisReply *reply)
{
    static const int kinds[] = {REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER,
                                REDIS_REPLY_STRING,  REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY,
                                REDIS_REPLY_STRING};
    locker_info *info = x->info;
    bool known = reply->type == REDIS_REPLY_ARRAY && reply->elements == sizeof kinds / sizeof kinds[0];
    for (size_t i = 0; known && i < reply->elements; i++)
        known = reply->element[i]->type == kinds[i];
    const locker_status refused =
        known ? LOCKER_OK : lk_redis_recovery_refuses(x->q.r, reply, NULL, x->q.err);
    if (!known)
        return refused != LOCKER_OK ? refused : lk_redis_reply_error(reply, "looking at a lock", x->q.err);
    const redisReply *value = reply->element[1];
    info->held = reply->element[0]->integer >= 1;
    x->type = reply->element[0]->integer == 2 ? value->str : NULL;
    if (x->type != NULL && lk_redis_is_data(x->type))
        return lk_redis_refuse_data(x->type, x->keys.lock, x->q.err);
    info->remaining_ms = info->held && reply->element[2]->integer >= 0 ? reply->element[2]->integer : -1;
    info->waiters = reply->element[4]->integer;
    if (info->held && !read_info(reply->element[3]->str, value->str, info))
        x->early =
            lk_redis_is_name(value->str, '\0'); /* as of this driver's; other clients use such values too */
    x->value = info->held ? value : NULL;
    return lk_redis_read_queue(reply->element[5], info, x->q.err);
}

/* `seen`: what the lock is to be taken from; NULL: only look. */
static locker_status look(struct look *x, const redisReply *seen)
{
    const lk_redis_script which = seen != NULL ? LK_REDIS_SCRIPT_BREAK : LK_REDIS_SCRIPT_SHOW;
    lk_redis_command more = {0};
    if (seen != NULL) {
        lk_redis_command_add(&more, seen->str, seen->len);
        lk_redis_command_text(&more, x->type == NULL ? "1" : "2");
    } else {
        x->type = NULL;
    }
    x->reply = NULL;
    x->value = NULL;
    x->early = false;
    lk_redis_lock(&x->q.r->shared); /* holders in this process need not be waited for */
    lk_redis_notes_flush_locked(x->q.r);
    lk_redis_unlock(&x->q.r->shared);
    const locker_status status =
        lk_redis_inquire(&x->q, which, lk_redis_keys_companion(&x->keys, LK_REDIS_INFO), &more, &x->reply);
    return status == LOCKER_OK ? read_look(x, x->reply) : status;
}

static void clear(locker_info *info)
{
    free(info->holders); /* NOLINT(clang-analyzer-unix.Malloc): the last line is forgotten over a look */
    free(info->queue);   /* NOLINT(clang-analyzer-unix.Malloc) */
    *info = (locker_info)LOCKER_INFO_INIT;
}

/* Look until the holder is known: it says who it is a few milliseconds after its grant (notes.c). Of so many `holders` each
 * has as long as the first; where they change faster, the last one has what is left of that. */
static locker_status look_well(struct look *x, int holders)
{
    char kept[LK_REDIS_VALUE_LEN + 1] = "";
    for (int turn = 0;; turn++) {
        const locker_status status = look(x, NULL);
        const char *const value = x->value != NULL ? x->value->str : "";
        if (strncmp(kept, value, LK_REDIS_VALUE_LEN) != 0 && --holders >= 0)
            turn = 0;
        (void)snprintf(kept, sizeof kept, "%s", value);
        const int64_t again = lk_redis_now(&x->q.r->shared) + (look_again_ns << turn);
        if (status != LOCKER_OK || !x->early || turn == LOOK_TURNS || again >= x->q.until)
            return status;
        clear(x->info);
        freeReplyObject(x->reply);
        lk_redis_pause(&x->q.r->shared, again);
    }
}

static locker_status begin(struct look *x, const char *key, size_t key_len)
{
    lk_redis *const r = x->q.r;
    x->q.slot = lk_redis_slot_of(&r->slots, &r->set.prefix, key, key_len);
    x->q.keys = &x->keys;
    return lk_redis_keys_in(r, &x->keys, key, key_len, x->q.slot) ? LOCKER_OK : lk_out_of_memory(x->q.err);
}

/* Whether several hold it. */
static bool is_shared(const struct look *x)
{
    lk_redis_marker marker;
    return x->value != NULL && x->type == NULL && lk_redis_marker_read(x->value->str, &marker);
}

/* The look tells that they do, and this one who. *gone: they don't any more; another look tells. A marker with nobody in its set
 * is somebody's value: a foreign client's, or its set was deleted alone. Then what the look told stands. */
static locker_status show_shared(struct look *x, bool *gone)
{
    locker_info shared = LOCKER_INFO_INIT;
    const locker_status status = lk_redis_sharing_show(&x->q, &shared, gone);
    if (status == LOCKER_OK && !*gone && !shared.held) {
        clear(&shared);
        return LOCKER_OK;
    }
    clear(x->info);
    *x->info = shared;
    return status;
}

locker_status lk_redis_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                            locker_error *err)
{
    locker_error spare;
    struct look x = {.q = {.r = self, .until = until, .err = err != NULL ? err : &spare}, .info = info};
    locker_status status = begin(&x, key, key_len);
    bool gone = true;
    while (status == LOCKER_OK && gone) {
        status = look_well(&x, 1);
        gone = false;
        if (status == LOCKER_OK && is_shared(&x))
            status = show_shared(&x, &gone);
        freeReplyObject(x.reply);
    }
    lk_redis_keys_clear(&x.keys);
    return status;
}

/* Take the lock from the one that was seen. *gone: another has it by now, or nobody; nothing has changed. */
static locker_status break_seen(struct look *x, bool *gone)
{
    redisReply *const before = x->reply;
    const redisReply *seen = x->value, *now;
    const bool is_string = x->type == NULL;
    const locker_status status = look(x, seen);
    now = x->value;
    *gone = status == LOCKER_OK && (now == NULL || is_string != (x->type == NULL) || now->len != seen->len ||
                                    memcmp(now->str, seen->str, now->len) != 0);
    freeReplyObject(before);
    return status;
}

/* *gone: it changed hands meanwhile. */
static locker_status break_once(struct look *x, const locker_break_options *only, bool *gone)
{
    locker_status status = look_well(x, HOLDERS_MAX);
    *gone = false;
    if (status == LOCKER_OK && is_shared(x)) {
        locker_info shared = LOCKER_INFO_INIT;
        bool none; /* none are in the set, so the marker is broken like another's value */
        status = lk_redis_sharing_break(&x->q, only, &shared, gone, &none);
        if (!none) {
            clear(x->info);
            *x->info = shared;
            return status;
        }
        clear(&shared);
    }
    if (status == LOCKER_OK && x->value == NULL) {
        (void)lk_invalid(x->q.err, "the lock has no holder");
        status = LOCKER_INVALID; /* said here, so that static analysis knows */
    } else if (status == LOCKER_OK) {
        status = locker_break_check(only, x->info, x->q.err);
        if (status == LOCKER_OK)
            status = lk_redis_check_force(x->type, x->value->str, x->info->remaining_ms, only, x->keys.lock,
                                          x->q.err);
    }
    if (status == LOCKER_BUSY) /* that tells who holds it */
        return status;
    clear(x->info);
    return status == LOCKER_OK ? break_seen(x, gone) : status;
}

locker_status lk_redis_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                             int64_t until, locker_info *broken, locker_error *err)
{
    locker_error spare;
    struct look x = {.q = {.r = self, .until = until, .err = err != NULL ? err : &spare}, .info = broken};
    bool gone = true;
    locker_status status = begin(&x, key, key_len);
    while (status == LOCKER_OK && gone) {
        status = break_once(&x, only, &gone);
        freeReplyObject(x.reply);
        if (status != LOCKER_OK || !gone)
            break;
        clear(x.info);
        if (lk_redis_now(&x.q.r->shared) >= until)
            status = lk_unavailable(
                x.q.err,
                "the lock got a new holder during each attempt to break it; run show, then break again");
        else
            lk_redis_pause(&x.q.r->shared, lk_redis_now(&x.q.r->shared) + LK_MS);
    }
    lk_redis_keys_clear(&x.keys);
    return status;
}

locker_status lk_redis_ping(void *self, int64_t until, locker_error *err)
{
    lk_redis *r = self;
    const lk_redis_command a = LK_REDIS_COMMAND("PING");
    lk_redis_call call = {.until = until};
    locker_error spare;
    locker_status status = LOCKER_OK;
    if (err == NULL)
        err = &spare;
    lk_redis_outcome outcome;
    do {
        outcome = lk_redis_ask(lk_redis_node_for(r, 0, &call)->commands, &call, &a, 1, err);
    } while (outcome == LK_REDIS_CALL_CUT || outcome == LK_REDIS_CALL_REMAPPED);
    if (outcome != LK_REDIS_CALL_ANSWERED)
        return lk_redis_unanswered(outcome, err);
    if (call.reply->type != REDIS_REPLY_STATUS || strcmp(call.reply->str, "PONG") != 0)
        status = lk_redis_reply_error(call.reply, "answering a ping", err);
    freeReplyObject(call.reply);
    return status;
}
