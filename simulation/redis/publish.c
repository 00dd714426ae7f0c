/* publish.c: subscribers, and messages that do not come from a command here; and the commands of Pub/Sub, without patterns. Channels of a shard (SSUBSCRIBE) belong to slots as
 * keys do, and are others than those of the same names. */

#include "call.h"
#include "commands.h"
#include "view.h"

static lk_sr_items *channels_of(lk_sr_client *client, bool shard)
{
    return shard ? &client->shard_channels : &client->channels;
}

static bool has_subscribed_to(lk_sr_client *client, lk_sr_text channel, bool shard)
{
    return lk_sr_items_find(channels_of(client, shard), channel) != NULL;
}

bool lk_sr_has_subscribed(const lk_sr_client *client)
{
    return client->channels.count + client->shard_channels.count > 0;
}

static bool is_of_shard(const lk_sr_call *call)
{
    return (call->command->flags & LK_SR_SHARD) != 0;
}

/* ------------------------------------------------------------------ messages ---- */

static void put_message(lk_sr_client *client, lk_sr_text channel, lk_sr_text message, bool shard)
{
    lk_sr_reply_array(&client->out, 3);
    lk_sr_reply_bulk(&client->out, lk_sr_word(shard ? "smessage" : "message"));
    lk_sr_reply_bulk(&client->out, channel);
    lk_sr_reply_bulk(&client->out, message);
    lk_sr_tell(client);
}

int64_t lk_sr_deliver(lk_sr_server *server, lk_sr_text channel, lk_sr_text message, bool shard)
{
    int64_t receivers = 0;
    LK_LIST_EACH(link, &server->clients) {
        lk_sr_client *client = LK_CONTAINER(link, lk_sr_client, link);
        if (client->closing || !has_subscribed_to(client, channel, shard))
            continue;
        put_message(client, channel, message, shard);
        receivers++;
    }
    return receivers;
}

/* In a cluster nodes tell each other, and those alone who have subscribed here are counted. */
void lk_sr_publish(lk_sr_call *call)
{
    const struct lk_sr_view *view = call->server->view;
    const int64_t receivers = lk_sr_deliver(call->server, call->argv[1], call->argv[2], is_of_shard(call));
    if (view == NULL)
        call->changed = true; /* those at replicas hear it, too */
    else if (view->tells != NULL)
        view->tells(view->context, call->argv[1], call->argv[2], is_of_shard(call));
    lk_sr_reply_integer(call->out, receivers);
}

/* ------------------------------------------------------------------ subscriptions ---- */

/* `channel` NULL: of none. */
static void answer(lk_sr_client *client, const char *kind, bool shard, const lk_sr_text *channel)
{
    lk_sr_bytes name = {NULL, 0, 0};
    lk_sr_print(&name, "%s%s", shard ? "s" : "", kind);
    lk_sr_reply_array(&client->out, 3);
    lk_sr_reply_bulk(&client->out, lk_sr_view(&name));
    if (channel != NULL)
        lk_sr_reply_bulk(&client->out, *channel);
    else
        lk_sr_reply_nil(&client->out);
    lk_sr_reply_integer(&client->out, (int64_t)channels_of(client, shard)->count);
    lk_sr_bytes_free(&name);
}

void lk_sr_subscribe(lk_sr_call *call)
{
    const bool shard = is_of_shard(call);
    lk_sr_items *channels = channels_of(call->client, shard);
    for (size_t i = 1; i < call->argc; i++) {
        if (!has_subscribed_to(call->client, call->argv[i], shard))
            (void)lk_sr_items_insert(channels, channels->count, call->argv[i]);
        answer(call->client, "subscribe", shard, &call->argv[i]);
    }
}

static void leave(lk_sr_client *client, lk_sr_text channel, bool shard)
{
    lk_sr_items *channels = channels_of(client, shard);
    const lk_sr_item *item = lk_sr_items_find(channels, channel);
    lk_sr_bytes name = {NULL, 0, 0};
    lk_sr_put(&name, channel); /* which may stand in what is removed */
    if (item != NULL)
        lk_sr_items_remove(channels, (size_t)(item - channels->at));
    const lk_sr_text left = lk_sr_view(&name);
    answer(client, "unsubscribe", shard, &left);
    lk_sr_bytes_free(&name);
}

void lk_sr_unsubscribe(lk_sr_call *call)
{
    const bool shard = is_of_shard(call);
    const lk_sr_items *channels = channels_of(call->client, shard);
    if (call->argc == 1 && channels->count == 0)
        answer(call->client, "unsubscribe", shard, NULL);
    for (size_t i = 1; i < call->argc; i++)
        leave(call->client, call->argv[i], shard);
    while (call->argc == 1 && channels->count > 0)
        leave(call->client, lk_sr_view(&channels->at[0].name), shard);
}

void lk_sr_pubsub_numsub(lk_sr_call *call)
{
    lk_sr_reply_array(call->out, 2 * (call->argc - 2));
    for (size_t i = 2; i < call->argc; i++) {
        int64_t count = 0;
        LK_LIST_EACH(link, &call->server->clients) {
            lk_sr_client *client = LK_CONTAINER(link, lk_sr_client, link);
            count += !client->closing && has_subscribed_to(client, call->argv[i], is_of_shard(call));
        }
        lk_sr_reply_bulk(call->out, call->argv[i]);
        lk_sr_reply_integer(call->out, count);
    }
}

/* ------------------------------------------------------------------ a slot that goes ---- */

/* The first of the slot's, in the order of bytes; NULL: it has none. */
static const lk_sr_item *first_of_slot(const lk_sr_items *channels, unsigned slot)
{
    const lk_sr_item *first = NULL;
    for (size_t i = 0; i < channels->count; i++) {
        const lk_sr_text name = lk_sr_view(&channels->at[i].name);
        if (lk_sr_slot_of(name) == slot &&
            (first == NULL || lk_sr_compare(name, lk_sr_view(&first->name)) < 0))
            first = &channels->at[i];
    }
    return first;
}

void lk_sr_shard_leave(lk_sr_server *server, unsigned slot)
{
    LK_LIST_EACH(link, &server->clients) {
        lk_sr_client *client = LK_CONTAINER(link, lk_sr_client, link);
        const lk_sr_item *first;
        while (!client->closing && (first = first_of_slot(&client->shard_channels, slot)) != NULL) {
            leave(client, lk_sr_view(&first->name), true);
            lk_sr_tell(client);
        }
    }
}
