/* driver.c: what only an unlucky order of threads shows, by the driver alone (alone.h). */
#include "redis_tests.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "alone.h"

static const int64_t second_ns = 1000000000, minute_us = 60000000;
static const int64_t patience_ns = LK_TEST_PATIENCE_MS * INT64_C(1000000);

/* ------------------------------------------------------------------ renewals ---- */

/* Neither of two renewals under way tells anything when the claim has gone. */
static void renewals_report_nothing_of_a_removed_claim(void **state)
{
    lk_env *env = *state;
    lk_asker withdrawn, released;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&withdrawn, "withdrawn"), LOCKER_OK);
    lk_asker_renew(&withdrawn);
    lk_asker_renew(&withdrawn);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&withdrawn));
    lk_alone_ping();
    assert_int_equal(withdrawn.extended + withdrawn.lost, 0);
    assert_int_equal(lk_asker_come(&released, "released"), LOCKER_OK);
    lk_asker_renew(&released);
    lk_asker_give(&released);
    assert_int_equal(released.extended + released.lost, 0);
    lk_alone_end();
}

/* Core asks again while a server is slow to answer. Each answer proves the lease from its own sending. */
static void each_renewal_that_is_answered_extends(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&asker, "slow"), LOCKER_OK);
    lk_asker_renew(&asker);
    const int64_t first_sent = lk_alone_now();
    lk_alone.ahead = 20 * second_ns;
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.extended, 2);
    assert_in_range(asker.until[0], first_sent, first_sent + 90 * second_ns);
    assert_true(asker.until[1] > asker.until[0] + 19 * second_ns);
    lk_asker_give(&asker);
    lk_alone_end();
}

/* The first to be read says so, and another has the name by then. */
static void a_lease_is_lost_once(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&asker, "once"), LOCKER_OK);
    lk_server_do(env->server, "DEL once");
    lk_asker_renew(&asker);
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.lost, 1);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* A script that the server has forgotten is sent anew, for those that are still there. */
static void renewals_outlive_their_script(void **state)
{
    lk_env *env = *state;
    lk_asker kept, gone;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&gone, "gone"), LOCKER_OK);
    assert_int_equal(lk_asker_come(&kept, "kept"), LOCKER_OK);
    lk_server_do(env->server, "SCRIPT FLUSH");
    locker_claim *const both[] = {lk_asker_claim(&gone), lk_asker_claim(&kept)};
    lk_redis_driver.renew(lk_alone.self, both, 2);
    lk_asker_renew(&kept);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&gone));
    lk_alone_ping();
    lk_alone_ping();
    assert_int_equal(gone.extended + gone.lost, 0);
    assert_int_equal(kept.extended, 2);
    assert_int_equal(kept.lost, 0);
    lk_asker_give(&kept);
    lk_alone_end();
}

/* For a checker of leaks. */
static void unanswered_requests_are_freed_with_the_connection(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(lk_asker_come(&asker, "unanswered"), LOCKER_OK);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "EVALSHA", 1, 0);
    lk_asker_renew(&asker);
    lk_asker_renew(&asker);
    assert_int_equal(asker.extended, 0);
    lk_alone_end();
}

static bool is_logging_in(void *context)
{
    const lk_passed *const hello = context;
    (void)lk_redis_driver.dispatch(lk_alone.self);
    return lk_proxy_requests(hello->proxy, hello->kind) > hello->count;
}

static bool is_without_clients(void *context)
{
    char list[8192];
    const bool told = lk_server_text(context, list, sizeof list, "CLIENT LIST");
    return told && strchr(list, '\n') == strrchr(list, '\n'); /* the only one is the test's own */
}

/* The proxy keeps back what the driver's thread waits for while it connects. So the locker closes first, and the thread ends after that. */
static void end_before_its_thread(lk_env *env, lk_asker *asker)
{
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(asker)); /* as core does before it closes */
    lk_alone_end();
    lk_proxy_hold(env->proxy, false, false);
    lk_require(is_without_clients, env->server, "the thread should end, and the connections with it");
    assert_int_equal(lk_alone.late, 0);
}

