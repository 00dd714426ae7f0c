/* compare.c: locker compare: the same scenarios on several lock services, run and told. It starts what
 * --spawn asks for, goes through the scenarios (scenario_*.c), one cell after the other, and gives what was
 * found (report.h) to the table, the JSON file and the page. Nothing that it starts outlives it:
 * servers/process.h and servers/scratch.h say how. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "canary.h"
#include "cell.h"
#include "cli.h"
#include "die.h"
#include "options.h"
#include "output.h"
#include "servers/lateness.h"
#include "servers/scratch.h"
#include "spawn.h"
#include "worker.h"

/* A process that stands still for a tenth of the shortest lease may lose it, whatever the service does. */
enum { TTL_MS = 1000, TOO_LATE_MS = TTL_MS / 10 };

typedef struct {
    lk_choices choices;
    lk_comparison found;
    lk_backend backends[LK_BACKENDS_MAX]; /* in the order of found.columns */
    lk_progress progress;
    FILE *json;
    int64_t latest_ns; /* how late the canary woke at worst */
    char load_before[32];
} comparing;

static void *room(size_t count, size_t size)
{
    void *zeroed = calloc(count, size);
    if (!zeroed)
        lk_die(LK_EXIT_SYSTEM, "out of memory");
    return zeroed;
}

/* ------------------------------------------------------------------ what is said of the run ---- */

static void say_command(int argc, char **argv, char **out)
{
    lk_text_set(out, "locker compare");
    for (int i = 1; i < argc; i++) {
        const size_t size = strlen(argv[i]) + sizeof "***"; /* which may be longer than the password */
        char *word = room(size, 1);
        lk_text_set(out, "%s %s", *out, lk_backend_public_uri(argv[i], word, size));
        free(word);
    }
}

static void say_machine(char *out, size_t size)
{
    char line[256], model[96] = "";
    FILE *cpu = fopen("/proc/cpuinfo", "re");
    while (cpu && !model[0] && fgets(line, sizeof line, cpu))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':'))
            snprintf(model, sizeof model, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"),
                     strchr(line, ':') + 2);
    if (cpu)
        fclose(cpu);
    struct utsname name;
    uname(&name);
    snprintf(out, size, "%s%s%ld processors, %s %s", model, model[0] ? ", " : "",
             sysconf(_SC_NPROCESSORS_ONLN), name.sysname, name.release);
}

static void say_load(char *out, size_t size)
{
    double average;
    if (getloadavg(&average, 1) == 1)
        snprintf(out, size, "%.2f", average);
    else
        snprintf(out, size, "unknown");
}

static void say_business(comparing *c)
{
    char after[32];
    say_load(after, sizeof after);
    char late[32];
    snprintf(c->found.load, sizeof c->found.load,
             "load average %s before and %s after; a thread that slept %d ms woke at most %s late",
             c->load_before, after, LK_CANARY_MS, lk_ms_words((double)c->latest_ns / 1e6, late, sizeof late));
}

static void say_date(char *out, size_t size)
{
    const time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(out, size, "%Y-%m-%d %H:%M UTC", &utc);
}

/* ------------------------------------------------------------------ backends ---- */

static lk_backend *add_backend(comparing *c)
{
    const size_t i = c->found.columns_len++;
    c->backends[i].column = &c->found.columns[i];
    return &c->backends[i];
}

static void learn(lk_backend *backend)
{
    locker_error err;
    if (!lk_backend_learn(backend, &err))
        lk_die(lk_cli_exit_for(err.status), "%s", err.text);
    lk_backend_public_uri(backend->uri, backend->column->uri, sizeof backend->column->uri);
}

/* Two of one driver are told apart by a number. */
static void name_given(comparing *c, lk_column *column)
{
    int same = 0;
    for (size_t i = 0; i < c->found.columns_len; i++)
        if (&c->found.columns[i] != column && !c->found.columns[i].spawned &&
            strcmp(c->found.columns[i].semantics.driver, column->semantics.driver) == 0)
            same++;
    snprintf(column->name, sizeof column->name, same > 0 ? "given-%s-%d" : "given-%s",
             column->semantics.driver, same + 1);
}

static void open_given(comparing *c)
{
    for (size_t i = 0; i < c->choices.uris_len; i++) {
        lk_backend *backend = add_backend(c);

        snprintf(backend->uri, sizeof backend->uri, "%s", c->choices.uris[i]);
        learn(backend);
        name_given(c, backend->column);
    }
}

/* All are started before the first is waited for. */
static void open_spawned(comparing *c)
{
    const size_t first = c->found.columns_len;
    for (size_t i = 0; i < c->choices.kinds_len; i++) {
        const lk_kind *kind = c->choices.kinds[i];
        lk_backend *backend = add_backend(c);

        lk_progress_say(&c->progress, "starting %s", kind->name);
        backend->kind = kind;
        backend->column->spawned = true;
        snprintf(backend->column->name, sizeof backend->column->name, "%s", kind->name);
        snprintf(backend->column->setup, sizeof backend->column->setup, "%s", kind->about);
        backend->column->choose_when = kind->choose_when;
        kind->start(backend);
    }
    for (size_t i = first; i < c->found.columns_len; i++) {
        lk_backend *backend = &c->backends[i];

        if (!backend->kind->await(backend))
            lk_die(LK_EXIT_UNAVAILABLE, "the servers of '%s' do not start; remove this name from --spawn",
                   backend->kind->name);
        learn(backend);
    }
}

