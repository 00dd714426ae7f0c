/* alone.c: the driver without core; see alone.h. */
#include "alone.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "redis_tests.h"

static const int64_t second_ns = 1000000000, patience_ns = LK_TEST_PATIENCE_MS * INT64_C(1000000);

lk_alone_locker lk_alone;

locker_claim *lk_asker_claim(lk_asker *asker)
{
    return &asker->claim;
}

/* ------------------------------------------------------------------ in core's place ---- */

int64_t lk_alone_now(void)
{
    return locker_system_clock()->now(NULL) + lk_alone.ahead;
}

/* Count the driver's calls of core's clock and services after the close, which frees both. (Those of the tests are static.) */
static void note_call(void)
{
    if (lk_alone.ended)
        lk_alone.late++;
}

static int64_t now(void *context)
{
    (void)context;
    note_call();
    return lk_alone_now();
}

static void wait(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    (void)context;
    note_call();
    if (until != LOCKER_NEVER && !pthread_equal(pthread_self(), lk_alone.tester)) {
        const int64_t span = until - lk_alone_now();
        lk_alone.until = until;
        lk_alone.longest = span > lk_alone.longest ? span : lk_alone.longest;
    }
    locker_system_clock()->wait(NULL, cond, mutex, until == LOCKER_NEVER ? until : until - lk_alone.ahead);
}

static const locker_clock shifted = {.now = now, .wait = wait};

static void wake(const locker_services *svc, locker_claim *claim)
{
    (void)svc;
    note_call();
    ((lk_asker *)(void *)claim)->wakes++;
}

static void extended(const locker_services *svc, locker_claim *claim, int64_t until)
{
    lk_asker *asker = (void *)claim;
    (void)svc;
    note_call();
    if (asker->extended < (int)(sizeof asker->until / sizeof asker->until[0]))
        asker->until[asker->extended] = until;
    asker->extended++;
}

static void lost(const locker_services *svc, locker_claim *claim, const char *why)
{
    (void)svc, (void)why;
    note_call();
    ((lk_asker *)(void *)claim)->lost++;
}

static void shortened(const locker_services *svc, locker_claim *claim, int64_t until)
{
    lk_asker *const asker = (void *)claim;
    (void)svc;
    note_call();
    asker->shortened++;
    asker->at_most = until;
}

static void suspect(const locker_services *svc, bool out_of_reach)
{
    (void)svc;
    note_call();
    if (out_of_reach)
        lk_alone.lost++;
    else
        lk_alone.found++;
}

static void attend(const locker_services *svc)
{
    (void)svc;
    note_call();
    lk_alone.attends++;
}

static void log_line(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    va_list args;
    (void)svc;
    note_call();
    if (level > LOCKER_LOG_WARN)
        return;
    va_start(args, format);
    (void)vsnprintf(lk_alone.told, sizeof lk_alone.told, format, args);
    va_end(args);
}

static bool log_wanted(const locker_services *svc, locker_log_level level)
{
    (void)svc, (void)level;
    return false;
}

static const locker_services services = {.clock = &shifted,
                                         .wake = wake,
                                         .lease_extended = extended,
                                         .lease_lost = lost,
                                         .suspect = suspect,
                                         .attend = attend,
                                         .log_wanted = log_wanted,
                                         .log = log_line,
                                         .lease_shortened = shortened};

static locker_status open_alone(const locker_driver_config *config, const locker_services *svc, void **self,
                                locker_error *err)
{
    const locker_status status = lk_redis_driver.open(config, &services, self, err);
    (void)svc;
    lk_alone.self = *self;
    return status;
}

static void begin(const char *scheme, const char *hosts, const char *query)
{
    static locker_driver driver;
    char uri[256];
    const locker_driver_options options = {.size = sizeof options, .uri = uri};
    locker_error err;
    driver = lk_redis_driver;
    driver.open = open_alone;
    driver.descriptor = NULL;
    driver.dispatch = NULL;
    assert_true(driver.claim_size <= LK_CLAIM_SIZE_AT_MOST);
    lk_alone.ahead = 0;
    lk_alone.told[0] = '\0';
    lk_alone.tester = pthread_self();
    lk_alone.lost = lk_alone.found = lk_alone.late = 0;
    lk_alone.ended = false;
    snprintf(uri, sizeof uri, "%s://%s/0?command_timeout=20s%s", scheme, hosts, query);
    assert_ok(locker_open_driver(&driver, &options, &lk_alone.l, &err), err);
}

