/* log.c: a driver's lines: from under its lock, in their order, and bounded. */
#include <stdio.h>
#include <string.h>

#include "probe.h"

enum { LINES = 1100, KEPT = 1024 };

/* What the callback has got. It takes the driver's lock, as a program's might by a detour. */
static struct {
    struct probe *p;
    struct lk_gate entered, leave;
    int count, out_of_order;
    bool holds;
    locker_status closing;
    locker *l;
    char last[128];
} heard;

static void hear(locker_log_level level, const char *text, void *user)
{
    int number;

    (void)level, (void)user;
    (void)pthread_mutex_lock(&heard.p->mutex);
    (void)pthread_mutex_unlock(&heard.p->mutex);
    if (heard.count == 0 && heard.holds) {
        lk_gate_open(&heard.entered, 1);
        (void)lk_gate_pass(&heard.leave);
        heard.closing = locker_close(heard.l);
    }
    if (sscanf(text, "line %d", &number) == 1 && number != heard.count)
        heard.out_of_order++;
    (void)snprintf(heard.last, sizeof heard.last, "%s", text);
    heard.count++;
}

static locker_status logs_one(struct probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    (void)pthread_mutex_lock(&p->mutex);
    p->svc->log(p->svc, LOCKER_LOG_ERROR, "line %d", 0);
    (void)pthread_mutex_unlock(&p->mutex);
    return status;
}

/* The first is being told while the others come. */
static locker_status logs_many(struct probe *p, locker_claim *claim, locker_status status)
{
    (void)logs_one(p, claim, status);
    (void)lk_gate_pass(&heard.entered);
    (void)pthread_mutex_lock(&p->mutex);
    for (int i = 1; i <= LINES; i++)
        p->svc->log(p->svc, LOCKER_LOG_ERROR, "line %d", i);
    (void)pthread_mutex_unlock(&p->mutex);
    return status;
}

static void run(probe_hook *acquire, bool holds)
{
    static struct probe p;
    locker_driver_options d = LOCKER_DRIVER_OPTIONS_INIT;
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;

    probe_init(&p);
    memset(&heard, 0, sizeof heard);
    lk_gate_init(&heard.entered);
    lk_gate_init(&heard.leave);
    heard.p = &p;
    heard.holds = holds;
    p.real_time = true;
    p.acquire = acquire;
    o.ttl_ms = PROBE_TTL_MS;
    o.log = hear;
    d.options = &o;
    heard.l = probe_open_with(&p, &d);
    assert_ok(locker_lock(heard.l, "k", NULL, &held, &err), err);
    lk_gate_open(&heard.leave, 1);
    locker_handle_free(held);
    probe_end(&p, heard.l);
    lk_gate_destroy(&heard.entered);
    lk_gate_destroy(&heard.leave);
}

static void a_line_under_a_lock_is_told(void **state)
{
    (void)state;
    run(logs_one, false);
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.last, "line 0");
}

static void lines_are_told_in_order_and_those_lost_counted(void **state)
{
    (void)state;
    run(logs_many, true);
    assert_int_equal(heard.out_of_order, 0);
    assert_int_equal(heard.count, 1 + KEPT + 1);
    assert_non_null(strstr(heard.last, "76 lines"));
    assert_int_equal(heard.closing, LOCKER_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_under_a_lock_is_told),
        cmocka_unit_test(lines_are_told_in_order_and_those_lost_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
