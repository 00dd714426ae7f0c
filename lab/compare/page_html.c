/* page_html.c: the page's text and tables; see page_parts.h. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli.h"
#include "page_parts.h"

/* Text in an element, when there is any. */
static void put_element(lk_page *page, const char *name, const char *before, const char *text)
{
    if (!text || !text[0])
        return;
    fprintf(page->html, "<%s>%s", name, before);
    lk_page_text(page, text);
    fprintf(page->html, "</%.*s>\n", (int)strcspn(name, " "), name);
}

/* ------------------------------------------------------------------ verdicts ---- */

static const struct {
    const char *words, *style, *meaning;
} verdicts[] = {
    [LK_VERDICT_MEASURED] = {"measured", "measured", "a figure, without a promise"},
    [LK_VERDICT_KEPT] = {"kept", "kept", "the promise was kept in every run"},
    [LK_VERDICT_EXCEPTION] = {"documented exception", "exception",
                              "a documented limit of the promise was reached"},
    [LK_VERDICT_BROKEN] = {"BROKEN", "broken", "the promise was broken in at least one run"},
    [LK_VERDICT_NOT_RUN] = {"not run", "not-run", "not run, or not to its end"},
};

static void put_verdict(lk_page *page, lk_verdict verdict)
{
    fprintf(page->html, "<span class=\"verdict %s\">%s</span>\n", verdicts[verdict].style,
            verdicts[verdict].words);
}

/* The verdict, and the way to the lanes that show it. */
static void put_linked_verdict(lk_page *page, const lk_row *row, size_t column)
{
    const bool linked = lk_page_has_lanes(page, row, column);
    if (linked)
        fprintf(page->html, "<a class=\"lanes\" href=\"#lanes-%s-%zu\">", row->name, column);
    put_verdict(page, row->results[column].verdict);
    if (linked)
        fputs("</a>\n", page->html);
}

static void put_totals(lk_page *page, const lk_comparison *found)
{
    size_t count[LK_VERDICT_NOT_RUN + 1] = {0};
    for (size_t row = 0; row < found->rows_len; row++)
        for (size_t i = 0; i < found->columns_len; i++)
            count[found->rows[row].results[i].verdict]++;
    fputs("<ul class=\"key\">\n", page->html);
    for (int i = LK_VERDICT_MEASURED; i <= LK_VERDICT_NOT_RUN; i++) {
        fprintf(page->html, "<li><b>%zu</b> ", count[i]);
        put_verdict(page, (lk_verdict)i);
        fprintf(page->html, " %s</li>\n", verdicts[i].meaning);
    }
    fputs("</ul>\n", page->html);
}

/* ------------------------------------------------------------------ the run ---- */

static void put_fact(lk_page *page, const char *name, const char *text)
{
    fprintf(page->html, "<dt>%s</dt><dd>", name);
    lk_page_text(page, text);
    fputs("</dd>\n", page->html);
}

static void put_run(lk_page *page, const lk_comparison *found)
{
    fputs("<h1>Lock services compared</h1>\n<p>Separate processes ran the same scenarios on each "
          "service. All results are from this single run.</p>\n<dl>\n",
          page->html);
    put_fact(page, "Command", found->command);
    put_fact(page, "Locker", found->locker_version);
    put_fact(page, "Date", found->date);
    put_fact(page, "Machine", found->machine);
    put_fact(page, "Load", found->load);
    char text[200];
    snprintf(text, sizeof text, "each scenario was run %d time%s on each service%s", found->runs,
             found->runs == 1 ? "" : "s", found->quick ? ", in its short form, with few samples" : "");
    put_fact(page, "Runs", text);
    fputs("</dl>\n", page->html);
}