static void a_renewal_that_outlives_the_close_uses_no_clock(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(lk_proxy_port(env->proxy), "&connect_timeout=2m&cleanup_timeout=1ms");
    assert_int_equal(lk_asker_come(&asker, "outlived"), LOCKER_OK);
    lk_passed hello = lk_proxy_passed(env->proxy, "HELLO");
    lk_proxy_hold(env->proxy, false, true);
    lk_alone.ahead = second_ns; /* a grant as old as that is noted, and its holder subscribes */
    lk_require(is_logging_in, &hello, "the driver's thread should connect");
    lk_asker_renew(&asker);
    end_before_its_thread(env, &asker);
    assert_int_equal(asker.extended, 0);
}

static atomic_int named_port;

static size_t name_master(const lk_message *request, char *out, size_t size)
{
    char port[8];
    (void)request;
    const int length = snprintf(port, sizeof port, "%d", named_port);
    return (size_t)snprintf(out, size, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", length, port);
}

/* The proxy plays the Sentinel. It names another master, to which the thread connects while the locker closes. */
static void a_doubt_that_outlives_the_close_uses_no_clock(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    char hosts[64];
    lk_proxy_answer(env->proxy, "GET-MASTER-ADDR-BY-NAME", name_master);
    named_port = env->server->port;
    (void)snprintf(hosts, sizeof hosts, "127.0.0.1:%d/the-master", lk_proxy_port(env->proxy));
    lk_alone_begin_sentinels(hosts,
                             "&connect_timeout=2m&cleanup_timeout=1ms&wait_replicas=1&wait_timeout=1ms");
    const lk_passed hello = lk_proxy_passed(env->proxy, "HELLO");
    named_port = lk_proxy_port(env->proxy);
    lk_proxy_hold(env->proxy, false, true);
    assert_int_equal(lk_asker_come(&asker, "doubted"), LOCKER_UNAVAILABLE);
    lk_proxy_await_passed(hello, 1);
    end_before_its_thread(env, &asker);
}

static void a_renewal_extends_no_lock_of_another(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&asker, "other"), LOCKER_OK);
    lk_server_do(env->server, "SET other somebody PX 20000");
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.extended, 0);
    assert_int_equal(asker.lost, 1);
    assert_in_range(lk_server_integer(env->server, "PTTL other"), 1, 20000);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

static bool is_withheld(void *context)
{
    (void)lk_redis_driver.dispatch(lk_alone.self);
    return lk_proxy_harmed(context) == 1;
}

/* Core asks at once for what was not confirmed, when it is told that the server is there again. */
static void a_renewal_that_was_lost_with_its_connection_is_made_again(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(lk_asker_come(&asker, "lost"), LOCKER_OK);
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, "EVALSHA", 1, 0);
    lk_asker_renew(&asker);
    lk_require(is_withheld, env->proxy, "the renewal should be sent on the first connection");
    lk_alone.ahead = 30 * second_ns;
    lk_require_told(&lk_alone.lost, "it should lose the connection");
    lk_require_told(&lk_alone.found, "it should connect again");
    assert_int_equal(asker.extended, 0);
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.extended, 1);
    assert_int_equal(asker.lost, 0);
    lk_asker_give(&asker);
    lk_alone_end();
}

static void a_release_takes_no_lock_of_another(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    locker_error err;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&asker, "other"), LOCKER_OK);
    lk_server_do(env->server, "SET other somebody");
    assert_status(
        LOCKER_LOST,
        lk_redis_driver.release(lk_alone.self, lk_asker_claim(&asker), lk_alone_now() + patience_ns, &err),
        err);
    lk_expect_value(env->server, "other", "somebody");
    lk_alone_end();
}

/* ------------------------------------------------------------------ proofs ---- */

