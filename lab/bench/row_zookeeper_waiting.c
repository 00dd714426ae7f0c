/* row_zookeeper_waiting.c: row zwait: what it costs ZooKeeper that 200 processes wait for one key, in transactions, each of
 * which a majority of an ensemble logs. Bare is the recipe, which Curator follows too: it watches its predecessor and pings. */
#include "bench.h"

enum { PROCESSES = 200 };

static const int64_t session = 30000; /* ms */
static const char key[] = "waited";

typedef struct {
    bool ours;
} plan;

static void bare_waiting(lk_bench *b, int member)
{
    lk_zoo *zoo = lk_zoo_open(b, b->zoo.own.port, session);
    if (member == 0) {
        lk_zoo_make(zoo, key);
        lk_zoo_lock(zoo, key, false);
        atomic_store(&b->crew->mark, 1);
    }
    while (atomic_load(&b->crew->mark) == 0)
        lk_bench_sleep(LK_BENCH_MS);
    if (member > 0)
        lk_zoo_enter(zoo, key);
    lk_bench_crew_ready(b);
    lk_zoo_idle(zoo);
    lk_zoo_close(zoo);
}

static void wait_thread(lk_bench *b, size_t index, void *arg)
{
    (void)index;
    lk_unlock_or_fail(b, lk_lock_or_fail(b, arg, key, NULL));
}

/* The first holds the lock by a session of its own library, so that its heartbeats are not counted. */
static void our_waiting(lk_bench *b, int member)
{
    char uri[LK_SERVER_TEXT];
    if (member == 0) {
        bare_waiting(b, 0);
        return;
    }
    locker *l = lk_open_or_fail(b, lk_zoo_server_uri(uri, b->zoo.own.port, session));
    while (atomic_load(&b->crew->mark) == 0)
        lk_bench_sleep(LK_BENCH_MS);
    lk_threads *set = lk_threads_start(b, 1, wait_thread, l);
    lk_until_waiting(b, l, 1);
    lk_bench_crew_ready(b);
    lk_bench_crew_wait_halt(b);
    lk_threads_join(set); /* the holder's session has ended */
    (void)locker_close(l);
}

static void waiting_body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    if (p->ours)
        our_waiting(b, member);
    else
        bare_waiting(b, member);
}

bool lk_row_zwait(lk_bench *b)
{
    static const lk_bench_figure logged = {
        "zwait", "200 processes asleep on one key, transactions", "/s", "the recipe", LK_GOAL_AT_MOST, 7};
    lk_series rate[2] = {0};
    (void)lk_zoo_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            const plan p = {.ours = ours != 0};
            const lk_work work = {.members = b->quick ? 4 : PROCESSES + 1,
                                  .duration = lk_scale(b, 60000) * LK_BENCH_MS,
                                  .cpu = b->client_cpu,
                                  .body = waiting_body,
                                  .arg = &p,
                                  .asked = lk_zoo_server_transactions};
            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&rate[ours], (double)b->crew->asked / b->crew->value[LK_VALUE_SECONDS]);
        }
    }
    lk_bench_report(b, &logged, &rate[0], &rate[1]);
    return true;
}
