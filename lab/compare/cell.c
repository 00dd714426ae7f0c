/* cell.c: what a scenario says and finds; see cell.h. judge.c adds what the history shows. */
#include "cell.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lease.h"
#include "servers/wait.h"

/* ------------------------------------------------------------------ what happens ---- */

int64_t lk_compare_fault(lk_cell *cell, bool begins, const char *kind, const char *what)
{
    lk_event event = LK_EVENT_INIT;
    event.op = LK_OP_FAULT;
    event.phase = begins ? LK_PHASE_BEGIN : LK_PHASE_END;
    event.t = lk_now_ns();
    event.kind = kind;
    event.what = what;
    if (!lk_failed(cell))
        lk_history_write(cell->writer, &event);
    return event.t;
}

void lk_rest(const lk_cell *cell, int64_t ms)
{
    if (!lk_failed(cell))
        lk_pause_ms(ms);
}

int64_t lk_lease_ms(const lk_cell *cell, const lk_answer *grant)
{
    return lk_lease_ns(grant->sent, grant->until, cell->ttl_ms) / 1000000;
}

int64_t lk_free_ms(const lk_cell *cell, const lk_answer *grant)
{
    const int64_t lease = lk_lease_ms(cell, grant),
                  slack = cell->backend->kind ? cell->backend->kind->slack_ms : 4000;
    return cell->ending_ms + (lease > 0 ? lease + slack : 0) + 500;
}

void lk_fail(lk_cell *cell, const char *format, ...)
{
    if (lk_failed(cell))
        return; /* the first reason is the reason */
    va_list args;
    va_start(args, format);
    lk_text_vset(&cell->failed, format, args);
    va_end(args);
}

bool lk_failed(const lk_cell *cell)
{
    return cell->failed != NULL;
}

/* ------------------------------------------------------------------ what is found ---- */

void lk_promise(lk_cell *cell, const char *format, ...)
{
    lk_result *result = cell->result;
    va_list args;
    va_start(args, format);
    lk_text_vset(&result->promise, format, args);
    va_end(args);
    if (result->verdict == LK_VERDICT_MEASURED)
        result->verdict = LK_VERDICT_KEPT;
}

/* A worse verdict takes the place of a better one, and of equal ones the first stays. */
static void judge(lk_cell *cell, lk_verdict verdict, const char *format, va_list args)
{
    lk_result *result = cell->result;
    if (lk_failed(cell) || result->verdict >= verdict)
        return;
    result->verdict = verdict;
    lk_text_vset(&result->why, format, args);
}

void lk_broken(lk_cell *cell, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    judge(cell, LK_VERDICT_BROKEN, format, args);
    va_end(args);
}

void lk_exception(lk_cell *cell, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    judge(cell, LK_VERDICT_EXCEPTION, format, args);
    va_end(args);
}

/* Who judges the history by itself has to know it too. */
static void limit(lk_cell *cell, lk_check check, const char *what)
{
    lk_event event = LK_EVENT_INIT;
    cell->limits[check] = what;
    event.op = LK_OP_ALLOW;
    event.phase = LK_PHASE_INFO;
    event.t = lk_now_ns();
    event.kind = lk_check_name(check);
    event.what = what;
    lk_history_write(cell->writer, &event);
}

void lk_allow(lk_cell *cell, lk_check check, const char *what)
{
    limit(cell, check, what);
}

void lk_ignore(lk_cell *cell, lk_check check)
{
    limit(cell, check, "");
}

void lk_measure(lk_cell *cell, const char *name, const char *unit, double value)
{
    if (!lk_failed(cell))
        lk_measured_add(lk_result_measured(cell->result, name, unit), value);
}

void lk_figure(lk_result *result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    lk_text_vset(&result->figure, format, args);
    va_end(args);
}

const lk_measured *lk_measured_of(const lk_result *result, const char *name)
{
    for (size_t i = 0; i < result->samples_len; i++)
        if (strcmp(result->samples[i].name, name) == 0)
            return &result->samples[i];
    return NULL;
}

bool lk_every(const lk_result *result, const char *name)
{
    return lk_measured_quantile(lk_measured_of(result, name), 0) > 0;
}

const char *lk_range_words(const lk_result *result, const char *name, char *out, size_t size)
{
    const lk_measured *samples = lk_measured_of(result, name);
    const double least = lk_measured_quantile(samples, 0), most = lk_measured_quantile(samples, 1);
    if (!samples)
        snprintf(out, size, "-");
    else if (fabs(most - least) < 0.5)
        snprintf(out, size, "%.0f", least);
    else
        snprintf(out, size, "%.0f to %.0f", least, most);
    return out;
}

const char *lk_ms_words(double ms, char *out, size_t size)
{
    if (ms < 0.0995)
        snprintf(out, size, "%.0f us", ms * 1000);
    else if (ms < 9.95)
        snprintf(out, size, "%.2f ms", ms);
    else if (ms < 999.5)
        snprintf(out, size, "%.0f ms", ms);
    else
        snprintf(out, size, "%.2f s", ms / 1000);
    return out;
}
