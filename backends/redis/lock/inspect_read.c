/* inspect_read.c: see inspect_read.h. */
#include <stdio.h>
#include <stdlib.h>

#include "inspect_read.h"

void lk_redis_copy_owner(char *out, const char *text)
{
    (void)snprintf(out, LOCKER_OWNER_MAX + 1, "%s", text);
}

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
    lk_redis_copy_owner(waiter->owner, member);
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
