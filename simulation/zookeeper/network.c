/* network.c: see network.h. */
#include "network.h"

#include <stdlib.h>

void lk_simzk_post(lk_simzk *z, lk_simzk_link link, const lk_simzk_message *message)
{
    lk_simzk_message *const posted = lk_simzk_alloc(sizeof *posted);
    *posted = *message;
    lk_list_append(&z->links[link.channel][link.from][link.to], &posted->link);
    z->counts[link.channel][link.from][link.to]++;
    if (z->setup.on_waiting != NULL)
        z->setup.on_waiting(z->setup.context, link);
}

lk_simzk_message *lk_simzk_fetch(lk_simzk *z, lk_simzk_link link)
{
    lk_list *const first = lk_list_take(&z->links[link.channel][link.from][link.to]);
    if (first == NULL)
        return NULL;
    z->counts[link.channel][link.from][link.to]--;
    return LK_CONTAINER(first, lk_simzk_message, link);
}

void lk_simzk_message_free(lk_simzk_message *message)
{
    if (message->call != NULL)
        lk_simzk_call_free(message->call);
    lk_simzk_txn_unref(message->txn);
    lk_simzk_history_free(&message->history);
    lk_simzk_touches_free(&message->touches);
    free(message);
}

void lk_simzk_drop(lk_simzk *z, lk_simzk_link link)
{
    for (lk_simzk_message *message; (message = lk_simzk_fetch(z, link)) != NULL;)
        lk_simzk_message_free(message);
}

void lk_simzk_drop_all(lk_simzk *z, int server)
{
    for (int other = 0; other < z->setup.servers; other++) {
        for (int channel = 0; channel < LK_SIMZK_CHANNELS; channel++) {
            lk_simzk_drop(z, (lk_simzk_link){(lk_simzk_channel)channel, server, other});
            lk_simzk_drop(z, (lk_simzk_link){(lk_simzk_channel)channel, other, server});
        }
    }
}