/* What most readers came for, before anything else: a line for each service. */
static void put_answer(lk_page *page, const lk_comparison *found)
{
    fputs("<h2 id=\"answer\">Which to choose</h2>\n<ul>\n", page->html);
    for (size_t i = 0; i < found->columns_len; i++) {
        const lk_column *column = &found->columns[i];
        size_t count[LK_VERDICT_NOT_RUN + 1] = {0};

        for (size_t row = 0; row < found->rows_len; row++)
            count[found->rows[row].results[i].verdict]++;
        fputs("<li><b>", page->html);
        lk_page_text(page, column->name);
        fputs(column->choose_when ? "</b> when " : "</b>: ", page->html);
        lk_page_text(page, column->choose_when ? column->choose_when : "a service of yours");
        fprintf(page->html,
                ". In this run it kept %zu promises, reached the documented limit of %zu and broke "
                "%zu.</li>\n",
                count[LK_VERDICT_KEPT], count[LK_VERDICT_EXCEPTION], count[LK_VERDICT_BROKEN]);
    }
    fputs("</ul>\n", page->html);
}

static void put_columns(lk_page *page, const lk_comparison *found)
{
    fputs("<h2 id=\"services\">The services</h2>\n<dl>\n", page->html);
    for (size_t i = 0; i < found->columns_len; i++) {
        const lk_column *column = &found->columns[i];

        fputs("<dt>", page->html);
        lk_page_text(page, column->name);
        fputs("</dt><dd>", page->html);
        lk_page_text(page, column->version);
        fputs(column->version[0] ? ". " : "", page->html);
        lk_page_text(page, column->setup);
        fputs(" <code>", page->html);
        lk_page_text(page, column->uri);
        fputs("</code></dd>\n", page->html);
    }
    fputs("</dl>\n", page->html);
}

/* ------------------------------------------------------------------ tables ---- */

static void put_head(lk_page *page, const lk_comparison *found, const char *first)
{
    fprintf(page->html, "<thead><tr><th scope=\"col\">%s</th>", first);
    for (size_t i = 0; i < found->columns_len; i++)
        put_element(page, "th scope=\"col\"", "", found->columns[i].name);
    fputs("</tr></thead>\n<tbody>\n", page->html);
}

/* On a narrow screen cells stand below each other, and each says whose it is. */
static void begin_cell(lk_page *page, const lk_column *column)
{
    fputs("<td data-backend=\"", page->html);
    lk_page_text(page, column->name);
    fputs("\">", page->html);
}

static void put_result(lk_page *page, const lk_row *row, size_t column)
{
    const lk_result *result = &row->results[column];
    put_linked_verdict(page, row, column);
    put_element(page, "p", "", result->figure);
    put_element(page, "p class=\"why\"", "", result->why);
    put_element(page, "p class=\"promise\"", "<b>Promised:</b> ", result->promise);
}

/* The columns are so wide that no word is broken; a window that is narrower, but not a small screen's, scrolls. */
static void begin_table(lk_page *page, const lk_comparison *found, const char *first)
{
    fprintf(page->html, "<table class=\"results\" style=\"min-width: %zurem\">\n",
            11 + 9 * found->columns_len);
    put_head(page, found, first);
}

static void put_results(lk_page *page, const lk_comparison *found)
{
    fputs("<h2 id=\"results\">Promises and results</h2>\n", page->html);
    put_totals(page, found);
    begin_table(page, found, "Scenario");
    for (size_t row = 0; row < found->rows_len; row++) {
        const lk_row *shown = &found->rows[row];

        fprintf(page->html, "<tr><th scope=\"row\"><a href=\"#%s\">", shown->name);
        lk_page_text(page, shown->title);
        fprintf(page->html, "</a> <code>%s</code>", shown->name);
        for (size_t i = 0; i < found->columns_len; i++) {
            begin_cell(page, &found->columns[i]);
            put_result(page, shown, i);
        }
        fputs("</tr>\n", page->html);
    }
    fputs("</tbody></table>\n", page->html);
}

static const char *yes(bool is_so)
{
    return is_so ? "yes" : "no";
}

static const char *answer(const locker_semantics *s, size_t question)
{
    static const char *const scopes[] = {"", "the threads of one process", "the processes of one host",
                                         "hosts"};
    static const char *const orders[] = {
        "", "first come, first served inside a process; no order among processes",
        "first come, first served, over all processes"};
    const char *const answers[] = {
        scopes[s->scope], orders[s->fairness], yes(s->leases),      yes(s->quorum), s->holder_dies,
        s->holder_stalls, s->cut_off,          s->service_restarts, s->failover,    s->token,
        s->cost};
    return answers[question];
}

