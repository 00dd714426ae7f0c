/* check_grants.c: what the grants of a key tell by themselves: that fencing tokens grew, and were heeded. */
#include <stdlib.h>

#include "internal.h"

/* ------------------------------------------------------------------ tokens ---- */

/* Of each kind, the greatest token of the first grants that were good when they returned; place i: of i of them. */
typedef struct {
    const lk_attempt **of[LK_KINDS];
} peaks;

static const lk_attempt *greater(const lk_attempt *a, const lk_attempt *b)
{
    return !a || (b && b->answered->token > a->answered->token) ? b : a;
}

static bool collect(peaks *p, const lk_history_key *key)
{
    const size_t room = key->grant_count + 1;
    p->of[0] = calloc(LK_KINDS * room, sizeof *p->of[0]);
    if (!p->of[0])
        return false;
    for (int kind = 0; kind < LK_KINDS; kind++) {
        p->of[kind] = p->of[0] + (size_t)kind * room;
        for (size_t i = 0; i < key->grant_count; i++) {
            const lk_attempt *a = key->grants[i];
            const bool counts = a->kind == (lk_kind)kind && a->from < a->to;
            p->of[kind][i + 1] = counts ? greater(p->of[kind][i], a) : p->of[kind][i];
        }
    }
    return true;
}

/* How many had returned before that moment. */
static size_t returned(const lk_history_key *key, int64_t moment)
{
    size_t low = 0, high = key->grant_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (key->grants[middle]->from < moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of those that the service certainly granted before: one that may hold beside it had returned when it asked. */
static const lk_attempt *greatest_before(const peaks *p, const lk_history_key *key, const lk_attempt *a)
{
    const lk_attempt *found = NULL;
    for (int kind = 0; kind < LK_KINDS; kind++)
        found = greater(
            found, p->of[kind][returned(key, lk_excludes(a->kind, (lk_kind)kind) ? a->from : a->asked_at)]);
    return found;
}

/* A grant that was over when it returned may be older than those that returned before it: it proves
 * nothing. */
static void judge_token(lk_case *c, const peaks *p, lk_history_table *seen, const lk_attempt *a, size_t i)
{
    const lk_history_table_key name = {{a->answered->token, 0, 0, 0}};
    bool is_new;
    size_t *other = lk_history_table_at(seen, &name, &is_new);
    const lk_attempt *before = greatest_before(p, c->key, a);
    if (!other) {
        c->report->out_of_memory = true;
        return;
    }
    c->figures->seen[LK_CHECK_TOKENS]++;
    if (!is_new)
        before = c->key->grants[*other];
    if (!is_new || (before && a->answered->token <= before->answered->token))
        lk_found(c, LK_CHECK_TOKENS, a->answered, before->answered,
                 a->answered->token == before->answered->token ? "has the token of an earlier grant"
                                                               : "has a smaller token than an earlier grant");
    *other = i;
}

void lk_check_tokens(lk_case *c)
{
    peaks p;
    lk_history_table seen = {0};
    if (!collect(&p, c->key)) {
        c->report->out_of_memory = true;
        return;
    }
    for (size_t i = 0; i < c->key->grant_count; i++) {
        const lk_attempt *a = c->key->grants[i];
        if (!a->again && a->answered->token != 0 && a->from < a->to)
            judge_token(c, &p, &seen, a, i);
    }
    lk_history_table_clear(&seen);
    free(p.of[0]);
}

/* ------------------------------------------------------------------ writes ---- */

static int64_t began(const lk_event *write)
{
    return write->sent ? write->sent : write->t;
}

static int by_beginning(const void *left, const void *right)
{
    const lk_event *a = *(const lk_event *const *)left, *b = *(const lk_event *const *)right;
    if (a->resource != b->resource)
        return (a->resource > b->resource) - (a->resource < b->resource);
    return (began(a) > began(b)) - (began(a) < began(b));
}

static int by_resource(const void *left, const void *right)
{
    const lk_event *a = *(const lk_event *const *)left, *b = *(const lk_event *const *)right;
    if (a->resource != b->resource)
        return (a->resource > b->resource) - (a->resource < b->resource);
    return (a > b) - (a < b);
}

/* The accepted writes of one resource, in two orders. */
static void judge_writes(lk_case *c, const lk_event **starting, const lk_event **ending, size_t count)
{
    const lk_event *greatest = NULL;
    size_t ended = 0;
    for (size_t i = 0; i < count; i++) {
        for (; ended < count && ending[ended]->t < began(starting[i]); ended++)
            if (!greatest || ending[ended]->token > greatest->token)
                greatest = ending[ended];
        if (greatest && starting[i]->token < greatest->token)
            lk_found(c, LK_CHECK_WRITES, starting[i], greatest,
                     "was accepted after a write with a greater token");
    }
}

void lk_check_writes(lk_case *c)
{
    size_t n = c->key->write_count, accepted = 0;
    const lk_event **starting = calloc(2 * n + 1, sizeof(const lk_event *)), **ending = starting + n;
    if (!starting) {
        c->report->out_of_memory = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const lk_event *write = c->key->writes[i];
        c->figures->writes_refused += write->phase == LK_PHASE_FAIL;
        if (write->phase == LK_PHASE_OK) {
            starting[accepted] = write;
            ending[accepted++] = write;
        }
    }
    c->figures->writes_accepted = accepted;
    c->figures->seen[LK_CHECK_WRITES] = accepted + c->figures->writes_refused;
    if (accepted) {
        qsort(starting, accepted, sizeof *starting, by_beginning);
        qsort(ending, accepted, sizeof *ending, by_resource);
    }
    size_t end;
    for (size_t i = 0; i < accepted; i = end) {
        for (end = i; end < accepted && starting[end]->resource == starting[i]->resource;)
            end++;
        judge_writes(c, starting + i, ending + i, end - i);
    }
    free(starting);
}
