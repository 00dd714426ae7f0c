/* judge.c: a run's history is checked, and what it shows is added to the run's cell. */
#include "cell.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "die.h"
#include "history.h"

static lk_history *read_history(const lk_cell *cell)
{
    lk_history *history = lk_history_new();
    lk_history_error error = {0};
    if (!history)
        lk_die(LK_EXIT_SYSTEM, "out of memory");
    if (!lk_history_read(history, cell->history, &error) || !lk_history_join(history, &error))
        lk_die(LK_EXIT_INTERNAL, "cannot read the history of this run: %s", error.text);
    return history;
}

static void keep(const lk_cell *cell, lk_history *history)
{
    lk_result *result = cell->result;
    lk_trace *traces = realloc(result->traces, (result->traces_len + 1) * sizeof *traces);
    size_t count;
    const lk_event *events = lk_history_events(history, &count);
    if (!traces)
        lk_die(LK_EXIT_SYSTEM, "out of memory");
    result->traces = traces;
    lk_trace *trace = &traces[result->traces_len++];
    *trace = (lk_trace){.run = cell->run, .history = history};
    snprintf(trace->title, sizeof trace->title, "%s on %s, run %d", cell->scenario, result->column->name,
             cell->run);
    if (count > 0) {
        trace->begin_ns = events[0].t;
        trace->end_ns = events[count - 1].t;
    }
}

/* The first finding of a check, in words. */
static const lk_finding *find(const lk_report *report, lk_check check)
{
    for (size_t i = 0; i < report->finding_count; i++)
        if (report->findings[i].check == check)
            return &report->findings[i];
    return NULL;
}

static void weigh(lk_cell *cell, const lk_report *report, lk_check check)
{
    const lk_finding *finding = find(report, check);
    const char *limit = cell->limits[check];
    char overlap[64] = "";
    if (report->total.breaches[check] == 0 || !finding || (limit && !limit[0]))
        return;
    if (check == LK_CHECK_OVERLAP)
        snprintf(overlap, sizeof overlap,
                 "two held at once for %.0f ms: ", (double)report->total.overlap_ns / 1e6);
    if (limit)
        lk_exception(cell, "%s%s", overlap, limit);
    else {
        if (!cell->proven && !lk_failed(cell) &&
            cell->result->verdict == LK_VERDICT_BROKEN) /* a proof replaces what only looked broken */
            cell->result->verdict = LK_VERDICT_EXCEPTION;
        lk_broken(cell, "%s%s: %s", overlap, lk_check_name(check), finding->text);
        cell->proven = true;
    }
}

void lk_judge(lk_cell *cell)
{
    lk_check_options options = LK_CHECK_OPTIONS_INIT;
    lk_history *history = read_history(cell);
    lk_report *report = lk_history_check(history, &options);
    if (!report)
        lk_die(LK_EXIT_SYSTEM, "out of memory");
    lk_measure(cell, "overlap", "ms", (double)report->total.overlap_ns / 1e6);
    for (int check = 0; check < LK_CHECKS; check++)
        if ((options.promised & 1U << check) != 0)
            weigh(cell, report, (lk_check)check);
    lk_report_free(report);
    keep(cell, history);
}
