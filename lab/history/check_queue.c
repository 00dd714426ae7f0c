/* check_queue.c: how waiters of a key were served: in which order, how long, and whether all were. */
#include <stdlib.h>

#include "internal.h"

/* ------------------------------------------------------------------ order ---- */

/* One that waited and got the lock. Places are times, or the numbers that the service gave. */
struct place {
    const lk_attempt *attempt;
    int64_t stood; /* from here on it certainly stood in the queue */
    int64_t came;  /* it certainly didn't stand there before */
};

static int by_stood(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    return (a->stood > b->stood) - (a->stood < b->stood);
}

static int by_late_return(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    return (a->attempt->answered < b->attempt->answered) - (a->attempt->answered > b->attempt->answered);
}

/* Whose place the service did not tell is in the queue `limit` after it asked: calls take a while to get
 * there, and may arrive in another order. */
static size_t collect(const lk_history_key *key, int64_t limit, struct place *places)
{
    bool numbered = true;
    size_t count = 0;
    for (size_t i = 0; i < key->grant_count; i++)
        numbered = numbered &&
                   (key->grants[i]->again || (key->grants[i]->queued && key->grants[i]->queued->order >= 0));
    for (size_t i = 0; i < key->grant_count; i++) {
        const lk_attempt *a = key->grants[i];
        struct place *p = &places[count];
        if (a->again || a->kind == LK_KIND_PERMIT)
            continue;
        p->attempt = a;
        if (numbered)
            p->stood = p->came = a->queued->order;
        else {
            p->came = a->asked->t;
            p->stood = a->queued ? a->queued->t : lk_sum(a->asked->t, limit);
        }
        count++;
    }
    return count;
}

/* How many of places[], sorted by `stood`, stood in the queue before that moment. */
static size_t before(const struct place *places, size_t count, int64_t moment)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (places[middle].stood < moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A Fenwick tree: adding one at a place, and counting those before it, in log n. */
static void add(size_t *tree, size_t count, size_t at)
{
    for (at++; at <= count; at += at & (~at + 1))
        tree[at]++;
}

static size_t sum(const size_t *tree, size_t count)
{
    size_t total = 0;
    for (; count; count -= count & (~count + 1))
        total += tree[count];
    return total;
}

static void count_overtaken(lk_case *c, const struct place *p, size_t overtaken)
{
    if (overtaken)
        lk_found(c, LK_CHECK_FIFO, p->attempt->answered, p->attempt->asked,
                 "was granted before calls that were already waiting when it asked");
    if (overtaken > c->figures->most_overtaken)
        c->figures->most_overtaken = overtaken;
}

/* From the last grant to the first: the trees have those who waited and got it later, all of them, and those who are not shared.
 * Grants that returned at the same time are in no order, so all of them are looked at before any is added; nor are two that
 * may hold together. */
static void judge_order(lk_case *c, const struct place *queue, const struct place *grants, size_t count,
                        size_t *all, size_t *alone)
{
    size_t end;
    for (size_t i = 0; i < count; i = end) {
        for (end = i; end < count && grants[end].attempt->from == grants[i].attempt->from; end++)
            count_overtaken(c, &grants[end],
                            sum(grants[end].attempt->kind == LK_KIND_SHARED ? alone : all,
                                before(queue, count, grants[end].came)));
        for (size_t k = i; k < end; k++) {
            const size_t at = before(queue, count, grants[k].stood);
            if (grants[k].attempt->asked->op != LK_OP_LOCK)
                continue;
            add(all, count, at);
            if (grants[k].attempt->kind != LK_KIND_SHARED)
                add(alone, count, at);
        }
    }
}

/* Equal places have one index in the tree, the first of theirs: none of them is before another. */
static void order(lk_case *c)
{
    const size_t room = c->key->grant_count + 1;
    struct place *queue = calloc(2 * room, sizeof *queue), *grants = queue + room;
    size_t *trees = calloc(2 * room, sizeof *trees);
    if (queue && trees) {
        const size_t count = collect(c->key, c->report->options.fifo_limit_ns, queue);
        for (size_t i = 0; i < count; i++)
            grants[i] = queue[i];
        qsort(queue, count, sizeof *queue, by_stood);
        qsort(grants, count, sizeof *grants, by_late_return);
        judge_order(c, queue, grants, count, trees, trees + room);
        c->figures->seen[LK_CHECK_FIFO] = count > 1 ? count : 0;
    } else {
        c->report->out_of_memory = true;
    }
    free(queue);
    free(trees);
}

/* Jain's index of the grants for each process that got any. */
static double evenness(const lk_history_key *key)
{
    double sum_of = 0, squares = 0, processes = 0;
    for (size_t i = 0; i < key->attempt_count; i++)
        key->attempts[i]->process->grants = 0;
    for (size_t i = 0; i < key->grant_count; i++)
        if (!key->grants[i]->again)
            key->grants[i]->process->grants++;
    for (size_t i = 0; i < key->grant_count; i++) {
        const double x = (double)key->grants[i]->process->grants;
        key->grants[i]->process->grants = 0; /* counted once */
        processes += x > 0;
        sum_of += x;
        squares += x * x;
    }
    return squares > 0 ? sum_of * sum_of / (processes * squares) : 0;
}

void lk_check_fifo(lk_case *c)
{
    for (size_t i = 0; i < c->key->grant_count; i++) {
        const lk_attempt *a = c->key->grants[i];
        if (a->answered->t - a->asked->t > c->figures->longest_wait_ns)
            c->figures->longest_wait_ns = a->answered->t - a->asked->t;
    }
    c->figures->jain = evenness(c->key);
    order(c);
}

/* ------------------------------------------------------------------ waiters ---- */

void lk_check_waiters(lk_case *c)
{
    for (size_t i = 0; i < c->key->attempt_count; i++) {
        const lk_attempt *a = c->key->attempts[i];
        c->figures->seen[LK_CHECK_WAITERS]++;
        if (!a->answered && !a->process->ended)
            lk_found(c, LK_CHECK_WAITERS, a->asked, NULL, "has not returned, and its process has not ended");
    }
}
