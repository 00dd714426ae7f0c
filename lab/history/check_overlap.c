/* check_overlap.c: that nobody held beside one that excludes him: no two at a time, but shared ones, and as many as there are
 * permits, each with a slot of its own. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* What is known of the grants before. */
typedef struct {
    lk_case *c;
    const lk_attempt *longest[LK_KINDS]; /* of each kind, the one that holds longest; NULL: none */
    const lk_attempt **permits;          /* those that hold one still; the one that does so longest first */
    size_t permit_count;
    lk_latest latest;
    int64_t counted_to; /* overlap up to here is in the sum */
} reign;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Two held at a time. What is held for ever is held until the history's end. */
static void overlap(reign *r, const lk_attempt *rival, const lk_attempt *a, const char *text)
{
    lk_figures *figures = r->c->figures;
    lk_finding *found = lk_found(r->c, LK_CHECK_OVERLAP, a->answered, rival->answered, text);
    const int64_t to = least(least(a->grant_to, rival->grant_to), r->c->last);
    const int64_t uncounted = to - (a->from > r->counted_to ? a->from : r->counted_to);
    if (found) {
        found->from = a->from;
        found->to = to;
    }
    figures->overlap_pairs++;
    figures->overlap_ns += uncounted > 0 ? uncounted : 0;
    if (to - a->from > figures->overlap_longest_ns)
        figures->overlap_longest_ns = to - a->from;
    if (to > r->counted_to)
        r->counted_to = to;
}

static const lk_attempt *longer(const lk_attempt *a, const lk_attempt *b)
{
    return !a || (b && b->grant_to > a->grant_to) ? b : a;
}

static bool is_beside(const lk_attempt *a, const lk_attempt *rival)
{
    return rival && a->from < a->grant_to && a->from < rival->grant_to;
}

/* ------------------------------------------------------------------ permits ---- */

/* Those that hold no more are of no use: grants come in the order of their returns. */
static void drop_ended(reign *r, int64_t now)
{
    while (r->permit_count > 0 && r->permits[r->permit_count - 1]->grant_to <= now)
        r->permit_count--;
}

static void add_permit(reign *r, const lk_attempt *a)
{
    size_t at = r->permit_count++;
    for (; at > 0 && r->permits[at - 1]->grant_to < a->grant_to; at--)
        r->permits[at] = r->permits[at - 1];
    r->permits[at] = a;
}

/* More than there are hold while the one that is last but so many of them does. */
static void judge_permit(reign *r, const lk_attempt *a)
{
    const size_t count = (size_t)a->asked->permits;
    const lk_attempt *other = lk_latest_of_slot(&r->latest, a);
    if (r->permit_count >= count)
        overlap(r, r->permits[count - 1], a, "was granted a permit while all permits were certainly held");
    else if (r->permit_count > 0 && r->permits[0]->asked->permits != a->asked->permits)
        overlap(r, r->permits[0], a,
                "was granted a permit while a permit of another number was certainly held");
    else if (is_beside(a, other))
        overlap(r, other, a, "was granted a slot that another certainly held");
    else if (a->answered->slot >= a->asked->permits)
        overlap(r, a, a, "was granted a slot that does not exist");
}

/* ------------------------------------------------------------------ each grant ---- */

/* It is set against the one before it that holds longest, of those that exclude it: that finds every moment at which two
 * hold, and at most one pair for each grant. */
static void judge(reign *r, const lk_attempt *a)
{
    const lk_attempt *rival = NULL;
    for (int kind = 0; kind < LK_KINDS; kind++)
        if (lk_excludes(a->kind, (lk_kind)kind))
            rival = longer(rival, r->longest[kind]);
    if (is_beside(a, rival))
        overlap(r, rival, a, "was granted while another certainly held it");
    else if (a->kind == LK_KIND_PERMIT && a->from < a->grant_to)
        judge_permit(r, a);
}

static bool remember(reign *r, const lk_attempt *a)
{
    const lk_attempt *other = lk_latest_of_slot(&r->latest, a);
    r->longest[a->kind] = longer(r->longest[a->kind], a);
    if (a->kind == LK_KIND_PERMIT)
        add_permit(r, a);
    return longer(other, a) != a || lk_latest_set(&r->latest, a);
}

void lk_check_overlap(lk_case *c)
{
    reign r = {.c = c, .permits = calloc(c->key->grant_count + 1, sizeof *r.permits)};
    bool good = r.permits != NULL;
    for (size_t i = 0; good && i < c->key->grant_count; i++) {
        const lk_attempt *a = c->key->grants[i];
        if (a->again)
            continue;
        c->figures->seen[LK_CHECK_OVERLAP]++;
        drop_ended(&r, a->from);
        judge(&r, a);
        good = remember(&r, a);
    }
    c->report->out_of_memory = c->report->out_of_memory || !good;
    lk_latest_clear(&r.latest);
    free(r.permits);
    if (c->report->options.overlap_limit_ns > 0 &&
        c->figures->overlap_ns <= c->report->options.overlap_limit_ns)
        c->figures->breaches[LK_CHECK_OVERLAP] = c->figures->allowed[LK_CHECK_OVERLAP] = 0;
}
