/* break.c: locker break KEY: an operator's forced unlock, of just the holder that --token and --owner name. With --force also of
 * what liblocker did not write.
 * It says whose lock it broke; when nobody held it, it says so and ends with 1, because a script wants to
 * know the difference. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static int take(int option, const lk_common *common, void *into)
{
    locker_break_options *only = into;
    if (option == LK_OPT_OWNER)
        only->owner = optarg;
    if (option == LK_OPT_FORCE)
        only->force = true;
    if (option != LK_OPT_TOKEN)
        return option == LK_OPT_OWNER || option == LK_OPT_FORCE ? LK_GO_ON : LK_NOT_MINE;
    errno = 0;
    only->token = strtoull(optarg, NULL, 10);
    if (optarg[strspn(optarg, "0123456789")] != '\0' || errno != 0 || only->token == 0)
        return lk_cli_usage(common->subcommand,
                            "--token takes a holder's fencing token, as locker show prints it");
    return LK_GO_ON;
}

/* What of those whom it took the key from; one that is plain stands in the info itself. */
static void print_one(const char *key, const locker_holder *broken)
{
    char clean[LK_CLI_CLEAN], owner[LK_CLI_CLEAN];
    const int64_t age =
        broken->since_unix_ms >= 0 ? lk_cli_now_ms(CLOCK_REALTIME) - broken->since_unix_ms : -1;
    printf("%s: broke the lock of %s", lk_cli_clean(key, clean),
           broken->owner[0] ? lk_cli_clean(broken->owner, owner) : "an unknown holder");
    char words[32];
    if (age >= 0)
        printf(", held for %s", lk_cli_time_words(age, words, sizeof words));
    if (broken->token)
        printf(", token %llu", (unsigned long long)broken->token);
    printf("\n");
}

static void print_text(const char *key, const locker_info *info)
{
    locker_holder one = {.token = info->token, .since_unix_ms = info->since_unix_ms};
    memcpy(one.owner, info->owner, sizeof one.owner);
    if (info->holders_len == 0)
        print_one(key, &one);
    for (size_t i = 0; i < info->holders_len; i++)
        print_one(key, locker_info_holder(info, i));
}

/* Break it, and tell a key that nobody holds from one that is not a key: both are INVALID. */
static int break_lock(const lk_common *common, locker *l, const char *key, const locker_break_options *only)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    const locker_status status = locker_break(l, key, only, &info, &err);
    int code;
    locker_error ignored;
    if (status == LOCKER_OK && common->json) {
        code = lk_cli_print_json(lk_cli_info_json(key, &info));
    } else if (status == LOCKER_OK) {
        if (!common->quiet)
            print_text(key, &info);
        code = lk_cli_finish_output(LK_EXIT_OK);
    } else if (status != LOCKER_INVALID || locker_show(l, key, &info, &ignored) != LOCKER_OK) {
        code = lk_cli_fail(status, &err);
    } else {
        code = LK_EXIT_FREE;
        if (!common->quiet)
            lk_cli_message("'%s' has no holder; nothing was broken", key);
    }
    locker_info_clear(&info);
    return code;
}

int lk_cli_break(int argc, char **argv)
{
    static const struct option table[] = {LK_COMMON_LONG_OPTIONS,
                                          {"json", no_argument, NULL, LK_OPT_JSON},
                                          {"token", required_argument, NULL, LK_OPT_TOKEN},
                                          {"owner", required_argument, NULL, LK_OPT_OWNER},
                                          {"force", no_argument, NULL, LK_OPT_FORCE},
                                          {NULL, 0, NULL, 0}};
    lk_common common = {.subcommand = "break"};
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    const char *key = NULL;
    locker *l = NULL;
    int code = lk_cli_parse(argc, argv, &common, LK_COMMON_LETTERS, table, take, &only);
    if (code == LK_GO_ON)
        code = lk_cli_one_key(argc, argv, &common, &key);
    if (code != LK_GO_ON || (code = lk_cli_open(&common, NULL, 0, &l)) != LK_EXIT_OK)
        return code;
    code = break_lock(&common, l, key, &only);
    locker_close(l);
    return code;
}
