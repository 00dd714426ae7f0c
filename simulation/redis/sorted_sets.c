/* sorted_sets.c: commands on sorted sets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "commands.h"

/* ------------------------------------------------------------------ ZADD ---- */

typedef struct {
    bool nx, xx, gt, lt, changed, increment;
    size_t first; /* of the pairs */
    size_t count;
} add_options;

static bool *option_of(add_options *o, lk_sr_text word)
{
    return lk_sr_is(word, "nx")     ? &o->nx
           : lk_sr_is(word, "xx")   ? &o->xx
           : lk_sr_is(word, "gt")   ? &o->gt
           : lk_sr_is(word, "lt")   ? &o->lt
           : lk_sr_is(word, "ch")   ? &o->changed
           : lk_sr_is(word, "incr") ? &o->increment
                                    : NULL;
}

/* False: it was answered what is wrong. */
static bool read_options(lk_sr_call *call, add_options *o)
{
    const char *wrong = NULL;
    double score;
    bool *option;
    for (o->first = 2; o->first < call->argc && (option = option_of(o, call->argv[o->first])) != NULL;
         o->first++)
        *option = true;
    o->count = (call->argc - o->first) / 2;
    if ((call->argc - o->first) % 2 != 0 || o->count == 0)
        wrong = LK_SR_SYNTAX;
    else if (o->nx && o->xx)
        wrong = "XX and NX options at the same time are not compatible";
    else if ((o->gt && o->nx) || (o->lt && o->nx) || (o->gt && o->lt))
        wrong = "GT, LT, and/or NX options at the same time are not compatible";
    else if (o->increment && o->count > 1)
        wrong = "INCR option supports a single increment-element pair";
    for (size_t i = 0; wrong == NULL && i < o->count; i++) {
        if (!lk_sr_float(call->argv[o->first + 2 * i], &score))
            wrong = "value is not a valid float";
    }
    if (wrong != NULL)
        lk_sr_reply_error(call->out, "%s", wrong);
    return wrong == NULL;
}

/* What became of one pair. */
typedef enum { LEFT, SAME, UPDATED, ADDED, NOT_A_NUMBER } outcome;

static outcome update(lk_sr_items *items, lk_sr_item *item, const add_options *o, double *score)
{
    const double old = item->score;
    if (o->nx)
        return LEFT;
    if (o->increment)
        *score += old;
    if (isnan(*score))
        return NOT_A_NUMBER;
    if ((o->lt && *score >= old) || (o->gt && *score <= old))
        return LEFT;
    if (!(*score < old) && !(*score > old))
        return SAME;
    lk_sr_bytes name = item->name;
    item->name = (lk_sr_bytes){NULL, 0, 0};
    lk_sr_items_remove(items, (size_t)(item - items->at));
    lk_sr_items_insert(items, lk_sr_items_rank(items, *score, lk_sr_view(&name)), lk_sr_view(&name))->score =
        *score;
    lk_sr_bytes_free(&name);
    return UPDATED;
}

static outcome add_one(lk_sr_items *items, lk_sr_text name, const add_options *o, double *score)
{
    *score += 0.0; /* a small set in Redis knows no -0 */
    lk_sr_item *item = lk_sr_items_find(items, name);
    if (item != NULL)
        return update(items, item, o, score);
    if (o->xx)
        return LEFT;
    lk_sr_items_insert(items, lk_sr_items_rank(items, *score, name), name)->score = *score;
    return ADDED;
}

static void answer_add(lk_sr_call *call, const add_options *o, const int64_t *became, double score)
{
    if (became[NOT_A_NUMBER] > 0)
        lk_sr_reply_error(call->out, "resulting score is not a number (NaN)");
    else if (!o->increment)
        lk_sr_reply_integer(call->out, became[ADDED] + (o->changed ? became[UPDATED] : 0));
    else if (became[SAME] + became[UPDATED] + became[ADDED] > 0)
        lk_sr_reply_float(call->out, score);
    else
        lk_sr_reply_nil(call->out);
}

