/* check_history.c: locker check-history FILE...: reads histories (docs/history.md), judges them by the
 * library in history/, and prints what came of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_history_json.h"

enum { FINDINGS_SHOWN = 10 };

struct options {
    lk_common common;
    lk_check_options check;
    bool allow_empty;
};

/* ------------------------------------------------------------------ options ---- */

/* The check of that name; LK_CHECKS: there is none, and it has complained. */
static lk_check named(const struct options *options, const char *name)
{
    char known[128] = "";
    for (int i = 0; i < LK_CHECKS; i++) {
        const char *one = lk_check_name((lk_check)i);
        if (strcmp(one, name) == 0)
            return (lk_check)i;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", one);
    }
    lk_cli_usage(options->common.subcommand, "there is no check '%s'; the checks are %s", name, known);
    return LK_CHECKS;
}

/* Where the check's limit is; NULL: it has none. */
static int64_t *limit_of(lk_check_options *options, lk_check check)
{
    if (check == LK_CHECK_OVERLAP)
        return &options->overlap_limit_ns;
    if (check == LK_CHECK_NOTICE)
        return &options->notice_limit_ns;
    return check == LK_CHECK_FIFO ? &options->fifo_limit_ns : NULL;
}

/* One NAME or NAME=DURATION of --promise. */
static int promise(struct options *options, char *word)
{
    char *limit = strchr(word, '=');
    if (limit)
        *limit++ = '\0';
    const lk_check check = named(options, word);
    if (check == LK_CHECKS)
        return LK_EXIT_USAGE;
    options->check.promised |= 1U << check;
    if (!limit)
        return LK_GO_ON;
    int64_t *where = limit_of(&options->check, check);
    if (!where)
        return lk_cli_usage(options->common.subcommand, "--promise %s takes no limit", word);
    int64_t ms;
    const int code = lk_cli_duration(options->common.subcommand, "--promise", limit, &ms);
    if (code == LK_GO_ON)
        *where = ms * 1000000;
    return code;
}

static int allow(struct options *options, char *word)
{
    const lk_check check = named(options, word);
    if (check == LK_CHECKS)
        return LK_EXIT_USAGE;
    options->check.promised &= ~(1U << check);
    return LK_GO_ON;
}

static int each_word(struct options *options, const char *text, int (*take)(struct options *, char *))
{
    char *words = strdup(text), *rest = words;
    int code = LK_GO_ON;
    if (!words) {
        lk_cli_message("out of memory");
        return LK_EXIT_SYSTEM;
    }
    char *word;
    while (code == LK_GO_ON && (word = strsep(&rest, ",")) != NULL)
        code = take(options, word);
    free(words);
    return code;
}