static void *release_in_time(void *argument)
{
    static locker_status status;
    status = lk_redis_driver.release(lk_alone.self, lk_asker_claim(argument),
                                     lk_alone_now() + 1000 * second_ns, NULL);
    return &status;
}

/* Who asks again when the lease is over finds it gone in any case. */
static void a_proof_that_comes_after_the_lease_is_none(void **state)
{
    static lk_asker asker;
    lk_env *env = *state;
    pthread_t thread;
    void *status;
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(lk_asker_come(&asker, "proof"), LOCKER_OK);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, "proof", 1, 0);
    lk_proxy_refuse(env->proxy, true);
    assert_int_equal(pthread_create(&thread, NULL, release_in_time, &asker), 0);
    lk_proxy_await_harm(env->proxy, 1);
    lk_alone.ahead = 91 * second_ns;
    lk_proxy_refuse(env->proxy, false);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal(*(locker_status *)status, LOCKER_UNKNOWN);
    lk_alone_end();
}

/* The answer to a try was lost. The repeated try returns the lock that the first one took, and not BUSY. */
static void a_try_that_is_made_again_finds_its_own_lock(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    locker_error err;
    /* without numbers, of which the first on a new connection is the script's anyway */
    lk_alone_begin(lk_proxy_port(env->proxy), "&fencing=off");
    assert_int_equal(lk_asker_come(&asker, "try"), LOCKER_OK);
    lk_asker_give(&asker);
    lk_asker_make(&asker, "try");
    lk_asker_claim(&asker)->will_wait = false;
    lk_asker_claim(&asker)->asked_at = lk_alone_now();
    lk_asker_claim(&asker)->attempt_until = lk_alone_now() + second_ns / 5;
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "try", 1, 0);
    assert_int_equal(lk_redis_driver.acquire(lk_alone.self, lk_asker_claim(&asker), &err), LOCKER_TIMEOUT);
    assert_int_equal(lk_server_integer(env->server, "EXISTS try"), 1);
    lk_proxy_cut_all(env->proxy);
    lk_alone_ping(); /* by a new connection */
    assert_int_equal(lk_asker_ask(&asker), LOCKER_OK);
    lk_asker_give(&asker);
    lk_alone_end();
}

/* Its process may end before it could give it back. */
static void a_grant_without_a_token_is_not_left_at_the_server(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "");
    lk_server_do(env->server, "SET %s a", lk_fence_key("numberless"));
    assert_int_equal(lk_asker_come(&asker, "numberless"), LOCKER_PROTOCOL);
    assert_int_equal(lk_server_integer(env->server, "EXISTS numberless"), 0);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* A connection on which nothing is asked for but the subscription beside it was of use: what is lost again
 * and again, as servers start anew, is not waited for longer and longer. (Without INFO each server is taken
 * for another.) */
