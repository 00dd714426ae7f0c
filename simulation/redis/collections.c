/* collections.c: commands on lists and hashes, by which rivals keep their locks, as far as these are met on a key of ours. */
#include <inttypes.h>
#include <stdio.h>

#include "call.h"
#include "commands.h"

/* The key, made if need be; NULL: it is of another kind, which was answered. */
static lk_sr_key *want(lk_sr_call *call, lk_sr_kind kind)
{
    lk_sr_key *key;
    if (!lk_sr_call_typed(call, call->argv[1], kind, &key))
        return NULL;
    return key != NULL ? key : lk_sr_keyspace_add(lk_sr_call_space(call), call->argv[1], kind);
}

/* ------------------------------------------------------------------ lists ---- */

void lk_sr_lpush(lk_sr_call *call)
{
    lk_sr_key *key = want(call, LK_SR_LIST);
    for (size_t i = 2; key != NULL && i < call->argc; i++)
        (void)lk_sr_items_insert(&key->items, 0, call->argv[i]);
    if (key == NULL)
        return;
    call->changed = true;
    lk_sr_reply_integer(call->out, (int64_t)key->items.count);
}

void lk_sr_llen(lk_sr_call *call)
{
    lk_sr_key *key;
    if (lk_sr_call_typed(call, call->argv[1], LK_SR_LIST, &key))
        lk_sr_reply_integer(call->out, key != NULL ? (int64_t)key->items.count : 0);
}

static void pop(lk_sr_call *call, lk_sr_key *key, int64_t count)
{
    for (; count > 0 && key->items.count > 0; count--) {
        lk_sr_reply_bulk(call->out, lk_sr_view(&key->items.at[0].name));
        lk_sr_items_remove(&key->items, 0);
        call->changed = true;
    }
    lk_sr_call_remove_empty(call, key);
}

/* With a count the answer is a list. */
void lk_sr_lpop(lk_sr_call *call)
{
    lk_sr_key *key;
    int64_t count = 1;
    const bool counted = call->argc == 3;
    if (call->argc > 3)
        lk_sr_reply_error(call->out, "wrong number of arguments for 'lpop' command");
    else if (counted && (!lk_sr_integer(call->argv[2], &count) || count < 0))
        lk_sr_reply_error(call->out, "value is out of range, must be positive");
    else if (!lk_sr_call_typed(call, call->argv[1], LK_SR_LIST, &key))
        return;
    else if (key == NULL && counted)
        lk_sr_print(call->out, "*-1\r\n");
    else if (key == NULL)
        lk_sr_reply_nil(call->out);
    else {
        if (counted)
            lk_sr_reply_array(call->out,
                              count < (int64_t)key->items.count ? (size_t)count : key->items.count);
        pop(call, key, count);
    }
}

/* ------------------------------------------------------------------ hashes ---- */

void lk_sr_hset(lk_sr_call *call)
{
    int64_t added = 0;
    if (call->argc % 2 == 1) {
        lk_sr_reply_error(call->out, "wrong number of arguments for 'hset' command");
        return;
    }
    lk_sr_key *key = want(call, LK_SR_HASH);
    if (key == NULL)
        return;
    for (size_t i = 2; i < call->argc; i += 2) {
        lk_sr_item *item = lk_sr_items_find(&key->items, call->argv[i]);
        added += item == NULL;
        if (item == NULL)
            item = lk_sr_items_insert(&key->items, key->items.count, call->argv[i]);
        lk_sr_bytes_set(&item->value, call->argv[i + 1]);
    }
    call->changed = true;
    lk_sr_reply_integer(call->out, added);
}

/* The field; false: it is no hash, which was answered. */
static bool find_field(lk_sr_call *call, lk_sr_item **item)
{
    lk_sr_key *key;
    if (!lk_sr_call_typed(call, call->argv[1], LK_SR_HASH, &key))
        return false;
    *item = key != NULL ? lk_sr_items_find(&key->items, call->argv[2]) : NULL;
    return true;
}

void lk_sr_hget(lk_sr_call *call)
{
    lk_sr_item *item;
    if (!find_field(call, &item))
        return;
    if (item != NULL)
        lk_sr_reply_bulk(call->out, lk_sr_view(&item->value));
    else
        lk_sr_reply_nil(call->out);
}

void lk_sr_hexists(lk_sr_call *call)
{
    lk_sr_item *item;
    if (find_field(call, &item))
        lk_sr_reply_integer(call->out, item != NULL);
}

void lk_sr_hlen(lk_sr_call *call)
{
    lk_sr_key *key;
    if (lk_sr_call_typed(call, call->argv[1], LK_SR_HASH, &key))
        lk_sr_reply_integer(call->out, key != NULL ? (int64_t)key->items.count : 0);
}

void lk_sr_hdel(lk_sr_call *call)
{
    lk_sr_call_remove_items(call, LK_SR_HASH);
}

void lk_sr_hincrby(lk_sr_call *call)
{
    int64_t by, number = 0;
    lk_sr_item *item;
    if (!lk_sr_call_integer(call, 3, &by) || !find_field(call, &item))
        return;
    if (item != NULL && !lk_sr_integer(lk_sr_view(&item->value), &number)) {
        lk_sr_reply_error(call->out, "hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(number, by, &number)) {
        lk_sr_reply_error(call->out, "increment or decrement would overflow");
        return;
    }
    lk_sr_key *key = want(call, LK_SR_HASH);
    if (item == NULL)
        item = lk_sr_items_insert(&key->items, key->items.count, call->argv[2]);
    item->value.len = 0;
    lk_sr_print(&item->value, "%" PRId64, number);
    call->changed = true;
    lk_sr_reply_integer(call->out, number);
}
