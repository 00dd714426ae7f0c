/* page_samples.c: the samples of a scenario: plots with all backends, and a table of their figures; see
 * page_parts.h. Kinds of which some backend has many get a plot of their own, as distributions; those of
 * which all have few share one, in which each sample is a point. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page_parts.h"

enum {
    MANY = 30,          /* samples, from which on there is a distribution to see */
    CURVE_POINTS = 150, /* more are not seen */
    KINDS = 16,
    LINE_HEIGHT = 36,  /* px */
    FRAME_HEIGHT = 126 /* axis, its name, and the key */
};

/* Of Okabe and Ito's palette, which those who see few colours can tell apart; dashes and shapes differ
 * too. */
static const char *const colours[] = {"#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"};
static const int shapes[] = {7, 8, 4, 10, 12, 2};
enum { COLOURS = sizeof colours / sizeof colours[0] };

/* What one plot shows. */
typedef struct {
    const lk_comparison *found;
    const lk_row *row;
    const lk_measured *kinds[KINDS]; /* one of each name */
    size_t kinds_len;
    double least, most; /* of all samples above 0 */
    bool log;
} shown;

static const lk_measured *find(const lk_result *result, const char *name)
{
    for (size_t i = 0; i < result->samples_len; i++)
        if (strcmp(result->samples[i].name, name) == 0 && result->samples[i].len > 0)
            return &result->samples[i];
    return NULL;
}

static size_t most_of(const lk_comparison *found, const lk_row *row, const char *name)
{
    size_t most = 0;
    for (size_t i = 0; i < found->columns_len; i++) {
        const lk_measured *samples = find(&row->results[i], name);

        most = samples && samples->len > most ? samples->len : most;
    }
    return most;
}

static void span(shown *s)
{
    s->least = DBL_MAX;
    s->most = 0;
    for (size_t kind = 0; kind < s->kinds_len; kind++)
        for (size_t i = 0; i < s->found->columns_len; i++) {
            const lk_measured *samples = find(&s->row->results[i], s->kinds[kind]->name);

            for (size_t at = 0; samples && at < samples->len; at++) {
                const double value = samples->values[at];

                s->most = value > s->most ? value : s->most;
                s->least = value > 0 && value < s->least ? value : s->least;
            }
        }
    s->log = s->most > 20 * s->least;
}

static bool has(const shown *s, const char *name)
{
    for (size_t i = 0; i < s->kinds_len; i++)
        if (strcmp(s->kinds[i]->name, name) == 0)
            return true;
    return false;
}

/* The kinds of a row that are times or rates: what has no unit is counted, and told in words. */
static shown kinds_of(const lk_comparison *found, const lk_row *row)
{
    shown all = {.found = found, .row = row};
    for (size_t i = 0; i < found->columns_len; i++)
        for (size_t k = 0; k < row->results[i].samples_len && all.kinds_len < KINDS; k++) {
            const lk_measured *samples = &row->results[i].samples[k];
            shown one = {.found = found, .row = row, .kinds = {samples}, .kinds_len = 1};

            if (!samples->unit[0] || has(&all, samples->name))
                continue;
            span(&one);
            if (one.most > 0)
                all.kinds[all.kinds_len++] = samples;
        }
    return all;
}

/* ------------------------------------------------------------------ plots ---- */

