/*
 * break.c: locker break KEY: an operator's forced unlock, of just the holder that --token and --owner name.
 * It says whose lock it broke; when nobody held it, it says so and ends with 1, because a script wants to
 * know the difference.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "subcommands.h"

static int read_token(const char *text, uint64_t *token)
{
    errno = 0;
    char *end;
    *token = strtoull(text, &end, 10);
    if (text[strspn(text, "0123456789")] != '\0' || errno != 0 || *token == 0)
        return lk_cli_usage("break", "--token takes a holder's fencing token, as locker show prints it");
    return LK_GO_ON;
}

static int take_option(lk_common *common, locker_break_options *only, int option, char **argv)
{
    if (option == LK_OPT_TOKEN)
        return read_token(optarg, &only->token);
    if (option != LK_OPT_OWNER)
        return lk_cli_common_option(common, option, argv);
    only->owner = optarg;
    return LK_GO_ON;
}

static int parse(int argc, char **argv, lk_common *common, locker_break_options *only, const char **key)
{
    static const struct option table[] = {LK_COMMON_LONG_OPTIONS,
                                          {"json", no_argument, NULL, LK_OPT_JSON},
                                          {"token", required_argument, NULL, LK_OPT_TOKEN},
                                          {"owner", required_argument, NULL, LK_OPT_OWNER},
                                          {NULL, 0, NULL, 0}};
    opterr = 0;
    int option, code;
    while ((option = getopt_long(argc, argv, LK_COMMON_LETTERS, table, NULL)) != -1)
        if ((code = take_option(common, only, option, argv)) != LK_GO_ON)
            return code;
    if (optind == argc)
        return lk_cli_usage(common->subcommand, "a KEY is missing");
    if (optind + 1 < argc)
        return lk_cli_usage(common->subcommand, "one KEY at a time, and '%s' is one too many",
                            lk_cli_quotable(argv[optind + 1]));
    *key = argv[optind];
    return LK_GO_ON;
}

static void print_text(const char *key, const locker_info *broken)
{
    char clean[LOCKER_KEY_MAX + 1], owner[LOCKER_OWNER_MAX + 1];
    const int64_t age = broken->since_unix_ms >= 0 ? lk_cli_wall_ms() - broken->since_unix_ms : -1;
    printf("%s: broke the lock of %s", lk_cli_clean(key, clean, sizeof clean),
           broken->owner[0] ? lk_cli_clean(broken->owner, owner, sizeof owner) : "an unknown holder");
    char words[32];
    if (age >= 0)
        printf(", held for %s", lk_cli_time_words(age, words, sizeof words));
    if (broken->token)
        printf(", token %llu", (unsigned long long)broken->token);
    printf("\n");
}

/* Break it, and tell a key that nobody holds from one that is not a key: both are INVALID. */
static int break_lock(const lk_common *common, locker *l, const char *key, const locker_break_options *only)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    const locker_status status = locker_break(l, key, only, &info, &err);
    int code;
    if (status == LOCKER_OK) {
        if (common->json) {
            code = lk_cli_print_json(lk_cli_info_json(key, &info));
        } else {
            if (!common->quiet)
                print_text(key, &info);
            code = lk_cli_finish_output(LK_EXIT_OK);
        }
    } else {
        code = lk_cli_exit_for(status);
        locker_error ignored;
        if (status == LOCKER_INVALID && locker_show(l, key, &info, &ignored) == LOCKER_OK)
            code = LK_EXIT_FREE;
        if (code != LK_EXIT_FREE)
            lk_cli_fail(NULL, status, &err);
        else if (!common->quiet)
            lk_cli_message("nobody holds '%s': there is nothing to break", key);
    }
    locker_info_clear(&info);
    return code;
}

int lk_cli_break(int argc, char **argv)
{
    lk_common common = {.subcommand = "break"};
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    const char *key = NULL;
    locker *l = NULL;
    int code = parse(argc, argv, &common, &only, &key);
    if (code != LK_GO_ON)
        return code;
    if ((code = lk_cli_open(&common, NULL, 0, &l)) != 0)
        return code;
    code = break_lock(&common, l, key, &only);
    locker_close(l);
    return code;
}
