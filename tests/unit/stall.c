/*
 * stall.c: a process that was stopped (SIGSTOP, as a debugger and a frozen container do) and goes on: what
 * became due meanwhile happens at once. The lock is in a child, which is stopped; it notes how late
 * threads of its own were after it went on, because nobody can be told before there is a processor for it.
 * There is one for each processor, since one of them can be busy while another is idle.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "locking.h"
#include "probe.h"
#include "timely.h"

enum { TTL_MS = 1500, STOP_AFTER_MS = 150, AT_ONCE_MS = 50 };

/* What a child tells its parent. */
struct report {
    int64_t at_ms;       /* when what was due happened */
    int64_t readable_ms; /* when the handle's descriptor was seen to be readable; 0: never looked */
    int64_t late_ms;     /* how late a canary was at the most, since the child went on */
};

enum { CANARIES_MAX = 64 };

struct canary {
    pthread_t thread;
    int processor;
    _Atomic int64_t latest_ms;
    atomic_uint looks;
};

static _Atomic int64_t happened_ms;
static struct canary canaries[CANARIES_MAX];
static int canary_count;

/* When the process went on, which its parent writes before it lets it; 0: it has not been stopped. */
static _Atomic int64_t *went_on_ms;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Sleeps for 1 ms again and again. What it oversleeps is late, but not while the process is stopped. */
static void *watch_processor(void *argument)
{
    struct canary *c = argument;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET((size_t)c->processor, &only);
    (void)sched_setaffinity(0, sizeof only, &only); /* or it watches any of them */
    for (;;) {
        const int64_t due = lk_test_now_ms() + 1;

        (void)poll(NULL, 0, 1);
        if (atomic_load(went_on_ms) != 0)
            atomic_store(&c->latest_ms, later(atomic_load(&c->latest_ms),
                                              lk_test_now_ms() - later(due, atomic_load(went_on_ms))));
        (void)atomic_fetch_add(&c->looks, 1);
    }
    return NULL;
}

static void watch_processors(void)
{
    cpu_set_t ours;
    if (sched_getaffinity(0, sizeof ours, &ours) != 0)
        _exit(2);
    for (int i = 0; i < CPU_SETSIZE && canary_count < CANARIES_MAX; i++) {
        struct canary *c = &canaries[canary_count];

        if (!CPU_ISSET((size_t)i, &ours))
            continue;
        c->processor = i;
        if (pthread_create(&c->thread, NULL, watch_processor, c) != 0)
            _exit(2);
        canary_count++;
    }
}

/* How late the canaries were until now, their sleeps that last included. */
static int64_t how_late(void)
{
    unsigned before[CANARIES_MAX];
    int64_t latest = 0;
    for (int i = 0; i < canary_count; i++)
        before[i] = atomic_load(&canaries[i].looks);
    for (int i = 0; i < canary_count; i++) {
        while (atomic_load(&canaries[i].looks) == before[i])
            (void)poll(NULL, 0, 1);
        latest = later(latest, atomic_load(&canaries[i].latest_ms));
    }
    return latest;
}

static void write_all(int fd, const void *data, size_t size)
{
    if (write(fd, data, size) != (ssize_t)size)
        _exit(3);
}

/* ------------------------------------------------------------------ what the children do ---- */

static void note(void)
{
    int64_t none = 0;
    (void)atomic_compare_exchange_strong(&happened_ms, &none, lk_test_now_ms());
}

static void on_lost(locker_handle *lost, void *user)
{
    (void)lost, (void)user;
    note();
}

/* A lease that ends: on_lost, and the descriptor. */
static int64_t loses_a_lock(int ready)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h;
    locker *l;
    int64_t readable;
    struct pollfd p;
    o.on_lost = on_lost;
    o.ttl_ms = TTL_MS;
    o.no_renew = true;
    if (locker_open("memory:", NULL, &l, NULL) != LOCKER_OK || locker_lock(l, "k", &o, &h, NULL) != LOCKER_OK)
        _exit(2);
    p = (struct pollfd){.fd = locker_handle_fd(h), .events = POLLIN};
    write_all(ready, "", 1);
    (void)poll(&p, 1, LK_TEST_PATIENCE_MS);
    readable = lk_test_now_ms();
    while (atomic_load(&happened_ms) == 0)
        (void)poll(NULL, 0, 1);
    return readable;
}

static locker_status is_renewed(probe *p, locker_claim *claim, locker_status status)
{
    (void)p, (void)claim;
    note();
    return status;
}

/* A lease that wants renewal while the process is stopped. */
static int64_t renews_a_lock(int ready)
{
    static probe p;
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h;
    locker *l;
    probe_init(&p);
    p.real_time = true;
    p.renew = is_renewed;
    o.ttl_ms = TTL_MS;
    l = probe_open(&p);
    if (locker_lock(l, "k", &o, &h, NULL) != LOCKER_OK)
        _exit(2);
    write_all(ready, "", 1);
    while (atomic_load(&happened_ms) == 0)
        (void)poll(NULL, 0, 1);
    return 0;
}

