/* touches.c: see touches.h. */
#include "touches.h"

#include <stdlib.h>

static size_t find(const lk_simzk_touches *touches, int64_t session)
{
    size_t i = 0;
    while (i < touches->count && touches->items[i].session != session)
        i++;
    return i;
}

void lk_simzk_touches_add(lk_simzk_touches *touches, int64_t session, int32_t timeout_ms)
{
    const size_t at = find(touches, session);
    if (at == touches->room) {
        touches->room = touches->room > 0 ? 2 * touches->room : 8;
        touches->items = realloc(touches->items, touches->room * sizeof *touches->items);
        if (touches->items == NULL)
            abort();
    }
    touches->items[at] = (lk_simzk_touch){session, timeout_ms};
    if (at == touches->count)
        touches->count++;
}

void lk_simzk_touches_remove(lk_simzk_touches *touches, int64_t session)
{
    const size_t at = find(touches, session);
    if (at < touches->count)
        touches->items[at] = touches->items[--touches->count];
}

lk_simzk_touches lk_simzk_touches_take(lk_simzk_touches *touches)
{
    const lk_simzk_touches taken = *touches;
    *touches = (lk_simzk_touches){0};
    return taken;
}

void lk_simzk_touches_free(lk_simzk_touches *touches)
{
    free(touches->items);
    *touches = (lk_simzk_touches){0};
}
