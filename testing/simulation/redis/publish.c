/* publish.c: commands of Pub/Sub, without patterns. */
#include "call.h"
#include "commands.h"
#include "reply.h"

static bool has_subscribed(const lk_sr_client *client, lk_sr_text channel)
{
    return lk_sr_items_find(&client->channels, channel) != NULL;
}

static void put_message(lk_sr_client *client, lk_sr_text channel, lk_sr_text message)
{
    lk_sr_reply_array(&client->out, 3);
    lk_sr_reply_bulk(&client->out, lk_sr_word("message"));
    lk_sr_reply_bulk(&client->out, channel);
    lk_sr_reply_bulk(&client->out, message);
    lk_sr_tell(client);
}

void lk_sr_publish(lk_sr_call *call)
{
    int64_t receivers = 0;
    LK_LIST_EACH(link, &call->server->clients) {
        lk_sr_client *client = LK_CONTAINER(link, lk_sr_client, link);
        if (client->closing || !has_subscribed(client, call->argv[1]))
            continue;
        put_message(client, call->argv[1], call->argv[2]);
        receivers++;
    }
    call->changed = true; /* those at replicas hear it, too */
    lk_sr_reply_integer(call->out, receivers);
}

/* `channel` NULL: of none. */
static void answer(lk_sr_call *call, const char *kind, const lk_sr_text *channel)
{
    lk_sr_reply_array(call->out, 3);
    lk_sr_reply_bulk(call->out, lk_sr_word(kind));
    if (channel != NULL)
        lk_sr_reply_bulk(call->out, *channel);
    else
        lk_sr_reply_nil(call->out);
    lk_sr_reply_integer(call->out, (int64_t)call->client->channels.count);
}

void lk_sr_subscribe(lk_sr_call *call)
{
    lk_sr_items *channels = &call->client->channels;
    for (size_t i = 1; i < call->argc; i++) {
        if (!has_subscribed(call->client, call->argv[i]))
            (void)lk_sr_items_insert(channels, channels->count, call->argv[i]);
        answer(call, "subscribe", &call->argv[i]);
    }
}

static void leave(lk_sr_call *call, lk_sr_text channel)
{
    lk_sr_items *channels = &call->client->channels;
    const lk_sr_item *item = lk_sr_items_find(channels, channel);
    lk_sr_bytes name = {NULL, 0, 0};
    lk_sr_put(&name, channel); /* which may stand in what is removed */
    if (item != NULL)
        lk_sr_items_remove(channels, (size_t)(item - channels->at));
    const lk_sr_text left = lk_sr_view(&name);
    answer(call, "unsubscribe", &left);
    lk_sr_bytes_free(&name);
}

void lk_sr_unsubscribe(lk_sr_call *call)
{
    lk_sr_items *channels = &call->client->channels;
    if (call->argc == 1 && channels->count == 0)
        answer(call, "unsubscribe", NULL);
    for (size_t i = 1; i < call->argc; i++)
        leave(call, call->argv[i]);
    while (call->argc == 1 && channels->count > 0)
        leave(call, lk_sr_view(&channels->at[0].name));
}

void lk_sr_pubsub_numsub(lk_sr_call *call)
{
    lk_sr_reply_array(call->out, 2 * (call->argc - 2));
    for (size_t i = 2; i < call->argc; i++) {
        int64_t count = 0;
        LK_LIST_EACH(link, &call->server->clients) {
            const lk_sr_client *client = LK_CONTAINER(link, lk_sr_client, link);
            count += !client->closing && has_subscribed(client, call->argv[i]);
        }
        lk_sr_reply_bulk(call->out, call->argv[i]);
        lk_sr_reply_integer(call->out, count);
    }
}