static void a_connection_used_only_to_listen_reconnects_soon(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_server_do(env->server, "ACL SETUSER default -info");
    lk_server_do(env->server, "SET listened somebody");
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    lk_asker_enrol(&asker, env->server, "listened");
    lk_alone.longest = 0;
    for (int i = 0; i < 8; i++) {
        asker.wakes = 0;
        lk_proxy_cut_all(env->proxy);
        lk_require_told(&asker.wakes, "it should subscribe again");
    }
    assert_true(lk_alone.longest <= second_ns / 5);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* The server is away, until the driver waits for half a second before it looks again. Then it is back. */
static int64_t be_away_for_long(lk_env *env)
{
    lk_asker asker;
    lk_asker_make(&asker, "away");
    lk_asker_claim(&asker)->has_waited = true;
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    do
        assert_int_not_equal(lk_asker_ask_for(&asker, second_ns / 10), LOCKER_OK);
    while (lk_alone.until - lk_alone_now() < second_ns / 2);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_proxy_refuse(env->proxy, false);
    return lk_alone.until;
}

/* A call that waits may have less time than that. (It may take that long by itself, on a machine that is
 * busy.) */
static void a_call_does_not_wait_for_the_next_poll(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    bool sooner = false;
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    for (int round = 0; round < 5 && !sooner; round++) {
        const int64_t looks_at = be_away_for_long(env);
        assert_int_equal(lk_asker_come(&asker, "away"), LOCKER_OK);
        sooner = lk_alone_now() < looks_at;
        lk_asker_give(&asker);
    }
    assert_true(sooner);
    lk_alone_end();
}

/* ------------------------------------------------------------------ replicas, and refusals ---- */

/* Those who ask for no replica have their turn between the attempts of one that does. */
static void a_grant_that_too_few_replicas_have_is_given_back(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    locker *rival = lk_open_at(env->server, "");
    lk_alone_begin(env->server->port, "&wait_replicas=1&wait_timeout=50ms");
    assert_int_equal(lk_asker_come(&asker, "few"), LOCKER_UNAVAILABLE);
    for (int i = 0; i < 3; i++) {
        lk_alone_ping();
        assert_int_equal(lk_server_integer(env->server, "EXISTS few"), 0);
        lk_give(lk_take(rival, "few"));
        assert_int_equal(lk_asker_ask(&asker), LOCKER_UNAVAILABLE);
    }
    lk_redis_driver.interrupt(lk_alone.self, lk_asker_claim(&asker));
    assert_int_equal(lk_asker_ask(&asker), LOCKER_CANCELED); /* what was asked of it lasts */
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_close_locker(rival);
    lk_alone_end();
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
static void a_master_that_becomes_a_replica_ends_no_call(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(lk_proxy_port(env->proxy), "&wait_replicas=1&wait_timeout=1ms");
    for (unsigned round = 0; round < 2; round++) {
        lk_proxy_forge(env->proxy, "WAIT", round == 0 ? unblocked : no_master);
        assert_int_equal(lk_asker_come(&asker, "unblocked"), LOCKER_UNAVAILABLE);
        lk_proxy_await_harm(env->proxy, round + 1);
        assert_true(lk_asker_claim(&asker)->retry_at > 0);
        lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    }
    lk_alone_end();
}

static void a_server_that_is_no_master_ends_no_call(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_server_do(env->server, "ACL SETUSER default -role");
    lk_alone_begin(env->server->port, "");
    lk_server_do(env->server, "SET moving somebody");
    lk_asker_enrol(&asker, env->server, "moving");
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", lk_free_port());
    assert_int_equal(lk_asker_ask(&asker), LOCKER_UNAVAILABLE);
    assert_true(lk_asker_claim(&asker)->retry_at > 0);
    lk_server_do(env->server, "REPLICAOF NO ONE");
    lk_server_do(env->server, "DEL moving");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_OK);
    lk_asker_give(&asker);
    lk_alone_end();
}

static bool is_given_back(void *context)
{
    const lk_env *env = context;
    lk_alone.ahead += second_ns / 10;
    (void)lk_redis_driver.dispatch(lk_alone.self);
    return lk_server_integer(env->server, "EXISTS refused") == 0;
}

/* Whose thread ever read that it was refused: another time for it is asked for. */
static void a_refused_release_is_retried_later(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&asker, "refused"), LOCKER_OK);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 1");
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone.attends = 0;
    lk_alone_ping();
    assert_true(lk_alone.attends > 0);
    assert_int_equal(lk_server_integer(env->server, "EXISTS refused"), 1);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 0");
    lk_require(is_given_back, env, "it should be given back");
    lk_alone_end();
}

static atomic_bool stands_still; /* behind what is sent next */
static pthread_t beside;         /* who asks meanwhile */

static void *ping_beside(void *none)
{
    (void)none;
    assert_int_equal(lk_redis_driver.ping(lk_alone.self, lk_alone_now() + patience_ns, NULL), LOCKER_OK);
    return NULL;
}

