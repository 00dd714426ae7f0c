/* txn.c: see txn.h. */
#include "txn.h"

#include <stdlib.h>

lk_simzk_txn *lk_simzk_txn_new(int64_t zxid, int64_t time_ms, int64_t session, int32_t xid, size_t count)
{
    lk_simzk_txn *const txn = lk_simzk_alloc(sizeof *txn);
    *txn = (lk_simzk_txn){
        .refs = 1, .zxid = zxid, .time_ms = time_ms, .session = session, .xid = xid, .count = count};
    txn->changes = lk_simzk_arena_alloc(&txn->arena, count * sizeof *txn->changes);
    return txn;
}

lk_simzk_txn *lk_simzk_txn_ref(lk_simzk_txn *txn)
{
    txn->refs++;
    return txn;
}

void lk_simzk_txn_unref(lk_simzk_txn *txn)
{
    if (txn == NULL || --txn->refs > 0)
        return;
    lk_simzk_arena_free(&txn->arena);
    free(txn);
}

bool lk_simzk_txn_failed(const lk_simzk_txn *txn)
{
    for (size_t i = 0; i < txn->count; i++)
        if (txn->changes[i].kind == LK_SIMZK_TXN_ERROR)
            return true;
    return false;
}

void lk_simzk_history_append(lk_simzk_history *history, lk_simzk_txn *txn)
{
    if (history->count == history->room) {
        history->room = history->room > 0 ? 2 * history->room : 64;
        history->items = realloc(history->items, history->room * sizeof(lk_simzk_txn *));
        if (history->items == NULL)
            abort();
    }
    history->items[history->count++] = lk_simzk_txn_ref(txn);
}

size_t lk_simzk_history_until(const lk_simzk_history *history, int64_t zxid)
{
    size_t low = 0, high = history->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (history->items[middle]->zxid <= zxid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void lk_simzk_history_truncate(lk_simzk_history *history, size_t count)
{
    while (history->count > count)
        lk_simzk_txn_unref(history->items[--history->count]);
}

void lk_simzk_history_free(lk_simzk_history *history)
{
    lk_simzk_history_truncate(history, 0);
    free(history->items);
    *history = (lk_simzk_history){0};
}
