/* options.c: the command line of locker compare; see options.h. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char compare[] = "compare";

/* Options without a letter; below 0x100 they would be letters, and from there on are the common ones. */
enum { OPT_SPAWN = 0x200, OPT_RUNS, OPT_HTML, OPT_JSON, OPT_LIST, OPT_QUICK };

/* ------------------------------------------------------------------ names ---- */

static const lk_scenario *find_scenario(const char *name)
{
    for (size_t i = 0; lk_scenarios[i]; i++)
        if (strcmp(lk_scenarios[i]->name, name) == 0)
            return lk_scenarios[i];
    return NULL;
}

static const lk_kind *find_kind(const char *name, size_t length)
{
    for (size_t i = 0; lk_kinds[i]; i++)
        if (strlen(lk_kinds[i]->name) == length && strncmp(lk_kinds[i]->name, name, length) == 0)
            return lk_kinds[i];
    return NULL;
}

static int take_scenario(lk_choices *choices, const char *name)
{
    const lk_scenario *scenario = find_scenario(name);
    char names[512] = "";
    if (scenario) {
        for (size_t i = 0; i < choices->scenarios_len; i++)
            if (choices->scenarios[i] == scenario)
                return LK_GO_ON;
        choices->scenarios[choices->scenarios_len++] = scenario;
        return LK_GO_ON;
    }
    for (size_t i = 0, at = 0; lk_scenarios[i] && at < sizeof names; i++)
        at +=
            (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "", lk_scenarios[i]->name);
    lk_cli_message("there is no scenario '%s'; the scenarios are %s", name, names);
    return LK_EXIT_USAGE;
}

static int take_kind(lk_choices *choices, const lk_kind *kind)
{
    for (size_t i = 0; i < choices->kinds_len; i++)
        if (choices->kinds[i] == kind)
            return LK_GO_ON;
    choices->kinds[choices->kinds_len++] = kind;
    return LK_GO_ON;
}

/* "redis,zookeeper"; NULL: all. */
static int take_kinds(lk_choices *choices, const char *list)
{
    char names[256] = "";
    for (size_t i = 0; !list && lk_kinds[i]; i++)
        take_kind(choices, lk_kinds[i]);
    while (list && *list) {
        const size_t length = strcspn(list, ",");
        const lk_kind *kind = find_kind(list, length);

        if (!kind) {
            for (size_t i = 0, at = 0; lk_kinds[i] && at < sizeof names; i++)
                at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "",
                                       lk_kinds[i]->name);
            lk_cli_message("--spawn cannot start '%.*s'; it can start %s", (int)length, list, names);
            return LK_EXIT_USAGE;
        }
        take_kind(choices, kind);
        list += length + (list[length] == ',');
    }
    return LK_GO_ON;
}

/* ------------------------------------------------------------------ reading ---- */

static int take_uri(lk_choices *choices, const char *uri)
{
    if (choices->uris_len == LK_BACKENDS_MAX / 2)
        return lk_cli_usage(compare, "too many --backend; give at most %d", LK_BACKENDS_MAX / 2);
    if (strlen(uri) > LK_COMPARE_URI_MAX)
        return lk_cli_usage(compare, "the URI of --backend is too long; give at most %d bytes",
                            LK_COMPARE_URI_MAX);
    choices->uris[choices->uris_len++] = uri;
    return LK_GO_ON;
}

static int take_option(int option, lk_common *common, char **argv, lk_choices *choices)
{
    switch (option) {
    case 'b':
        return take_uri(choices, optarg);
    case 's':
        return take_scenario(choices, optarg);
    case 'n':
        return lk_cli_number(compare, "--runs", optarg, 1, 1000, &choices->runs);
    case OPT_SPAWN:
        return take_kinds(choices, optarg);
    case OPT_HTML:
        choices->html = optarg;
        return LK_GO_ON;
    case OPT_JSON:
        choices->json = optarg;
        return LK_GO_ON;
    case OPT_LIST:
        choices->list = true;
        return LK_GO_ON;
    case OPT_QUICK:
        choices->quick = true;
        return LK_GO_ON;
    default:
        return lk_cli_common_option(common, option, argv);
    }
}

static int complete(lk_choices *choices, int argc, char **argv)
{
    if (optind < argc)
        return lk_cli_usage(compare, "compare takes only options; remove '%s'",
                            lk_cli_quotable(argv[optind]));
    if (!choices->list && choices->uris_len + choices->kinds_len == 0)
        return lk_cli_usage(compare, "nothing to compare: give --spawn, or --backend URI");
    if (choices->scenarios_len == 0)
        while (lk_scenarios[choices->scenarios_len]) {
            choices->scenarios[choices->scenarios_len] = lk_scenarios[choices->scenarios_len];
            choices->scenarios_len++;
        }
    return LK_GO_ON;
}

int lk_choices_parse(int argc, char **argv, lk_choices *choices)
{
    static const struct option table[] = {{"backend", required_argument, NULL, 'b'},
                                          {"scenario", required_argument, NULL, 's'},
                                          {"spawn", optional_argument, NULL, OPT_SPAWN},
                                          {"runs", required_argument, NULL, 'n'},
                                          {"html", required_argument, NULL, OPT_HTML},
                                          {"json", required_argument, NULL, OPT_JSON},
                                          {"list", no_argument, NULL, OPT_LIST},
                                          {"quick", no_argument, NULL, OPT_QUICK},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    lk_common common = {.subcommand = compare};
    choices->runs = 1;
    opterr = 0;
    int option, code;
    while ((option = getopt_long(argc, argv, ":b:s:n:qhV", table, NULL)) != -1)
        if ((code = take_option(option, &common, argv, choices)) != LK_GO_ON)
            return code;
    choices->quiet = common.quiet;
    return complete(choices, argc, argv);
}
