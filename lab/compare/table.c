/* table.c: the comparison for a terminal: a block for each scenario, in it a line for each backend with the
 * verdict and the headline, and under it why, where there is a why. */
#include <string.h>

#include "cli.h"
#include "report.h"

enum { VERDICT_WIDTH = 9, INDENT = 2 };

static int name_width(const lk_comparison *comparison)
{
    size_t width = 4;
    for (size_t i = 0; i < comparison->columns_len; i++)
        if (strlen(comparison->columns[i].name) > width)
            width = strlen(comparison->columns[i].name);
    return (int)width;
}

static void print_result(const lk_result *result, const char *name, int names, FILE *out, int width)
{
    const int at = INDENT + names + 2 + VERDICT_WIDTH + 2;
    fprintf(out, "%*s%-*s  %-*s  ", INDENT, "", names, name, VERDICT_WIDTH, lk_verdict_name(result->verdict));
    if (result->figure != NULL)
        lk_cli_wrap(out, result->figure, at, width);
    if (result->why != NULL) {
        if (result->figure != NULL)
            fprintf(out, "%*s", at, "");
        lk_cli_wrap(out, result->why, at, width);
    }
    if (result->figure == NULL && result->why == NULL)
        fputc('\n', out);
}

static void print_columns(const lk_comparison *comparison, int names, FILE *out, int width)
{
    for (size_t i = 0; i < comparison->columns_len; i++) {
        const lk_column *column = &comparison->columns[i];
        char text[sizeof column->version + sizeof column->setup + sizeof column->uri];

        snprintf(text, sizeof text, "%s%s%s", column->version, column->version[0] ? ". " : "",
                 column->setup[0] ? column->setup : column->uri);
        fprintf(out, "%*s%-*s  ", INDENT, "", names, column->name);
        lk_cli_wrap(out, text, INDENT + names + 2, width);
    }
}

static void print_totals(const lk_comparison *comparison, FILE *out)
{
    size_t count[LK_VERDICT_NOT_RUN + 1] = {0};
    for (size_t row = 0; row < comparison->rows_len; row++)
        for (size_t i = 0; i < comparison->columns_len; i++)
            count[comparison->rows[row].results[i].verdict]++;
    fprintf(out, "\n%zu kept, %zu documented exceptions, %zu BROKEN, %zu measured, %zu not run\n",
            count[LK_VERDICT_KEPT], count[LK_VERDICT_EXCEPTION], count[LK_VERDICT_BROKEN],
            count[LK_VERDICT_MEASURED], count[LK_VERDICT_NOT_RUN]);
}

void lk_comparison_print(const lk_comparison *comparison, FILE *out, int width)
{
    const int names = name_width(comparison);
    char text[512];
    snprintf(text, sizeof text, "%s, locker %s, %s, each cell run %d time%s", comparison->date,
             comparison->locker_version, comparison->machine, comparison->runs,
             comparison->runs == 1 ? "" : "s");
    lk_cli_wrap(out, comparison->command, 0, width);
    lk_cli_wrap(out, text, 0, width);
    lk_cli_wrap(out, comparison->load, 0, width);
    fputc('\n', out);
    print_columns(comparison, names, out, width);
    for (size_t row = 0; row < comparison->rows_len; row++) {
        fprintf(out, "\n%s: %s\n", comparison->rows[row].name, comparison->rows[row].title);
        for (size_t i = 0; i < comparison->columns_len; i++)
            print_result(&comparison->rows[row].results[i], comparison->columns[i].name, names, out, width);
    }
    print_totals(comparison, out);
}
