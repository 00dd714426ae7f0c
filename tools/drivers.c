/* drivers.c: locker drivers [NAME]: which lock services there are drivers for, built in or as modules, what each
 * promises, and which parameters its URIs take. It opens nothing, and loads no module itself: a child finds
 * out whether a module can be loaded. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <locker/driver.h>

#include "cli.h"

/* The members of locker_semantics that are sentences, with their labels in the text. */
static const struct {
    const char *label, *name;
    size_t offset;
} sentences[] = {
    {"holder dies", "holder_dies", offsetof(locker_semantics, holder_dies)},
    {"holder stalls", "holder_stalls", offsetof(locker_semantics, holder_stalls)},
    {"cut off", "cut_off", offsetof(locker_semantics, cut_off)},
    {"service restarts", "service_restarts", offsetof(locker_semantics, service_restarts)},
    {"failover", "failover", offsetof(locker_semantics, failover)},
    {"token", "token", offsetof(locker_semantics, token)},
    {"cost", "cost", offsetof(locker_semantics, cost)},
};

static const char *sentence(const locker_semantics *s, size_t i)
{
    const char *text;
    memcpy(&text, (const char *)s + sentences[i].offset, sizeof text);
    return text ? text : "";
}

static const char *scope_name(locker_scope scope)
{
    return scope == LOCKER_SCOPE_PROCESS   ? "process"
           : scope == LOCKER_SCOPE_HOST    ? "host"
           : scope == LOCKER_SCOPE_NETWORK ? "network"
                                           : "unknown";
}

static const char *order_name(locker_order order)
{
    return order == LOCKER_ORDER_ARRIVAL ? "arrival" : order == LOCKER_ORDER_LOCAL ? "local" : "none";
}

static const char *yes_or_no(bool is_so)
{
    return is_so ? "yes" : "no";
}

/* In the child: what went wrong goes into the pipe, as text. */
static void load(const char *schemes, int pipe_end)
{
    char scheme[64];
    (void)snprintf(scheme, sizeof scheme, "%.*s", (int)strcspn(schemes, " "), schemes);
    locker_error err;
    if (locker_driver_find(scheme, NULL, &err) != LOCKER_OK &&
        write(pipe_end, err.text, strlen(err.text)) < 0)
        _exit(LK_EXIT_INTERNAL);
    _exit(LK_EXIT_OK);
}

/* Take the child's text; its end says more than a text that it didn't write. */
static void hear(pid_t child, int pipe_end, char *why, size_t size)
{
    size_t length = 0;
    int end = 0;
    for (ssize_t n; length + 1 < size && (n = read(pipe_end, why + length, size - 1 - length)) > 0;)
        length += (size_t)n;
    why[length] = '\0';
    if (waitpid(child, &end, 0) == child && WIFSIGNALED(end))
        (void)snprintf(why, size, "a process that loads it ends by signal %d", WTERMSIG(end));
    else if (length == 0 && (!WIFEXITED(end) || WEXITSTATUS(end) != LK_EXIT_OK))
        (void)snprintf(why, size, "cannot test whether it can be loaded");
}

/* Why the driver can't be used; "" when it can. A broken client library harms a child, which alone loads
 * it. */
static void find_problem(const locker_driver_info *d, char *why, size_t size)
{
    if (d->problem != NULL || d->module == NULL) {
        (void)snprintf(why, size, "%s", d->problem != NULL ? d->problem : "");
        return;
    }
    (void)fflush(stdout);
    int ends[2];
    const pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (child == 0)
        load(d->schemes, ends[1]);
    if (child < 0) {
        (void)snprintf(why, size, "cannot test whether it can be loaded: %s", strerror(errno));
        return;
    }
    (void)close(ends[1]);
    hear(child, ends[0], why, size);
    (void)close(ends[0]);
}

static json_t *parameters_json(const locker_parameter *p)
{
    json_t *array = json_array();
    for (; p && p->name; p++)
        json_array_append_new(array, json_pack("{s:o, s:s, s:o, s:o}", "name", lk_cli_json_text(p->name),
                                               "kind", locker_param_kind_name(p->kind), "default",
                                               lk_cli_json_text(p->initial ? p->initial : ""), "help",
                                               lk_cli_json_text(p->help)));
    return array;
}

static json_t *driver_json(const locker_driver_info *d)
{
    const locker_semantics *s = d->semantics;
    char problem[LOCKER_ERROR_TEXT_MAX];
    find_problem(d, problem, sizeof problem);
    json_t *semantics = json_pack(
        "{s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:s, s:I}", "scope", scope_name(s->scope), "fairness",
        s->fairness == LOCKER_FAIR_GLOBAL ? "global" : "local", "leases", s->leases, "tokens_persist",
        s->tokens_persist, "survives_restart", s->survives_restart, "can_break", s->can_break, "quorum",
        s->quorum, "shared", order_name(s->shared), "permits_most", (json_int_t)s->permits_most);
    for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++)
        json_object_set_new(semantics, sentences[i].name, lk_cli_json_text(sentence(s, i)));
    /* a module's text, or where it lies, need not be UTF-8 */
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", lk_cli_json_text(d->name), "schemes",
                     lk_cli_json_text(d->schemes), "example", lk_cli_json_text(d->example), "features",
                     lk_cli_json_text(d->features), "module",
                     d->module ? lk_cli_json_text(d->module) : json_null(), "problem",
                     problem[0] != '\0' ? lk_cli_json_text(problem) : json_null(), "semantics", semantics,
                     "parameters", parameters_json(d->parameters));
}

/* ------------------------------------------------------------------ which ---- */

