/* table.c: the comparison for a terminal: a block for each scenario, in it a line for each backend with the
 * verdict and the headline, and under it why, where there is a why. */
#include <string.h>

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

/* Print text from column `at` on, in lines of `width`, broken at blanks. */
static void wrap(FILE *out, const char *text, int at, int width)
{
    const size_t room = width - at > 20 ? (size_t)(width - at) : 20;
    while (*text) {
        size_t length = strlen(text);

        if (length > room) {
            length = room;
            while (length > 0 && text[length] != ' ')
                length--;
            if (length == 0)
                length = room;
        }
        fprintf(out, "%.*s\n", (int)length, text);
        text += length + strspn(text + length, " ");
        if (*text)
            fprintf(out, "%*s", at, "");
    }
}

static void print_result(const lk_result *result, const char *name, int names, FILE *out, int width)
{
    const int at = INDENT + names + 2 + VERDICT_WIDTH + 2;
    fprintf(out, "%*s%-*s  %-*s  ", INDENT, "", names, name, VERDICT_WIDTH, lk_verdict_name(result->verdict));
    if (result->figure[0])
        wrap(out, result->figure, at, width);
    if (result->why[0]) {
        if (result->figure[0])
            fprintf(out, "%*s", at, "");
        wrap(out, result->why, at, width);
    }
}

static void print_columns(const lk_comparison *comparison, int names, FILE *out, int width)
{
    for (size_t i = 0; i < comparison->columns_len; i++) {
        const lk_column *column = &comparison->columns[i];
        char text[600];

        snprintf(text, sizeof text, "%s%s%s", column->version, column->version[0] ? ". " : "",
                 column->setup[0] ? column->setup : column->uri);
        fprintf(out, "%*s%-*s  ", INDENT, "", names, column->name);
        wrap(out, text, INDENT + names + 2, width);
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
    fprintf(out, "%s\n%s, locker %s, %s, each cell run %d time%s\n%s\n\n", comparison->command,
            comparison->date, comparison->locker_version, comparison->machine, comparison->runs,
            comparison->runs == 1 ? "" : "s", comparison->load);
    print_columns(comparison, names, out, width);
    for (size_t row = 0; row < comparison->rows_len; row++) {
        fprintf(out, "\n%s: %s\n", comparison->rows[row].name, comparison->rows[row].title);
        for (size_t i = 0; i < comparison->columns_len; i++)
            print_result(&comparison->rows[row].results[i], comparison->columns[i].name, names, out, width);
    }
    print_totals(comparison, out);
}
