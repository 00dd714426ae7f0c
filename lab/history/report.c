/* report.c: has every check look at every key, and sums up what they found. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const char *const check_names[LK_CHECKS] = {
    [LK_CHECK_OVERLAP] = "overlap", [LK_CHECK_TRUTH] = "truth",   [LK_CHECK_TOKENS] = "tokens",
    [LK_CHECK_RELEASE] = "release", [LK_CHECK_WRITES] = "writes", [LK_CHECK_ORPHANS] = "orphans",
    [LK_CHECK_WAITERS] = "waiters", [LK_CHECK_FIFO] = "fifo",     [LK_CHECK_NOTICE] = "notice",
};

const char *lk_check_name(lk_check check)
{
    return check_names[check];
}

static int by_value(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static void sort_samples(lk_samples *samples)
{
    if (samples->count)
        qsort(samples->values, samples->count, sizeof(int64_t), by_value);
}

int64_t lk_samples_quantile(const lk_samples *samples, double q)
{
    const double rank = ceil(q * (double)samples->count);
    const size_t at = rank < 1 ? 0 : (size_t)rank - 1;
    if (samples->count == 0)
        return 0;
    return samples->values[at < samples->count ? at : samples->count - 1];
}

/* ------------------------------------------------------------------ one key ---- */

static void judge(lk_case *c)
{
    c->figures->attempts = c->key->attempt_count;
    for (size_t i = 0; i < c->key->grant_count; i++)
        c->figures->grants += !c->key->grants[i]->again;
    lk_check_overlap(c);
    lk_check_tokens(c);
    lk_check_writes(c);
    lk_check_waiters(c);
    lk_check_fifo(c);
    lk_index index;
    if (lk_index_make(&index, c->key)) {
        lk_check_truth(c, &index);
        lk_check_orphans(c, &index);
        lk_check_notice(c, &index);
    } else {
        c->report->out_of_memory = true;
    }
    lk_index_clear(&index);
    sort_samples(&c->figures->after_deadline);
    sort_samples(&c->figures->after_server);
}

/* ------------------------------------------------------------------ all keys ---- */

static void larger(size_t *total, size_t part)
{
    *total = part > *total ? part : *total;
}

static void longer(int64_t *total, int64_t part)
{
    *total = part > *total ? part : *total;
}

static void add_samples(lk_case *c, lk_samples *total, const lk_samples *part)
{
    for (size_t i = 0; i < part->count; i++)
        lk_sample(c, total, part->values[i]);
}

static void add_figures(lk_case *c, lk_figures *total)
{
    const lk_figures *part = c->figures;
    for (int i = 0; i < LK_CHECKS; i++) {
        total->seen[i] += part->seen[i];
        total->breaches[i] += part->breaches[i];
        total->allowed[i] += part->allowed[i];
    }
    total->attempts += part->attempts;
    total->grants += part->grants;
    total->overlap_ns = lk_sum(total->overlap_ns, part->overlap_ns);
    longer(&total->overlap_longest_ns, part->overlap_longest_ns);
    total->overlap_pairs += part->overlap_pairs;
    total->writes_accepted += part->writes_accepted;
    total->writes_refused += part->writes_refused;
    larger(&total->most_overtaken, part->most_overtaken);
    if (part->grants && (total->jain == 0 || part->jain < total->jain))
        total->jain = part->jain;
    longer(&total->longest_wait_ns, part->longest_wait_ns);
    total->never_told += part->never_told;
    add_samples(c, &total->after_deadline, &part->after_deadline);
    add_samples(c, &total->after_server, &part->after_server);
}

static int by_key_and_check(const void *left, const void *right)
{
    const lk_finding *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->check != b->check)
        return a->check < b->check ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

static void judge_all(lk_history *history, lk_report *report)
{
    for (size_t i = 0; i < history->key_count; i++) {
        const lk_event *first = history->keys[i].first;
        lk_history_key_report *key = &report->keys[i];
        lk_case c = {.report = report,
                     .index = i,
                     .key = &history->keys[i],
                     .figures = &key->figures,
                     .allowed = history->allowed[history->keys[i].scope],
                     .last = history->events[history->event_count - 1].t};
        *key = (lk_history_key_report){
            .run = first->run, .backend = first->backend, .scenario = first->scenario, .key = first->key};
        judge(&c);
        add_figures(&c, &report->total);
    }
    for (size_t i = 0; i < history->event_count; i++)
        report->faults += history->events[i].op == LK_OP_FAULT && history->events[i].phase == LK_PHASE_BEGIN;
    sort_samples(&report->total.after_deadline);
    sort_samples(&report->total.after_server);
    if (report->finding_count)
        qsort(report->findings, report->finding_count, sizeof *report->findings, by_key_and_check);
}

lk_report *lk_history_check(lk_history *history, const lk_check_options *options)
{
    lk_report *report = calloc(1, sizeof *report);
    if (!report)
        return NULL;
    report->options = *options;
    report->key_count = history->key_count;
    report->keys = calloc(history->key_count + 1, sizeof *report->keys);
    if (report->keys)
        judge_all(history, report);
    if (report->keys && !report->out_of_memory)
        return report;
    lk_report_free(report);
    return NULL;
}

static void free_figures(lk_figures *figures)
{
    free(figures->after_deadline.values);
    free(figures->after_server.values);
}

void lk_report_free(lk_report *report)
{
    if (!report)
        return;
    for (size_t i = 0; report->keys && i < report->key_count; i++)
        free_figures(&report->keys[i].figures);
    free_figures(&report->total);
    free(report->keys);
    free(report->findings);
    free(report);
}

/* ------------------------------------------------------------------ verdicts ---- */

static bool promised(const lk_report *report, lk_check check)
{
    return (report->options.promised & 1U << check) != 0;
}

const char *lk_check_result(const lk_report *report, const lk_figures *figures, lk_check check)
{
    if (figures->breaches[check] > figures->allowed[check])
        return promised(report, check) ? "broken" : "not promised";
    if (figures->breaches[check])
        return "allowed";
    return figures->seen[check] ? "kept" : "nothing seen";
}

bool lk_report_broken(const lk_report *report)
{
    for (int i = 0; i < LK_CHECKS; i++)
        if (report->total.breaches[i] > report->total.allowed[i] && promised(report, (lk_check)i))
            return true;
    return false;
}
