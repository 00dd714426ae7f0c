/* index.c: whom a line of the service speaks of. A grant is found by its token or its id; a process that is
 * busy with the key may hold it by a grant that the service doesn't name, because locks are handed on inside
 * a process without its knowledge. */
#include <stdlib.h>

#include "internal.h"

/* ------------------------------------------------------------------ making it ---- */

static int by_return(const lk_attempt *a, const lk_attempt *b)
{
    return (a->answered > b->answered) - (a->answered < b->answered);
}

static int by_token(const void *left, const void *right)
{
    const lk_attempt *a = *(const lk_attempt *const *)left, *b = *(const lk_attempt *const *)right;
    if (a->answered->token != b->answered->token)
        return a->answered->token < b->answered->token ? -1 : 1;
    return by_return(a, b);
}

static int by_id(const void *left, const void *right)
{
    const lk_attempt *a = *(const lk_attempt *const *)left, *b = *(const lk_attempt *const *)right;
    if (a->answered->id != b->answered->id)
        return a->answered->id < b->answered->id ? -1 : 1;
    return by_return(a, b);
}

static int by_process(const void *left, const void *right)
{
    const lk_attempt *a = *(const lk_attempt *const *)left, *b = *(const lk_attempt *const *)right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return (a->asked > b->asked) - (a->asked < b->asked);
}

/* Until when the attempt kept its process busy with the key. */
static int64_t busy_to(const lk_attempt *a)
{
    const int64_t end = a->process->ended ? a->process->ended->t : LK_NEVER;
    if (!a->answered || a->answered->phase == LK_PHASE_INFO)
        return end;
    if (a->answered->phase == LK_PHASE_FAIL)
        return a->answered->t;
    if (!a->unlock)
        return a->to;
    return a->unlocked ? a->unlocked->t : end;
}

static void sort(const lk_attempt **list, size_t count, int (*order)(const void *, const void *))
{
    if (count)
        qsort(list, count, sizeof *list, order);
}

bool lk_index_make(lk_index *index, const lk_history_key *key)
{
    const size_t n = key->attempt_count;
    *index = (lk_index){.by_token = calloc(n + 1, sizeof *index->by_token),
                        .by_id = calloc(n + 1, sizeof *index->by_id),
                        .by_process = calloc(n + 1, sizeof *index->by_process),
                        .busy_to = calloc(n + 1, sizeof *index->busy_to)};
    if (!index->by_token || !index->by_id || !index->by_process || !index->busy_to)
        return false;
    for (size_t i = 0; i < key->grant_count; i++) {
        const lk_attempt *a = key->grants[i];
        if (a->answered->token)
            index->by_token[index->token_count++] = a;
        if (a->answered->id)
            index->by_id[index->id_count++] = a;
    }
    for (size_t i = 0; i < n; i++)
        index->by_process[i] = key->attempts[i];
    sort(index->by_token, index->token_count, by_token);
    sort(index->by_id, index->id_count, by_id);
    sort(index->by_process, n, by_process);
    for (size_t i = 0; i < n; i++) {
        const lk_attempt *a = index->by_process[i];
        index->busy_to[i] = busy_to(a);
        if (i && index->by_process[i - 1]->process == a->process && index->busy_to[i - 1] > index->busy_to[i])
            index->busy_to[i] = index->busy_to[i - 1];
    }
    return true;
}

void lk_index_clear(lk_index *index)
{
    free(index->by_token);
    free(index->by_id);
    free(index->by_process);
    free(index->busy_to);
}

/* ------------------------------------------------------------------ asking it ---- */

/* The last grant of that token that had returned by then; NULL: none. */
static const lk_attempt *with_token(const lk_index *index, int64_t token, int64_t by)
{
    size_t low = 0, high = index->token_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const lk_attempt *a = index->by_token[middle];
        if (a->answered->token < token || (a->answered->token == token && a->from <= by))
            low = middle + 1;
        else
            high = middle;
    }
    return low && index->by_token[low - 1]->answered->token == token ? index->by_token[low - 1] : NULL;
}

static const lk_attempt *with_id(const lk_index *index, const char *id, int64_t by)
{
    size_t low = 0, high = index->id_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const lk_attempt *a = index->by_id[middle];
        if (a->answered->id < id || (a->answered->id == id && a->from <= by))
            low = middle + 1;
        else
            high = middle;
    }
    return low && index->by_id[low - 1]->answered->id == id ? index->by_id[low - 1] : NULL;
}

const lk_attempt *lk_named(const lk_index *index, const lk_event *look)
{
    const lk_attempt *named = NULL;
    if (look->held && look->token)
        named = with_token(index, look->token, look->t);
    if (!named && look->held && look->id)
        named = with_id(index, look->id, look->t);
    return named;
}

/* It names another one. He may hold it, too, unless he excludes that one. */
static lk_voice speaks_of(const lk_attempt *named, const lk_attempt *attempt)
{
    if (attempt->kind == LK_KIND_EXCLUSIVE)
        return LK_AGAINST;
    return named && lk_excludes(named->kind, attempt->kind) ? LK_AGAINST : LK_NEUTRAL;
}

lk_voice lk_hears(const lk_index *index, const lk_event *look, const lk_attempt *attempt)
{
    const lk_event *grant = attempt->answered;
    if (!look->held)
        return LK_AGAINST;
    if (look->token && grant->token) {
        if (look->token == grant->token)
            return LK_FOR;
        const lk_attempt *named = with_token(index, look->token, attempt->from);
        return named && named->process == attempt->process
                   ? LK_NEUTRAL
                   : speaks_of(with_token(index, look->token, look->t), attempt);
    }
    if (look->id && grant->id)
        return look->id == grant->id ? LK_FOR : speaks_of(with_id(index, look->id, look->t), attempt);
    if (look->owner && grant->owner)
        return look->owner == grant->owner ? LK_FOR : speaks_of(NULL, attempt);
    return LK_NEUTRAL;
}

bool lk_history_busy(const lk_index *index, const lk_history_key *key, const lk_process *process,
                     const lk_event *look)
{
    size_t low = 0, high = key->attempt_count;
    while (low < high) { /* the last of the process that had asked before the answer came */
        const size_t middle = low + (high - low) / 2;
        const lk_attempt *a = index->by_process[middle];
        if (a->process < process || (a->process == process && a->asked->t < look->t))
            low = middle + 1;
        else
            high = middle;
    }
    return low && index->by_process[low - 1]->process == process && index->busy_to[low - 1] > look->sent;
}

/* The first that was asked at that moment or later. */
static size_t first_look(const lk_history_key *key, int64_t from)
{
    size_t low = 0, high = key->look_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (key->looks[middle]->sent < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool lk_looked_at(const lk_history_key *key, int64_t from, int64_t to)
{
    for (size_t i = first_look(key, from); i < key->look_count && key->looks[i]->sent <= to; i++)
        if (key->looks[i]->t <= to)
            return true;
    return false;
}

const lk_event *lk_contradiction(const lk_index *index, const lk_history_key *key, const lk_attempt *attempt,
                                 int64_t from, int64_t to)
{
    for (size_t i = first_look(key, from); i < key->look_count && key->looks[i]->sent <= to; i++)
        if (key->looks[i]->t <= to && lk_hears(index, key->looks[i], attempt) == LK_AGAINST)
            return key->looks[i];
    return NULL;
}
