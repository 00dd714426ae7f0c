/* sharing.c: shared locks and permits: attempts, and for operators show and break. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "instance.h"
#include "net/command.h"
#include "sharing.h"

/* "instance value ttl numbers owner"; behind an S, or a P, of which the number is that of permits. */
static void read_member(const char *member, locker_waiter *waiter)
{
    const char kind = *member;
    for (int spaces = 0; *member != '\0' && spaces < 4; member++) {
        if (*member != ' ')
            continue;
        if (++spaces == 3 && kind == 'P')
            waiter->permits = (int32_t)strtol(member, NULL, 10);
    }
    waiter->mode = kind == 'S' ? LOCKER_SHARED : LOCKER_EXCLUSIVE;
    if ((kind == 'S' || kind == 'P') && *member >= '0' && *member <= '3' && member[1] == ' ')
        member += 2; /* whether it is told its number */
    (void)snprintf(waiter->owner, sizeof waiter->owner, "%s", member);
}

locker_status lk_redis_read_queue(const redisReply *queue, locker_info *info, locker_error *err)
{
    if (queue->elements == 0)
        return LOCKER_OK;
    info->queue = calloc(queue->elements, sizeof *info->queue);
    if (info->queue == NULL)
        return lk_out_of_memory(err);
    info->queue_len = queue->elements;
    info->queue_stride = sizeof *info->queue;
    for (size_t i = 0; i < queue->elements; i++)
        if (queue->element[i]->type == REDIS_REPLY_STRING)
            read_member(queue->element[i]->str, &info->queue[i]);
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ show and break ---- */

static const locker_break_options anybody = LOCKER_BREAK_OPTIONS_INIT;

enum {
    TRIES_MAX = 3,
    PARTS = 3, /* of what is told of a holder */
    /* holders that one script takes the lock from, for which a server takes 3 ms where thousands wait */
    PIECE_MAX = 50,
    TOLD_MAX = 1000 /* holders that are told of, as the script shows them at once */
};

locker_status lk_redis_unanswered(lk_redis_outcome outcome, locker_error *err)
{
    if (outcome == LK_REDIS_CALL_CUT)
        return lk_unavailable(err, "the connection to the server was lost; try again");
    return outcome == LK_REDIS_CALL_LATE ? lk_unavailable(err, "the server did not answer in time")
                                         : err->status;
}

/* To show twice does no harm, but to show for ever does if the query costs the connection. To break twice might break another's lock. */
locker_status lk_redis_inquire(const lk_redis_inquiry *q, lk_redis_script which, const char *fourth,
                               const lk_redis_command *more, redisReply **reply)
{
    int tries = which == LK_REDIS_SCRIPT_SHOW || which == LK_REDIS_SCRIPT_SHARED_SHOW ? TRIES_MAX : 1;
    for (unsigned hops = 0;;) {
        lk_redis_call call = {.until = q->until};
        lk_redis_node *const node = lk_redis_node_for(q->r, q->slot, &call);
        lk_redis_command a;
        lk_redis_script_begin(q->r, &a, which, q->keys, fourth);
        for (int i = 0; i < more->argc; i++)
            lk_redis_command_add(&a, more->argv[i], more->len[i]);
        const lk_redis_outcome outcome = lk_redis_ask_script(node, &call, which, &a, q->err);
        if (outcome == LK_REDIS_CALL_REMAPPED || (outcome == LK_REDIS_CALL_CUT && --tries > 0))
            continue;
        if (outcome != LK_REDIS_CALL_ANSWERED)
            return lk_redis_unanswered(outcome, q->err);
        *reply = call.reply;
        const bool moved = lk_redis_reply_fault(call.reply) == LK_REDIS_FAULT_MOVED &&
                           lk_redis_recovery_refuses(q->r, call.reply, NULL, q->err) == LOCKER_OK &&
                           hops++ < LK_REDIS_HOPS_MAX;
        lk_redis_heed(node, q->slot, call.reply);
        if (!moved)
            return LOCKER_OK;
        freeReplyObject(call.reply);
        *reply = NULL;
    }
}

/* What the script answers (lua/shared_show.lua). */
enum { MARKER, HOLDERS, NEXT, WAITERS, QUEUE, COUNTER, ANSWERS };

/* Some of those who hold the lock, as one look shows them. */
typedef struct {
    redisReply *reply; /* NULL: none yet */
    lk_redis_marker marker;
} page;

/* What is no answer of the script. */
static locker_status refused(const lk_redis_inquiry *q, const redisReply *reply)
{
    const locker_status status = lk_redis_recovery_refuses(q->r, reply, NULL, q->err);
    return status != LOCKER_OK
               ? status
               : lk_redis_reply_error(reply, "looking at a lock with several holders", q->err);
}

static bool is_look(const redisReply *reply)
{
    static const int kinds[ANSWERS] = {REDIS_REPLY_STRING,  REDIS_REPLY_ARRAY, REDIS_REPLY_STRING,
                                       REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY, REDIS_REPLY_STRING};
    bool is = reply != NULL && reply->type == REDIS_REPLY_ARRAY &&
              (reply->elements == 1 || reply->elements == ANSWERS);
    for (size_t i = 0; is && i < reply->elements; i++)
        is = reply->element[i]->type == kinds[i];
    return is;
}

/* "since_ms token slot instance told owner"; 0, or 2 where an earlier release let it in: it is not told its number. */
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
    holder->token = (told & 1) != 0 ? (uint64_t)token : 0;
    holder->slot = (int32_t)slot;
    (void)snprintf(holder->owner, sizeof holder->owner, "%s", text);
}

