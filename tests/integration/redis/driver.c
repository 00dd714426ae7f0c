/* driver.c: the driver alone, called as core calls it, with a clock that a test puts ahead: what only an
 * unlucky order of threads shows. Nothing is read but in a test's own calls. */
#include "redis_tests.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <locker/driver.h>

extern const locker_driver lk_redis_driver;

enum { CLAIM_SIZE_AT_MOST = 512 };

static const int64_t second_ns = 1000000000, minute_us = 60000000;
static const int64_t patience_ns = LK_TEST_PATIENCE_MS * INT64_C(1000000);

/* A claim with the driver's bytes behind it, and what core was told of it. */
struct asker {
    locker_claim claim; /* the first member: what core is told of is ours */
    _Alignas(16) char data[CLAIM_SIZE_AT_MOST];
    atomic_int wakes, extended, lost;
    int64_t until[4]; /* what the first extensions said */
};

/* A locker whose core sees to nothing: it gives the driver its configuration, and ends it. */
static struct alone {
    locker *l;
    void *self;
    atomic_int_least64_t ahead; /* of the system's clock */
    atomic_int lost, found;     /* how often the server was out of reach, and there again */
    atomic_int attends;         /* how often dispatch was asked for */
    pthread_t tester;
    atomic_int_least64_t longest; /* of the waits of the driver's own thread that have an end */
    atomic_int_least64_t until;   /* ... and the end of the latest */
} alone;

static locker_claim *of(struct asker *asker)
{
    asker->claim.data = asker->data;
    return &asker->claim;
}

/* ------------------------------------------------------------------ in core's place ---- */

static int64_t now(void *context)
{
    (void)context;
    return locker_system_clock()->now(NULL) + alone.ahead;
}

static void wait(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    (void)context;
    if (until != LOCKER_NEVER && !pthread_equal(pthread_self(), alone.tester)) {
        const int64_t span = until - now(NULL);
        alone.until = until;
        alone.longest = span > alone.longest ? span : alone.longest;
    }
    locker_system_clock()->wait(NULL, cond, mutex, until == LOCKER_NEVER ? until : until - alone.ahead);
}

static const locker_clock shifted = {.now = now, .wait = wait};

static void wake(const locker_services *svc, locker_claim *claim)
{
    (void)svc;
    ((struct asker *)(void *)claim)->wakes++;
}

static void extended(const locker_services *svc, locker_claim *claim, int64_t until)
{
    struct asker *asker = (void *)claim;
    (void)svc;
    if (asker->extended < (int)(sizeof asker->until / sizeof asker->until[0]))
        asker->until[asker->extended] = until;
    asker->extended++;
}

static void lost(const locker_services *svc, locker_claim *claim, const char *why)
{
    (void)svc, (void)why;
    ((struct asker *)(void *)claim)->lost++;
}

static void suspect(const locker_services *svc, bool out_of_reach)
{
    (void)svc;
    if (out_of_reach)
        alone.lost++;
    else
        alone.found++;
}

static void attend(const locker_services *svc)
{
    (void)svc;
    alone.attends++;
}

static void log_nothing(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    (void)svc, (void)level, (void)format;
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
                                         .log = log_nothing};

static locker_status open_alone(const locker_driver_config *config, const locker_services *svc, void **self,
                                locker_error *err)
{
    const locker_status status = lk_redis_driver.open(config, &services, self, err);
    (void)svc;
    alone.self = *self;
    return status;
}

/* Hosts, each with its port, and what stands behind the others. */
static void begin_at(const char *hosts, const char *query)
{
    static locker_driver driver;
    char uri[128];
    const locker_driver_options options = {.size = sizeof options, .uri = uri};
    locker_error err;
    driver = lk_redis_driver;
    driver.open = open_alone;
    driver.descriptor = NULL;
    driver.dispatch = NULL;
    assert_true(driver.claim_size <= CLAIM_SIZE_AT_MOST);
    alone.ahead = 0;
    alone.tester = pthread_self();
    alone.lost = alone.found = 0;
    snprintf(uri, sizeof uri, "redis://%s/0?command_timeout=20s%s", hosts, query);
    assert_ok(locker_open_driver(&driver, &options, &alone.l, &err), err);
}

static void begin(int port, const char *query)
{
    char host[32];
    snprintf(host, sizeof host, "127.0.0.1:%d", port);
    begin_at(host, query);
}

static void end(void)
{
    lk_close_locker(alone.l);
}

static locker_status ask_for(struct asker *asker, int64_t patience)
{
    locker_error err;
    of(asker)->asked_at = now(NULL);
    of(asker)->attempt_until = now(NULL) + patience;
    return lk_redis_driver.acquire(alone.self, of(asker), &err);
}

static locker_status ask(struct asker *asker)
{
    return ask_for(asker, patience_ns);
}

/* A claim that acquire has not seen. */
static void make(struct asker *asker, const char *key)
{
    memset(asker, 0, sizeof *asker);
    *of(asker) = (locker_claim){.key = key,
                                .key_len = strlen(key),
                                .key_hash = locker_key_hash(key, strlen(key)),
                                .owner = "alone",
                                .ttl_ns = 90 * second_ns,
                                .will_wait = true,
                                .renewed = true};
}

static locker_status come(struct asker *asker, const char *key)
{
    make(asker, key);
    return ask(asker);
}

static void give(struct asker *asker)
{
    locker_error err = {.status = LOCKER_OK};
    assert_ok(lk_redis_driver.release(alone.self, of(asker), now(NULL) + patience_ns, &err), err);
}

static locker_status pass(struct asker *from, struct asker *to, const char *key)
{
    make(to, key);
    return lk_redis_driver.pass(alone.self, of(from), of(to));
}

static void renew(struct asker *asker)
{
    locker_claim *claim = of(asker);
    lk_redis_driver.renew(alone.self, &claim, 1);
}

/* All that was asked for is answered when this is. */
static void ping(void)
{
    locker_error err = {.status = LOCKER_OK};
    assert_ok(lk_redis_driver.ping(alone.self, now(NULL) + patience_ns, &err), err);
}

static bool is_told(void *context)
{
    atomic_int *count = context;
    (void)lk_redis_driver.dispatch(alone.self);
    return *count > 0;
}

/* The keeper's turns, until core is told. */
static void require_told(atomic_int *count, const char *what)
{
    lk_require(is_told, count, what);
    *count = 0;
}

/* Another has the lock: it stands in the queue, and hears. */
static void enrol(struct asker *asker, lk_server *server, const char *key)
{
    assert_int_equal(come(asker, key), LOCKER_BUSY);
    require_told(&asker->wakes, "it should subscribe");
    assert_int_equal(ask(asker), LOCKER_BUSY);
    lk_require_queue(server, key, 1);
}

