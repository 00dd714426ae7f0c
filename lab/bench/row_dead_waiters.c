/* row_dead_waiters.c: row dead: waiters of one Redis key that are dead, but whose connections are not: nine processes that were stopped
 * (SIGSTOP), as those of a host are that lost its network without a FIN. A message that hands the lock to one of them is heard by
 * nobody, and the lock is free again when the lease ends. Measured is the time from the holder's unlock until the next waiter that
 * lives has the lock, in TTLs. */
#include <signal.h>
#include <unistd.h>

#include "bench.h"

enum { DEAD = 9, FRONT = 3, LIVING = 0 };

static const int64_t ttl = 2000; /* ms */
static const char key[] = "bench:dead";

typedef struct {
    int64_t dead, ttl_ms;
    double dead_for; /* TTLs before the unlock */
} plan;

static const char *uri_of(lk_bench *b, const plan *p, char out[LK_SERVER_TEXT])
{
    char query[32];
    (void)snprintf(query, sizeof query, "ttl=%lldms", (long long)p->ttl_ms);
    return lk_bench_redis_server_uri(b, out, query);
}

/* The lease of a lock that was granted to a process while it was stopped may end before its unlock. */
static void wait_thread(lk_bench *b, size_t index, void *arg)
{
    (void)index;
    locker_handle *held = lk_lock_or_fail(b, arg, key, NULL);
    atomic_store(&b->crew->mark, lk_bench_now());
    (void)locker_unlock(held, NULL);
    locker_handle_free(held);
}

/* Wait until the living member stops this process, and then until it goes on. */
static void die(lk_bench *b, int member, const plan *p)
{
    char uri[LK_SERVER_TEXT];
    locker *l = lk_open_or_fail(b, uri_of(b, p, uri));
    b->crew->count[member] = (uint64_t)getpid();
    lk_bench_crew_ready(b); /* the lock is held */
    lk_threads_join(lk_threads_start(b, 1, wait_thread, l));
    (void)locker_close(l);
}

static void until_queued(lk_bench *b, locker *l, int64_t count)
{
    for (;;) {
        locker_info info = LOCKER_INFO_INIT;
        locker_error err;
        if (locker_show(l, key, &info, &err) != LOCKER_OK)
            lk_bench_crew_fail(b, "locker_show: %s", err.text);
        const int64_t waiters = info.waiters;
        locker_info_clear(&info);
        if (waiters >= count)
            return;
        lk_bench_sleep(5 * LK_BENCH_MS);
    }
}

static void signal_dead(lk_bench *b, const plan *p, int number)
{
    for (int64_t i = 1; i <= p->dead; i++)
        (void)kill((pid_t)b->crew->count[i], number);
}

static void body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    char uri[LK_SERVER_TEXT];
    if (member != LIVING) {
        die(b, member, p);
        return;
    }
    locker *holder = lk_open_or_fail(b, uri_of(b, p, uri)), *l = lk_open_or_fail(b, uri);
    locker_handle *held = lk_lock_or_fail(b, holder, key, NULL);
    lk_bench_crew_ready(b);
    until_queued(b, holder, p->dead);
    signal_dead(b, p, SIGSTOP);
    lk_threads *set = lk_threads_start(b, 1, wait_thread, l);
    lk_until_waiting(b, l, 1);
    lk_bench_sleep((int64_t)(p->dead_for * (double)p->ttl_ms) * LK_BENCH_MS);
    const int64_t from = lk_bench_now();
    lk_unlock_or_fail(b, held);
    lk_threads_join(set);
    b->crew->value[0] = (double)(atomic_load(&b->crew->mark) - from) / (double)(p->ttl_ms * LK_BENCH_MS);
    signal_dead(b, p, SIGCONT);
    (void)locker_close(l);
    (void)locker_close(holder);
}

static bool measure(lk_bench *b, const lk_bench_figure *figure, const plan *p)
{
    lk_series ttls = {0};
    for (int round = 0; round < b->rounds; round++) {
        const lk_work work = {.members = (int)p->dead + 1, .cpu = b->client_cpu, .body = body, .arg = p};
        if (!lk_bench_crew_run(b, &work))
            return false;
        lk_series_add(&ttls, b->crew->value[0]);
    }
    lk_bench_report(b, figure, NULL, &ttls);
    return true;
}

bool lk_row_dead(lk_bench *b)
{
    static const lk_bench_figure
        now = {"dead", "9 waiters die as the lock is released: the next waits", "TTLs", NULL, LK_GOAL_AT_MOST,
               3},
        gone = {"dead", "... dead for three TTLs by then", "TTLs", NULL, LK_GOAL_AT_MOST, 0.1},
        front = {"dead", "3 waiters, dead for 1.5 TTLs by then", "TTLs", NULL, LK_GOAL_AT_MOST, 0.1};
    plan p = {.dead = lk_scale(b, DEAD), .ttl_ms = b->quick ? 200 : ttl};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    if (!measure(b, &now, &p))
        return false;
    p.dead_for = 3;
    if (!measure(b, &gone, &p))
        return false;
    p.dead = lk_scale(b, FRONT);
    p.dead_for = 1.5;
    return measure(b, &front, &p);
}
