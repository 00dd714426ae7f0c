/* show.c: locker show KEY: who holds a lock, since when, and who waits. Held and free are both an answer, so
 * both end with 0. */
#include <stdio.h>

#include "cli.h"

static void print_queue(const locker_info *info)
{
    char clean[LOCKER_OWNER_MAX + 1];
    if (info->waiters < 0)
        printf("  waiters:   not known to this service\n");
    else
        printf("  waiters:   %lld\n", (long long)info->waiters);
    for (size_t i = 0; i < info->queue_len; i++) {
        const locker_waiter *const w = locker_info_waiter(info, i);
        printf("  %8zu.  %s%s\n", i + 1,
               w->owner[0] ? lk_cli_clean(w->owner, clean, sizeof clean) : "not known",
               w->mode == LOCKER_SHARED ? " (shared)" : "");
    }
}

/* Who share the key, or have its permits: a line each. */
static void print_holders(const locker_info *info)
{
    char clean[LOCKER_OWNER_MAX + 1], words[96];
    for (size_t i = 0; i < info->holders_len; i++) {
        const locker_holder *const h = locker_info_holder(info, i);
        printf("  holder:    %s", h->owner[0] ? lk_cli_clean(h->owner, clean, sizeof clean) : "not known");
        if (h->slot >= 0)
            printf(", slot %lld", (long long)h->slot);
        printf(", since %s",
               lk_cli_since_words(h->since_unix_ms, words, sizeof words) ? words : "a time not known");
        if (h->remaining_ms >= 0)
            printf(", %s left unless renewed", lk_cli_time_words(h->remaining_ms, words, sizeof words));
        if (h->token)
            printf(", token %llu", (unsigned long long)h->token);
        printf("\n");
    }
}

static void print_text(const char *key, const locker_info *info)
{
    char clean[LOCKER_KEY_MAX + 1], words[96];
    printf("%s: %s", lk_cli_clean(key, clean, sizeof clean), info->held ? "held" : "free");
    if (info->held && info->permits > 0)
        printf(", %zu of %d permits taken", info->holders_len, info->permits);
    else if (info->held && info->mode == LOCKER_SHARED)
        printf(", shared by %zu", info->holders_len);
    printf("\n");
    if (info->holders_len > 0) {
        print_holders(info);
    } else if (info->held) {
        printf("  holder:    %s\n", info->owner[0] ? lk_cli_clean(info->owner, clean, sizeof clean)
                                                   : "not known (a client of another kind)");
        printf("  since:     %s\n",
               lk_cli_since_words(info->since_unix_ms, words, sizeof words) ? words : "not known");
        if (info->remaining_ms >= 0)
            printf("  time left: %s unless renewed\n",
                   lk_cli_time_words(info->remaining_ms, words, sizeof words));
        else
            printf("  time left: no end is known\n");
    }
    if (info->token && info->holders_len == 0)
        printf("  token:     %llu%s\n", (unsigned long long)info->token, info->held ? "" : " (last grant)");
    if (info->held || info->waiters > 0)
        print_queue(info);
}

int lk_cli_show(int argc, char **argv)
{
    static const struct option table[] = {
        LK_COMMON_LONG_OPTIONS, {"json", no_argument, NULL, LK_OPT_JSON}, {NULL, 0, NULL, 0}};
    lk_common common = {.subcommand = "show"};
    const char *key = NULL;
    locker *l = NULL;
    int code = lk_cli_parse(argc, argv, &common, LK_COMMON_LETTERS, table, NULL, NULL);
    if (code == LK_GO_ON)
        code = lk_cli_one_key(argc, argv, &common, &key);
    if (code != LK_GO_ON || (code = lk_cli_open(&common, NULL, 0, &l)) != LK_EXIT_OK)
        return code;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    const locker_status status = locker_show(l, key, &info, &err);
    if (status != LOCKER_OK) {
        code = lk_cli_fail(status, &err);
    } else if (common.json) {
        code = lk_cli_print_json(lk_cli_info_json(key, &info));
    } else {
        print_text(key, &info);
        code = lk_cli_finish_output(LK_EXIT_OK);
    }
    locker_info_clear(&info);
    locker_close(l);
    return code;
}
