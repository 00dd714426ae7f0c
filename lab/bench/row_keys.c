/* row_keys.c: rows keys and keys1m: what is left behind by locks of keys that are used once each. Bare is SET NX PX and the
 * compare-and-delete of one connection, which leave nothing. */
#include "bench.h"

enum { FEW = 50000, MANY = 1000000, WARM = 2000 };

typedef struct {
    int64_t count;
    bool ours;
} plan;

static const char *name_of(char out[32], int64_t index)
{
    (void)snprintf(out, 32, "bench:once:%lld", (long long)index);
    return out;
}

static void keys_body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    lk_bare *bare = p->ours ? NULL : lk_bare_open(b);
    locker *l = p->ours ? lk_open_or_fail(b, b->server.uri) : NULL;
    char key[32];
    (void)member;
    for (int64_t i = 0; l != NULL && i < lk_scale(b, WARM); i++)
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, name_of(key, i), NULL));
    const int64_t allocated = lk_bench_allocated();
    lk_bench_crew_ready(b);
    const int64_t from = lk_bench_now();
    for (int64_t i = 0; i < p->count; i++) {
        (void)name_of(key, i + WARM);
        if (l != NULL) {
            lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
        } else {
            lk_bare_lock(bare, key);
            lk_bare_unlock(bare, key);
        }
    }
    b->crew->value[0] = (double)p->count * LK_BENCH_S / (double)(lk_bench_now() - from);
    b->crew->value[1] = (double)(lk_bench_allocated() - allocated);
    if (l != NULL)
        (void)locker_close(l);
    else
        lk_bare_close(bare);
}

static bool keys_row(lk_bench *b, const char *row, const char *what, int64_t count)
{
    const lk_bench_figure speed = {row, what, "/s", "SET NX, compare and delete", LK_GOAL_NONE, 0},
                          left = {row,
                                  "... keys that stay at the server",
                                  "",
                                  "SET NX, compare and delete",
                                  LK_GOAL_AT_MOST,
                                  16384},
                          grown = {row, "... more heap in the end", "B", NULL, LK_GOAL_AT_MOST, 4096};
    lk_series rate[2] = {0}, stay[2] = {0}, heap = {0};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            const plan p = {.count = lk_scale(b, count), .ours = ours != 0};
            const lk_work work = {.members = 1, .cpu = b->client_cpu, .body = keys_body, .arg = &p};
            const int64_t before = lk_bench_redis_server_keys(b);
            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&rate[ours], b->crew->value[0]);
            lk_series_add(&stay[ours], (double)(lk_bench_redis_server_keys(b) - (p.ours ? 0 : before)));
        }
        lk_series_add(&heap, b->crew->value[1]);
    }
    lk_bench_report(b, &speed, &rate[0], &rate[1]);
    lk_bench_report(b, &left, &stay[0], &stay[1]);
    lk_bench_report(b, &grown, NULL, &heap);
    return true;
}

bool lk_row_keys(lk_bench *b)
{
    return keys_row(b, "keys", "50,000 keys, once each, lock + unlock", FEW);
}

bool lk_row_keys_long(lk_bench *b)
{
    return keys_row(b, "keys1m", "1,000,000 keys, once each, lock + unlock", MANY);
}
