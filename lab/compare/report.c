/* report.c: the comparison in memory; see report.h. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "die.h"
#include "history.h"

const char *lk_verdict_name(lk_verdict verdict)
{
    static const char *const names[] = {[LK_VERDICT_MEASURED] = "measured",
                                        [LK_VERDICT_KEPT] = "kept",
                                        [LK_VERDICT_EXCEPTION] = "exception",
                                        [LK_VERDICT_BROKEN] = "BROKEN",
                                        [LK_VERDICT_NOT_RUN] = "not run"};
    return names[verdict];
}

static void *grown(void *array, size_t count, size_t size)
{
    void *more = realloc(array, count * size);
    if (!more)
        lk_die(LK_EXIT_SYSTEM, "out of memory");
    return more;
}

lk_measured *lk_result_measured(lk_result *result, const char *name, const char *unit)
{
    for (size_t i = 0; i < result->samples_len; i++)
        if (strcmp(result->samples[i].name, name) == 0)
            return &result->samples[i];
    result->samples = grown(result->samples, result->samples_len + 1, sizeof *result->samples);
    lk_measured *fresh = &result->samples[result->samples_len++];
    memset(fresh, 0, sizeof *fresh);
    snprintf(fresh->name, sizeof fresh->name, "%s", name);
    snprintf(fresh->unit, sizeof fresh->unit, "%s", unit);
    return fresh;
}

void lk_measured_add(lk_measured *samples, double value)
{
    if (samples->len == samples->room) {
        samples->room = samples->room ? samples->room * 2 : 16;
        samples->values = grown(samples->values, samples->room, sizeof *samples->values);
    }
    samples->values[samples->len++] = value;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double lk_measured_quantile(const lk_measured *samples, double q)
{
    if (!samples || samples->len == 0)
        return 0;
    double *sorted = grown(NULL, samples->len, sizeof *sorted);
    memcpy(sorted, samples->values, samples->len * sizeof *sorted);
    qsort(sorted, samples->len, sizeof *sorted, by_value);
    const size_t at = (size_t)(q * (double)samples->len);
    const double value = sorted[at < samples->len ? at : samples->len - 1];
    free(sorted);
    return value;
}

void lk_text_vset(char **text, const char *format, va_list args)
{
    char *fresh;
    if (vasprintf(&fresh, format, args) < 0)
        lk_die(LK_EXIT_SYSTEM, "out of memory");
    free(*text);
    *text = fresh;
}

void lk_text_set(char **text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    lk_text_vset(text, format, args);
    va_end(args);
}

static void clear_result(lk_result *result)
{
    free(result->promise);
    free(result->figure);
    free(result->why);
    for (size_t i = 0; i < result->samples_len; i++)
        free(result->samples[i].values);
    free(result->samples);
    for (size_t i = 0; i < result->traces_len; i++)
        lk_history_free(result->traces[i].history);
    free(result->traces);
}

void lk_comparison_clear(lk_comparison *comparison)
{
    for (size_t row = 0; row < comparison->rows_len; row++) {
        for (size_t i = 0; i < comparison->columns_len; i++)
            clear_result(&comparison->rows[row].results[i]);
        free(comparison->rows[row].results);
    }
    free(comparison->rows);
    free(comparison->columns);
    free(comparison->command);
}