static void put_semantics(lk_page *page, const lk_comparison *found)
{
    static const char *const questions[] = {"Excludes",
                                            "Order",
                                            "A lease, to be renewed",
                                            "A majority of servers agrees",
                                            "The holder dies",
                                            "The holder stalls",
                                            "The holder is cut off",
                                            "The service restarts",
                                            "Another server takes over",
                                            "The fencing token",
                                            "Cost"};
    fputs("<h2 id=\"semantics\">The promises of each driver</h2>\n", page->html);
    begin_table(page, found, "Question");
    for (size_t question = 0; question < sizeof questions / sizeof questions[0]; question++) {
        fprintf(page->html, "<tr><th scope=\"row\">%s", questions[question]);
        for (size_t i = 0; i < found->columns_len; i++) {
            const char *text = answer(&found->columns[i].semantics, question);

            begin_cell(page, &found->columns[i]);
            lk_page_text(page, text ? text : "");
        }
        fputs("</tr>\n", page->html);
    }
    fputs("</tbody></table>\n", page->html);
}

/* ------------------------------------------------------------------ scenarios ---- */

static void put_lanes_key(lk_page *page)
{
    static const char *const colours[][2] = {
        {LK_COLOUR_WAITS, "asks for the lock, or waits"},
        {LK_COLOUR_HOLDS, "holds the lock, or a permit (the number is its slot)"},
        {LK_COLOUR_SHARES, "shares the lock"},
        {LK_COLOUR_BELIEVES, "its deadline has passed, and it has not noticed yet"},
        {LK_COLOUR_TWO, "two hold the lock at once"},
        {LK_COLOUR_SERVER, "the holder that the server reports"},
        {LK_COLOUR_FAULT, "a fault that the scenario causes"}};
    fputs("<h2 id=\"scenarios\">The scenarios</h2>\n<p>Each lane is a process. Time runs from left to "
          "right, in seconds.</p>\n<ul class=\"key\">\n",
          page->html);
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++)
        fprintf(page->html, "<li><span class=\"swatch\" style=\"background:%s\"></span> %s</li>\n",
                colours[i][0], colours[i][1]);
    fputs("<li>▽ it is notified that its lock is lost</li>\n<li>○ the store accepts its "
          "write</li>\n<li><span class=\"refused\">×</span> the store refuses its write, because its "
          "fencing token is old</li>\n</ul>\n",
          page->html);
}

static bool was_run(const lk_comparison *found, const lk_row *row)
{
    for (size_t i = 0; i < found->columns_len; i++)
        if (row->results[i].verdict != LK_VERDICT_NOT_RUN)
            return true;
    return false;
}

static void put_scenarios(lk_page *page, const lk_comparison *found)
{
    put_lanes_key(page);
    for (size_t row = 0; row < found->rows_len; row++) {
        const lk_row *shown = &found->rows[row];

        fprintf(page->html, "<section id=\"%s\">\n", shown->name);
        put_element(page, "h3", "", shown->title);
        put_element(page, "p", "", shown->question);
        if (!was_run(found, shown))
            fputs("<p>It was run on no service; the <a href=\"#results\">table</a> says why.</p>\n",
                  page->html);
        lk_page_samples(page, found, shown);
        lk_page_lanes(page, found, shown);
        fputs("</section>\n", page->html);
    }
}

void lk_page_document(lk_page *page, const lk_comparison *found)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<title>Lock services compared</title>\n<style>\n",
          page->html);
    fputs(lk_page_style(), page->html);
    fputs("</style>\n</head>\n<body>\n", page->html);
    put_run(page, found);
    put_answer(page, found);
    put_columns(page, found);
    put_results(page, found);
    put_scenarios(page, found);
    put_semantics(page, found);
    fputs("</body>\n</html>\n", page->html);
}