static void set_axes(const shown *s, FILE *script)
{
    const char *unit = s->kinds[0]->unit;
    if (s->log)
        fprintf(script, "set logscale x\nset xrange [%g:%g]\nset format x '%%g'\n",
                pow(10, floor(log10(s->least))), pow(10, ceil(log10(s->most * 1.01))));
    else
        fprintf(script, "set xrange [0:%g]\n", s->most * 1.08);
    fprintf(script,
            "set xlabel '%s%s'\nset grid xtics ytics linetype 1 linecolor rgb '#e4e4e4'\n"
            "set key above\nset rmargin 3\n",
            strcmp(unit, "1/s") == 0 ? "per second" : unit, s->log ? " (logarithmic scale)" : "");
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The share of samples that are at most so large; 0 has no place on a logarithmic axis. */
static bool put_curve(const shown *s, const lk_measured *samples, size_t column, FILE *script)
{
    const size_t step = 1 + samples->len / CURVE_POINTS;
    double *sorted = malloc(samples->len * sizeof *sorted);
    if (!sorted)
        return false;
    memcpy(sorted, samples->values, samples->len * sizeof *sorted);
    qsort(sorted, samples->len, sizeof *sorted, by_value);
    fprintf(script, "$c%zu << EOD\n%g 0\n", column, sorted[0] > 0 ? sorted[0] : s->least);
    for (size_t i = 0; i < samples->len; i++)
        if (i % step == 0 || i + 1 == samples->len)
            fprintf(script, "%g %g\n", sorted[i] > 0 ? sorted[i] : s->least,
                    100.0 * (double)(i + 1) / (double)samples->len);
    fputs("EOD\n", script);
    free(sorted);
    return true;
}

static void draw_distribution(lk_page *page, shown *s)
{
    const char *name = s->kinds[0]->name, *next = "plot ";
    FILE *script = lk_chart_begin(page, 320);
    if (!script)
        return;
    span(s);
    set_axes(s, script);
    fputs("set yrange [0:101]\nset lmargin 9\nset ylabel '% of samples'\nset title ", script);
    char alt[200];
    snprintf(alt, sizeof alt, "%s: percentage of samples up to each value", name);
    lk_chart_text(script, alt);
    fputs(" noenhanced\n", script);
    for (size_t i = 0; i < s->found->columns_len; i++) {
        const lk_measured *samples = find(&s->row->results[i], name);

        if (samples && !put_curve(s, samples, i, script))
            lk_page_fail(page, "out of memory");
    }
    for (size_t i = 0; i < s->found->columns_len; i++) {
        if (!find(&s->row->results[i], name))
            continue;
        fprintf(script, "%s$c%zu using 1:2 with steps linewidth 2 dashtype %zu linecolor rgb '%s' title ",
                next, i, i % 5 + 1, colours[i % COLOURS]);
        lk_chart_text(script, s->found->columns[i].name);
        next = ", ";
    }
    fputc('\n', script);
    snprintf(alt, sizeof alt, "%s, %s: distribution for each backend; the table has the figures",
             s->row->name, name);
    lk_chart_end(page, script, alt);
}

/* A line for each backend, the first on top; the kinds a little apart. */
static void put_points(const shown *s, size_t kind, FILE *script)
{
    const double apart = s->kinds_len > 1 ? 0.24 - 0.48 * (double)kind / (double)(s->kinds_len - 1) : 0;
    fprintf(script, "$p%zu << EOD\n", kind);
    for (size_t i = 0; i < s->found->columns_len; i++) {
        const lk_measured *samples = find(&s->row->results[i], s->kinds[kind]->name);

        for (size_t at = 0; samples && at < samples->len; at++)
            if (samples->values[at] > 0 || !s->log)
                fprintf(script, "%g %g\n", samples->values[at], (double)(s->found->columns_len - i) + apart);
    }
    fputs("EOD\n", script);
}

/* "gap, lease: each sample is a point" */
static void name_kinds(const shown *s, char *out, size_t size)
{
    size_t at = 0;
    for (size_t kind = 0; kind < s->kinds_len && at < size; kind++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", kind > 0 ? ", " : "", s->kinds[kind]->name);
    if (at < size)
        snprintf(out + at, size - at, ": each sample is a point");
}

/* The left margin in characters: the longest name fits. */
static size_t margin_for_names(const lk_comparison *found)
{
    size_t longest = 18;
    for (size_t i = 0; i < found->columns_len; i++) {
        const size_t length = strlen(found->columns[i].name);

        longest = length > longest ? length : longest;
    }
    return longest;
}

static void draw_points(lk_page *page, shown *s)
{
    const size_t lines = s->found->columns_len;
    FILE *script = lk_chart_begin(page, (int)lines * LINE_HEIGHT + FRAME_HEIGHT);
    char alt[200];
    if (!script)
        return;
    span(s);
    set_axes(s, script);
    char title[200];
    name_kinds(s, title, sizeof title);
    fprintf(script, "set lmargin %zu\nset yrange [0.4:%zu.6]\nset title ", margin_for_names(s->found), lines);
    lk_chart_text(script, title);
    fputs("\nset ytics (", script);
    for (size_t i = 0; i < lines; i++) {
        lk_chart_text(script, s->found->columns[i].name);
        fprintf(script, " %zu%s", lines - i, i + 1 < lines ? ", " : ")\n");
    }
    for (size_t kind = 0; kind < s->kinds_len; kind++)
        put_points(s, kind, script);
    for (size_t kind = 0; kind < s->kinds_len; kind++) {
        fprintf(script, "%s$p%zu using 1:2 with points pointtype %d pointsize 0.9 linecolor rgb '%s' title ",
                kind == 0 ? "plot " : ", ", kind, shapes[kind % COLOURS], colours[(kind + 1) % COLOURS]);
        lk_chart_text(script, s->kinds[kind]->name);
    }
    fputc('\n', script);
    snprintf(alt, sizeof alt,
             "%s: each sample as a point, a line for each backend; the table has the figures", s->row->name);
    lk_chart_end(page, script, alt);
}

/* ------------------------------------------------------------------ figures ---- */

static void put_value(lk_page *page, const lk_measured *samples, double part, bool enough)
{
    const double value = lk_measured_quantile(samples, part);
    if (enough)
        fprintf(page->html, value >= 100 ? "<td>%.0f" : value >= 0.01 ? "<td>%.3g" : "<td>%.2g", value);
    else
        fputs("<td>–", page->html);
}

static void put_figures(lk_page *page, const shown *s, const lk_measured *kind)
{
    for (size_t i = 0; i < s->found->columns_len; i++) {
        const lk_measured *samples = find(&s->row->results[i], kind->name);

        if (!samples)
            continue;
        fputs("<tr><th scope=\"row\">", page->html);
        lk_page_text(page, kind->name);
        fputs(strcmp(kind->unit, "1/s") == 0 ? ", per second<td>" : ", ms<td>", page->html);
        lk_page_text(page, s->found->columns[i].name);
        fprintf(page->html, "<td>%zu", samples->len);
        put_value(page, samples, 0, true);
        put_value(page, samples, 0.5, true);
        put_value(page, samples, 0.9, samples->len >= MANY);
        put_value(page, samples, 0.99, samples->len >= 100);
        put_value(page, samples, 1, true);
        fputs("</tr>\n", page->html);
    }
}

void lk_page_samples(lk_page *page, const lk_comparison *found, const lk_row *row)
{
    static const char *const units[] = {"ms", "1/s"};
    const shown all = kinds_of(found, row);
    if (all.kinds_len == 0)
        return;
    fputs("<div class=\"charts\">\n", page->html);
    for (size_t i = 0; i < all.kinds_len; i++) {
        shown one = {.found = found, .row = row, .kinds = {all.kinds[i]}, .kinds_len = 1};

        if (most_of(found, row, all.kinds[i]->name) >= MANY)
            draw_distribution(page, &one);
    }
    for (size_t unit = 0; unit < 2; unit++) {
        shown few = {.found = found, .row = row};

        for (size_t i = 0; i < all.kinds_len; i++)
            if (most_of(found, row, all.kinds[i]->name) < MANY &&
                strcmp(all.kinds[i]->unit, units[unit]) == 0)
                few.kinds[few.kinds_len++] = all.kinds[i];
        if (few.kinds_len > 0)
            draw_points(page, &few);
    }
    fputs("</div>\n<details><summary>The figures</summary><div class=\"wide\"><table "
          "class=\"figures\">\n<thead><tr><th scope=\"col\">Figure<th scope=\"col\">Backend<th "
          "scope=\"col\">Samples<th scope=\"col\">Minimum<th scope=\"col\">Median<th scope=\"col\">90 "
          "%<th scope=\"col\">99 %<th scope=\"col\">Maximum</tr></thead>\n<tbody>\n",
          page->html);
    for (size_t i = 0; i < all.kinds_len; i++)
        put_figures(page, &all, all.kinds[i]);
    fputs("</tbody></table></div></details>\n", page->html);
}