/* A call that waits as the leader, at the driver's descriptor, until its time is over. */
static int64_t waits_for_a_lock(int ready)
{
    static probe p;
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h, *none;
    locker *l;
    probe_init(&p);
    p.real_time = true;
    p.driver.caps |= LOCKER_CAP_QUEUE;
    p.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l = probe_open(&p);
    o.ttl_ms = 10 * TTL_MS;
    if (locker_lock(l, "k", &o, &h, NULL) != LOCKER_OK)
        _exit(2);
    o.wait_ms = TTL_MS;
    write_all(ready, "", 1);
    if (locker_lock(l, "k", &o, &none, NULL) != LOCKER_TIMEOUT)
        _exit(4);
    note();
    return 0;
}

/* ------------------------------------------------------------------ the test ---- */

typedef int64_t child_fn(int ready);

static pid_t start(child_fn *does, _Atomic int64_t *goes_on_ms, int *from)
{
    int fds[2];
    pid_t pid;
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct report report;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody waiting */
        went_on_ms = goes_on_ms;
        watch_processors();
        report.readable_ms = does(fds[1]);
        report.at_ms = atomic_load(&happened_ms);
        report.late_ms = how_late();
        write_all(fds[1], &report, sizeof report);
        _exit(0);
    }
    (void)close(fds[1]);
    *from = fds[0];
    return pid;
}

static void read_all(int fd, void *data, size_t size)
{
    assert_true(lk_readable(fd, LK_TEST_PATIENCE_MS));
    assert_int_equal(read(fd, data, size), size);
}

static void sleep_until(int64_t at_ms)
{
    while (lk_test_now_ms() < at_ms)
        (void)poll(NULL, 0, (int)(at_ms - lk_test_now_ms()));
}

static bool is_at_once(const char *what, int64_t at_ms, const struct report *report, int64_t went_on)
{
    const bool at_once = at_ms - went_on <= AT_ONCE_MS + report->late_ms;
    if (!at_once)
        print_message("%s came %lld ms after the process went on, whose own threads were late by %lld ms\n",
                      what, (long long)(at_ms - went_on), (long long)report->late_ms);
    return at_once;
}

static bool all_happens_at_once(void)
{
    static const struct {
        const char *what;
        child_fn *does;
        int64_t stopped_ms; /* over what is due, and long before what is due would come if it were to wait as
                               long as there was left */
    } cases[] = {{"on_lost", loses_a_lock, TTL_MS},
                 {"the renewal", renews_a_lock, TTL_MS / 2},
                 {"the timeout", waits_for_a_lock, TTL_MS}};
    enum { CASES = sizeof cases / sizeof *cases };
    int from[CASES];
    pid_t pids[CASES];
    int64_t began[CASES];
    _Atomic int64_t *went_on;
    bool at_once = true;
    char ready;
    went_on = mmap(NULL, sizeof *went_on * CASES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(went_on != MAP_FAILED);
    for (int i = 0; i < CASES; i++) {
        pids[i] = start(cases[i].does, &went_on[i], &from[i]);
        read_all(from[i], &ready, 1);
        began[i] = lk_test_now_ms();
    }
    for (int i = 0; i < CASES; i++) { /* they sleep by then, nearly always; if not, there is less to see */
        sleep_until(began[i] + STOP_AFTER_MS);
        assert_int_equal(kill(pids[i], SIGSTOP), 0);
    }
    for (int order = 0; order < CASES; order++) {
        int i = (order + 1) % CASES; /* the shortest first */

        sleep_until(began[i] + STOP_AFTER_MS + cases[i].stopped_ms);
        atomic_store(&went_on[i], lk_test_now_ms());
        assert_int_equal(kill(pids[i], SIGCONT), 0);
    }
    for (int i = 0; i < CASES; i++) {
        struct report report;
        int status;

        read_all(from[i], &report, sizeof report);
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
        at_once = is_at_once(cases[i].what, report.at_ms, &report, went_on[i]) && at_once;
        if (report.readable_ms != 0)
            at_once = is_at_once("the descriptor", report.readable_ms, &report, went_on[i]) && at_once;
        (void)close(from[i]);
    }
    (void)munmap(went_on, sizeof *went_on * CASES);
    return at_once;
}

/* What keeps the one thread late need not meet a canary. It does not meet that thread each time. */
static void timers_that_became_due_while_stopped_run_at_once(void **state)
{
    bool at_once = false;
    (void)state;
    for (int run = 0; run < LK_TIMELY_RUNS && !at_once; run++)
        at_once = all_happens_at_once();
    assert_true(at_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_that_became_due_while_stopped_run_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