static void stop_spawned(comparing *c)
{
    for (size_t i = 0; i < c->found.columns_len; i++)
        if (c->backends[i].kind)
            lk_spawn_stop(&c->backends[i]);
}

/* ------------------------------------------------------------------ cells ---- */

static const char *scratch(void)
{
    char why[256];
    const char *path = lk_scratch(why, sizeof why);
    if (!path)
        lk_die(LK_EXIT_SYSTEM, "%s", why);
    return path;
}

static void begin_cell(lk_cell *cell, const lk_scenario *scenario)
{
    lk_event common = LK_EVENT_INIT;
    cell->scenario = scenario->name;
    cell->ttl_ms = TTL_MS;
    snprintf(cell->key, sizeof cell->key, "compare.%d.%s.%d", (int)getpid(), scenario->name, cell->run);
    snprintf(cell->history, sizeof cell->history, "%s/%s.%s.%d", scratch(), scenario->name,
             cell->result->column->name, cell->run);
    common.worker = "compare";
    common.backend = cell->result->column->name;
    common.scenario = scenario->name;
    common.run = cell->run;
    common.process = getpid();
    cell->writer = lk_history_writer_open(cell->history, &common);
    if (!cell->writer)
        lk_die(LK_EXIT_SYSTEM, "cannot write %s: %s", cell->history, strerror(errno));
}

/* How slow the machine was during a cell. */
typedef struct {
    int64_t woke_late_ns; /* the canary, at worst */
    int64_t waited_ms;    /* on a busy machine: how long workers and servers waited for it in all, else 0 */
} slowness;

static slowness how_slow(void)
{
    return (slowness){.woke_late_ns = lk_canary_worst(),
                      .waited_ms = lk_lateness_is_busy() ? lk_lateness_ms() : 0};
}

/* A verdict that the history does not prove says nothing of the service if processes stood still, or waited for a processor for as
 * long as a lease: three servers that share two processors with others renew no lease in time. */
static void excuse(comparing *c, lk_cell *cell, lk_verdict before, const slowness *slow)
{
    lk_result *result = cell->result;
    const bool woke_late = slow->woke_late_ns >= TOO_LATE_MS * INT64_C(1000000);
    c->latest_ns = slow->woke_late_ns > c->latest_ns ? slow->woke_late_ns : c->latest_ns;
    if (result->verdict != LK_VERDICT_BROKEN || before == LK_VERDICT_BROKEN || cell->proven ||
        (!woke_late && slow->waited_ms < TTL_MS))
        return;
    result->verdict = LK_VERDICT_NOT_RUN;
    char words[32];
    (void)lk_ms_words(woke_late ? (double)slow->woke_late_ns / 1e6 : (double)slow->waited_ms, words,
                      sizeof words);
    lk_text_set(&result->why,
                woke_late ? "the machine was too slow (a thread woke %s late): %s"
                          : "the machine was too slow (processes waited for it for %s in all): %s",
                words, result->why);
}

static void end_cell(comparing *c, lk_cell *cell, lk_verdict before)
{
    lk_result *result = cell->result;
    const slowness slow = how_slow(); /* while the workers are there */
    lk_dismiss_all(cell);
    lk_history_writer_close(cell->writer);
    if (lk_failed(cell) && result->verdict != LK_VERDICT_BROKEN) { /* what was broken before stays so */
        result->verdict = LK_VERDICT_NOT_RUN;
        lk_text_set(&result->why, "%s", cell->failed);
    } else {
        lk_judge(cell);
        if (c->json && !lk_json_add_history(c->json, cell->history))
            lk_die(LK_EXIT_SYSTEM, "cannot write %s: %s", c->choices.json, strerror(errno));
    }
    free(cell->failed);
    excuse(c, cell, before, &slow);
    remove(cell->history);
    if (cell->harmed && cell->backend->kind && !cell->backend->kind->heal(cell->backend))
        lk_die(LK_EXIT_UNAVAILABLE, "the servers of '%s' do not come back after the scenario '%s'",
               result->column->name, cell->scenario);
}

static void run_cell(comparing *c, const lk_scenario *scenario, lk_backend *backend, lk_result *result)
{
    const char *lacking = lk_backend_lacks(backend, scenario->needs);
    result->column = backend->column;
    if (lacking) {
        result->verdict = LK_VERDICT_NOT_RUN;
        lk_text_set(&result->why, "%s", lacking);
        return;
    }
    for (int run = 1; run <= c->choices.runs && result->verdict != LK_VERDICT_NOT_RUN; run++) {
        lk_cell cell = {.backend = backend, .result = result, .run = run, .quick = c->choices.quick};

        lk_progress_say(&c->progress, "%s on %s, run %d of %d", scenario->name, backend->column->name, run,
                        c->choices.runs);
        const lk_verdict before = result->verdict;

        begin_cell(&cell, scenario);
        lk_canary_worst();
        lk_lateness_mark();
        scenario->run(&cell);
        end_cell(c, &cell, before);
    }
    if (result->verdict != LK_VERDICT_NOT_RUN)
        scenario->conclude(result);
}

