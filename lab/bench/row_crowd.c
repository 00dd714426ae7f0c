/* row_crowd.c: rows crowd, zcrowd, ecrowd and fcrowd: 3,000 threads of one locker that wait for one key. Measured are the time from
 * the unlock that lets them go until the last one is served, and the longest call of a bystander in another process, while they come
 * and while they are served. Both run on any processor: a bystander is somebody else's process. Bare is the bystander without the
 * threads. */
#include "bench.h"

enum { CROWD = 3000, ARRIVAL = 0, SERVICE, TIMES };
enum { WAITERS, BYSTANDER, MEMBERS };

static const char key[] = "bench:crowd";

typedef struct {
    char uri[LK_SERVER_TEXT];
    bool is_crowded;
} plan;

static void wait_thread(lk_bench *b, size_t index, void *arg)
{
    (void)index;
    lk_unlock_or_fail(b, lk_lock_or_fail(b, arg, key, NULL));
}

static void wait_and_be_served(lk_bench *b, const char *uri)
{
    const size_t n = (size_t)lk_scale(b, CROWD);
    locker *holder = lk_open_or_fail(b, uri), *l = lk_open_or_fail(b, uri);
    locker_handle *held = lk_lock_or_fail(b, holder, key, NULL);
    lk_bench_crew_ready(b);
    const int64_t from = lk_bench_now();
    lk_threads *set = lk_threads_start(b, n, wait_thread, l);
    lk_until_waiting(b, l, n);
    const int64_t released = lk_bench_now();
    lk_unlock_or_fail(b, held);
    lk_threads_join(set);
    b->crew->value[ARRIVAL] = (double)(released - from) / LK_BENCH_S;
    b->crew->value[SERVICE] = (double)(lk_bench_now() - released) / LK_BENCH_S;
    lk_bystander_end(b);
    (void)locker_close(l);
    (void)locker_close(holder);
}

static void body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    if (member == BYSTANDER) {
        lk_bystander(b, p->uri);
    } else if (p->is_crowded) {
        wait_and_be_served(b, p->uri);
    } else {
        lk_bench_crew_ready(b);
        lk_bench_sleep(lk_scale(b, 3000) * LK_BENCH_MS);
        lk_bystander_end(b);
    }
}

static bool crowd_row(lk_bench *b, const char *row, plan *p)
{
    const lk_bench_figure
        served = {row, "3,000 threads wait for one key, all served", "s", NULL, LK_GOAL_AT_MOST, 5},
        came = {row, "... until all wait", "s", NULL, LK_GOAL_NONE, 0},
        beside = {row, "... a bystander's longest call", "ms", "without them", LK_GOAL_AT_MOST, 50};
    lk_series times[TIMES] = {0}, longest[2] = {0};
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            p->is_crowded = ours != 0;
            const lk_work work = {.members = MEMBERS, .cpu = -1, .body = body, .arg = p};
            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&longest[ours], lk_bench_crew_quantile_us(b, 1) / 1000);
            for (int i = 0; i < TIMES && ours != 0; i++)
                lk_series_add(&times[i], b->crew->value[i]);
        }
    }
    lk_bench_report(b, &served, NULL, &times[SERVICE]);
    lk_bench_report(b, &came, NULL, &times[ARRIVAL]);
    lk_bench_report(b, &beside, &longest[0], &longest[1]);
    return true;
}

bool lk_row_fcrowd(lk_bench *b)
{
    plan p;
    char directory[LK_SCRATCH_PATH], why[256];
    if (!lk_scratch_make("crowd", directory, why, sizeof why)) {
        lk_bench_progress("%s", why);
        return false;
    }
    (void)snprintf(p.uri, sizeof p.uri, "file://%s/locks", directory);
    const bool done = crowd_row(b, "fcrowd", &p);
    lk_scratch_remove(directory);
    return done;
}

#if defined LOCKER_BENCH_REDIS
bool lk_row_crowd(lk_bench *b)
{
    plan p;
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    (void)lk_bench_redis_server_uri(b, p.uri, "");
    return crowd_row(b, "crowd", &p);
}
#endif

#if defined LOCKER_BENCH_ZOOKEEPER || defined LOCKER_BENCH_ETCD
static const int64_t ttl = 10000; /* ms */
#endif

#if defined LOCKER_BENCH_ZOOKEEPER
bool lk_row_zcrowd(lk_bench *b)
{
    plan p;
    (void)lk_zoo_server_pin(b, b->server_cpu);
    (void)lk_zoo_server_uri(p.uri, b->zoo.own.port, ttl);
    return crowd_row(b, "zcrowd", &p);
}
#endif

#if defined LOCKER_BENCH_ETCD
bool lk_row_ecrowd(lk_bench *b)
{
    plan p;
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    (void)lk_bench_etcd_server_uri(p.uri, b->etcd.own.port, ttl);
    return crowd_row(b, "ecrowd", &p);
}
#endif