/* The library's calls of send() (CMakeLists.txt). */
ssize_t __real_send(int, const void *, size_t, int);
ssize_t __wrap_send(int, const void *, size_t, int);

atomic_int lk_short_sends;
atomic_uint lk_loud_sends;

ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags)
{
    static atomic_uint times;
    const size_t most = (size_t)lk_short_sends;
    if ((flags & MSG_NOSIGNAL) == 0)
        lk_loud_sends++;
    if (most > 0 && (flags & MSG_DONTWAIT) != 0) {
        if (times++ % 2 == 0) {
            errno = EAGAIN;
            return -1;
        }
        return __real_send(fd, bytes, count < most ? count : most, flags);
    }
    const ssize_t sent = __real_send(fd, bytes, count, flags);
    if (!atomic_exchange(&stands_still, false))
        return sent;
    lk_alone.attends = 0;
    assert_int_equal(pthread_create(&beside, NULL, ping_beside, NULL), 0);
    for (int i = 0; i < LK_TEST_PATIENCE_MS && lk_alone.attends == 0; i++)
        poll(NULL, 0, 1); /* the test fails outside of the driver */
    return sent;
}

/* The keeper has looked, and is sending; its clean-up's refusal is read by somebody who asks beside it. */
static void a_release_refused_while_the_keeper_sends_is_retried_later(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&asker, "refused"), LOCKER_OK);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 1");
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_ping();
    lk_alone.ahead += second_ns / 10;
    stands_still = true;
    (void)lk_redis_driver.dispatch(lk_alone.self);
    assert_false(stands_still);
    lk_join(beside, "who asks beside the keeper");
    assert_true(lk_alone.attends > 0);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 0");
    lk_require(is_given_back, env, "it should be given back");
    lk_alone_end();
}

/* ------------------------------------------------------------------ looks ---- */

static locker_status show(const char *key, int64_t patience, locker_info *info)
{
    *info = (locker_info)LOCKER_INFO_INIT;
    const locker_status status =
        lk_redis_driver.show(lk_alone.self, key, strlen(key), lk_alone_now() + patience, info, NULL);
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
static void a_query_reads_no_more_than_our_longest_value(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    locker_info info;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&asker, "long"), LOCKER_OK);
    lk_server_do(env->server, "SETRANGE {long}:locker:info 2000000 x");
    lk_server_do(env->server, "SETRANGE %s 2000000 x", lk_fence_key("long"));
    fill_queue(env->server, "long", "2000");
    assert_int_equal(show("long", patience_ns, &info), LOCKER_OK);
    assert_true(info.held);
    assert_int_equal(info.waiters, 1000);
    assert_int_equal(lk_alone.lost, 0);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* The server closes a connection on which it has so much to say. */
static void a_query_that_ends_the_connection_is_not_repeated_for_ever(void **state)
{
    lk_env *env = *state;
    locker_info info;
    lk_alone_begin(env->server->port, "");
    lk_server_do(env->server, "SET dear somebody");
    fill_queue(env->server, "dear", "200");
    lk_server_do(env->server, "CONFIG SET client-output-buffer-limit %s", "normal 50000 0 0");
    assert_int_equal(show("dear", 5 * second_ns, &info), LOCKER_UNAVAILABLE);
    assert_in_range(lk_alone.lost, 1, 3);
    lk_alone_end();
}

/* ------------------------------------------------------------------ what comes late ---- */

/* The connection may be there again before core has heard that it was not. */
static void an_outage_ends_no_waiting_call(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "");
    lk_server_kill(env->server);
    lk_asker_make(&asker, "outage");
    assert_int_equal(lk_asker_ask_for(&asker, second_ns / 10), LOCKER_UNAVAILABLE);
    assert_true(lk_asker_claim(&asker)->retry_at > 0);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

static void look_after_notes(void)
{
    (void)lk_redis_driver.dispatch(lk_alone.self);
    lk_alone.ahead += second_ns;
    (void)lk_redis_driver.dispatch(lk_alone.self);
    lk_alone_ping();
}

