/* row_file.c: the file driver, beside the system calls that such a lock can't do without: open, F_OFD_SETLK,
 * close; and for the hand-off, a waiter that sleeps in F_OFD_SETLKW. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

typedef struct {
    char directory[LK_SCRATCH_PATH];
    char bare[96]; /* a file for the bare side */
    char uri[96];
    int64_t times;
} place;

static const char key[] = "bench/file";

/* ------------------------------------------------------------------ lock + unlock ---- */

static int bare_lock(lk_bench *b, const place *p, int how)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    const int fd = open(p->bare, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fcntl(fd, how, &range) != 0)
        lk_bench_crew_fail(b, "%s: %s", p->bare, strerror(errno));
    return fd;
}

static void cycles_body(lk_bench *b, int ours, const place *p)
{
    locker *l = ours != 0 ? lk_open_or_fail(b, p->uri) : NULL;
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < p->times; i++) {
        const int64_t from = lk_bench_now();

        if (l != NULL)
            lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
        else
            (void)close(bare_lock(b, p, F_OFD_SETLK));
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    (void)locker_close(l);
}

static void bare_cycles(lk_bench *b, int member, const void *arg)
{
    (void)member;
    cycles_body(b, 0, arg);
}

static void our_cycles(lk_bench *b, int member, const void *arg)
{
    (void)member;
    cycles_body(b, 1, arg);
}

/* ------------------------------------------------------------------ hand-off ---- */

static void handoff_body(lk_bench *b, int member, bool ours, const place *p)
{
    locker *l = ours ? lk_open_or_fail(b, p->uri) : NULL;
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < p->times; i++) {
        locker_handle *held = NULL;
        int fd = -1;

        lk_bench_crew_wait_turn(b, member);
        if (member == LK_TAKER)
            lk_bench_crew_give_turn(b, LK_GIVER);
        if (ours)
            held = lk_lock_or_fail(b, l, key, NULL);
        else
            fd = bare_lock(b, p, F_OFD_SETLKW);
        if (member == LK_TAKER) {
            lk_bench_crew_sample(b, lk_bench_now() - b->crew->mark);
        } else {
            lk_bench_crew_give_turn(b, LK_TAKER);
            lk_bench_crew_wait_turn(b, LK_GIVER);
            lk_bench_sleep(lk_handoff_sleep);
            b->crew->mark = lk_bench_now();
        }
        if (ours)
            lk_unlock_or_fail(b, held);
        else
            (void)close(fd);
        if (member == LK_TAKER)
            lk_bench_crew_give_turn(b, LK_GIVER);
    }
    (void)locker_close(l);
}

static void bare_handoff(lk_bench *b, int member, const void *arg)
{
    if (member == LK_GIVER)
        lk_bench_crew_give_turn(b, LK_GIVER);
    handoff_body(b, member, false, arg);
}

static void our_handoff(lk_bench *b, int member, const void *arg)
{
    if (member == LK_GIVER)
        lk_bench_crew_give_turn(b, LK_GIVER);
    handoff_body(b, member, true, arg);
}

/* ------------------------------------------------------------------ asleep ---- */

static void waiter_thread(lk_bench *b, size_t index, void *arg)
{
    (void)index;
    lk_unlock_or_fail(b, lk_lock_or_fail(b, arg, key, NULL));
}

/* The waiter counts how often its threads run while another process holds the lock. */
static void asleep_body(lk_bench *b, int member, const void *arg)
{
    const place *p = arg;
    locker *l = lk_open_or_fail(b, p->uri);
    if (member == LK_GIVER) {
        locker_handle *held = lk_lock_or_fail(b, l, key, NULL);

        lk_bench_crew_give_turn(b, LK_TAKER);
        lk_bench_crew_ready(b);
        lk_bench_crew_wait_turn(b, LK_GIVER);
        lk_unlock_or_fail(b, held);
    } else {
        lk_bench_crew_wait_turn(b, LK_TAKER);
        lk_threads *waiter = lk_threads_start(b, 1, waiter_thread, l);
        lk_until_waiting(b, l, 1);
        lk_bench_sleep(200 * LK_BENCH_MS); /* it may look a few times before it relies on being told */
        lk_bench_crew_ready(b);
        const int64_t before = lk_bench_switches();
        lk_bench_crew_wait_halt(b);
        b->crew->value[0] = (double)(lk_bench_switches() - before);
        lk_bench_crew_give_turn(b, LK_GIVER);
        lk_threads_join(waiter);
    }
    (void)locker_close(l);
}

/* ------------------------------------------------------------------ the row ---- */

static bool rounds(lk_bench *b, place *p, lk_series cycle[2], lk_series handoff[2], lk_series *switches)
{
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            lk_work one = {
                .members = 1, .cpu = b->client_cpu, .body = ours != 0 ? our_cycles : bare_cycles, .arg = p};
            lk_work two = {.members = 2, .cpu = -1, .body = ours != 0 ? our_handoff : bare_handoff, .arg = p};

            p->times = lk_scale(b, 20000);
            if (!lk_bench_crew_run(b, &one))
                return false;
            lk_series_add(&cycle[ours], lk_bench_crew_quantile_us(b, 0.5));
            p->times = lk_scale(b, 300);
            if (!lk_bench_crew_run(b, &two))
                return false;
            lk_series_add(&handoff[ours], lk_bench_crew_quantile_us(b, 0.5));
        }
        lk_work asleep = {.members = 2,
                          .duration = lk_scale(b, 1000) * LK_BENCH_MS,
                          .cpu = -1,
                          .body = asleep_body,
                          .arg = p};

        if (!lk_bench_crew_run(b, &asleep))
            return false;
        /* the thread that counts goes to sleep once itself */
        lk_series_add(switches, b->crew->value[0] - 1);
    }
    return true;
}

bool lk_row_file(lk_bench *b)
{
    static const lk_bench_figure
        lock = {"file", "lock + unlock, p50", "us", "open, OFD lock, close", LK_GOAL_RATIO_AT_MOST, 3},
        hand = {"file", "hand-off to a sleeping process, p50", "us", "F_OFD_SETLKW", LK_GOAL_AT_MOST, 300},
        calm = {"file", "context switches of a waiter in 1 s", "", NULL, LK_GOAL_AT_MOST, 0};
    lk_series cycle[2] = {0}, handoff[2] = {0}, switches = {0};
    char why[256];
    place p;
    if (!lk_scratch_make("file", p.directory, why, sizeof why)) {
        lk_bench_progress("%s", why);
        return false;
    }
    (void)snprintf(p.bare, sizeof p.bare, "%s/bare", p.directory);
    (void)snprintf(p.uri, sizeof p.uri, "file://%s/locks", p.directory);
    const bool good = rounds(b, &p, cycle, handoff, &switches);
    lk_scratch_remove(p.directory);
    if (!good)
        return false;
    lk_bench_report(b, &lock, &cycle[0], &cycle[1]);
    lk_bench_report(b, &hand, &handoff[0], &handoff[1]);
    lk_bench_report(b, &calm, NULL, &switches);
    return true;
}