void lk_alone_begin_at(const char *hosts, const char *query)
{
    begin("redis", hosts, query);
}

void lk_alone_begin_cluster(const char *hosts)
{
    begin("redis+cluster", hosts, "");
}

void lk_alone_begin_sentinels(const char *hosts, const char *query)
{
    begin("redis+sentinel", hosts, query);
}

void lk_alone_begin(int port, const char *query)
{
    char host[32];
    snprintf(host, sizeof host, "127.0.0.1:%d", port);
    lk_alone_begin_at(host, query);
}

void lk_alone_end(void)
{
    lk_close_locker(lk_alone.l);
    lk_alone.ended = true;
}

locker_status lk_asker_ask_for(lk_asker *asker, int64_t patience)
{
    locker_error err;
    lk_asker_claim(asker)->asked_at = lk_alone_now();
    lk_asker_claim(asker)->attempt_until = lk_alone_now() + patience;
    return lk_redis_driver.acquire(lk_alone.self, lk_asker_claim(asker), &err);
}

locker_status lk_asker_ask(lk_asker *asker)
{
    return lk_asker_ask_for(asker, patience_ns);
}

void lk_asker_make(lk_asker *asker, const char *key)
{
    memset(asker, 0, sizeof *asker);
    *lk_asker_claim(asker) = (locker_claim){.data = asker->data,
                                            .key = key,
                                            .key_len = strlen(key),
                                            .key_hash = locker_key_hash(key, strlen(key)),
                                            .owner = "alone",
                                            .ttl_ns = 90 * second_ns,
                                            .will_wait = true,
                                            .renewed = true};
}

locker_status lk_asker_come(lk_asker *asker, const char *key)
{
    lk_asker_make(asker, key);
    return lk_asker_ask(asker);
}

void lk_asker_give(lk_asker *asker)
{
    locker_error err = {.status = LOCKER_OK};
    assert_ok(
        lk_redis_driver.release(lk_alone.self, lk_asker_claim(asker), lk_alone_now() + patience_ns, &err),
        err);
}

locker_status lk_asker_pass(lk_asker *from, lk_asker *to, const char *key)
{
    lk_asker_make(to, key);
    return lk_redis_driver.pass(lk_alone.self, lk_asker_claim(from), lk_asker_claim(to));
}

void lk_asker_renew(lk_asker *asker)
{
    locker_claim *claim = lk_asker_claim(asker);
    lk_redis_driver.renew(lk_alone.self, &claim, 1);
}

void lk_alone_ping(void)
{
    locker_error err = {.status = LOCKER_OK};
    assert_ok(lk_redis_driver.ping(lk_alone.self, lk_alone_now() + patience_ns, &err), err);
}

bool lk_is_told(void *context)
{
    atomic_int *count = context;
    (void)lk_redis_driver.dispatch(lk_alone.self);
    return *count > 0;
}

void lk_require_told(atomic_int *count, const char *what)
{
    lk_require(lk_is_told, count, what);
    *count = 0;
}

void lk_asker_enrol(lk_asker *asker, lk_server *server, const char *key)
{
    assert_int_equal(lk_asker_come(asker, key), LOCKER_BUSY);
    lk_require_told(&asker->wakes, "it should subscribe");
    assert_int_equal(lk_asker_ask(asker), LOCKER_BUSY);
    lk_require_queue(server, key, 1);
}

void lk_alone_hear(lk_server *server)
{
    lk_asker holder, waiter;
    assert_int_equal(lk_asker_come(&holder, "heard"), LOCKER_OK);
    lk_asker_enrol(&waiter, server, "heard");
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&waiter));
    lk_asker_give(&holder);
}

void lk_read_member(lk_server *server, const char *key, char member[256], char instance[33], char value[33])
{
    assert_true(lk_server_text(server, member, 256, "EVAL %s 1 {%s}:locker:queue",
                               "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]", key));
    assert_int_equal(sscanf(member, "%32s %32s", instance, value), 2);
}

void lk_start_another(lk_server *server, const char *key)
{
    lk_server_kill(server);
    lk_test_launch(server, false);
    lk_server_do(server, "SET %s somebody", key);
    lk_server_do(server, "SET %s 8000000000000000", lk_fence_key(key));
}