static void a_late_note_is_not_written(void **state)
{
    lk_env *env = *state;
    lk_asker kept, taken, over;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&kept, "kept"), LOCKER_OK);
    assert_int_equal(lk_asker_come(&taken, "taken"), LOCKER_OK);
    lk_server_do(env->server, "SET taken somebody");
    look_after_notes();
    assert_int_equal(lk_server_integer(env->server, "EXISTS {kept}:locker:info"), 1);
    assert_int_equal(lk_server_integer(env->server, "EXISTS {taken}:locker:info"), 0);
    assert_int_equal(lk_asker_come(&over, "over"), LOCKER_OK);
    lk_alone.ahead += 90 * second_ns;
    look_after_notes();
    assert_int_equal(lk_server_integer(env->server, "EXISTS {over}:locker:info"), 0);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&kept));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&taken));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&over));
    lk_alone_end();
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
    lk_asker first, fresh;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&first, "first"), LOCKER_OK);
    lk_alone.ahead = 11 * second_ns;
    (void)lk_redis_driver.dispatch(lk_alone.self);
    lk_alone.ahead += second_ns;
    (void)lk_redis_driver.dispatch(lk_alone.self); /* TIME is asked for */
    lk_alone.ahead += 20 * second_ns;
    lk_alone_ping(); /* and read, after a stop */
    lk_alone.ahead = 12 * second_ns;
    assert_int_equal(lk_asker_come(&fresh, "fresh"), LOCKER_OK);
    lk_alone.ahead += second_ns;
    look_after_notes();
    assert_true(is_dated_rightly(env->server, "fresh"));
    lk_asker_give(&fresh);
    lk_asker_give(&first);
    lk_alone_end();
}

static void a_counter_below_0_is_lifted(void **state)
{
    lk_env *env = *state;
    lk_asker first, try;
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&first, "below"), LOCKER_OK);
    lk_asker_give(&first); /* plain commands are used from here on */
    lk_server_do(env->server, "SET %s -5", lk_fence_key("below"));
    lk_asker_make(&try, "below");
    lk_asker_claim(&try)->will_wait = false;
    assert_int_equal(lk_asker_ask(&try), LOCKER_OK);
    assert_true(lk_asker_claim(&try)->token > lk_asker_claim(&first)->token);
    assert_true(lk_asker_claim(&try)->token < UINT64_C(1) << 53);
    lk_asker_give(&try);
    lk_alone_end();
}

/* Others have the lock while it is under way, and then all data are lost: no time that it brings along starts
 * the counter. */
static void an_attempt_that_arrives_late_sets_no_token_back(void **state)
{
    lk_env *env = *state;
    lk_asker first, late;
    locker *rival = lk_open_at(env->server, "");
    lk_give(lk_take(rival, "released"));
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(lk_asker_come(&first, "released"), LOCKER_OK);
    lk_asker_give(&first); /* plain commands are used from here on */
    lk_proxy_hold(env->proxy, true, false);
    lk_asker_make(&late, "late");
    lk_asker_claim(&late)->will_wait = false;
    assert_int_not_equal(lk_asker_ask_for(&late, second_ns / 100), LOCKER_OK);
    locker_handle *held = lk_take(rival, "late");
    const uint64_t last = locker_handle_token(held);
    lk_give(held);
    lk_server_do(env->server, "FLUSHALL");
    lk_server_do(env->server, "SET late somebody");
    lk_proxy_hold(env->proxy, false, false);
    lk_alone_ping();
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&late));
    lk_server_do(env->server, "DEL late");
    held = lk_take(rival, "late");
    assert_true(locker_handle_token(held) > last);
    lk_give(held);
    lk_close_locker(rival);
    lk_alone_end();
}

