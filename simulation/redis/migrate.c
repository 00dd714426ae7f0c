/* migrate.c: a key that goes from one node to another; see cluster.h. */
#include "call.h"
#include "cluster.h"
#include "stream.h"

static const lk_sr_key *living(const lk_sr_server *server, lk_sr_text name)
{
    const lk_sr_key *key = lk_sr_keyspace_find(&server->spaces[0], name);
    return key != NULL && (key->expires_ms < 0 || lk_sr_clock_ms(server) <= key->expires_ms) ? key : NULL;
}

static void tell(lk_sr_server *server, size_t argc, const lk_sr_text *argv)
{
    lk_sr_stream_command(server, 0, argc, argv);
}

/* Its replicas make it of what it consists of. */
static void tell_replicas(lk_sr_server *to, const lk_sr_key *key)
{
    const lk_sr_text name = lk_sr_view(&key->name);
    lk_sr_bytes text = {NULL, 0, 0};
    if (key->kind == LK_SR_STRING)
        tell(to, 3, (lk_sr_text[]){lk_sr_word("SET"), name, lk_sr_view(&key->text)});
    for (size_t i = 0; i < key->items.count; i++) {
        const lk_sr_item *item = &key->items.at[key->kind == LK_SR_LIST ? key->items.count - 1 - i : i];
        const lk_sr_text member = lk_sr_view(&item->name);
        text.len = 0;
        lk_sr_print(&text, "%.17g", item->score);
        if (key->kind == LK_SR_LIST)
            tell(to, 3, (lk_sr_text[]){lk_sr_word("LPUSH"), name, member});
        else if (key->kind == LK_SR_HASH)
            tell(to, 4, (lk_sr_text[]){lk_sr_word("HSET"), name, member, lk_sr_view(&item->value)});
        else
            tell(to, 4, (lk_sr_text[]){lk_sr_word("ZADD"), name, lk_sr_view(&text), member});
    }
    text.len = 0;
    lk_sr_print(&text, "%lld", (long long)key->expires_ms);
    if (key->expires_ms >= 0)
        tell(to, 3, (lk_sr_text[]){lk_sr_word("PEXPIREAT"), name, lk_sr_view(&text)});
    lk_sr_bytes_free(&text);
}

/* Its lease goes on by the other's clock: what is left of it is sent, of which something always is. */
static int64_t end_there(const lk_sr_key *key, const lk_sr_server *from, const lk_sr_server *to)
{
    const int64_t left = key->expires_ms - lk_sr_clock_ms(from);
    return key->expires_ms < 0 ? -1 : lk_sr_clock_ms(to) + (left > 0 ? left : 1);
}

lk_sr_migration lk_sr_migrate(lk_sr_server *from, lk_sr_server *to, lk_sr_text name)
{
    const lk_sr_key *key = living(from, name);
    if (key == NULL)
        return LK_SR_NOT_THERE;
    if (living(to, name) != NULL)
        return LK_SR_BUSY_KEY;
    unsigned database = 0;
    lk_sr_call there = {.server = to, .database = &database}, here = {.server = from, .database = &database};
    (void)lk_sr_call_key(&there, name); /* one whose time is over goes */
    lk_sr_key *copy = lk_sr_keyspace_add(&to->spaces[0], name, key->kind);
    lk_sr_put(&copy->text, lk_sr_view(&key->text));
    lk_sr_items_copy(&copy->items, &key->items);
    copy->expires_ms = end_there(key, from, to);
    tell_replicas(to, copy);
    lk_sr_stream_flush(to);
    tell(from, 2, (lk_sr_text[]){lk_sr_word("DEL"), name});
    (void)lk_sr_call_remove(&here, name);
    lk_sr_stream_flush(from);
    return LK_SR_MIGRATED;
}