/* Of a holder's three parts. False: they make no sense. */
static bool read_holder(redisReply *const *part, const lk_redis_marker *marker, locker_holder *holder)
{
    *holder = (locker_holder){.slot = -1};
    if (part[0]->type != REDIS_REPLY_STRING || !lk_redis_is_name(part[0]->str, '\0') ||
        part[1]->type != REDIS_REPLY_INTEGER || part[2]->type != REDIS_REPLY_STRING)
        return false;
    read_info(part[2]->str, holder);
    holder->remaining_ms = part[1]->integer >= 0 ? part[1]->integer : 0;
    if (marker->permits == 0)
        holder->slot = -1;
    return true;
}

/* As scripts are told whom a break names, and where a page begins. */
typedef struct {
    char token[24], owner[1 + LOCKER_OWNER_MAX + 1], from[64];
    const char *behind;
} names;

/* The page behind `before`; NULL: the first one. */
static names names_of(const locker_break_options *only, const redisReply *before)
{
    names n = {"", "", "", ""};
    if (only->token != 0)
        (void)snprintf(n.token, sizeof n.token, "%" PRIu64, only->token);
    if (only->owner != NULL)
        (void)snprintf(n.owner, sizeof n.owner, "=%s", only->owner);
    const char *const next = before != NULL ? before->element[NEXT]->str : "";
    const size_t len = strcspn(next, " ");
    if (next[len] == ' ' && len < sizeof n.from) {
        memcpy(n.from, next, len);
        n.from[len] = '\0';
        n.behind = next + len + 1;
    }
    return n;
}

static void page_clear(page *p)
{
    freeReplyObject(p->reply);
    p->reply = NULL;
}

/* Set `p` to the first page of those whom `only` names, or to the one behind it, where no holder is newer than the number `newest` (""
 * for any). OK with *gone: the lock has no marker. */
static locker_status look(const lk_redis_inquiry *q, const locker_break_options *only, const char *newest,
                          page *p, bool *gone)
{
    const names n = names_of(only, p->reply);
    redisReply *reply = NULL;
    const lk_redis_command which = LK_REDIS_COMMAND(n.token, n.owner, n.from, n.behind, newest);
    locker_status status = lk_redis_inquire(q, LK_REDIS_SCRIPT_SHARED_SHOW, NULL, &which, &reply);
    page_clear(p);
    p->reply = reply;
    *gone = false;
    if (status == LOCKER_OK && !is_look(reply))
        status = refused(q, reply);
    if (status == LOCKER_OK)
        *gone = reply == NULL || reply->elements == 1 ||
                !lk_redis_marker_read(reply->element[MARKER]->str, &p->marker);
    return status;
}

