/* log.c: a driver's lines: from under its lock, in their order, bounded, while opening and closing, and none
 * in a fork's child. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

enum { LINES = 1100, KEPT = 1024, STREAM = PROBE_TTL_MS / 1000 - 1 };

/* What the callback has got. It takes the driver's lock, as a program's might by a detour. */
static struct {
    probe *p;
    lk_gate entered, leave;
    int count, out_of_order;
    bool holds, refuses;   /* the first line is held up; open fails */
    bool streams, renewed; /* each line makes the next; what is held was renewed before the last */
    locker_status closing;
    locker *l;
    char last[128];
} heard;

static void stream(void)
{
    if (heard.count < STREAM) {
        probe_advance(heard.p, 1000);
        heard.p->svc->log(heard.p->svc, LOCKER_LOG_ERROR, "line %d", heard.count);
    } else if (heard.count == STREAM) {
        heard.renewed = atomic_load(&heard.p->renews) > 0;
        lk_gate_open(&heard.entered, 1);
    }
}

static void hear(locker_log_level level, const char *text, void *user)
{
    int number;
    (void)level, (void)user;
    pthread_mutex_lock(&heard.p->mutex);
    pthread_mutex_unlock(&heard.p->mutex);
    if (heard.count == 0 && heard.holds) {
        lk_gate_open(&heard.entered, 1);
        (void)lk_gate_pass(&heard.leave);
        heard.closing = locker_close(heard.l);
    }
    if (sscanf(text, "line %d", &number) == 1 && number != heard.count)
        heard.out_of_order++;
    (void)snprintf(heard.last, sizeof heard.last, "%s", text);
    heard.count++;
    if (heard.streams)
        stream();
}

static void log_locked(const locker_services *svc, int from, int to)
{
    pthread_mutex_lock(&heard.p->mutex);
    for (int i = from; i <= to; i++)
        svc->log(svc, LOCKER_LOG_ERROR, "line %d", i);
    pthread_mutex_unlock(&heard.p->mutex);
}

static locker_status logs_one(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    log_locked(p->svc, 0, 0);
    return status;
}

/* The first is being told while the others come. */
static locker_status logs_many(probe *p, locker_claim *claim, locker_status status)
{
    (void)logs_one(p, claim, status);
    (void)lk_gate_pass(&heard.entered);
    log_locked(p->svc, 1, LINES);
    return status;
}

/* One line is kept from before the fork, and one comes. */
static int hears_in_child(const probe *p)
{
    const bool wanted = p->svc->log_wanted(p->svc, LOCKER_LOG_ERROR);
    p->svc->log(p->svc, LOCKER_LOG_ERROR, "line %d", 2);
    (void)locker_close(heard.l);
    return wanted || heard.count > 0;
}

static locker_status forks(probe *p, locker_claim *claim, locker_status status)
{
    int end = -1;
    (void)logs_one(p, claim, status);
    (void)lk_gate_pass(&heard.entered);
    log_locked(p->svc, 1, 1);
    const pid_t child = fork();
    if (child == 0)
        _exit(hears_in_child(p));
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_int_equal(end, 0);
    return status;
}

static void begin(probe *p, locker_options *o)
{
    probe_init(p);
    memset(&heard, 0, sizeof heard);
    lk_gate_init(&heard.entered);
    lk_gate_init(&heard.leave);
    heard.p = p;
    p->real_time = true;
    o->ttl_ms = PROBE_TTL_MS;
    o->log = hear;
}

static void end(void)
{
    lk_gate_destroy(&heard.entered);
    lk_gate_destroy(&heard.leave);
}

static void run(probe_hook *acquire, bool holds)
{
    static probe p;
    locker_driver_options d = LOCKER_DRIVER_OPTIONS_INIT;
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    begin(&p, &o);
    heard.holds = holds;
    p.acquire = acquire;
    d.options = &o;
    heard.l = probe_open_with(&p, &d);
    assert_ok(locker_lock(heard.l, "k", NULL, &held, &err), err);
    lk_gate_open(&heard.leave, 1);
    locker_handle_free(held);
    probe_end(&p, heard.l);
    end();
}

static void a_line_logged_under_a_lock_is_delivered(void **state)
{
    (void)state;
    run(logs_one, false);
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.last, "line 0");
}

static void lines_are_delivered_in_order_and_lost_ones_counted(void **state)
{
    (void)state;
    run(logs_many, true);
    assert_int_equal(heard.out_of_order, 0);
    assert_int_equal(heard.count, 1 + KEPT + 1);
    assert_non_null(strstr(heard.last, "76 log lines"));
    assert_int_equal(heard.closing, LOCKER_INVALID);
}

static void a_forked_child_gets_no_log_lines(void **state)
{
    (void)state;
    run(forks, true);
    assert_int_equal(heard.out_of_order, 0);
    assert_int_equal(heard.count, 2);
}

/* Each line makes the next, a second later. */
static void a_stream_of_lines_puts_no_renewal_off(void **state)
{
    static probe p;
    locker_driver_options d = LOCKER_DRIVER_OPTIONS_INIT;
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    (void)state;
    begin(&p, &o);
    p.real_time = false;
    heard.streams = true;
    d.options = &o;
    heard.l = probe_open_with(&p, &d);
    assert_ok(locker_lock(heard.l, "k", NULL, &held, &err), err);
    log_locked(p.svc, 0, 0);
    lk_gate_await(&heard.entered, 1, "the end of the stream");
    assert_true(heard.renewed);
    locker_handle_free(held);
    probe_end(&p, heard.l);
    end();
}

static locker_status logs_while_opening(const locker_driver_config *config, const locker_services *svc,
                                        void **self, locker_error *err)
{
    (void)config;
    log_locked(svc, 0, 0);
    heard.p->svc = svc;
    *self = heard.p;
    return heard.refuses ? locker_error_set(err, LOCKER_UNAVAILABLE, 0, "not today") : LOCKER_OK;
}

static void logs_while_closing(void *self)
{
    const probe *p = self;
    log_locked(p->svc, 1, 1);
}

static void lines_of_opening_and_closing_are_delivered(void **state)
{
    static probe p;
    locker_driver_options d = LOCKER_DRIVER_OPTIONS_INIT;
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_error err;
    (void)state;
    begin(&p, &o);
    d.options = &o;
    p.driver.open = logs_while_opening;
    p.driver.close = logs_while_closing;
    heard.refuses = true;
    assert_int_equal(locker_open_driver(&p.driver, &d, &heard.l, &err), LOCKER_UNAVAILABLE);
    assert_int_equal(heard.count, 1);
    heard.count = 0;
    heard.refuses = false;
    probe_end(&p, probe_open_with(&p, &d));
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.out_of_order, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_logged_under_a_lock_is_delivered),
        cmocka_unit_test(lines_are_delivered_in_order_and_lost_ones_counted),
        cmocka_unit_test(a_forked_child_gets_no_log_lines),
        cmocka_unit_test(a_stream_of_lines_puts_no_renewal_off),
        cmocka_unit_test(lines_of_opening_and_closing_are_delivered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
