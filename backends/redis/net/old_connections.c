/* old_connections.c: see old_connections.h. */
#include "old_connections.h"

#include <string.h>

/* The others close up. Not while an answer may tell of one of them: its context is where that stands. */
static void drop_ended_locked(lk_redis_old_connections *old) LK_REDIS_LOCKED
{
    size_t kept = 0;
    for (size_t i = 0; i < old->count; i++) {
        if (old->id[i] != 0)
            old->id[kept++] = old->id[i];
    }
    old->count = kept;
}

void lk_redis_old_connections_add_locked(lk_redis_old_connections *old, int64_t id)
{
    drop_ended_locked(old);
    if (id == 0)
        return;
    if (old->count == LK_REDIS_OLD_CONNECTIONS)
        memmove(&old->id[0], &old->id[1], --old->count * sizeof old->id[0]);
    old->id[old->count++] = id;
}

static void ended_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    int64_t *id = context;
    if (reply != NULL)
        *id = 0;
}

void lk_redis_old_connections_end_locked(lk_redis_old_connections *old, lk_redis_pipeline *p)
{
    char id[24];
    drop_ended_locked(old);
    for (size_t i = 0; i < old->count; i++) {
        lk_redis_command a = {0};
        (void)lk_redis_number_text(id, (uint64_t)old->id[i]);
        lk_redis_command_text(&a, "CLIENT");
        lk_redis_command_text(&a, "KILL");
        lk_redis_command_text(&a, "ID");
        lk_redis_command_text(&a, id);
        (void)lk_redis_pipeline_submit_command_locked(p, &a, ended_locked, &old->id[i]);
    }
}