/* Make room in `info` for so many more holders. */
static locker_status make_room(const lk_redis_inquiry *q, locker_info *info, size_t more)
{
    locker_holder *const all = realloc(info->holders, (info->holders_len + more + 1) * sizeof *all);
    if (all == NULL)
        return lk_out_of_memory(q->err);
    info->holders = all;
    return LOCKER_OK;
}

static void settle(locker_info *info, const page *p)
{
    locker_info_settle(info, p->marker.permits > 0 ? LOCKER_EXCLUSIVE : LOCKER_SHARED, p->marker.permits);
}

/* Tell in `info` of all on the page. */
static locker_status read_page(const lk_redis_inquiry *q, const page *p, locker_info *info)
{
    const redisReply *const list = p->reply->element[HOLDERS];
    const locker_status status = make_room(q, info, list->elements / PARTS);
    for (size_t i = 0; status == LOCKER_OK && i + PARTS <= list->elements; i += PARTS)
        if (read_holder(list->element + i, &p->marker, &info->holders[info->holders_len]))
            info->holders_len++;
    if (status == LOCKER_OK)
        settle(info, p);
    return status;
}

locker_status lk_redis_sharing_show(const lk_redis_inquiry *q, locker_info *info, bool *gone)
{
    page p = {0};
    locker_status status = look(q, &anybody, "", &p, gone);
    if (status == LOCKER_OK && !*gone) {
        info->waiters = p.reply->element[WAITERS]->integer;
        status = read_page(q, &p, info);
    }
    if (status == LOCKER_OK && !*gone)
        status = lk_redis_read_queue(p.reply->element[QUEUE], info, q->err);
    page_clear(&p);
    return status;
}

/* A break under way. */
typedef struct {
    const lk_redis_inquiry *q;
    const locker_break_options *only;
    page seen;
    locker_info *broken;
    bool is_named;  /* somebody was, whom it may be about */
    bool has_taken; /* the lock from one of them */
    char marker[LK_REDIS_MARKER_MAX],
        newest[LK_REDIS_NUMBER_MAX]; /* as the first page has them; "": any is taken */
} breaking;

/* Holders of the page, one piece of those whom the break names. */
typedef struct {
    char values[PIECE_MAX * LK_REDIS_VALUE_LEN + 1]; /* one behind the other */
    locker_holder holder[PIECE_MAX];
    size_t count;
} piece;

/* Fill the piece with the next ones, from *at of the page on, which moves behind them. */
static void fill(const breaking *b, size_t *at, piece *p)
{
    const redisReply *const list = b->seen.reply->element[HOLDERS];
    for (p->count = 0; p->count < PIECE_MAX && *at + PARTS <= list->elements; *at += PARTS) {
        redisReply *const *const part = list->element + *at;
        locker_holder *const one = &p->holder[p->count];
        if (read_holder(part, &b->seen.marker, one) && locker_break_names(b->only, one->owner, one->token))
            memcpy(p->values + LK_REDIS_VALUE_LEN * p->count++, part[0]->str, LK_REDIS_VALUE_LEN);
    }
    p->values[LK_REDIS_VALUE_LEN * p->count] = '\0';
}

/* Tell of those of the piece whose values are in `taken`, which has the same order. */
static locker_status tell_taken(breaking *b, const piece *p, const redisReply *taken)
{
    locker_info *const info = b->broken;
    const locker_status status = make_room(b->q, info, p->count);
    size_t next = 0;
    for (size_t i = 0; status == LOCKER_OK && i < p->count && next < taken->elements; i++) {
        const redisReply *const value = taken->element[next];
        if (value->type != REDIS_REPLY_STRING || value->len != LK_REDIS_VALUE_LEN ||
            memcmp(value->str, p->values + LK_REDIS_VALUE_LEN * i, LK_REDIS_VALUE_LEN) != 0)
            continue;
        next++;
        b->has_taken = true;
        if (info->holders_len < TOLD_MAX)
            info->holders[info->holders_len++] = p->holder[i];
    }
    return status;
}

