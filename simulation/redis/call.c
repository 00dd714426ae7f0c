/* call.c: see call.h. */
#include "call.h"

#include <inttypes.h>
#include <stdio.h>

#include "stream.h"

bool lk_sr_call_integer(lk_sr_call *call, size_t index, int64_t *number)
{
    if (lk_sr_integer(call->argv[index], number))
        return true;
    lk_sr_reply_error(call->out, LK_SR_NO_NUMBER);
    return false;
}

/* ------------------------------------------------------------------ keys ---- */

lk_sr_keyspace *lk_sr_call_space(lk_sr_call *call)
{
    return &call->server->spaces[*call->database];
}

/* A key that is over is removed by whoever looks, and replicas are told; they themselves only hide it, and a pause
 * leaves all as it is. To what its master says a replica's keys are never over. */
lk_sr_key *lk_sr_call_key(lk_sr_call *call, lk_sr_text name)
{
    lk_sr_server *server = call->server;
    lk_sr_key *key = lk_sr_keyspace_find(lk_sr_call_space(call), name);
    if (key == NULL || key->expires_ms < 0 || lk_sr_clock_ms(server) <= key->expires_ms || server->applying)
        return key;
    if (!lk_sr_is_replica(server) && server->paused_ms == 0) {
        lk_sr_stream_command(server, *call->database, 2, (lk_sr_text[]){lk_sr_word("DEL"), name});
        lk_sr_keyspace_remove(lk_sr_call_space(call), key);
    }
    return NULL;
}

bool lk_sr_call_typed(lk_sr_call *call, lk_sr_text name, lk_sr_kind kind, lk_sr_key **key)
{
    *key = lk_sr_call_key(call, name);
    if (*key == NULL || (*key)->kind == kind)
        return true;
    lk_sr_reply_error(call->out, LK_SR_WRONGTYPE);
    return false;
}

void lk_sr_call_remove_empty(lk_sr_call *call, lk_sr_key *key)
{
    if (key->items.count == 0)
        lk_sr_keyspace_remove(lk_sr_call_space(call), key);
}

void lk_sr_call_remove_items(lk_sr_call *call, lk_sr_kind kind)
{
    lk_sr_key *key;
    int64_t removed = 0;
    if (!lk_sr_call_typed(call, call->argv[1], kind, &key))
        return;
    for (size_t i = 2; key != NULL && i < call->argc; i++) {
        const lk_sr_item *item = lk_sr_items_find(&key->items, call->argv[i]);
        if (item == NULL)
            continue;
        lk_sr_items_remove(&key->items, (size_t)(item - key->items.at));
        removed++;
    }
    call->changed = removed > 0;
    if (removed > 0)
        lk_sr_call_remove_empty(call, key);
    lk_sr_reply_integer(call->out, removed);
}

bool lk_sr_call_remove(lk_sr_call *call, lk_sr_text name)
{
    lk_sr_key *key = lk_sr_call_key(call, name);
    if (key == NULL)
        return false;
    lk_sr_keyspace_remove(lk_sr_call_space(call), key);
    return call->changed = true;
}

/* True if a key that ends then is over now. */
static bool is_over(const lk_sr_call *call, int64_t at_ms)
{
    return at_ms <= lk_sr_clock_ms(call->server) && !lk_sr_is_replica(call->server);
}

void lk_sr_call_instead(lk_sr_call *call, size_t argc, const lk_sr_text *argv)
{
    lk_sr_stream_put(&call->instead, argc, argv);
}

void lk_sr_call_expire(lk_sr_call *call, lk_sr_key *key, int64_t at_ms)
{
    const lk_sr_text name = lk_sr_view(&key->name);
    call->changed = true;
    if (is_over(call, at_ms)) {
        lk_sr_call_instead(call, 2, (lk_sr_text[]){lk_sr_word("DEL"), name});
        lk_sr_keyspace_remove(lk_sr_call_space(call), key);
        return;
    }
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, at_ms);
    key->expires_ms = at_ms;
    lk_sr_call_instead(call, 3, (lk_sr_text[]){lk_sr_word("PEXPIREAT"), name, lk_sr_word(text)});
}

/* ------------------------------------------------------------------ running ---- */

void lk_sr_call_run(lk_sr_call *call)
{
    call->command->run(call);
    if (call->untold)
        ;
    else if (call->changed && call->instead.len > 0)
        lk_sr_stream_bytes(call->server, *call->database, lk_sr_view(&call->instead));
    else if (call->changed)
        lk_sr_stream_command(call->server, *call->database, call->argc, call->argv);
    lk_sr_bytes_free(&call->instead);
}

void lk_sr_sweep(lk_sr_server *server)
{
    if (lk_sr_is_replica(server) || server->paused_ms != 0)
        return;
    for (unsigned i = 0; i < LK_SR_DATABASES; i++) {
        LK_LIST_EACH_SAFE(link, &server->spaces[i].keys) {
            lk_sr_key *key = LK_CONTAINER(link, lk_sr_key, link);
            lk_sr_call call = {.server = server, .database = &i};
            (void)lk_sr_call_key(&call, lk_sr_view(&key->name));
        }
    }
    lk_sr_stream_flush(server);
}
