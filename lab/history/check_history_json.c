/* check_history_json.c: the report of check-history as JSON, for programs. Times are in milliseconds. */
#include "check_history_json.h"

static void set(json_t *object, const char *name, json_t *value)
{
    json_object_set_new(object, name, value);
}

static void set_count(json_t *object, const char *name, size_t count)
{
    set(object, name, json_integer((json_int_t)count));
}

static void set_ms(json_t *object, const char *name, int64_t ns)
{
    set(object, name, json_real(lk_ms(ns)));
}

static json_t *samples(const lk_samples *values)
{
    json_t *object = json_object();
    set_count(object, "count", values->count);
    set_ms(object, "p50_ms", lk_samples_quantile(values, 0.5));
    set_ms(object, "p99_ms", lk_samples_quantile(values, 0.99));
    set_ms(object, "longest_ms", lk_samples_quantile(values, 1));
    return object;
}

static void add_figures(json_t *object, const lk_figures *f, lk_check check)
{
    switch (check) {
    case LK_CHECK_OVERLAP:
        set_ms(object, "total_ms", f->overlap_ns);
        set_ms(object, "longest_ms", f->overlap_longest_ns);
        set_count(object, "pairs", f->overlap_pairs);
        break;
    case LK_CHECK_WRITES:
        set_count(object, "accepted", f->writes_accepted);
        set_count(object, "refused", f->writes_refused);
        break;
    case LK_CHECK_FIFO:
        set_count(object, "most_overtaken", f->most_overtaken);
        set(object, "jain", f->grants ? json_real(f->jain) : json_null());
        set_ms(object, "longest_wait_ms", f->longest_wait_ns);
        break;
    case LK_CHECK_NOTICE:
        set_count(object, "never_told", f->never_told);
        set(object, "after_deadline", samples(&f->after_deadline));
        set(object, "after_server", samples(&f->after_server));
        break;
    default:
        break;
    }
}

static json_t *checks(const lk_report *report)
{
    json_t *object = json_object();
    for (int i = 0; i < LK_CHECKS; i++) {
        const lk_check check = (lk_check)i;
        json_t *one = json_object();
        set(one, "result", json_string(lk_check_result(report, &report->total, check)));
        set(one, "promised", json_boolean((report->options.promised & 1U << i) != 0));
        set_count(one, "seen", report->total.seen[i]);
        set_count(one, "breaches", report->total.breaches[i]);
        set_count(one, "allowed", report->total.allowed[i]);
        add_figures(one, &report->total, check);
        set(object, lk_check_name(check), one);
    }
    return object;
}

static json_t *place(const lk_history *history, const lk_event *event)
{
    if (!event)
        return json_null();
    json_t *object = json_object();
    set(object, "file", lk_cli_json_text(lk_history_file_name(history, event->file)));
    set(object, "line", json_integer(event->line));
    set(object, "process", json_integer(event->process));
    return object;
}

static json_t *findings(const lk_history *history, const lk_report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->finding_count; i++) {
        const lk_finding *finding = &report->findings[i];
        const lk_history_key_report *key = &report->keys[finding->key];
        if (key->figures.breaches[finding->check] == 0) /* within the limit */
            continue;
        json_t *one = json_object();
        set(one, "check", json_string(lk_check_name(finding->check)));
        set(one, "run", json_integer(key->run));
        set(one, "backend", json_string(key->backend));
        set(one, "scenario", json_string(key->scenario));
        set(one, "key", json_string(key->key));
        set(one, "text", json_string(finding->text));
        set(one, "first", place(history, finding->first));
        set(one, "second", place(history, finding->second));
        if (finding->check == LK_CHECK_OVERLAP)
            set_ms(one, "ms", finding->to - finding->from);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *files(const lk_history *history)
{
    json_t *list = json_array();
    for (size_t i = 0; lk_history_file_name(history, i); i++) {
        json_t *one = json_object();
        const uint32_t cut = lk_history_cut_line(history, i);
        set(one, "file", lk_cli_json_text(lk_history_file_name(history, i)));
        set(one, "cut_line", cut ? json_integer(cut) : json_null());
        json_array_append_new(list, one);
    }
    return list;
}

json_t *lk_history_json(const lk_history *history, const lk_report *report)
{
    json_t *object = json_object();
    size_t lines;
    lk_history_events(history, &lines);
    set(object, "broken", json_boolean(lk_report_broken(report)));
    set(object, "files", files(history));
    set_count(object, "lines", lines);
    set_count(object, "keys", report->key_count);
    set_count(object, "processes", lk_history_processes(history));
    set_count(object, "calls", report->total.attempts);
    set_count(object, "grants", report->total.grants);
    set_count(object, "faults", report->faults);
    set(object, "checks", checks(report));
    set(object, "findings", findings(history, report));
    return object;
}