void lk_sr_zadd(lk_sr_call *call)
{
    add_options o = {.first = 0};
    lk_sr_key *key;
    int64_t became[NOT_A_NUMBER + 1] = {0};
    double score = 0;
    if (!read_options(call, &o) || !lk_sr_call_typed(call, call->argv[1], LK_SR_ZSET, &key))
        return;
    if (key == NULL && !o.xx)
        key = lk_sr_keyspace_add(lk_sr_call_space(call), call->argv[1], LK_SR_ZSET);
    for (size_t i = 0; key != NULL && i < o.count && became[NOT_A_NUMBER] == 0; i++) {
        (void)lk_sr_float(call->argv[o.first + 2 * i], &score);
        became[add_one(&key->items, call->argv[o.first + 2 * i + 1], &o, &score)]++;
    }
    call->changed = became[UPDATED] + became[ADDED] > 0;
    answer_add(call, &o, became, score);
}

/* ------------------------------------------------------------------ others ---- */

void lk_sr_zrem(lk_sr_call *call)
{
    lk_sr_call_remove_items(call, LK_SR_ZSET);
}

/* The member, and its key; NULL: there is none, which was answered. */
static const lk_sr_item *find_member(lk_sr_call *call, const lk_sr_key **key)
{
    lk_sr_key *found;
    if (!lk_sr_call_typed(call, call->argv[1], LK_SR_ZSET, &found))
        return NULL;
    const lk_sr_item *const item = found != NULL ? lk_sr_items_find(&found->items, call->argv[2]) : NULL;
    if (item == NULL)
        lk_sr_reply_nil(call->out);
    *key = found;
    return item;
}

void lk_sr_zscore(lk_sr_call *call)
{
    const lk_sr_key *key;
    const lk_sr_item *const item = find_member(call, &key);
    if (item != NULL)
        lk_sr_reply_float(call->out, item->score);
}

void lk_sr_zrank(lk_sr_call *call)
{
    const lk_sr_key *key;
    const lk_sr_item *const item = find_member(call, &key);
    if (item != NULL)
        lk_sr_reply_integer(call->out, item - key->items.at);
}

/* By places alone. Those below 0 count from the end. */
void lk_sr_zrange(lk_sr_call *call)
{
    int64_t first, last;
    lk_sr_key *key;
    const bool scores = call->argc == 5 && lk_sr_is(call->argv[4], "withscores");
    if (call->argc > 4 && !scores) {
        lk_sr_reply_error(call->out, LK_SR_SYNTAX);
        return;
    }
    if (!lk_sr_call_integer(call, 2, &first) || !lk_sr_call_integer(call, 3, &last) ||
        !lk_sr_call_typed(call, call->argv[1], LK_SR_ZSET, &key))
        return;
    const int64_t count = key != NULL ? (int64_t)key->items.count : 0;
    first = first < 0 ? (first + count > 0 ? first + count : 0) : first;
    last = last < 0 ? last + count : last < count ? last : count - 1;
    const size_t found = first <= last ? (size_t)(last - first + 1) : 0;
    lk_sr_reply_array(call->out, scores ? 2 * found : found);
    for (int64_t i = first; i <= last; i++) {
        lk_sr_reply_bulk(call->out, lk_sr_view(&key->items.at[i].name));
        if (scores)
            lk_sr_reply_float(call->out, key->items.at[i].score);
    }
}

void lk_sr_zcard(lk_sr_call *call)
{
    lk_sr_key *key;
    if (lk_sr_call_typed(call, call->argv[1], LK_SR_ZSET, &key))
        lk_sr_reply_integer(call->out, key != NULL ? (int64_t)key->items.count : 0);
}

/* Scores from and to; "(1" leaves 1 out. */
typedef struct {
    double min, max;
    bool above, below; /* without the ends */
} range;

static bool read_bound(lk_sr_text text, double *bound, bool *without)
{
    char copy[256], *end;
    *without = text.len > 0 && text.data[0] == '(';
    const size_t from = *without ? 1 : 0, len = text.len - from;
    if (len >= sizeof copy)
        return false;
    if (len > 0)
        memcpy(copy, text.data + from, len);
    copy[len] = '\0';
    *bound = strtod(copy, &end);
    return *end == '\0' && !isnan(*bound);
}

