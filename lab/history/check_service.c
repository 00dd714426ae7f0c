/* check_service.c: what the holders believed against what the service said: whether it confirmed them,
 * whether what was released had been theirs, what was left at the end, and how soon a loss was told. */
#include "internal.h"

/* ------------------------------------------------------------------ truth and release ---- */

static void judge_release(lk_case *c, const lk_index *index, const lk_attempt *a, const lk_attempt *next)
{
    const lk_event *against = lk_contradiction(index, c->key, a, a->from, a->unlock->t);
    if (next && next->from < a->unlock->t)
        lk_found(c, LK_CHECK_RELEASE, a->unlocked, next->answered,
                 "returned ok, although the lock had been granted to another before");
    else if (against)
        lk_found(c, LK_CHECK_RELEASE, a->unlocked, against,
                 "returned ok, although the service had reported before that the lock was lost");
}

/* What the service says later of a lock that was released. */
static void judge_looks(lk_case *c, const lk_index *index)
{
    for (size_t i = 0; i < c->key->look_count; i++) {
        const lk_event *look = c->key->looks[i];
        const lk_attempt *a = lk_named(index, look);
        if (a && lk_answered(a->unlocked, LK_PHASE_OK) && look->sent > a->unlocked->t &&
            !lk_history_busy(index, c->key, a->process, look))
            lk_found(c, LK_CHECK_RELEASE, a->unlocked, look,
                     "returned ok, but the service reports afterwards that the lock is still held");
    }
}

static const lk_attempt *sooner(const lk_attempt *a, const lk_attempt *b)
{
    return !a || (b && b->from < a->from) ? b : a;
}

/* The next grant that excludes that one. */
static const lk_attempt *next_rival(lk_latest *next, const lk_attempt *a)
{
    const lk_attempt *found = lk_latest_of_slot(next, a);
    for (int kind = 0; kind < LK_KINDS; kind++)
        if (lk_excludes(a->kind, (lk_kind)kind))
            found = sooner(found, next->of_kind[kind]);
    return found && found->from > a->from ? found : NULL;
}

/* From the last grant to the first, so that the next ones of others are known: those that were good when they
 * returned. */
void lk_check_truth(lk_case *c, const lk_index *index)
{
    lk_latest latest = {0};
    for (size_t i = c->key->grant_count; i-- > 0;) {
        const lk_attempt *a = c->key->grants[i];
        const lk_event *against = lk_contradiction(index, c->key, a, a->from, a->to);
        c->figures->seen[LK_CHECK_TRUTH] += lk_looked_at(c->key, a->from, a->to);
        if (against)
            lk_found(c, LK_CHECK_TRUTH, a->answered, against,
                     "was certainly held while the service reported otherwise");
        c->figures->seen[LK_CHECK_RELEASE] += a->unlocked != NULL;
        if (lk_answered(a->unlocked, LK_PHASE_OK))
            judge_release(c, index, a, next_rival(&latest, a));
        if (!a->again && a->from < a->to && !lk_latest_set(&latest, a))
            c->report->out_of_memory = true;
    }
    lk_latest_clear(&latest);
    judge_looks(c, index);
}

/* ------------------------------------------------------------------ orphans ---- */

/* When a grant's holder was done with it; LK_NEVER: it is not. */
static int64_t gone(const lk_attempt *a)
{
    int64_t at = a->to;
    if (a->process->ended && a->process->ended->t > at)
        at = a->process->ended->t;
    if (a->unlock && !a->process->ended)
        at = a->unlocked ? a->unlocked->t : LK_NEVER;
    return at;
}

/* Whether this attempt can be the one whose lock the service sees. `named`: the grant that it names. */
static bool explains(const lk_index *index, const lk_attempt *a, const lk_event *look,
                     const lk_attempt *named)
{
    if (!a->answered || a->answered->phase == LK_PHASE_INFO)
        return a->asked->t < look->t && (!named || named->process == a->process);
    if (!lk_granted(a) || lk_hears(index, look, a) == LK_AGAINST)
        return false;
    if (lk_answered(a->unlocked, LK_PHASE_OK))
        return look->sent <= a->unlocked->t;
    return look->sent <= lk_sum(gone(a), a->answered->ttl);
}

static void judge_holder(lk_case *c, const lk_index *index, const lk_event *look)
{
    const lk_attempt *named = lk_named(index, look);
    for (size_t i = 0; i < c->key->attempt_count; i++)
        if (explains(index, c->key->attempts[i], look, named))
            return;
    lk_found(c, LK_CHECK_ORPHANS, look, named ? named->answered : NULL,
             named ? "reports a holder whose grant has ended"
                   : "reports a holder, but no process holds it or may have got it");
}

static void judge_waiters(lk_case *c, const lk_event *look)
{
    int64_t waiting = 0;
    for (size_t i = 0; i < c->key->attempt_count; i++) {
        const lk_attempt *a = c->key->attempts[i];
        waiting += a->asked->t < look->t && (!a->answered || a->answered->t > look->sent);
    }
    if (look->waiters > waiting)
        lk_found(c, LK_CHECK_ORPHANS, look, NULL, "reports more waiters than calls in flight");
}

void lk_check_orphans(lk_case *c, const lk_index *index)
{
    if (c->key->look_count == 0)
        return;
    const lk_event *look = c->key->looks[c->key->look_count - 1];
    c->figures->seen[LK_CHECK_ORPHANS] = 1;
    if (look->held)
        judge_holder(c, index, look);
    if (look->waiters > 0)
        judge_waiters(c, look);
}

/* ------------------------------------------------------------------ notices ---- */

/* Until when the holder could have been told. */
static int64_t listened_to(const lk_case *c, const lk_attempt *a)
{
    const lk_event *end = a->process->ended;
    int64_t to = c->last;
    if (a->unlock && a->unlock->t < to)
        to = a->unlock->t;
    if (end && (end->sent ? end->sent : end->t) < to)
        to = end->sent ? end->sent : end->t;
    return to;
}

static void judge_notice(lk_case *c, const lk_index *index, const lk_attempt *a)
{
    const int64_t limit = c->report->options.notice_limit_ns;
    const lk_event *stated = NULL;
    if (a->lost)
        stated = lk_contradiction(index, c->key, a, a->from, a->lost->t);
    if (stated)
        lk_sample(c, &c->figures->after_server, a->lost->t - stated->t);
    if (a->deadline == LK_NEVER || (a->lost ? a->lost->t : listened_to(c, a)) < a->deadline)
        return;
    c->figures->seen[LK_CHECK_NOTICE]++;
    if (a->lost) {
        lk_sample(c, &c->figures->after_deadline, a->lost->t - a->deadline);
        if (a->lost->t - a->deadline > limit)
            lk_found(c, LK_CHECK_NOTICE, a->lost, a->answered,
                     "came after the deadline by more than the limit");
    } else if (listened_to(c, a) - a->deadline > limit) {
        c->figures->never_told++;
        lk_found(c, LK_CHECK_NOTICE, a->answered, a->unlock, "was past its deadline and was never notified");
    }
}

void lk_check_notice(lk_case *c, const lk_index *index)
{
    for (size_t i = 0; i < c->key->grant_count; i++)
        judge_notice(c, index, c->key->grants[i]);
}
