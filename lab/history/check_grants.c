/* check_grants.c: what the grants of a key tell by themselves: that no two held at a time, and that fencing
 * tokens grew and were heeded. */
#include <stdlib.h>

#include "internal.h"

/* ------------------------------------------------------------------ overlap ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Two held at a time. What is held for ever is held until the history's end. Returns up to when overlap is in
 * the sum. */
static int64_t overlap(lk_case *c, const lk_attempt *reign, const lk_attempt *a, int64_t counted_to)
{
    lk_finding *found = lk_found(c, LK_CHECK_OVERLAP, a->answered, reign->answered,
                                 "was granted while another held it for certain");
    const int64_t to = least(least(a->grant_to, reign->grant_to), c->last);
    const int64_t uncounted = to - (a->from > counted_to ? a->from : counted_to);
    if (found) {
        found->from = a->from;
        found->to = to;
    }
    c->figures->overlap_pairs++;
    c->figures->overlap_ns += uncounted > 0 ? uncounted : 0;
    if (to - a->from > c->figures->overlap_longest_ns)
        c->figures->overlap_longest_ns = to - a->from;
    return to > counted_to ? to : counted_to;
}

/* Each grant is set against the one before it that holds longest: that finds every moment at which two hold,
 * and at most one pair for each grant. */
void lk_check_overlap(lk_case *c)
{
    const lk_attempt *reign = NULL;
    int64_t counted_to = 0; /* overlap up to here is in the sum */
    for (size_t i = 0; i < c->key->grant_count; i++) {
        const lk_attempt *a = c->key->grants[i];
        if (a->again)
            continue;
        c->figures->seen[LK_CHECK_OVERLAP]++;
        if (reign && a->from < a->grant_to && a->from < reign->grant_to)
            counted_to = overlap(c, reign, a, counted_to);
        if (!reign || a->grant_to > reign->grant_to)
            reign = a;
    }
    if (c->report->options.overlap_limit_ns > 0 &&
        c->figures->overlap_ns <= c->report->options.overlap_limit_ns)
        c->figures->breaches[LK_CHECK_OVERLAP] = c->figures->allowed[LK_CHECK_OVERLAP] = 0;
}

/* ------------------------------------------------------------------ tokens ---- */

/* A grant that was over when it returned may be older than those that returned before it: it proves
 * nothing. */
void lk_check_tokens(lk_case *c)
{
    const lk_attempt *greatest = NULL;
    size_t told = 0;
    for (size_t i = 0; i < c->key->grant_count; i++) {
        const lk_attempt *a = c->key->grants[i];
        if (a->again || a->answered->token == 0 || a->from == a->to)
            continue;
        for (; c->key->grants[told]->from < a->from; told++) {
            const lk_attempt *before = c->key->grants[told];
            if (before->from < before->to &&
                (!greatest || before->answered->token > greatest->answered->token))
                greatest = before;
        }
        c->figures->seen[LK_CHECK_TOKENS]++;
        if (greatest && a->answered->token <= greatest->answered->token)
            lk_found(c, LK_CHECK_TOKENS, a->answered, greatest->answered,
                     a->answered->token == greatest->answered->token
                         ? "has the token of an earlier grant"
                         : "has a smaller token than an earlier grant");
    }
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