/* The server's time may be denied at first, and is asked for again now and then. */
static void a_server_time_that_is_denied_at_first_is_read_later(void **state)
{
    lk_env *env = *state;
    lk_asker first, second;
    lk_server_do(env->server, "ACL SETUSER default -time");
    lk_alone_begin(env->server->port, "&fencing=off");
    assert_int_equal(lk_asker_come(&first, "timeless"), LOCKER_OK);
    lk_server_do(env->server, "ACL SETUSER default +time");
    lk_alone.ahead = 11 * second_ns;
    look_after_notes();
    assert_int_equal(lk_asker_come(&second, "timely"), LOCKER_OK);
    lk_alone.ahead += second_ns;
    look_after_notes();
    assert_true(is_dated_rightly(env->server, "timely"));
    lk_asker_give(&second);
    lk_asker_give(&first);
    lk_alone_end();
}

/* ------------------------------------------------------------------ the queue ---- */

static int64_t wall_us(void)
{
    struct timespec time;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &time), 0);
    return time.tv_sec * INT64_C(1000000) + time.tv_nsec / 1000;
}

static atomic_bool told_enough;

static void *ask_again_and_again(void *argument)
{
    while (!told_enough)
        assert_int_equal(lk_asker_ask(argument), LOCKER_BUSY);
    return NULL;
}

/* For a checker of races. */
static void messages_come_while_a_claim_asks(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    char member[256], instance[33], value[33];
    pthread_t thread;
    lk_alone_begin(env->server->port, "");
    lk_server_do(env->server, "SET told somebody");
    lk_asker_enrol(&asker, env->server, "told");
    lk_read_member(env->server, "told", member, instance, value);
    assert_int_equal(pthread_create(&thread, NULL, ask_again_and_again, &asker), 0);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(lk_server_integer(env->server, "EVAL %s 2 %s %s",
                                           "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                                           "KEYS[2] .. ' 0/0 0 told')",
                                           instance, value),
                         1);
        lk_require_told(&asker.wakes, "it should be told to ask");
    }
    told_enough = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* A lease of 300,000 years is as good as any. */
static void a_foreign_lease_may_last_for_ages(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "&poll=1s");
    lk_server_do(env->server, "SET ages somebody PX 9300000000000");
    const int64_t before = lk_alone_now();
    assert_int_equal(lk_asker_come(&asker, "ages"), LOCKER_BUSY);
    assert_true(lk_asker_claim(&asker)->retry_at >= before + second_ns);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
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
    lk_asker first, early;
    double score;
    lk_alone_begin(env->server->port, "");
    lk_server_do(env->server, "SET early somebody");
    lk_asker_enrol(&first, env->server, "early");
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&first));
    lk_alone_ping();
    lk_require(is_early_in_a_second, NULL, "a second should begin");
    assert_int_equal(lk_asker_come(&early, "early"), LOCKER_BUSY);
    score = score_of_the_first(env->server, "early");
    assert_true(score > (double)(wall_us() - minute_us) && score < (double)(wall_us() + minute_us));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&early));
    lk_alone_end();
}

static bool is_granted(void *asker)
{
    const locker_status status = lk_asker_ask(asker);
    assert_true(status == LOCKER_OK || status == LOCKER_BUSY);
    return status == LOCKER_OK;
}

/* A lock that was handed on for long is left free for a moment; who is the first stays so, and is told. */
static void a_lock_left_free_for_a_moment_keeps_the_queue(void **state)
{
    lk_env *env = *state;
    lk_asker first, second;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "moment");
    char member[256], instance[33], value[33];
    double score;
    lk_alone_begin(env->server->port, "");
    lk_asker_enrol(&first, env->server, "moment");
    lk_give(held);
    lk_require_told(&first.wakes, "it should be handed the lock");
    assert_int_equal(lk_asker_ask(&first), LOCKER_OK);
    assert_int_equal(lk_asker_come(&second, "moment"), LOCKER_BUSY);
    score = score_of_the_first(env->server, "moment");
    lk_alone.ahead = second_ns;
    lk_asker_give(&first);
    assert_int_equal(lk_server_integer(env->server, "EXISTS moment"), 0);
    assert_true(score_of_the_first(env->server, "moment") == score);
    lk_read_member(env->server, "moment", member, instance, value);
    lk_require_told(&second.wakes, "it should be told to ask");
    lk_require(is_granted, &second, "it should have the lock when the moment is over");
    lk_asker_give(&second);
    lk_close_locker(rival);
    lk_alone_end();
}

