/* ping.c: locker ping: reaches the lock service and says how long a round trip takes. */
#include <stdio.h>

#include "cli.h"

typedef struct {
    long count;
    int64_t min_us, max_us, sum_us;
} summary;

static int take(int option, const lk_common *common, void *count)
{
    if (option != 'c')
        return LK_NOT_MINE;
    return lk_cli_number(common->subcommand, "--count", optarg, 1, 1000000, count);
}

static void count_in(summary *s, int64_t us)
{
    if (s->count == 0 || us < s->min_us)
        s->min_us = us;
    if (us > s->max_us)
        s->max_us = us;
    s->sum_us += us;
    s->count++;
}

static int print_summary(const lk_common *common, const char *backend, const summary *s)
{
    if (s->count == 0)
        return LK_EXIT_OK;
    if (common->json)
        return lk_cli_print_json(json_pack("{s:s, s:I, s:I, s:I, s:I}", "backend", backend, "count",
                                           (json_int_t)s->count, "min_us", (json_int_t)s->min_us, "mean_us",
                                           (json_int_t)(s->sum_us / s->count), "max_us",
                                           (json_int_t)s->max_us));
    if (s->count > 1 && !common->quiet)
        printf("%s: %ld round trips, %.3f ms at least, %.3f ms on average, %.3f ms at most\n", backend,
               s->count, (double)s->min_us / 1e3, (double)s->sum_us / (double)s->count / 1e3,
               (double)s->max_us / 1e3);
    return lk_cli_finish_output(LK_EXIT_OK);
}

static int ping(const lk_common *common, locker *l, int count)
{
    summary s = {0};
    char backend[64];
    lk_cli_backend(l, backend, sizeof backend);
    if (!common->json && !common->quiet) {
        char place[LK_CLI_PLACE];
        printf("%s\n", lk_cli_place(common, l, place));
    }
    for (int i = 0; i < count; i++) {
        int64_t us = 0;
        locker_error err;
        const locker_status status = locker_ping(l, &us, &err);
        if (status != LOCKER_OK)
            return lk_cli_fail(status, &err);
        count_in(&s, us);
        if (!common->json && !common->quiet)
            printf("%s: answered in %.3f ms\n", backend, (double)us / 1e3);
    }
    return print_summary(common, backend, &s);
}

int lk_cli_ping(int argc, char **argv)
{
    static const struct option table[] = {LK_COMMON_LONG_OPTIONS,
                                          {"json", no_argument, NULL, LK_OPT_JSON},
                                          {"count", required_argument, NULL, 'c'},
                                          {NULL, 0, NULL, 0}};
    lk_common common = {.subcommand = "ping"};
    int count = 1;
    locker *l = NULL;
    int code = lk_cli_parse(argc, argv, &common, LK_COMMON_LETTERS "c:", table, take, &count);
    if (code == LK_GO_ON)
        code = lk_cli_no_argument(argc, argv, &common);
    if (code != LK_GO_ON || (code = lk_cli_open(&common, NULL, 0, &l)) != LK_EXIT_OK)
        return code;
    code = ping(&common, l, count);
    locker_close(l);
    return code;
}
