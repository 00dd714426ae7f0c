/* slot_channels.c: see slot_channels.h. */
#include <stdlib.h>
#include <string.h>

#include "slot_channels.h"

lk_redis_slot_channels *lk_redis_slot_channels_new(const lk_redis_slot_events *events)
{
    lk_redis_slot_channels *c = calloc(1, sizeof *c);
    if (c != NULL)
        c->events = *events;
    return c;
}

void lk_redis_slot_channels_free(lk_redis_slot_channels *c)
{
    if (c != NULL)
        free(c->out.data);
    free(c);
}

static void ask_locked(lk_redis_slot_channels *c, void *owner, uint16_t slot) LK_REDIS_LOCKED
{
    char name[LK_REDIS_CHANNEL_MAX];
    const lk_redis_command a = LK_REDIS_COMMAND("SSUBSCRIBE", c->events.channel_of(owner, slot, name));
    char *const room = lk_buffer_room(&c->out, lk_redis_command_room(&a));
    if (room == NULL)
        return; /* who waits polls */
    c->out.len += (size_t)(lk_redis_command_put(&a, room) - room);
    c->sent[slot / 32] |= UINT32_C(1) << slot % 32;
}

void lk_redis_slot_channels_want_locked(lk_redis_slot_channels *c, void *owner, uint16_t slot)
{
    c->wanted[slot / 32] |= UINT32_C(1) << slot % 32;
    if (!c->none && (c->sent[slot / 32] >> slot % 32 & 1) == 0)
        ask_locked(c, owner, slot);
}

void lk_redis_slot_channels_begin_locked(lk_redis_slot_channels *c, void *owner)
{
    lk_redis_slot_channels_end_locked(c);
    c->none = false;
    lk_redis_slot_channels_again_locked(c, owner);
}

void lk_redis_slot_channels_again_locked(lk_redis_slot_channels *c, void *owner)
{
    for (unsigned slot = 0; slot < LK_REDIS_SLOTS; slot++)
        if (((c->wanted[slot / 32] & ~c->sent[slot / 32]) >> slot % 32 & 1) != 0)
            ask_locked(c, owner, (uint16_t)slot);
}

void lk_redis_slot_channels_end_locked(lk_redis_slot_channels *c)
{
    for (size_t i = 0; i < LK_REDIS_SLOTS / 32; i++) {
        LK_WRITE(c->heard[i], 0);
        c->sent[i] = 0;
        c->missed[i] |= c->wanted[i];
    }
    lk_buffer_empty(&c->out);
    c->gone = 0;
}

/* Which of those that were asked for was refused is not told. All that are not there yet are asked for again by who comes to
 * wait next, at the server that has the slot by then. */
static void forget_locked(lk_redis_slot_channels *c) LK_REDIS_LOCKED
{
    for (size_t i = 0; i < LK_REDIS_SLOTS / 32; i++)
        c->wanted[i] = c->sent[i] = LK_READ(c->heard[i]);
}

/* The bit of a slot, which is 0 afterwards. */
static bool take_bit(uint32_t *bits, uint16_t slot)
{
    const uint32_t bit = UINT32_C(1) << slot % 32;
    const bool is = (bits[slot / 32] & bit) != 0;
    bits[slot / 32] &= ~bit;
    return is;
}

bool lk_redis_slot_channels_forget_locked(lk_redis_slot_channels *c, uint16_t slot)
{
    (void)take_bit(c->missed, slot);
    return take_bit(c->wanted, slot);
}

bool lk_redis_slot_channels_missed_locked(const lk_redis_slot_channels *c, uint16_t slot)
{
    return (c->missed[slot / 32] >> slot % 32 & 1) != 0;
}

void lk_redis_slot_channels_tell_locked(lk_redis_slot_channels *c, void *owner)
{
    if (!c->has_news)
        return;
    c->has_news = false;
    c->events.on_subscribed(owner, c->news);
    for (size_t i = 0; i < LK_REDIS_SLOTS / 32; i++) {
        c->missed[i] &= ~(c->news[i] & LK_READ(c->heard[i]));
        c->news[i] = 0;
    }
}

bool lk_redis_slot_channels_hear_locked(lk_redis_slot_channels *c, void *owner, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        c->none = strstr(reply->str, "unknown command") != NULL;
        forget_locked(c);
        return true;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return false;
    const bool begins = strcmp(reply->element[0]->str, "ssubscribe") == 0;
    if (!begins && strcmp(reply->element[0]->str, "sunsubscribe") != 0)
        return false;
    if (reply->element[1]->type != REDIS_REPLY_STRING) /* there was none to be ended */
        return !begins;
    const uint16_t slot = c->events.slot_of(owner, reply->element[1]->str, reply->element[1]->len);
    const uint32_t bit = UINT32_C(1) << slot % 32;
    const uint32_t heard = LK_READ(c->heard[slot / 32]);
    LK_WRITE(c->heard[slot / 32], begins ? heard | bit : heard & ~bit);
    c->sent[slot / 32] = begins ? c->sent[slot / 32] | bit : c->sent[slot / 32] & ~bit;
    if (begins)
        c->wanted[slot / 32] |= bit;
    else
        c->missed[slot / 32] |= c->wanted[slot / 32] & bit;
    c->news[slot / 32] |= bit;
    c->has_news = true;
    return true;
}