/* The first of the queue, as it stands there. */
static void read_member(lk_server *server, const char *key, char member[256], char instance[33],
                        char value[33])
{
    assert_true(lk_server_text(server, member, 256, "EVAL %s 1 {%s}:locker:queue",
                               "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]", key));
    assert_int_equal(sscanf(member, "%32s %32s", instance, value), 2);
}

/* Hand-overs in the process are asked for from the first one on, which is refused. */
static void ask_for_passing(void)
{
    struct asker from, to;
    assert_int_equal(come(&from, "first"), LOCKER_OK);
    assert_int_equal(pass(&from, &to, "first"), LOCKER_BUSY);
    give(&from);
}

static int64_t wall_us(void)
{
    struct timespec time;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &time), 0);
    return time.tv_sec * INT64_C(1000000) + time.tv_nsec / 1000;
}

/* A server that has what others say it has: somebody's lock, and a counter. */
static void start_another(lk_server *server, const char *key)
{
    lk_server_kill(server);
    lk_test_launch(server, false);
    lk_server_do(server, "SET %s somebody", key);
    lk_server_do(server, "SET {%s}:locker:fence 8000000000000000", key);
}

/* ------------------------------------------------------------------ hand-overs in the process ---- */

static void a_lease_that_another_server_confirmed_is_not_passed_on(void **state)
{
    lk_env *env = *state;
    struct asker first, second;
    begin(env->server->port, "");
    ask_for_passing();
    assert_int_equal(come(&first, "elsewhere"), LOCKER_OK);
    start_another(env->server, "elsewhere");
    ping();
    assert_int_equal(pass(&first, &second, "elsewhere"), LOCKER_BUSY);
    lk_redis_driver.withdraw(alone.self, of(&first));
    end();
}

static void a_lease_that_is_nearly_over_is_not_passed_on(void **state)
{
    lk_env *env = *state;
    struct asker first, second, third;
    begin(env->server->port, "");
    ask_for_passing();
    assert_int_equal(come(&first, "stalled"), LOCKER_OK);
    alone.ahead = 58 * second_ns; /* nobody has run meanwhile: the server was not told who has it */
    assert_int_equal(pass(&first, &second, "stalled"), LOCKER_OK);
    alone.ahead = 60 * second_ns;
    assert_int_equal(pass(&second, &third, "stalled"), LOCKER_BUSY);
    give(&second);
    end();
}

/* A number of the next grant's would be given out twice. */
static void no_more_hand_overs_than_numbers(void **state)
{
    lk_env *env = *state;
    struct asker askers[2];
    unsigned at = 0, passed = 0;
    uint64_t token;
    begin(env->server->port, "");
    ask_for_passing();
    assert_int_equal(come(&askers[0], "numbers"), LOCKER_OK);
    token = of(&askers[0])->token;
    while (pass(&askers[at], &askers[1 - at], "numbers") == LOCKER_OK) {
        at = 1 - at;
        passed++;
        assert_int_equal(of(&askers[at])->token, token + passed);
    }
    assert_true(passed > 0);
    assert_int_equal(lk_server_integer(env->server, "EVAL %s 1 {numbers}:locker:fence",
                                       "return tonumber(redis.call('GET', KEYS[1]))"),
                     token + passed);
    give(&askers[at]);
    end();
}

static void a_renewal_under_way_tells_of_who_has_it(void **state)
{
    lk_env *env = *state;
    struct asker first, second;
    begin(env->server->port, "");
    ask_for_passing();
    assert_int_equal(come(&first, "renewed"), LOCKER_OK);
    renew(&first);
    assert_int_equal(pass(&first, &second, "renewed"), LOCKER_OK);
    ping();
    assert_int_equal(first.extended, 0);
    assert_int_equal(second.extended, 1);
    give(&second);
    end();
}

static void who_was_passed_a_lock_hears_of_its_break(void **state)
{
    lk_env *env = *state;
    struct asker first, second;
    char member[256], instance[33], value[33];
    begin(env->server->port, "");
    ask_for_passing();
    lk_server_do(env->server, "SET heard somebody");
    enrol(&first, env->server, "heard");
    read_member(env->server, "heard", member, instance, value);
    lk_server_do(env->server, "DEL heard");
    assert_int_equal(ask(&first), LOCKER_OK);
    assert_int_equal(pass(&first, &second, "heard"), LOCKER_OK);
    assert_int_equal(lk_server_integer(env->server, "EVAL %s 2 %s %s",
                                       "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                                       "KEYS[2] .. ' broken heard')",
                                       instance, value),
                     1);
    require_told(&second.lost, "it should be told");
    assert_int_equal(first.lost, 0);
    give(&second);
    end();
}

/* ------------------------------------------------------------------ renewals ---- */

/* Neither of two renewals under way tells anything when the claim has gone. */
static void renewals_tell_nothing_of_what_is_gone(void **state)
{
    lk_env *env = *state;
    struct asker withdrawn, released;
    begin(env->server->port, "");
    assert_int_equal(come(&withdrawn, "withdrawn"), LOCKER_OK);
    renew(&withdrawn);
    renew(&withdrawn);
    lk_redis_driver.withdraw(alone.self, of(&withdrawn));
    ping();
    assert_int_equal(withdrawn.extended + withdrawn.lost, 0);
    assert_int_equal(come(&released, "released"), LOCKER_OK);
    renew(&released);
    give(&released);
    assert_int_equal(released.extended + released.lost, 0);
    end();
}

/* Core asks again while a server is slow to answer. Each answer proves the lease from its own sending. */
static void each_renewal_that_is_answered_extends(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(env->server->port, "");
    assert_int_equal(come(&asker, "slow"), LOCKER_OK);
    renew(&asker);
    const int64_t first_sent = now(NULL);
    alone.ahead = 20 * second_ns;
    renew(&asker);
    ping();
    assert_int_equal(asker.extended, 2);
    assert_in_range(asker.until[0], first_sent, first_sent + 90 * second_ns);
    assert_true(asker.until[1] > asker.until[0] + 19 * second_ns);
    give(&asker);
    end();
}