/* A server that refuses all for hours would have one for each call that has given up. A member has its owner's name. */
static void a_place_that_was_refused_is_not_taken_out(void **state)
{
    lk_env *env = *state;
    lk_asker waits, refused;
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    lk_server_do(env->server, "SET refused somebody");
    lk_asker_enrol(&waits, env->server, "refused"); /* messages are heard: the next would have a place */
    lk_server_do(env->server, "CONFIG SET maxmemory 1");
    assert_int_equal(lk_asker_come(&refused, "refused"), LOCKER_UNAVAILABLE);
    lk_server_do(env->server, "CONFIG SET maxmemory 0");
    lk_require_queue(env->server, "refused", 1);
    const unsigned named = lk_proxy_requests(env->proxy, lk_asker_claim(&refused)->owner);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&refused));
    lk_alone_ping();
    assert_int_equal(lk_proxy_requests(env->proxy, lk_asker_claim(&refused)->owner), named);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&waits));
    lk_alone_ping();
    assert_int_equal(lk_proxy_requests(env->proxy, lk_asker_claim(&refused)->owner), named + 1);
    lk_alone_end();
}

static const struct CMUnitTest tests[] = {
    server_test(renewals_report_nothing_of_a_removed_claim),
    server_test(each_renewal_that_is_answered_extends),
    server_test(a_lease_is_lost_once),
    server_test(renewals_outlive_their_script),
    proxied_test(unanswered_requests_are_freed_with_the_connection),
    proxied_test(a_renewal_that_outlives_the_close_uses_no_clock),
    proxied_test(a_doubt_that_outlives_the_close_uses_no_clock),
    server_test(a_renewal_extends_no_lock_of_another),
    proxied_test(a_renewal_that_was_lost_with_its_connection_is_made_again),
    server_test(a_release_takes_no_lock_of_another),
    proxied_test(a_proof_that_comes_after_the_lease_is_none),
    proxied_test(a_try_that_is_made_again_finds_its_own_lock),
    server_test(a_grant_without_a_token_is_not_left_at_the_server),
    proxied_test(a_connection_used_only_to_listen_reconnects_soon),
    proxied_test(a_call_does_not_wait_for_the_next_poll),
    server_test(a_grant_that_too_few_replicas_have_is_given_back),
    proxied_test(a_master_that_becomes_a_replica_ends_no_call),
    server_test(a_server_that_is_no_master_ends_no_call),
    server_test(a_refused_release_is_retried_later),
    server_test(a_release_refused_while_the_keeper_sends_is_retried_later),
    server_test(messages_come_while_a_claim_asks),
    server_test(a_foreign_lease_may_last_for_ages),
    server_test(the_queue_is_in_order_of_time),
    server_test(a_lock_left_free_for_a_moment_keeps_the_queue),
    server_test(a_query_reads_no_more_than_our_longest_value),
    server_test(a_query_that_ends_the_connection_is_not_repeated_for_ever),
    server_test(an_outage_ends_no_waiting_call),
    server_test(a_late_note_is_not_written),
    server_test(a_time_that_is_read_late_sets_none_back),
    server_test(a_counter_below_0_is_lifted),
    proxied_test(an_attempt_that_arrives_late_sets_no_token_back),
    server_test(a_server_time_that_is_denied_at_first_is_read_later),
    proxied_test(a_place_that_was_refused_is_not_taken_out),
};

const lk_group lk_driver = {"driver", tests, sizeof tests / sizeof tests[0], NULL, NULL};