static bool read_range(lk_sr_call *call, range *r)
{
    if (read_bound(call->argv[2], &r->min, &r->above) && read_bound(call->argv[3], &r->max, &r->below))
        return true;
    lk_sr_reply_error(call->out, "min or max is not a float");
    return false;
}

static bool is_in(const range *r, double score)
{
    return (r->above ? score > r->min : score >= r->min) && (r->below ? score < r->max : score <= r->max);
}

void lk_sr_zcount(lk_sr_call *call)
{
    range r;
    lk_sr_key *key;
    int64_t count = 0;
    if (!read_range(call, &r) || !lk_sr_call_typed(call, call->argv[1], LK_SR_ZSET, &key))
        return;
    for (size_t i = 0; key != NULL && i < key->items.count; i++)
        count += is_in(&r, key->items.at[i].score);
    lk_sr_reply_integer(call->out, count);
}

/* What a range is cut down to. */
typedef struct {
    bool scores;
    int64_t offset, limit; /* limit below 0: all */
} cut;

/* False: it was answered what is wrong. */
static bool read_cut(lk_sr_call *call, cut *c)
{
    for (size_t i = 4; i < call->argc; i++) {
        if (lk_sr_is(call->argv[i], "withscores")) {
            c->scores = true;
        } else if (lk_sr_is(call->argv[i], "limit") && call->argc - i > 2) {
            if (!lk_sr_call_integer(call, i + 1, &c->offset) || !lk_sr_call_integer(call, i + 2, &c->limit))
                return false;
            i += 2;
        } else {
            lk_sr_reply_error(call->out, LK_SR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* A negative offset runs into nothing. */
static size_t put_range(lk_sr_bytes *out, const lk_sr_items *items, const range *r, const cut *c)
{
    int64_t skip = c->offset;
    size_t count = 0;
    for (size_t i = 0; i < items->count && c->offset >= 0; i++) {
        if (!is_in(r, items->at[i].score) || skip-- > 0)
            continue;
        if (c->limit >= 0 && count >= (size_t)c->limit)
            break;
        count++;
        lk_sr_reply_bulk(out, lk_sr_view(&items->at[i].name));
        if (c->scores)
            lk_sr_reply_float(out, items->at[i].score);
    }
    return c->scores ? 2 * count : count;
}

void lk_sr_zrangebyscore(lk_sr_call *call)
{
    range r;
    cut c = {.limit = -1};
    lk_sr_key *key;
    lk_sr_bytes found = {NULL, 0, 0};
    if (!read_cut(call, &c) || !read_range(call, &r) ||
        !lk_sr_call_typed(call, call->argv[1], LK_SR_ZSET, &key))
        return;
    lk_sr_reply_array(call->out, key != NULL ? put_range(&found, &key->items, &r, &c) : 0);
    lk_sr_put(call->out, lk_sr_view(&found));
    lk_sr_bytes_free(&found);
}

void lk_sr_zpopmin(lk_sr_call *call)
{
    int64_t count = 1;
    lk_sr_key *key;
    if (call->argc > 3) {
        lk_sr_reply_error(call->out, LK_SR_SYNTAX);
        return;
    }
    if (call->argc == 3 && (!lk_sr_integer(call->argv[2], &count) || count < 0)) {
        lk_sr_reply_error(call->out, "value is out of range, must be positive");
        return;
    }
    if (!lk_sr_call_typed(call, call->argv[1], LK_SR_ZSET, &key))
        return;
    if (key == NULL || count == 0) {
        lk_sr_reply_array(call->out, 0);
        return;
    }
    if (count > (int64_t)key->items.count)
        count = (int64_t)key->items.count;
    lk_sr_reply_array(call->out, 2 * (size_t)count);
    for (; count > 0; count--) {
        lk_sr_reply_bulk(call->out, lk_sr_view(&key->items.at[0].name));
        lk_sr_reply_float(call->out, key->items.at[0].score);
        lk_sr_items_remove(&key->items, 0);
    }
    call->changed = true;
    lk_sr_call_remove_empty(call, key);
}