/* True if the driver is called `wanted`, or serves that URI scheme. */
static bool is_called(const locker_driver_info *d, const char *wanted)
{
    const size_t length = strlen(wanted);
    if (strcmp(d->name, wanted) == 0)
        return true;
    for (const char *at = d->schemes; at != NULL && *at != '\0'; at += strspn(at, " ")) {
        const size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, wanted, length) == 0)
            return true;
        at += word;
    }
    return false;
}

/* Find the driver at `i` or behind it that is to be shown: any one, if `wanted` is NULL. False: there is none. */
static bool next_driver(const char *wanted, size_t *i, locker_driver_info *d)
{
    while (locker_driver_at((*i)++, d))
        if (wanted == NULL || is_called(d, wanted))
            return true;
    return false;
}

static int refuse(const char *wanted)
{
    char names[256] = "";
    locker_driver_info info = LOCKER_DRIVER_INFO_INIT;
    for (size_t i = 0, at = 0; locker_driver_at(i, &info) && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "", info.name);
    return lk_cli_usage("drivers", "there is no driver '%s'; the drivers are %s", lk_cli_quotable(wanted),
                        names);
}

/* ------------------------------------------------------------------ as JSON ---- */

static int print_json(const char *wanted)
{
    json_t *drivers = json_array();
    locker_driver_info info = LOCKER_DRIVER_INFO_INIT;
    for (size_t i = 0; next_driver(wanted, &i, &info);)
        json_array_append_new(drivers, driver_json(&info));
    return lk_cli_print_json(json_pack("{s:s, s:o, s:o}", "version", locker_version(), "drivers", drivers,
                                       "common_parameters", parameters_json(locker_common_parameters())));
}

/* ------------------------------------------------------------------ as text ---- */

static void print_parameters(const locker_parameter *p)
{
    for (; p && p->name; p++) {
        const char *const initial = p->initial ? p->initial : "";
        char *with_default = NULL;
        if (*initial && asprintf(&with_default, "%s (%s)", p->help, initial) < 0)
            with_default = NULL;
        char clean[LK_CLI_CLEAN];
        const int at =
            printf("    %-22s %-9s ", lk_cli_clean(p->name, clean), locker_param_kind_name(p->kind));
        lk_cli_wrap(stdout, with_default ? with_default : p->help, at, LK_CLI_WIDTH);
        free(with_default);
    }
}

static void print_row(const char *label, const char *text)
{
    lk_cli_wrap(stdout, text, printf("  %-16s ", label), LK_CLI_WIDTH);
}

static void print_promises(const locker_semantics *s)
{
    char permits[32] = "none";
    if (s->permits_most > 0)
        (void)snprintf(permits, sizeof permits, "up to %lld", (long long)s->permits_most);
    print_row("seen by", scope_name(s->scope));
    print_row("waiters served", s->fairness == LOCKER_FAIR_GLOBAL
                                    ? "in order of arrival over all processes"
                                    : "in order of arrival inside a process, in any order among processes");
    print_row("shared locks", s->shared == LOCKER_ORDER_ARRIVAL ? "in order of arrival over all processes"
                              : s->shared == LOCKER_ORDER_LOCAL
                                  ? "in order inside a process; no writer starves"
                                  : "none");
    print_row("permits", permits);
    print_row("leases", yes_or_no(s->leases));
    print_row("can be broken", yes_or_no(s->can_break));
    print_row("quorum", yes_or_no(s->quorum));
    print_row("over a restart", s->survives_restart
                                    ? s->tokens_persist ? "locks stay, tokens grow" : "locks stay"
                                : s->tokens_persist ? "tokens grow"
                                                    : "nothing stays");
    for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++)
        if (sentence(s, i)[0])
            print_row(sentences[i].label, sentence(s, i));
}

static void print_driver(const locker_driver_info *d)
{
    char problem[LOCKER_ERROR_TEXT_MAX];
    find_problem(d, problem, sizeof problem);
    char clean[LK_CLI_CLEAN];
    printf("%s\n", lk_cli_clean(d->name, clean));
    if (problem[0] != '\0')
        lk_cli_wrap(stdout, problem, printf("  CAN'T BE USED: "), LK_CLI_WIDTH);
    print_row("module", d->module != NULL ? d->module : "none (built in)");
    if (d->problem == NULL) {
        print_row("schemes", d->schemes);
        print_row("example", d->example);
        if (d->features && d->features[0])
            print_row("build", d->features);
        print_promises(d->semantics);
        if (d->parameters && d->parameters->name)
            printf("  parameters:\n");
        print_parameters(d->parameters);
    }
    printf("\n");
}

static int print_text(const char *wanted)
{
    locker_driver_info info = LOCKER_DRIVER_INFO_INIT;
    for (size_t i = 0; next_driver(wanted, &i, &info);)
        print_driver(&info);
    printf("parameters of every driver:\n");
    print_parameters(locker_common_parameters());
    return lk_cli_finish_output(LK_EXIT_OK);
}

/* ------------------------------------------------------------------ the subcommand ---- */

int lk_cli_drivers(int argc, char **argv)
{
    static const struct option table[] = {{"json", no_argument, NULL, LK_OPT_JSON},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    lk_common common = {.subcommand = "drivers"};
    const int code = lk_cli_parse(argc, argv, &common, ":hV", table, NULL, NULL);
    if (code != LK_GO_ON)
        return code;
    if (optind + 1 < argc)
        return lk_cli_usage(common.subcommand, "unexpected argument '%s'; give a single NAME",
                            lk_cli_quotable(argv[optind + 1]));
    const char *wanted = argv[optind];
    locker_driver_info info = LOCKER_DRIVER_INFO_INIT;
    if (wanted != NULL && !next_driver(wanted, &(size_t){0}, &info))
        return refuse(wanted);
    return common.json ? print_json(wanted) : print_text(wanted);
}