/* Take the lock from the piece's holders, as far as they have it still. */
static locker_status take_piece(breaking *b, const piece *p)
{
    redisReply *taken = NULL;
    const lk_redis_command which = LK_REDIS_COMMAND(b->marker, p->values);
    locker_status status = lk_redis_inquire(b->q, LK_REDIS_SCRIPT_SHARED_BREAK, NULL, &which, &taken);
    if (status == LOCKER_OK && taken != NULL && taken->type != REDIS_REPLY_ARRAY)
        status = refused(b->q, taken);
    if (status == LOCKER_OK && taken != NULL)
        status = tell_taken(b, p, taken);
    freeReplyObject(taken);
    return status;
}

/* Take the lock from those of the page whom the break names. */
static locker_status take_page(breaking *b)
{
    locker_status status = LOCKER_OK;
    piece *const p = malloc(sizeof *p); /* too large for a thread's stack */
    size_t at = 0;
    if (p == NULL)
        return lk_out_of_memory(b->q->err);
    for (fill(b, &at, p); status == LOCKER_OK && p->count > 0; fill(b, &at, p)) {
        b->is_named = true;
        status = take_piece(b, p);
    }
    free(p);
    return status;
}

/* Whether the page seen is of the break's set, whose marker the first page tells. */
static bool is_same_set(breaking *b)
{
    const redisReply *const marker = b->seen.reply->element[MARKER];
    const redisReply *const counter = b->seen.reply->element[COUNTER];
    if (b->marker[0] != '\0')
        return strcmp(b->marker, marker->str) == 0;
    (void)snprintf(b->marker, sizeof b->marker, "%s", marker->str);
    /* A counter that is less than the set's own number was set by somebody, and says nothing. */
    if (b->only->token == 0 && strspn(counter->str, "0123456789") == counter->len &&
        strtoull(counter->str, NULL, 10) >= b->seen.marker.epoch)
        (void)snprintf(b->newest, sizeof b->newest, "%s", counter->str);
    return true;
}

/* Go through all pages. Who enters meanwhile has a number behind that of the beginning, and keeps the lock. */
static locker_status take_all(breaking *b)
{
    bool gone, more = true;
    while (more) {
        locker_status status = look(b->q, b->only, b->newest, &b->seen, &gone);
        if (status != LOCKER_OK || gone || !is_same_set(b))
            return status;
        more = b->seen.reply->element[NEXT]->len > 0;
        status = take_page(b);
        if (status != LOCKER_OK)
            return status;
    }
    return LOCKER_OK;
}

/* The break names none of the holders: tell who they are. */
static locker_status tell_others(const breaking *b, bool *gone, bool *none)
{
    page p = {0};
    locker_status status = look(b->q, &anybody, "", &p, gone);
    if (status == LOCKER_OK && !*gone)
        status = read_page(b->q, &p, b->broken);
    if (status == LOCKER_OK && !*gone) {
        *none = !b->broken->held;
        *gone = !*none; /* unless it is refused, one of them has come meanwhile */
        status = *none ? LOCKER_OK : locker_break_check(b->only, b->broken, b->q->err);
    }
    page_clear(&p);
    return status;
}

locker_status lk_redis_sharing_break(const lk_redis_inquiry *q, const locker_break_options *only,
                                     locker_info *broken, bool *gone, bool *none)
{
    breaking b = {.q = q, .only = only, .broken = broken};
    *gone = *none = false;
    locker_status status = take_all(&b);
    if (status == LOCKER_OK && b.has_taken)
        settle(broken, &b.seen);
    else if (status == LOCKER_OK && b.is_named)
        *gone = true;
    else if (status == LOCKER_OK)
        status = tell_others(&b, gone, none);
    page_clear(&b.seen);
    return status;
}
