/* options.c: the options that all subcommands share, and reading their values. What they say about the lock
 * service is put to use in open.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static int wrong_option(const lk_common *common, int option, char **argv)
{
    const char *word = argv[optind - 1];
    char letter[3] = {'-', '\0', '\0'};
    /* getopt_long() leaves in optopt the letter, or the long option's value, or 0 for an unknown long one. */
    if (optopt > 0 && optopt < 0x100 && strncmp(word, "--", 2) != 0) {
        letter[1] = (char)optopt;
        word = letter;
    }
    const int length = (int)strcspn(word, "="); /* the value may hold a password */
    if (option == ':')
        return lk_cli_usage(common->subcommand, "option '%.*s' needs a value", length, word);
    if (optopt != 0 && strncmp(word, "--", 2) == 0)
        return lk_cli_usage(common->subcommand, "option '%.*s' takes no value", length, word);
    return lk_cli_usage(common->subcommand, "unknown option '%.*s'", length, word);
}

static int take_text(const lk_common *common, const char *option, const char **where)
{
    if (optarg[0] == '\0')
        return lk_cli_usage(common->subcommand, "the value of %s is empty", option);
    if (where != &common->uri && strstr(optarg, "://"))
        return lk_cli_usage(common->subcommand, "the value of %s is a URI; give it to --uri", option);
    *where = optarg;
    return LK_GO_ON;
}

int lk_cli_common_option(lk_common *common, int option, char **argv)
{
    switch (option) {
    case 'u':
        return take_text(common, "--uri", &common->uri);
    case 'f':
        return take_text(common, "--config", &common->config);
    case LK_OPT_PROFILE:
        return take_text(common, "--profile", &common->profile);
    case LK_OPT_JSON:
        common->json = true;
        return LK_GO_ON;
    case 'q':
        common->quiet = true;
        return LK_GO_ON;
    case 'v':
        common->verbose++;
        return LK_GO_ON;
    case 'h':
        return lk_cli_help(common->subcommand);
    case 'V':
        printf("locker %s\n", locker_version());
        return lk_cli_finish_output(LK_EXIT_OK);
    default:
        return wrong_option(common, option, argv);
    }
}

int lk_cli_number(const char *subcommand, const char *option, const char *text, int min, int max, int *out)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    /* strtol() takes leading blanks and a plus sign, which here are mistakes. */
    if (strspn(text, "-0123456789") != strlen(text) || end == text || *end || errno || value < min ||
        value > max)
        return lk_cli_usage(subcommand, "%s must be a whole number from %d to %d, not '%s'", option, min, max,
                            lk_cli_quotable(text));
    *out = (int)value;
    return LK_GO_ON;
}

int lk_cli_duration(const char *subcommand, const char *option, const char *text, int64_t *ms)
{
    locker_error err;
    if (locker_parse_duration(text, ms, &err) == LOCKER_OK)
        return LK_GO_ON;
    if (lk_cli_quotable(text) != text)
        return lk_cli_usage(subcommand, "%s takes a duration, not '%s'", option, lk_cli_quotable(text));
    return lk_cli_usage(subcommand, "%s: %s", option, err.text);
}

int lk_cli_parse(int argc, char **argv, lk_common *common, const char *letters, const struct option *table,
                 lk_cli_take *take, void *into)
{
    int option, code;
    opterr = 0;
    while ((option = getopt_long(argc, argv, letters, table, NULL)) != -1) {
        code = take ? take(option, common, into) : LK_NOT_MINE;
        if (code == LK_NOT_MINE)
            code = lk_cli_common_option(common, option, argv);
        if (code != LK_GO_ON)
            return code;
    }
    return LK_GO_ON;
}

int lk_cli_one_key(int argc, char **argv, const lk_common *common, const char **key)
{
    if (optind == argc)
        return lk_cli_usage(common->subcommand, "a KEY is missing");
    if (optind + 1 < argc)
        return lk_cli_usage(common->subcommand, "unexpected argument '%s'; give a single KEY",
                            lk_cli_quotable(argv[optind + 1]));
    *key = argv[optind];
    return LK_GO_ON;
}

int lk_cli_no_argument(int argc, char **argv, const lk_common *common)
{
    if (optind == argc)
        return LK_GO_ON;
    return lk_cli_usage(common->subcommand, "%s takes no argument; remove '%s'", common->subcommand,
                        lk_cli_quotable(argv[optind]));
}