/* The first to be read says so, and another has the name by then. */
static void a_lease_is_lost_once(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(env->server->port, "");
    assert_int_equal(come(&asker, "once"), LOCKER_OK);
    lk_server_do(env->server, "DEL once");
    renew(&asker);
    renew(&asker);
    ping();
    assert_int_equal(asker.lost, 1);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

/* A script that the server has forgotten is sent anew, for those that are still there. */
static void renewals_outlive_their_script(void **state)
{
    lk_env *env = *state;
    struct asker kept, gone;
    begin(env->server->port, "");
    assert_int_equal(come(&gone, "gone"), LOCKER_OK);
    assert_int_equal(come(&kept, "kept"), LOCKER_OK);
    lk_server_do(env->server, "SCRIPT FLUSH");
    locker_claim *const both[] = {of(&gone), of(&kept)};
    lk_redis_driver.renew(alone.self, both, 2);
    renew(&kept);
    lk_redis_driver.withdraw(alone.self, of(&gone));
    ping();
    ping();
    assert_int_equal(gone.extended + gone.lost, 0);
    assert_int_equal(kept.extended, 2);
    assert_int_equal(kept.lost, 0);
    give(&kept);
    end();
}

/* For a checker of leaks. */
static void what_is_unanswered_goes_with_the_connection(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(come(&asker, "unanswered"), LOCKER_OK);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "EVALSHA", 1, 0);
    renew(&asker);
    renew(&asker);
    assert_int_equal(asker.extended, 0);
    end();
}

static void a_renewal_extends_no_lock_of_another(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(env->server->port, "");
    assert_int_equal(come(&asker, "other"), LOCKER_OK);
    lk_server_do(env->server, "SET other somebody PX 20000");
    renew(&asker);
    ping();
    assert_int_equal(asker.extended, 0);
    assert_int_equal(asker.lost, 1);
    assert_in_range(lk_server_integer(env->server, "PTTL other"), 1, 20000);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

/* Core asks at once for what was not confirmed, when it is told that the server is there again. */
static void a_renewal_that_was_lost_with_its_connection_is_made_again(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(come(&asker, "lost"), LOCKER_OK);
    alone.ahead = 30 * second_ns;
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, "EVALSHA", 1, 0);
    renew(&asker);
    require_told(&alone.lost, "it should lose the connection");
    require_told(&alone.found, "it should connect again");
    assert_int_equal(asker.extended, 0);
    renew(&asker);
    ping();
    assert_int_equal(asker.extended, 1);
    assert_int_equal(asker.lost, 0);
    give(&asker);
    end();
}

static void a_release_takes_no_lock_of_another(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    locker_error err;
    begin(env->server->port, "");
    assert_int_equal(come(&asker, "other"), LOCKER_OK);
    lk_server_do(env->server, "SET other somebody");
    assert_status(LOCKER_LOST, lk_redis_driver.release(alone.self, of(&asker), now(NULL) + patience_ns, &err),
                  err);
    lk_expect_value(env->server, "other", "somebody");
    end();
}

/* ------------------------------------------------------------------ proofs ---- */

static void *release_in_time(void *argument)
{
    static locker_status status;
    status = lk_redis_driver.release(alone.self, of(argument), now(NULL) + 1000 * second_ns, NULL);
    return &status;
}

/* Who asks again when the lease is over finds it gone in any case. */
static void a_proof_that_comes_after_the_lease_is_none(void **state)
{
    static struct asker asker;
    lk_env *env = *state;
    pthread_t thread;
    void *status;
    begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(come(&asker, "proof"), LOCKER_OK);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, "proof", 1, 0);
    lk_proxy_refuse(env->proxy, true);
    assert_int_equal(pthread_create(&thread, NULL, release_in_time, &asker), 0);
    lk_proxy_await_harm(env->proxy, 1);
    alone.ahead = 91 * second_ns;
    lk_proxy_refuse(env->proxy, false);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal(*(locker_status *)status, LOCKER_UNKNOWN);
    end();
}

/* A try whose answer was lost is told of what it has, and not that somebody has it. */
static void a_try_that_is_made_again_finds_its_own_lock(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    locker_error err;
    begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(come(&asker, "try"), LOCKER_OK);
    give(&asker);
    make(&asker, "try");
    of(&asker)->will_wait = false;
    of(&asker)->asked_at = now(NULL);
    of(&asker)->attempt_until = now(NULL) + second_ns / 5;
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "try", 1, 0);
    assert_int_equal(lk_redis_driver.acquire(alone.self, of(&asker), &err), LOCKER_TIMEOUT);
    assert_int_equal(lk_server_integer(env->server, "EXISTS try"), 1);
    lk_proxy_cut_all(env->proxy);
    ping(); /* by a new connection */
    assert_int_equal(ask(&asker), LOCKER_OK);
    give(&asker);
    end();
}

