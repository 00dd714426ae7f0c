/* show.c: locker show KEY: who holds a lock, since when, and who waits. Held and free are both an answer, so
 * both end with 0. */
#include <stdio.h>

#include "cli.h"

static void print_queue(const locker_info *info)
{
    char clean[LK_CLI_CLEAN];
    if (info->waiters < 0)
        printf("  waiters:   not known to this service\n");
    else
        printf("  waiters:   %lld\n", (long long)info->waiters);
    for (size_t i = 0; i < info->queue_len; i++) {
        const locker_waiter *const w = locker_info_waiter(info, i);
        printf("  %8zu.  %s%s\n", i + 1, w->owner[0] ? lk_cli_clean(w->owner, clean) : "not known",
               w->mode == LOCKER_SHARED ? " (shared)" : "");
    }
}

static void print_row(const char *label, const char *text)
{
    lk_cli_wrap(stdout, text, printf("  %-10s ", label), LK_CLI_WIDTH);
}

/* One of several who share the key, or have its permits. */
static void print_holder(const locker_holder *h)
{
    char owner[LK_CLI_CLEAN], since[96], words[96];
    char slot[32] = "", left[128] = "", token[32] = "", text[LK_CLI_CLEAN + 400];
    if (h->slot >= 0)
        snprintf(slot, sizeof slot, ", slot %lld", (long long)h->slot);
    if (h->remaining_ms >= 0)
        snprintf(left, sizeof left, ", %s left unless renewed",
                 lk_cli_time_words(h->remaining_ms, words, sizeof words));
    if (h->token)
        snprintf(token, sizeof token, ", token %llu", (unsigned long long)h->token);
    snprintf(text, sizeof text, "%s%s, since %s%s%s",
             h->owner[0] ? lk_cli_clean(h->owner, owner) : "not known", slot,
             lk_cli_since_words(h->since_unix_ms, since, sizeof since) ? since : "an unknown time", left,
             token);
    print_row("holder:", text);
}

static void print_text(const char *key, const locker_info *info, const char *place)
{
    char clean[LK_CLI_CLEAN], words[96];
    printf("%s: %s", lk_cli_clean(key, clean), info->held ? "held" : "free");
    if (info->held && info->permits > 0)
        printf(", %zu of %d permits taken", info->holders_len, info->permits);
    else if (info->held && info->mode == LOCKER_SHARED)
        printf(", shared by %zu", info->holders_len);
    printf("\n");
    print_row("kept by:", place);
    if (info->holders_len > 0) {
        for (size_t i = 0; i < info->holders_len; i++)
            print_holder(locker_info_holder(info, i));
    } else if (info->held) {
        print_row("holder:", info->owner[0] ? lk_cli_clean(info->owner, clean) : "not known");
        print_row("since:",
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
        char place[LK_CLI_PLACE];
        print_text(key, &info, lk_cli_place(&common, l, place));
        code = lk_cli_finish_output(LK_EXIT_OK);
    }
    locker_info_clear(&info);
    locker_close(l);
    return code;
}