static void run_all(comparing *c)
{
    for (size_t row = 0; row < c->choices.scenarios_len; row++) {
        const lk_scenario *scenario = c->choices.scenarios[row];
        lk_row *shown = &c->found.rows[row];

        *shown = (lk_row){.name = scenario->name,
                          .title = scenario->title,
                          .question = scenario->question,
                          .no_lanes = scenario->no_lanes};
        shown->results = room(c->found.columns_len, sizeof *shown->results);
        c->found.rows_len++;
        for (size_t i = 0; i < c->found.columns_len; i++) {
            run_cell(c, scenario, &c->backends[i], &shown->results[i]);
            c->progress.done++;
        }
    }
}

/* ------------------------------------------------------------------ telling ---- */

static void list_scenario(const lk_scenario *scenario)
{
    const int at = printf("%-18s ", scenario->name);
    printf("%s\n%*s", scenario->title, at, "");
    lk_cli_wrap(stdout, scenario->question, at, LK_CLI_WIDTH);
}

static int list_scenarios(const lk_choices *choices)
{
    for (size_t i = 0; i < choices->scenarios_len; i++)
        list_scenario(choices->scenarios[i]);
    return lk_cli_finish_output(LK_EXIT_OK);
}

static FILE *open_output(const char *path)
{
    FILE *file = path ? fopen(path, "we") : NULL;
    if (path && !file)
        lk_die(LK_EXIT_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    return file;
}

/* Found out before minutes are spent. */
static void check_html(const char *path)
{
    const bool is_there = path && access(path, F_OK) == 0;
    if (!path)
        return;
    char why[512];
    if (!lk_comparison_can_write_html(why, sizeof why))
        lk_die(LK_EXIT_UNAVAILABLE, "cannot make a page: %s", why);
    FILE *file = fopen(path, "ae");
    if (!file)
        lk_die(LK_EXIT_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    fclose(file);
    if (!is_there)
        remove(path);
}

static int width_of_terminal(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60)
        return size.ws_col > 160 ? 160 : size.ws_col;
    return LK_CLI_WIDTH;
}

static bool any_broken(const lk_comparison *found)
{
    for (size_t row = 0; row < found->rows_len; row++)
        for (size_t i = 0; i < found->columns_len; i++)
            if (found->rows[row].results[i].verdict == LK_VERDICT_BROKEN)
                return true;
    return false;
}

static int tell(comparing *c)
{
    if (c->json && (!lk_json_add_summaries(c->json, &c->found) || fclose(c->json) != 0))
        lk_die(LK_EXIT_SYSTEM, "cannot write %s: %s", c->choices.json, strerror(errno));
    lk_comparison_print(&c->found, stdout, width_of_terminal());
    char why[512];
    if (c->choices.html && !lk_comparison_write_html(&c->found, c->choices.html, why, sizeof why))
        lk_die(LK_EXIT_SYSTEM, "cannot write %s: %s", c->choices.html, why);
    return lk_cli_finish_output(any_broken(&c->found) ? LK_EXIT_BROKEN : LK_EXIT_OK);
}

static void begin(comparing *c, int argc, char **argv)
{
    const size_t columns = c->choices.uris_len + c->choices.kinds_len;
    say_load(c->load_before, sizeof c->load_before);
    lk_canary_start();
    c->json = open_output(c->choices.json);
    check_html(c->choices.html);
    say_command(argc, argv, &c->found.command);
    say_machine(c->found.machine, sizeof c->found.machine);
    say_date(c->found.date, sizeof c->found.date);
    snprintf(c->found.locker_version, sizeof c->found.locker_version, "%s", locker_version());
    c->found.runs = c->choices.runs;
    c->found.quick = c->choices.quick;
    c->found.columns = room(columns, sizeof *c->found.columns);
    c->found.rows = room(c->choices.scenarios_len, sizeof *c->found.rows);
    c->progress = lk_progress_begin(c->choices.quiet, columns * c->choices.scenarios_len);
}

static int compare(int argc, char **argv)
{
    comparing *c = room(1, sizeof *c);
    int code = lk_choices_parse(argc, argv, &c->choices);
    if (code == LK_GO_ON && c->choices.list) {
        code = list_scenarios(&c->choices);
    } else if (code == LK_GO_ON) {
        begin(c, argc, argv);
        open_given(c);
        open_spawned(c);
        run_all(c);
        lk_progress_end(&c->progress);
        say_business(c);
        stop_spawned(c);
        lk_scratch_close();
        code = tell(c);
        lk_comparison_clear(&c->found);
    }
    free(c);
    return code;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], LK_WORKER_OPTION) == 0)
        return lk_worker_main();
    return compare(argc, argv);
}
