/* findings.c: what checks tell of a key: breaches, and samples. */
#include "internal.h"

lk_finding *lk_found(lk_case *c, lk_check check, const lk_event *first, const lk_event *second,
                     const char *text)
{
    lk_report *report = c->report;
    c->figures->breaches[check]++;
    c->figures->allowed[check] += c->allowed >> check & 1;
    if (!lk_grow(&report->findings, sizeof *report->findings, report->finding_count, &report->finding_room)) {
        report->out_of_memory = true;
        return NULL;
    }
    lk_finding *finding = &report->findings[report->finding_count++];
    *finding = (lk_finding){.check = check, .key = c->index, .first = first, .second = second, .text = text};
    return finding;
}

void lk_sample(lk_case *c, lk_samples *samples, int64_t value)
{
    if (lk_grow(&samples->values, sizeof(int64_t), samples->count, &samples->room))
        samples->values[samples->count++] = value;
    else
        c->report->out_of_memory = true;
}
