/* json.c: the JSON file of locker compare: the histories of all runs (docs/history.md), and a line for what
 * was found in each cell; see output.h. The summaries are lines of the operation `note`, so that the file is
 * a history as a whole, and locker check-history reads it. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "output.h"
#include "servers/wait.h"

bool lk_json_add_history(FILE *json, const char *history)
{
    FILE *file = fopen(history, "re");
    char block[65536];
    size_t got;
    bool good = file != NULL;
    while (good && (got = fread(block, 1, sizeof block, file)) > 0)
        good = fwrite(block, 1, got, json) == got;
    if (file)
        fclose(file);
    return good;
}

static json_t *samples_json(const lk_result *result)
{
    static const double parts[] = {0, 0.5, 0.9, 0.99, 1};
    static const char *const names[] = {"min", "p50", "p90", "p99", "max"};
    json_t *all = json_object();
    for (size_t i = 0; i < result->samples_len; i++) {
        const lk_measured *samples = &result->samples[i];
        json_t *one = json_pack("{s:s, s:I}", "unit", samples->unit, "count", (json_int_t)samples->len);

        for (size_t part = 0; part < sizeof parts / sizeof parts[0]; part++)
            json_object_set_new(one, names[part], json_real(lk_measured_quantile(samples, parts[part])));
        json_object_set_new(all, samples->name, one);
    }
    return all;
}

static json_t *note_json(const char *kind)
{
    return json_pack("{s:I, s:I, s:s, s:s, s:s}", "t", (json_int_t)lk_now_ns(), "process",
                     (json_int_t)getpid(), "op", "note", "phase", "info", "kind", kind);
}

static json_t *text_json(const char *text)
{
    return lk_cli_json_text(text != NULL ? text : "");
}

static json_t *result_json(const lk_row *row, const lk_column *column, const lk_result *result)
{
    json_t *line = note_json("result");
    json_object_set_new(line, "scenario", json_string(row->name));
    json_object_set_new(line, "backend", json_string(column->name));
    json_object_set_new(line, "verdict", json_string(lk_verdict_name(result->verdict)));
    json_object_set_new(line, "promise", text_json(result->promise));
    json_object_set_new(line, "figure", text_json(result->figure));
    json_object_set_new(line, "why", text_json(result->why));
    json_object_set_new(line, "samples", samples_json(result));
    return line;
}

static json_t *comparison_json(const lk_comparison *comparison)
{
    json_t *line = note_json("comparison"), *backends = json_array();
    for (size_t i = 0; i < comparison->columns_len; i++) {
        const lk_column *column = &comparison->columns[i];

        json_array_append_new(backends, json_pack("{s:s, s:o, s:s, s:s, s:b}", "name", column->name, "uri",
                                                  lk_cli_json_text(column->uri), "version", column->version,
                                                  "setup", column->setup, "spawned", column->spawned));
    }
    json_object_set_new(line, "command", lk_cli_json_text(comparison->command));
    json_object_set_new(line, "locker", json_string(comparison->locker_version));
    json_object_set_new(line, "machine", lk_cli_json_text(comparison->machine));
    json_object_set_new(line, "date", json_string(comparison->date));
    json_object_set_new(line, "load", json_string(comparison->load));
    json_object_set_new(line, "runs", json_integer(comparison->runs));
    json_object_set_new(line, "quick", json_boolean(comparison->quick));
    json_object_set_new(line, "backends", backends);
    return line;
}

static bool add_line(FILE *json, json_t *line)
{
    const bool good = line && json_dumpf(line, json, JSON_COMPACT) == 0 && fputc('\n', json) != EOF;
    json_decref(line);
    return good;
}

bool lk_json_add_summaries(FILE *json, const lk_comparison *comparison)
{
    bool good = add_line(json, comparison_json(comparison));
    for (size_t row = 0; row < comparison->rows_len; row++)
        for (size_t i = 0; i < comparison->columns_len; i++)
            good = add_line(json, result_json(&comparison->rows[row], &comparison->columns[i],
                                              &comparison->rows[row].results[i])) &&
                   good;
    return good;
}