static int take_option(struct options *options, int option, char **argv)
{
    if (option == LK_OPT_PROMISE)
        return each_word(options, optarg, promise);
    if (option == LK_OPT_ALLOW)
        return each_word(options, optarg, allow);
    if (option == LK_OPT_ALLOW_EMPTY) {
        options->allow_empty = true;
        return LK_GO_ON;
    }
    return lk_cli_common_option(&options->common, option, argv);
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option table[] = {{"promise", required_argument, NULL, LK_OPT_PROMISE},
                                          {"allow", required_argument, NULL, LK_OPT_ALLOW},
                                          {"allow-empty", no_argument, NULL, LK_OPT_ALLOW_EMPTY},
                                          {"json", no_argument, NULL, LK_OPT_JSON},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    opterr = 0;
    int option, code;
    while ((option = getopt_long(argc, argv, ":qvhV", table, NULL)) != -1)
        if ((code = take_option(options, option, argv)) != LK_GO_ON)
            return code;
    if (optind == argc)
        return lk_cli_usage(options->common.subcommand, "a FILE is missing ('-': standard input)");
    return LK_GO_ON;
}

/* ------------------------------------------------------------------ text ---- */

/* A number and its noun: "1 key", "2 keys". */
static void print_count(const char *before, size_t count, const char *noun)
{
    printf("%s%zu %s%s", before, count, noun, count == 1 ? "" : noun[strlen(noun) - 1] == 's' ? "es" : "s");
}

static void print_summary(const lk_history *history, const lk_report *report)
{
    size_t files = 0, lines;
    lk_history_events(history, &lines);
    while (lk_history_file_name(history, files))
        files++;
    print_count("", files, "file");
    print_count(", ", lines, "line");
    print_count(": ", report->key_count, "key");
    print_count(", ", lk_history_processes(history), "process");
    print_count(", ", report->total.attempts, "call");
    print_count(", ", report->total.grants, "grant");
    print_count(", ", report->faults, "fault");
    putchar('\n');
    char clean[LK_CLI_CLEAN];
    for (size_t i = 0; i < files; i++)
        if (lk_history_cut_line(history, i))
            printf("%s:%u: the last line is incomplete, and was ignored\n",
                   lk_cli_clean(lk_history_file_name(history, i), clean), lk_history_cut_line(history, i));
}

static void print_lag(const char *what, const lk_samples *samples)
{
    if (samples->count)
        printf("; %s p50 %.1f ms, p99 %.1f ms, longest %.1f ms", what,
               lk_ms(lk_samples_quantile(samples, 0.5)), lk_ms(lk_samples_quantile(samples, 0.99)),
               lk_ms(lk_samples_quantile(samples, 1)));
}

static void print_figures(const lk_figures *f, lk_check check)
{
    const size_t seen = f->seen[check], breaches = f->breaches[check];
    switch (check) {
    case LK_CHECK_OVERLAP:
        printf("two held for %.3f ms, %zu times, the longest %.3f ms", lk_ms(f->overlap_ns), f->overlap_pairs,
               lk_ms(f->overlap_longest_ns));
        return;
    case LK_CHECK_TRUTH:
        printf("the service contradicted %zu of %zu holders about which it was asked", breaches, seen);
        return;
    case LK_CHECK_TOKENS:
        printf("%zu of %zu tokens not greater than earlier tokens", breaches, seen);
        return;
    case LK_CHECK_RELEASE:
        printf("%zu of %zu unlocks falsely returned ok", breaches, seen);
        return;
    case LK_CHECK_WRITES:
        printf("%zu accepted, %zu of them stale; %zu refused", f->writes_accepted, breaches,
               f->writes_refused);
        return;
    case LK_CHECK_ORPHANS:
        printf("in the end the service was asked about %zu keys, and had %zu locks or waiters left", seen,
               breaches);
        return;
    case LK_CHECK_WAITERS:
        printf("%zu of %zu calls have not returned", breaches, seen);
        return;
    case LK_CHECK_FIFO:
        printf("%zu of %zu grants out of order, at most %zu overtaken; evenness (Jain) %.2f; longest wait "
               "%.1f ms",
               breaches, seen, f->most_overtaken, f->jain, lk_ms(f->longest_wait_ns));
        return;
    case LK_CHECK_NOTICE:
        printf("%zu of %zu past the limit, %zu never notified", breaches, seen, f->never_told);
        print_lag("after the deadline", &f->after_deadline);
        print_lag("after the service reported it", &f->after_server);
        return;
    case LK_CHECKS:
        break;
    }
}

/* Notices of a loss that the service had stated are told even when nobody was past a deadline. */
static bool has_figures(const lk_figures *f, lk_check check)
{
    return f->seen[check] || (check == LK_CHECK_NOTICE && f->after_server.count);
}

static void print_checks(const lk_report *report)
{
    for (int i = 0; i < LK_CHECKS; i++) {
        const lk_check check = (lk_check)i;
        printf("  %-9s%s", lk_check_name(check), lk_check_result(report, &report->total, check));
        if (has_figures(&report->total, check)) {
            printf(": ");
            print_figures(&report->total, check);
        }
        putchar('\n');
    }
}

static void print_place(const lk_history *history, const lk_event *event)
{
    char clean[LK_CLI_CLEAN];
    printf("%s:%u", lk_cli_clean(lk_history_file_name(history, event->file), clean), event->line);
}

static void print_finding(const lk_history *history, const lk_report *report, const lk_finding *finding)
{
    const lk_history_key_report *key = &report->keys[finding->key];
    printf("%s: ", lk_check_name(finding->check));
    print_place(history, finding->first);
    char clean[LK_CLI_CLEAN], other[LK_CLI_CLEAN];
    lk_cli_clean(key->key, clean);
    if (finding->first->op == LK_OP_SERVER)
        printf(": the service, asked about '%s',", clean);
    else
        printf(": %s of '%s' by process %" PRId64, lk_op_name(finding->first->op), clean,
               finding->first->process);
    printf(" %s", lk_cli_clean(finding->text, other));
    if (finding->check == LK_CHECK_OVERLAP)
        printf(", for %.3f ms", lk_ms(finding->to - finding->from));
    if (finding->second) {
        printf(" (");
        print_place(history, finding->second);
        printf(", process %" PRId64 ")", finding->second->process);
    }
    if (key->run || key->backend[0] || key->scenario[0])
        printf(" [run %" PRId64 ", %s, %s]", key->run, lk_cli_clean(key->backend, clean),
               lk_cli_clean(key->scenario, other));
    putchar('\n');
}

/* Without `all`: only of broken promises. Of a check whose breaches are within its limit nothing is told. */
static bool told(const lk_report *report, const lk_finding *finding, bool all)
{
    const lk_figures *of_key = &report->keys[finding->key].figures;
    const lk_check check = finding->check;
    return of_key->breaches[check] > 0 &&
           (all || (of_key->allowed[check] == 0 && report->options.promised & 1U << check));
}

static void print_findings(const lk_history *history, const lk_report *report, bool all)
{
    size_t shown[LK_CHECKS] = {0};
    for (size_t i = 0; i < report->finding_count; i++) {
        const lk_finding *finding = &report->findings[i];
        if (!told(report, finding, all))
            continue;
        if (all || shown[finding->check] < FINDINGS_SHOWN)
            print_finding(history, report, finding);
        shown[finding->check]++;
    }
    for (int i = 0; i < LK_CHECKS && !all; i++)
        if (shown[i] > FINDINGS_SHOWN)
            printf("%s: %zu more (-v shows all)\n", lk_check_name((lk_check)i), shown[i] - FINDINGS_SHOWN);
}

static int print_text(const lk_history *history, const lk_report *report, bool all)
{
    print_summary(history, report);
    print_checks(report);
    print_findings(history, report, all);
    printf("%s\n", lk_report_broken(report) ? "promises are broken" : "no promise is broken");
    return lk_cli_finish_output(LK_EXIT_OK);
}

/* ------------------------------------------------------------------ the subcommand ---- */

static int fail(const lk_history_error *error)
{
    lk_cli_message("%s", error->text);
    switch (error->failure) {
    case LK_HISTORY_NO_INPUT:
        return LK_EXIT_NO_INPUT;
    case LK_HISTORY_BAD_DATA:
        return LK_EXIT_DATA;
    case LK_HISTORY_NO_MEMORY:
        break;
    }
    return LK_EXIT_SYSTEM;
}

static int judge(const struct options *options, lk_history *history)
{
    int code = LK_EXIT_OK;
    size_t seen;
    lk_history_events(history, &seen);
    if (seen == 0 && !options->allow_empty) {
        lk_cli_message("the history is empty, so it shows no kept promise; use --allow-empty to accept it");
        return LK_EXIT_DATA;
    }
    lk_report *report = lk_history_check(history, &options->check);
    if (!report) {
        lk_cli_message("out of memory");
        return LK_EXIT_SYSTEM;
    }
    if (options->common.json)
        code = lk_cli_print_json(lk_history_json(history, report));
    else if (!options->common.quiet)
        code = print_text(history, report, options->common.verbose > 0);
    if (code == LK_EXIT_OK && lk_report_broken(report))
        code = LK_EXIT_BROKEN;
    lk_report_free(report);
    return code;
}

int main(int argc, char **argv)
{
    struct options options = {.common = {.subcommand = "check-history"}, .check = LK_CHECK_OPTIONS_INIT};
    lk_history_error error = {0};
    bool good = true;
    int code = parse(argc, argv, &options);
    if (code != LK_GO_ON)
        return code;
    lk_history *history = lk_history_new();
    if (!history) {
        lk_cli_message("out of memory");
        return LK_EXIT_SYSTEM;
    }
    for (int i = optind; good && i < argc; i++)
        good = lk_history_read(history, argv[i], &error);
    good = good && lk_history_join(history, &error);
    code = good ? judge(&options, history) : fail(&error);
    lk_history_free(history);
    return code;
}
