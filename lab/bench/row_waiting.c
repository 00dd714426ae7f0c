/* row_waiting.c: rows wait and waitkeys: what it costs Redis that many wait: 200 processes for one key, and one process for
 * thousands of keys. Bare is what clients with Pub/Sub do beside it: a try each second, for a message may be lost. */
#include "bench.h"

enum { PROCESSES = 200, KEYS = 5000 };

static const char held_key[] = "bench:waited";
static const int64_t hold = 600000; /* ms */

/* ------------------------------------------------------------------ one key ---- */

static void bare_body(lk_bench *b, int member, const void *arg)
{
    lk_bare *bare = lk_bare_open(b);
    (void)arg;
    if (member == 0)
        lk_bare_hold(bare, held_key, hold);
    lk_bench_crew_ready(b);
    while (!lk_bench_crew_stopped(b)) {
        if (member > 0)
            lk_bare_try(bare, held_key);
        lk_bench_sleep(LK_BENCH_S);
    }
    if (member == 0)
        lk_bare_delete(bare, held_key);
    lk_bare_close(bare);
}

static void wait_thread(lk_bench *b, size_t index, void *arg)
{
    (void)index;
    lk_unlock_or_fail(b, lk_lock_or_fail(b, arg, held_key, NULL));
}

/* The first member holds the lock, and gives it back in the end: it goes from one to the next then. */
static void our_body(lk_bench *b, int member, const void *arg)
{
    char uri[LK_SERVER_TEXT];
    locker *l = lk_open_or_fail(b, lk_bench_redis_server_uri(b, uri, "ttl=600s"));
    locker_handle *held = member == 0 ? lk_lock_or_fail(b, l, held_key, NULL) : NULL;
    (void)arg;
    if (member == 0)
        atomic_store(&b->crew->mark, 1);
    while (atomic_load(&b->crew->mark) == 0)
        lk_bench_sleep(LK_BENCH_MS);
    lk_threads *set = member > 0 ? lk_threads_start(b, 1, wait_thread, l) : NULL;
    if (member > 0)
        lk_until_waiting(b, l, 1);
    lk_bench_sleep(lk_scale(b, 5000) *
                   LK_BENCH_MS); /* each was the last, which looks often, until the next one came */
    lk_bench_crew_ready(b);
    lk_bench_crew_wait_halt(b);
    if (held != NULL)
        lk_unlock_or_fail(b, held);
    else
        lk_threads_join(set);
    (void)locker_close(l);
}

bool lk_row_wait(lk_bench *b)
{
    static const lk_bench_figure looks = {
        "wait", "200 processes asleep on one key, commands", "/s", "a try a second", LK_GOAL_AT_MOST, 5};
    lk_series rate[2] = {0};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            lk_work work = {.members = b->quick ? 8 : PROCESSES + 1,
                            .duration = lk_scale(b, 20000) * LK_BENCH_MS,
                            .cpu = b->client_cpu,
                            .body = ours != 0 ? our_body : bare_body,
                            .asked = lk_bench_redis_server_commands};
            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&rate[ours], (double)b->crew->asked / b->crew->value[LK_VALUE_SECONDS]);
        }
    }
    lk_bench_report(b, &looks, &rate[0], &rate[1]);
    return true;
}

/* ------------------------------------------------------------------ many keys ---- */

static const char *name_of(char out[40], size_t index)
{
    (void)snprintf(out, 40, "bench:waited:%zu", index);
    return out;
}

static void key_thread(lk_bench *b, size_t index, void *arg)
{
    char key[40];
    lk_unlock_or_fail(b, lk_lock_or_fail(b, arg, name_of(key, index), NULL));
}

/* A foreign client holds them, and tells nobody when it gives them back. */
static void keys_body(lk_bench *b, int member, const void *arg)
{
    const size_t count = *(const size_t *)arg;
    char key[40];
    lk_bare *foreign = lk_bare_open(b);
    locker *l = lk_open_or_fail(b, b->server.uri);
    (void)member;
    for (size_t i = 0; i < count; i++)
        lk_bare_hold(foreign, name_of(key, i), hold);
    lk_threads *set = lk_threads_start(b, count, key_thread, l);
    lk_until_waiting(b, l, count);
    lk_bench_sleep(lk_scale(b, 3000) * LK_BENCH_MS);
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    lk_bench_crew_wait_halt(b);
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu);
    for (size_t i = 0; i < count; i++)
        lk_bare_delete(foreign, name_of(key, i));
    lk_threads_join(set);
    (void)locker_close(l);
    lk_bare_close(foreign);
}

bool lk_row_wait_keys(lk_bench *b)
{
    static const lk_bench_figure looks = {"waitkeys",
                                          "5,000 keys that one process waits for, commands",
                                          "/s",
                                          NULL,
                                          LK_GOAL_AT_MOST,
                                          100},
                                 used = {"waitkeys", "... CPU", "%", NULL, LK_GOAL_NONE, 0};
    lk_series rate = {0}, cpu = {0};
    const size_t count = b->quick ? 50 : KEYS;
    lk_work work = {.members = 1,
                    .duration = lk_scale(b, 6000) * LK_BENCH_MS,
                    .cpu = b->client_cpu,
                    .body = keys_body,
                    .arg = &count,
                    .asked = lk_bench_redis_server_commands};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        if (!lk_bench_crew_run(b, &work))
            return false;
        const double seconds = b->crew->value[LK_VALUE_SECONDS];
        lk_series_add(&rate, (double)b->crew->asked / seconds);
        lk_series_add(&cpu, b->crew->value[0] / LK_BENCH_S / seconds * 100);
    }
    lk_bench_report(b, &looks, NULL, &rate);
    lk_bench_report(b, &used, NULL, &cpu);
    return true;
}
