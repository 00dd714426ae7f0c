/* intervals.c: who held a key when, as far as that is certain. */
#include <stdlib.h>

#include "internal.h"

static int by_sent(const void *left, const void *right)
{
    const lk_event *a = *(const lk_event *const *)left, *b = *(const lk_event *const *)right;
    if (a->sent != b->sent)
        return a->sent < b->sent ? -1 : 1;
    return (a > b) - (a < b); /* as the lines stand */
}

static int by_return(const void *left, const void *right)
{
    const lk_attempt *a = *(const lk_attempt *const *)left, *b = *(const lk_attempt *const *)right;
    return (a->answered > b->answered) - (a->answered < b->answered); /* events are in order of time */
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void hold(lk_attempt *attempt)
{
    const lk_event *end = attempt->process->ended;
    int64_t to = attempt->deadline;
    if (attempt->unlock)
        to = earlier(to, attempt->unlock->t);
    if (attempt->lost)
        to = earlier(to, attempt->lost->t);
    if (end)
        to = earlier(to, end->sent ? end->sent : end->t);
    attempt->from = attempt->answered->t;
    attempt->to = to > attempt->from ? to : attempt->from;
    attempt->grant_to = attempt->to;
    attempt->asked_at = attempt->asked->t;
    attempt->open_to = attempt->unlocked ? attempt->unlocked->t : LK_NEVER;
}

/* Of two handles of one process with one token: the second entered while the first was held; or both share the key, and
 * the second came to the grant before the first had let go, whenever its own call returned. */
static bool is_one_grant(const lk_attempt *first, const lk_attempt *second)
{
    return first->grant_to > second->from ||
           (first->kind == LK_KIND_SHARED && second->kind == LK_KIND_SHARED &&
            first->open_to > second->asked->t);
}

/* One that was over when its call returned holds nothing, and so doesn't say that the grant was held until then. */
static void join_grant(lk_attempt *first, lk_attempt *second)
{
    second->again = true;
    first->asked_at = earlier(first->asked_at, second->asked_at);
    if (second->from < second->to && second->to > first->grant_to)
        first->grant_to = second->to;
    if (second->open_to > first->open_to)
        first->open_to = second->open_to;
}

/* Whether it is of the first one's grant when those are counted in who came to that before, and whose own calls return later. */
static bool is_one_grant_with_others(const lk_history_key *key, lk_attempt *first, size_t i)
{
    const lk_attempt *const second = key->grants[i];
    const bool shared = first->kind == LK_KIND_SHARED && second->kind == LK_KIND_SHARED;
    for (size_t j = i + 1; shared && j < key->grant_count && !is_one_grant(first, second); j++) {
        lk_attempt *const other = key->grants[j];
        if (other->again || other->process != first->process ||
            other->answered->token != first->answered->token || !is_one_grant(first, other))
            continue;
        join_grant(first, other);
        j = i; /* whom that one kept the grant for */
    }
    return is_one_grant(first, second);
}

/* A handle that got a token of a grant which its process has already has entered again. False: out of memory. */
static bool find_again(const lk_history_key *key)
{
    lk_history_table grants = {0}; /* the first handle of each */
    bool good = true;
    for (size_t i = 0; good && i < key->grant_count; i++) {
        lk_attempt *a = key->grants[i];
        const lk_history_table_key name = {{(intptr_t)a->process, a->answered->token, 0, 0}};
        bool is_new;
        if (a->answered->token == 0)
            continue;
        size_t *first = lk_history_table_at(&grants, &name, &is_new);
        good = first != NULL;
        if (good && !is_new && is_one_grant_with_others(key, key->grants[*first], i))
            join_grant(key->grants[*first], a);
        else if (good)
            *first = i;
    }
    lk_history_table_clear(&grants);
    return good;
}

bool lk_intervals(lk_history_key *key)
{
    if (key->look_count)
        qsort(key->looks, key->look_count, sizeof *key->looks, by_sent);
    key->grants = calloc(key->attempt_count + 1, sizeof *key->grants);
    if (!key->grants)
        return false;
    for (size_t i = 0; i < key->attempt_count; i++) {
        if (!lk_granted(key->attempts[i]))
            continue;
        hold(key->attempts[i]);
        key->grants[key->grant_count++] = key->attempts[i];
    }
    if (key->grant_count)
        qsort(key->grants, key->grant_count, sizeof *key->grants, by_return);
    return find_again(key);
}