/* Its process may end before it could give it back. */
static void what_has_no_number_is_not_left_at_the_server(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(env->server->port, "");
    lk_server_do(env->server, "SET {numberless}:locker:fence a");
    assert_int_equal(come(&asker, "numberless"), LOCKER_PROTOCOL);
    assert_int_equal(lk_server_integer(env->server, "EXISTS numberless"), 0);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

/* A connection on which nothing is asked for but the subscription beside it was of use: what is lost again and again, as
 * servers start anew, is not waited for longer and longer. (Without INFO each server is taken for another.) */
static void who_only_listens_comes_back_soon(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    lk_server_do(env->server, "ACL SETUSER default -info");
    lk_server_do(env->server, "SET listened somebody");
    begin(lk_proxy_port(env->proxy), "");
    enrol(&asker, env->server, "listened");
    alone.longest = 0;
    for (int i = 0; i < 8; i++) {
        asker.wakes = 0;
        lk_proxy_cut_all(env->proxy);
        require_told(&asker.wakes, "it should subscribe again");
    }
    assert_true(alone.longest <= second_ns / 5);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

/* The server is away, until the driver waits for half a second before it looks again. Then it is back. */
static int64_t be_away_for_long(lk_env *env)
{
    struct asker asker;
    make(&asker, "away");
    of(&asker)->has_waited = true;
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    do
        assert_int_not_equal(ask_for(&asker, second_ns / 10), LOCKER_OK);
    while (alone.until - now(NULL) < second_ns / 2);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    lk_proxy_refuse(env->proxy, false);
    return alone.until;
}

/* A call that waits may have less time than that. (It may take that long by itself, on a machine that is busy.) */
static void a_call_does_not_wait_for_the_next_look(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    bool sooner = false;
    begin(lk_proxy_port(env->proxy), "");
    for (int round = 0; round < 5 && !sooner; round++) {
        const int64_t looks_at = be_away_for_long(env);
        assert_int_equal(come(&asker, "away"), LOCKER_OK);
        sooner = now(NULL) < looks_at;
        give(&asker);
    }
    assert_true(sooner);
    end();
}

/* ------------------------------------------------------------------ grants by a message ---- */

/* It was read while the first server was there, and nobody has looked since. */
static void a_message_of_an_earlier_server_grants_nothing(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "earlier", NULL);
    begin(env->server->port, "");
    enrol(&asker, env->server, "earlier");
    lk_give(held);
    require_told(&asker.wakes, "it should be handed the lock");
    lk_close_locker(rival);
    start_another(env->server, "earlier");
    ping();
    assert_int_equal(ask(&asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

static void *ask_again(void *argument)
{
    return ask(argument) == LOCKER_BUSY ? argument : NULL;
}

/* A message comes while an attempt is under way that another server answers in the end. */
static void move_while_it_asks(lk_env *env, struct asker *asker)
{
    char member[256], instance[33], value[33];
    pthread_t thread;
    void *busy;
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "moved", 1, 0);
    assert_int_equal(pthread_create(&thread, NULL, ask_again, asker), 0);
    lk_proxy_await_harm(env->proxy, 1);
    read_member(env->server, "moved", member, instance, value);
    lk_server_do(env->server, "EVAL %s 2 %s %s",
                 "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                 "KEYS[2] .. ' 9000000000000000 0 moved')",
                 instance, value);
    require_told(&asker->wakes, "the message should be read");
    lk_proxy_refuse(env->proxy, true);
    start_another(env->server, "moved");
    lk_proxy_refuse(env->proxy, false);
    assert_int_equal(pthread_join(thread, &busy), 0);
    assert_non_null(busy);
    assert_int_equal(ask(asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(alone.self, of(asker));
}

static void a_message_from_before_the_attempt_moved_grants_nothing(void **state)
{
    static struct asker asker;
    lk_env *env = *state;
    lk_server_do(env->server, "SET moved somebody");
    begin(lk_proxy_port(env->proxy), "");
    enrol(&asker, env->server, "moved");
    move_while_it_asks(env, &asker);
    end();
}

/* No server had told anything yet. */
static void a_message_from_before_the_first_attempt_moved_grants_nothing(void **state)
{
    static struct asker listener, asker;
    lk_env *env = *state;
    lk_server_do(env->server, "SET other somebody");
    lk_server_do(env->server, "SET moved somebody");
    begin(lk_proxy_port(env->proxy), "");
    enrol(&listener, env->server, "other");
    make(&asker, "moved");
    move_while_it_asks(env, &asker);
    lk_redis_driver.withdraw(alone.self, of(&listener));
    end();
}

/* Somebody deletes it before its waiter knows of it, and another has the lock; then the waiter has it by an attempt whose answer
 * does not come. The message of the first grant has a smaller number than the other's token. */
static void a_message_from_before_an_unanswered_attempt_grants_nothing(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    locker *rival = lk_open_at(env->server, "");
    begin(lk_proxy_port(env->proxy), "");
    ping(); /* what counts from here on is of this connection */
    locker_handle *held = lk_take(rival, "unanswered", NULL);
    enrol(&asker, env->server, "unanswered");
    lk_give(held);
    lk_server_do(env->server, "DEL unanswered");
    held = lk_take(rival, "unanswered", NULL);
    const uint64_t token = locker_handle_token(held);
    lk_give(held);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "unanswered", 1, 0);
    assert_int_equal(ask_for(&asker, second_ns / 5), LOCKER_TIMEOUT);
    assert_int_equal(lk_server_integer(env->server, "EXISTS unanswered"), 1);
    require_told(&asker.wakes, "the message should be read");
    lk_proxy_cut_all(env->proxy);
    assert_int_equal(ask(&asker), LOCKER_OK);
    assert_true(of(&asker)->token > token);
    give(&asker);
    lk_close_locker(rival);
    end();
}

/* The server goes back to a time before the hand-over, as one does that a replica takes the place of: another has the lock,
 * and gives it to the first in its queue. */
static void who_is_handed_what_he_holds_has_lost_it(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "twice", NULL);
    char member[256], instance[33], value[33];
    begin(env->server->port, "");
    enrol(&asker, env->server, "twice");
    read_member(env->server, "twice", member, instance, value);
    lk_give(held);
    require_told(&asker.wakes, "it should be handed the lock");
    assert_int_equal(ask(&asker), LOCKER_OK);
    lk_server_do(env->server, "EVAL %s 2 %s %s %llu", /* the same once more tells nothing */
                 "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                 "KEYS[2] .. ' ' .. ARGV[1] .. ' 0 twice')",
                 instance, value, (unsigned long long)of(&asker)->token);
    lk_server_do(env->server, "DEL twice");
    held = lk_take(rival, "twice", NULL);
    lk_server_do(env->server, "ZADD {twice}:locker:queue 0 %s", member);
    (void)lk_redis_driver.dispatch(alone.self);
    assert_int_equal(asker.lost, 0);
    lk_give(held);
    require_told(&asker.lost, "it should be told");
    lk_redis_driver.withdraw(alone.self, of(&asker));
    ping();
    assert_int_equal(lk_server_integer(env->server, "EXISTS twice"), 0);
    lk_close_locker(rival);
    end();
}

static bool is_told_twice(void *context)
{
    return is_told(context) && *(atomic_int *)context >= 2;
}

/* The holder does not know yet that it is one, so nobody else knows who it is. */
static void a_break_is_told_behind_a_late_hand_over(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    const locker_break_options any = LOCKER_BREAK_OPTIONS_INIT;
    locker *rival = lk_open_at(env->server, "");
    locker_error err;
    begin(env->server->port, ""); /* what counts from here on is of this connection */
    locker_handle *held = lk_take(rival, "late", NULL);
    enrol(&asker, env->server, "late");
    lk_give(held);
    assert_ok(locker_break(rival, "late", &any, NULL, &err), err);
    held = lk_take(rival, "late", NULL);
    lk_require(is_told_twice, &asker.wakes, "it should be told of the break, too");
    assert_int_equal(ask(&asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    ping();
    lk_give(held);
    lk_close_locker(rival);
    end();
}

/* It asks before it hears of either, and gets the lock anew. What another hears then came later. */
static void a_break_of_an_earlier_grant_takes_nothing(void **state)
{
    lk_env *env = *state;
    struct asker asker, other;
    const locker_break_options any = LOCKER_BREAK_OPTIONS_INIT;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "anew", NULL), *others = lk_take(rival, "other", NULL);
    locker_error err;
    begin(env->server->port, "");
    enrol(&asker, env->server, "anew");
    assert_int_equal(come(&other, "other"), LOCKER_BUSY);
    lk_give(held);
    assert_ok(locker_break(rival, "anew", &any, NULL, &err), err);
    assert_int_equal(ask(&asker), LOCKER_OK);
    lk_give(others);
    require_told(&other.wakes, "it should be handed the lock");
    assert_int_equal(asker.lost, 0);
    give(&asker);
    assert_int_equal(lk_server_integer(env->server, "EXISTS anew"), 0);
    lk_redis_driver.withdraw(alone.self, of(&other));
    lk_close_locker(rival);
    end();
}

/* Commands by the proxy, the subscription past it. */
static void begin_on_two_ways(lk_env *env, const char *query)
{
    char hosts[64];
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d,127.0.0.1:%d", lk_proxy_port(env->proxy), env->server->port);
    begin_at(hosts, query);
    lk_proxy_refuse(env->proxy, true);
}

static struct {
    struct asker asker;
    locker *rival;
    locker_handle *held;
} overtaken;

/* The answer is on its way while the lock is broken, another takes it, and the word of that is read. */
static size_t broken_meanwhile(const lk_message *reply, char *out, size_t size)
{
    const locker_break_options any = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    assert_true(reply->length <= size);
    memcpy(out, reply->bytes, reply->length);
    assert_ok(locker_break(overtaken.rival, "overtaken", &any, NULL, &err), err);
    overtaken.held = lk_take(overtaken.rival, "overtaken", NULL);
    require_told(&overtaken.asker.wakes, "it should be told of the break");
    return reply->length;
}

static void a_break_that_overtakes_the_grant_is_heard_of(void **state)
{
    lk_env *env = *state;
    begin_on_two_ways(env, "");
    overtaken.rival = lk_open_at(env->server, "");
    lk_server_do(env->server, "SET overtaken somebody");
    enrol(&overtaken.asker, env->server, "overtaken");
    lk_server_do(env->server, "DEL overtaken");
    lk_proxy_forge(env->proxy, "overtaken", broken_meanwhile);
    assert_int_equal(ask(&overtaken.asker), LOCKER_BUSY);
    assert_int_equal(overtaken.asker.lost, 0);
    assert_int_equal(ask(&overtaken.asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(alone.self, of(&overtaken.asker));
    lk_give(overtaken.held);
    lk_close_locker(overtaken.rival);
    end();
}

static void a_message_is_no_word_of_the_replicas(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "replicas", NULL);
    begin(env->server->port, "&wait_replicas=1&wait_timeout=50ms");
    enrol(&asker, env->server, "replicas");
    lk_give(held);
    require_told(&asker.wakes, "it should be handed the lock");
    assert_int_equal(ask(&asker), LOCKER_UNAVAILABLE);
    assert_true(of(&asker)->retry_at > 0); /* not the last word: a replica may come */
    lk_redis_driver.withdraw(alone.self, of(&asker));
    lk_close_locker(rival);
    end();
}

/* Those who ask for no replica have their turn between the attempts of one that does. */
static void what_too_few_replicas_have_is_given_back(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    locker *rival = lk_open_at(env->server, "");
    begin(env->server->port, "&wait_replicas=1&wait_timeout=50ms");
    assert_int_equal(come(&asker, "few"), LOCKER_UNAVAILABLE);
    for (int i = 0; i < 3; i++) {
        ping();
        assert_int_equal(lk_server_integer(env->server, "EXISTS few"), 0);
        lk_give(lk_take(rival, "few", NULL));
        assert_int_equal(ask(&asker), LOCKER_UNAVAILABLE);
    }
    lk_redis_driver.interrupt(alone.self, of(&asker));
    assert_int_equal(ask(&asker), LOCKER_CANCELED); /* what was asked of it lasts */
    lk_redis_driver.withdraw(alone.self, of(&asker));
    lk_close_locker(rival);
    end();
}

/* A failover that can't be told from a master: the wait lasts until there is one. */
static size_t unblocked(const lk_message *reply, char *out, size_t size)
{
    (void)reply;
    return (size_t)snprintf(out, size,
                            "-UNBLOCKED force unblock from blocking operation, instance state changed "
                            "(master -> replica?)\r\n");
}

static size_t no_master(const lk_message *reply, char *out, size_t size)
{
    (void)reply;
    return (size_t)snprintf(out, size,
                            "-ERR WAIT cannot be used with replica instances. Please also note...\r\n");
}

/* It tells so to whoever waits for its replicas, or is about to. */
static void a_master_that_becomes_a_replica_is_not_the_last_word(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(lk_proxy_port(env->proxy), "&wait_replicas=1&wait_timeout=1ms");
    for (unsigned round = 0; round < 2; round++) {
        lk_proxy_forge(env->proxy, "WAIT", round == 0 ? unblocked : no_master);
        assert_int_equal(come(&asker, "unblocked"), LOCKER_UNAVAILABLE);
        lk_proxy_await_harm(env->proxy, round + 1);
        assert_true(of(&asker)->retry_at > 0);
        lk_redis_driver.withdraw(alone.self, of(&asker));
    }
    end();
}

static void a_server_that_is_no_master_is_not_the_last_word(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    lk_server_do(env->server, "ACL SETUSER default -role");
    begin(env->server->port, "");
    lk_server_do(env->server, "SET moving somebody");
    enrol(&asker, env->server, "moving");
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", lk_free_port());
    assert_int_equal(ask(&asker), LOCKER_UNAVAILABLE);
    assert_true(of(&asker)->retry_at > 0);
    lk_server_do(env->server, "REPLICAOF NO ONE");
    lk_server_do(env->server, "DEL moving");
    assert_int_equal(ask(&asker), LOCKER_OK);
    give(&asker);
    end();
}

static char listener[33];

static bool is_heard_by_nobody(void *context)
{
    return lk_server_integer(context, "PUBLISH locker:wake:%s none", listener) == 0;
}

static void *end_beside(void *none)
{
    end();
    return none;
}

/* Its place can't be taken out of the queue, for as long as that is tried. */
static void who_closes_is_handed_nothing(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    char member[256], value[33];
    pthread_t closer;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "closing", NULL);
    begin_on_two_ways(env, "&cleanup_timeout=1m");
    enrol(&asker, env->server, "closing");
    read_member(env->server, "closing", member, listener, value);
    lk_proxy_hold(env->proxy, true, true);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    assert_int_equal(pthread_create(&closer, NULL, end_beside, NULL), 0);
    lk_require(is_heard_by_nobody, env->server, "it should not listen any more");
    lk_give(held);
    assert_int_equal(lk_server_integer(env->server, "EXISTS closing"), 0);
    lk_proxy_hold(env->proxy, false, false);
    assert_int_equal(pthread_join(closer, NULL), 0);
    lk_close_locker(rival);
}

static bool is_free(void *context)
{
    (void)lk_redis_driver.dispatch(alone.self);
    return lk_server_integer(context, "EXISTS gone") == 0;
}

/* Its entry of the queue could not be taken out: it is handed the lock, and nobody is there. */
static void a_lock_for_one_that_is_gone_is_given_back(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "gone", NULL);
    char member[256], instance[33], value[33];
    begin(env->server->port, "");
    enrol(&asker, env->server, "gone");
    read_member(env->server, "gone", member, instance, value);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    ping();
    lk_require_queue(env->server, "gone", 0);
    lk_server_do(env->server, "ZADD {gone}:locker:queue 0 %s", member);
    lk_give(held);
    lk_require(is_free, env->server, "it should be given back");
    lk_close_locker(rival);
    end();
}

static bool is_other_free(void *context)
{
    (void)lk_redis_driver.dispatch(alone.self);
    return lk_server_integer(context, "EXISTS other") == 0;
}

/* It stands in the queue of another lock, and is handed that one. */
static void a_message_of_another_lock_grants_nothing(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    char member[256], instance[33], value[33];
    begin(env->server->port, "");
    lk_server_do(env->server, "SET named somebody");
    enrol(&asker, env->server, "named");
    read_member(env->server, "named", member, instance, value);
    lk_server_do(env->server, "SET other %s", value);
    lk_server_do(env->server, "EVAL %s 2 %s %s",
                 "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                 "KEYS[2] .. ' 9000000000000000 0 other')",
                 instance, value);
    lk_require(is_other_free, env->server, "it should be given back");
    assert_int_equal(ask(&asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

static bool is_given_back(void *context)
{
    const lk_env *env = context;
    alone.ahead += second_ns / 10;
    (void)lk_redis_driver.dispatch(alone.self);
    return lk_server_integer(env->server, "EXISTS refused") == 0;
}

/* Whose thread ever read that it was refused: another time for it is asked for. */
static void what_is_refused_is_given_back_later(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(env->server->port, "");
    assert_int_equal(come(&asker, "refused"), LOCKER_OK);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 1");
    lk_redis_driver.withdraw(alone.self, of(&asker));
    alone.attends = 0;
    ping();
    assert_true(alone.attends > 0);
    assert_int_equal(lk_server_integer(env->server, "EXISTS refused"), 1);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 0");
    lk_require(is_given_back, env, "it should be given back");
    end();
}

static atomic_bool stands_still; /* behind what is sent next */
static pthread_t beside;         /* who asks meanwhile */

static void *ping_beside(void *none)
{
    (void)none;
    assert_int_equal(lk_redis_driver.ping(alone.self, now(NULL) + patience_ns, NULL), LOCKER_OK);
    return NULL;
}

/* The library's calls of send() (CMakeLists.txt). */
ssize_t __real_send(int, const void *, size_t, int);
ssize_t __wrap_send(int, const void *, size_t, int);

ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags)
{
    const ssize_t sent = __real_send(fd, bytes, count, flags);
    if (!atomic_exchange(&stands_still, false))
        return sent;
    alone.attends = 0;
    assert_int_equal(pthread_create(&beside, NULL, ping_beside, NULL), 0);
    for (int i = 0; i < LK_TEST_PATIENCE_MS && alone.attends == 0;
         i++) /* the test fails outside of the driver */
        poll(NULL, 0, 1);
    return sent;
}

/* The keeper has looked, and is sending; its clean-up's refusal is read by somebody who asks beside it. */
static void what_is_refused_while_the_keeper_sends_is_given_back_later(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(env->server->port, "");
    assert_int_equal(come(&asker, "refused"), LOCKER_OK);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 1");
    lk_redis_driver.withdraw(alone.self, of(&asker));
    ping();
    alone.ahead += second_ns / 10;
    stands_still = true;
    (void)lk_redis_driver.dispatch(alone.self);
    assert_false(stands_still);
    lk_join(beside, "who asks beside the keeper");
    assert_true(alone.attends > 0);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 0");
    lk_require(is_given_back, env, "it should be given back");
    end();
}

/* ------------------------------------------------------------------ looks ---- */

static locker_status show(const char *key, int64_t patience, locker_info *info)
{
    *info = (locker_info)LOCKER_INFO_INIT;
    const locker_status status =
        lk_redis_driver.show(alone.self, key, strlen(key), now(NULL) + patience, info, NULL);
    free(info->queue);
    return status;
}

/* A thousand wait, whose names are so long. */
static void fill_queue(lk_server *server, const char *key, const char *length)
{
    assert_int_equal(lk_server_integer(server, "EVAL %s 1 {%s}:locker:queue %s",
                                       "for i = 1, 1000 do "
                                       "redis.call('ZADD', KEYS[1], i, i .. string.rep('x', ARGV[1])) end "
                                       "return redis.call('ZCARD', KEYS[1])",
                                       key, length),
                     1000);
}

/* It would be too long an answer, and cost the connection that all share. */
static void a_look_asks_for_no_more_than_can_be_ours(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    locker_info info;
    begin(env->server->port, "");
    assert_int_equal(come(&asker, "long"), LOCKER_OK);
    lk_server_do(env->server, "SETRANGE {long}:locker:info 2000000 x");
    lk_server_do(env->server, "SETRANGE {long}:locker:fence 2000000 x");
    fill_queue(env->server, "long", "2000");
    assert_int_equal(show("long", patience_ns, &info), LOCKER_OK);
    assert_true(info.held);
    assert_int_equal(info.waiters, 1000);
    assert_int_equal(alone.lost, 0);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

/* The server closes a connection on which it has so much to say. */
static void a_look_that_costs_the_connection_is_not_made_for_ever(void **state)
{
    lk_env *env = *state;
    locker_info info;
    begin(env->server->port, "");
    lk_server_do(env->server, "SET dear somebody");
    fill_queue(env->server, "dear", "200");
    lk_server_do(env->server, "CONFIG SET client-output-buffer-limit %s", "normal 50000 0 0");
    assert_int_equal(show("dear", 5 * second_ns, &info), LOCKER_UNAVAILABLE);
    assert_in_range(alone.lost, 1, 3);
    end();
}

/* ------------------------------------------------------------------ what comes late ---- */

/* The connection may be there again before core has heard that it was not. */
static void an_outage_is_never_the_last_word(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(env->server->port, "");
    lk_server_kill(env->server);
    make(&asker, "outage");
    assert_int_equal(ask_for(&asker, second_ns / 10), LOCKER_UNAVAILABLE);
    assert_true(of(&asker)->retry_at > 0);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

static void look_after_notes(void)
{
    (void)lk_redis_driver.dispatch(alone.self);
    alone.ahead += second_ns;
    (void)lk_redis_driver.dispatch(alone.self);
    ping();
}

static void a_late_note_is_not_written(void **state)
{
    lk_env *env = *state;
    struct asker kept, taken, over;
    begin(env->server->port, "");
    assert_int_equal(come(&kept, "kept"), LOCKER_OK);
    assert_int_equal(come(&taken, "taken"), LOCKER_OK);
    lk_server_do(env->server, "SET taken somebody");
    look_after_notes();
    assert_int_equal(lk_server_integer(env->server, "EXISTS {kept}:locker:info"), 1);
    assert_int_equal(lk_server_integer(env->server, "EXISTS {taken}:locker:info"), 0);
    assert_int_equal(come(&over, "over"), LOCKER_OK);
    alone.ahead += 90 * second_ns;
    look_after_notes();
    assert_int_equal(lk_server_integer(env->server, "EXISTS {over}:locker:info"), 0);
    lk_redis_driver.withdraw(alone.self, of(&kept));
    lk_redis_driver.withdraw(alone.self, of(&taken));
    lk_redis_driver.withdraw(alone.self, of(&over));
    end();
}

/* By the info of its grant, which is not older than some seconds. */
static bool is_dated_rightly(lk_server *server, const char *key)
{
    return lk_server_integer(server, "EVAL %s 1 {%s}:locker:info",
                             "local ms = string.match(redis.call('GET', KEYS[1]), ' (%d+) ') "
                             "local t = redis.call('TIME') "
                             "return math.abs(t[1] * 1000 - ms) < 15000 and 1 or 0",
                             key) == 1;
}

static void a_time_that_is_read_late_sets_none_back(void **state)
{
    lk_env *env = *state;
    struct asker first, fresh;
    begin(env->server->port, "");
    assert_int_equal(come(&first, "first"), LOCKER_OK);
    alone.ahead = 11 * second_ns;
    (void)lk_redis_driver.dispatch(alone.self);
    alone.ahead += second_ns;
    (void)lk_redis_driver.dispatch(alone.self); /* TIME is asked for */
    alone.ahead += 20 * second_ns;
    ping(); /* and read, after a stop */
    alone.ahead = 12 * second_ns;
    assert_int_equal(come(&fresh, "fresh"), LOCKER_OK);
    alone.ahead += second_ns;
    look_after_notes();
    assert_true(is_dated_rightly(env->server, "fresh"));
    give(&fresh);
    give(&first);
    end();
}

/* Its number is wasted, and nobody may ever take another; also not where the command that sees to it is lost. */
static void a_try_leaves_no_counter_for_ever(void **state)
{
    lk_env *env = *state;
    struct asker first, try;
    begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(come(&first, "released"), LOCKER_OK);
    give(&first); /* plain commands are used from here on */
    assert_int_equal(come(&first, "expired"), LOCKER_OK);
    lk_server_do(env->server, "DEL {expired}:locker:fence");
    make(&try, "expired");
    of(&try)->will_wait = false;
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, "PEXPIRE", 1, 0);
    assert_int_equal(ask(&try), LOCKER_BUSY);
    ping();
    lk_proxy_await_harm(env->proxy, 1);
    assert_int_equal(lk_server_integer(env->server, "EXISTS {expired}:locker:fence"), 1);
    assert_true(lk_server_integer(env->server, "TTL {expired}:locker:fence") > 0);
    lk_redis_driver.withdraw(alone.self, of(&try));
    give(&first);
    end();
}

/* One that lasts for ever is a foreign client's, and so is what is done about it. */
static void a_busy_try_leaves_an_old_counter_alone(void **state)
{
    lk_env *env = *state;
    struct asker first, try;
    begin(env->server->port, "");
    assert_int_equal(come(&first, "released"), LOCKER_OK);
    give(&first); /* plain commands are used from here on */
    lk_server_do(env->server, "SET old somebody");
    lk_server_do(env->server, "SET {old}:locker:fence 5");
    for (int i = 0; i < 2; i++) { /* the first finds that the counter is there */
        make(&try, "old");
        of(&try)->will_wait = false;
        assert_int_equal(ask(&try), LOCKER_BUSY);
        ping();
        assert_int_equal(lk_server_integer(env->server, "TTL {old}:locker:fence"), -1);
        lk_redis_driver.withdraw(alone.self, of(&try));
    }
    assert_int_equal(lk_server_integer(env->server, "EVAL %s 1 {old}:locker:fence",
                                       "return tonumber(redis.call('GET', KEYS[1]))"),
                     6);
    end();
}

static void a_counter_below_0_is_lifted(void **state)
{
    lk_env *env = *state;
    struct asker first, try;
    begin(env->server->port, "");
    assert_int_equal(come(&first, "below"), LOCKER_OK);
    give(&first); /* plain commands are used from here on */
    lk_server_do(env->server, "SET {below}:locker:fence -5");
    make(&try, "below");
    of(&try)->will_wait = false;
    assert_int_equal(ask(&try), LOCKER_OK);
    assert_true(of(&try)->token > of(&first)->token);
    assert_true(of(&try)->token < UINT64_C(1) << 53);
    give(&try);
    end();
}

/* Others have the lock while it is under way, and then all data are lost: no time that it brings along starts the counter. */
static void an_attempt_that_arrives_late_sets_no_token_back(void **state)
{
    lk_env *env = *state;
    struct asker first, late;
    locker *rival = lk_open_at(env->server, "");
    lk_give(lk_take(rival, "released", NULL));
    begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(come(&first, "released"), LOCKER_OK);
    give(&first); /* plain commands are used from here on */
    lk_proxy_hold(env->proxy, true, false);
    make(&late, "late");
    of(&late)->will_wait = false;
    assert_int_not_equal(ask_for(&late, second_ns / 100), LOCKER_OK);
    locker_handle *held = lk_take(rival, "late", NULL);
    const uint64_t last = locker_handle_token(held);
    lk_give(held);
    lk_server_do(env->server, "FLUSHALL");
    lk_server_do(env->server, "SET late somebody");
    lk_proxy_hold(env->proxy, false, false);
    ping();
    lk_redis_driver.withdraw(alone.self, of(&late));
    lk_server_do(env->server, "DEL late");
    held = lk_take(rival, "late", NULL);
    assert_true(locker_handle_token(held) > last);
    lk_give(held);
    lk_close_locker(rival);
    end();
}

/* The server's time may be denied at first, and is asked for again now and then. */
static void a_time_that_is_told_later_is_taken(void **state)
{
    lk_env *env = *state;
    struct asker first, second;
    lk_server_do(env->server, "ACL SETUSER default -time");
    begin(env->server->port, "&fencing=off");
    assert_int_equal(come(&first, "timeless"), LOCKER_OK);
    lk_server_do(env->server, "ACL SETUSER default +time");
    alone.ahead = 11 * second_ns;
    look_after_notes();
    assert_int_equal(come(&second, "timely"), LOCKER_OK);
    alone.ahead += second_ns;
    look_after_notes();
    assert_true(is_dated_rightly(env->server, "timely"));
    give(&second);
    give(&first);
    end();
}

/* ------------------------------------------------------------------ the queue ---- */

static atomic_bool told_enough;

static void *ask_again_and_again(void *argument)
{
    while (!told_enough)
        assert_int_equal(ask(argument), LOCKER_BUSY);
    return NULL;
}

/* For a checker of races. */
static void messages_come_while_a_claim_asks(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    char member[256], instance[33], value[33];
    pthread_t thread;
    begin(env->server->port, "");
    lk_server_do(env->server, "SET told somebody");
    enrol(&asker, env->server, "told");
    read_member(env->server, "told", member, instance, value);
    assert_int_equal(pthread_create(&thread, NULL, ask_again_and_again, &asker), 0);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(lk_server_integer(env->server, "EVAL %s 2 %s %s",
                                           "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                                           "KEYS[2] .. ' 0 0 told')",
                                           instance, value),
                         1);
        require_told(&asker.wakes, "it should be told to ask");
    }
    told_enough = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

/* A lease of 300,000 years is as good as any. */
static void a_foreign_lease_may_last_for_ages(void **state)
{
    lk_env *env = *state;
    struct asker asker;
    begin(env->server->port, "&poll=1s");
    lk_server_do(env->server, "SET ages somebody PX 9300000000000");
    const int64_t before = now(NULL);
    assert_int_equal(come(&asker, "ages"), LOCKER_BUSY);
    assert_true(of(&asker)->retry_at >= before + second_ns);
    lk_redis_driver.withdraw(alone.self, of(&asker));
    end();
}

static double score_of_the_first(lk_server *server, const char *key)
{
    char text[64];
    assert_true(lk_server_text(server, text, sizeof text, "EVAL %s 1 {%s}:locker:queue",
                               "return redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]", key));
    return strtod(text, NULL);
}

static bool is_early_in_a_second(void *context)
{
    (void)context;
    return wall_us() % 1000000 <= 50000;
}

/* Early in a second, too, when the microseconds have few digits. */
static void the_queue_is_in_order_of_time(void **state)
{
    lk_env *env = *state;
    struct asker first, early;
    double score;
    begin(env->server->port, "");
    lk_server_do(env->server, "SET early somebody");
    enrol(&first, env->server, "early");
    lk_redis_driver.withdraw(alone.self, of(&first));
    ping();
    lk_require(is_early_in_a_second, NULL, "a second should begin");
    assert_int_equal(come(&early, "early"), LOCKER_BUSY);
    score = score_of_the_first(env->server, "early");
    assert_true(score > (double)(wall_us() - minute_us) && score < (double)(wall_us() + minute_us));
    lk_redis_driver.withdraw(alone.self, of(&early));
    end();
}

static bool is_granted(void *asker)
{
    const locker_status status = ask(asker);
    assert_true(status == LOCKER_OK || status == LOCKER_BUSY);
    return status == LOCKER_OK;
}

/* A lock that was handed on for long is left free for a moment; who is the first stays so, and is told. */
static void a_free_moment_takes_no_place(void **state)
{
    lk_env *env = *state;
    struct asker first, second;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "moment", NULL);
    char member[256], instance[33], value[33];
    double score;
    begin(env->server->port, "");
    enrol(&first, env->server, "moment");
    lk_give(held);
    require_told(&first.wakes, "it should be handed the lock");
    assert_int_equal(ask(&first), LOCKER_OK);
    assert_int_equal(come(&second, "moment"), LOCKER_BUSY);
    score = score_of_the_first(env->server, "moment");
    alone.ahead = second_ns;
    give(&first);
    assert_int_equal(lk_server_integer(env->server, "EXISTS moment"), 0);
    assert_true(score_of_the_first(env->server, "moment") == score);
    read_member(env->server, "moment", member, instance, value);
    require_told(&second.wakes, "it should be told to ask");
    lk_require(is_granted, &second, "it should have the lock when the moment is over");
    give(&second);
    lk_close_locker(rival);
    end();
}

static const struct CMUnitTest tests[] = {
    server_test(a_lease_that_another_server_confirmed_is_not_passed_on),
    server_test(a_lease_that_is_nearly_over_is_not_passed_on),
    server_test(no_more_hand_overs_than_numbers),
    server_test(a_renewal_under_way_tells_of_who_has_it),
    server_test(who_was_passed_a_lock_hears_of_its_break),
    server_test(renewals_tell_nothing_of_what_is_gone),
    server_test(each_renewal_that_is_answered_extends),
    server_test(a_lease_is_lost_once),
    server_test(renewals_outlive_their_script),
    proxied_test(what_is_unanswered_goes_with_the_connection),
    server_test(a_renewal_extends_no_lock_of_another),
    proxied_test(a_renewal_that_was_lost_with_its_connection_is_made_again),
    server_test(a_release_takes_no_lock_of_another),
    proxied_test(a_proof_that_comes_after_the_lease_is_none),
    proxied_test(a_try_that_is_made_again_finds_its_own_lock),
    server_test(what_has_no_number_is_not_left_at_the_server),
    server_test(a_message_of_an_earlier_server_grants_nothing),
    proxied_test(who_only_listens_comes_back_soon),
    proxied_test(a_call_does_not_wait_for_the_next_look),
    proxied_test(a_message_from_before_the_attempt_moved_grants_nothing),
    proxied_test(a_message_from_before_the_first_attempt_moved_grants_nothing),
    proxied_test(a_message_from_before_an_unanswered_attempt_grants_nothing),
    server_test(who_is_handed_what_he_holds_has_lost_it),
    server_test(a_break_is_told_behind_a_late_hand_over),
    server_test(a_break_of_an_earlier_grant_takes_nothing),
    proxied_test(a_break_that_overtakes_the_grant_is_heard_of),
    server_test(a_message_is_no_word_of_the_replicas),
    server_test(what_too_few_replicas_have_is_given_back),
    proxied_test(a_master_that_becomes_a_replica_is_not_the_last_word),
    server_test(a_server_that_is_no_master_is_not_the_last_word),
    server_test(what_is_refused_is_given_back_later),
    server_test(what_is_refused_while_the_keeper_sends_is_given_back_later),
    server_test(messages_come_while_a_claim_asks),
    server_test(a_foreign_lease_may_last_for_ages),
    server_test(the_queue_is_in_order_of_time),
    server_test(a_free_moment_takes_no_place),
    proxied_test(who_closes_is_handed_nothing),
    server_test(a_lock_for_one_that_is_gone_is_given_back),
    server_test(a_message_of_another_lock_grants_nothing),
    server_test(a_look_asks_for_no_more_than_can_be_ours),
    server_test(a_look_that_costs_the_connection_is_not_made_for_ever),
    server_test(an_outage_is_never_the_last_word),
    server_test(a_late_note_is_not_written),
    server_test(a_time_that_is_read_late_sets_none_back),
    proxied_test(a_try_leaves_no_counter_for_ever),
    server_test(a_busy_try_leaves_an_old_counter_alone),
    server_test(a_counter_below_0_is_lifted),
    proxied_test(an_attempt_that_arrives_late_sets_no_token_back),
    server_test(a_time_that_is_told_later_is_taken),
};

const lk_group lk_driver = {"driver", tests, sizeof tests / sizeof tests[0], NULL, NULL};
