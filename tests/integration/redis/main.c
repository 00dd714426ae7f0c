/* main.c: the groups of tests, and what they share. */
#include "redis_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lk_group *const groups[] = {&lk_restarts,
                                         &lk_logins,
                                         &lk_refusals,
                                         &lk_replies,
                                         &lk_clients,
                                         &lk_operators,
                                         &lk_foreign,
                                         &lk_hostile,
                                         &lk_failovers,
                                         &lk_addresses,
                                         &lk_sentinels,
                                         &lk_grants,
                                         &lk_driver,
                                         &lk_passing,
                                         &lk_messages,
                                         &lk_waiters,
                                         &lk_sharing,
                                         &lk_recovery,
#ifdef LK_CLOCK_SHIM
                                         &lk_clocks,
#endif
                                         &lk_cluster_well,
                                         &lk_cluster_slots,
                                         &lk_cluster_faults,
                                         &lk_cluster_down,
#ifdef LK_TEST_TLS
                                         &lk_tls,
                                         &lk_sentinels_tls,
#endif
                                         NULL};

/* ------------------------------------------------------------------ environments ---- */

static int start(void **state, const char *const *options)
{
    lk_env *env = calloc(1, sizeof *env);
    if (env == NULL)
        return -1;
    *state = env;
    env->server = lk_test_redis(options);
    return 0;
}

int lk_env_plain(void **state)
{
    return start(state, NULL);
}

int lk_env_durable(void **state)
{
    static const char *const options[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    return start(state, options);
}

int lk_env_proxied(void **state)
{
    lk_env *env;
    if (start(state, NULL) != 0)
        return -1;
    env = *state;
    env->proxy = lk_proxy_begin(&lk_proxy_redis, env->server->port);
    return 0;
}

int lk_env_end(void **state)
{
    lk_env *env = *state;
    if (env == NULL)
        return 0;
    lk_child_kill(env->child);
    lk_proxy_free(env->proxy);
#ifdef LK_TEST_TLS
    lk_tls_front_free(env->front);
#endif
    lk_test_redis_free(env->second);
    lk_test_redis_free(env->server);
    free(env);
    return 0;
}

/* ------------------------------------------------------------------ shared by the groups ---- */

static locker *open_port(int port, const char *query)
{
    locker_error err;
    locker *l;
    assert_ok(lk_try_uri(&l, &err, "redis://127.0.0.1:%d/0%s%s", port, query[0] ? "?" : "", query), err);
    return l;
}

long long lk_calls_of(lk_server *server, const char *command)
{
    char text[16384], name[64];
    const char *line, *calls;
    lk_server_text(server, text, sizeof text, "INFO commandstats");
    snprintf(name, sizeof name, "cmdstat_%s:", command);
    line = strstr(text, name);
    calls = line != NULL ? strstr(line, "calls=") : NULL;
    return calls != NULL ? strtoll(calls + 6, NULL, 10) : 0;
}

/* Redis Cluster's slot of a name without braces. */
static unsigned slot_of(const char *name)
{
    unsigned crc = 0;
    for (; *name != '\0'; name++) {
        crc ^= (unsigned)(unsigned char)*name << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = ((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc % 16384;
}

const char *lk_fence_key(const char *key)
{
    static char names[8][40];
    static unsigned next;
    char *const name = names[next++ % 8];
    char tag[16];
    unsigned n = 0;
    do {
        (void)snprintf(tag, sizeof tag, "%u", n++);
    } while (slot_of(tag) != slot_of(key));
    (void)snprintf(name, sizeof names[0], "locker:fence:{%s}", tag);
    return name;
}

locker *lk_open_at(lk_server *server, const char *query)
{
    return open_port(server->port, query);
}

locker *lk_open_through(lk_env *env, const char *query)
{
    return open_port(lk_proxy_port(env->proxy), query);
}

void lk_expect_value(lk_server *server, const char *key, const char *value)
{
    char text[256];
    bool there = lk_server_text(server, text, sizeof text, "GET %s", key);
    if (value == NULL && there)
        test_fails("the server has %s as %s, and should not have it", key, text);
    if (value != NULL && (!there || strcmp(text, value) != 0))
        test_fails("the server has %s as '%s', not as '%s'", key, text, value);
}

/* Both are asked after the time was read, so that this machine may stand still in between. */
void lk_expect_remaining(lk_server *server, const char *key, const locker_handle *held)
{
    const int64_t asked = lk_test_now_ms(), remaining = locker_handle_remaining_ms(held);
    const int64_t left = lk_server_integer(server, "PTTL %s", key);
    if (left >= 0) /* else it is over */
        assert_true(remaining <= left + lk_test_now_ms() - asked);
}

bool lk_is_listened_to(void *context)
{
    return lk_server_integer(context, "EVAL %s 0",
                             "return #redis.call('PUBSUB', 'CHANNELS', 'locker:wake:*')") > 0;
}

void lk_require_noted(lk_env *env, const char *key)
{
    static const char script[] = "local info = redis.call('GET', KEYS[2])\n"
                                 "local value = redis.call('GET', KEYS[1])\n"
                                 "return info and string.sub(info, 1, 32) == value and 1 or 0";
    const int64_t until = lk_test_now_ms() + LK_TEST_PATIENCE_MS;
    while (lk_server_integer(env->server, "EVAL %s 2 %s {%s}:locker:info", script, key, key) == 0)
        assert_true(lk_test_now_ms() < until);
    lk_require(lk_is_listened_to, env->server, "a holder should subscribe");
}

/* Who has subscribed stands in a queue; holders subscribe, too, and stand in none. */
static bool has_queue(void *context)
{
    return lk_server_integer(context, "EVAL %s 0", "return #redis.call('KEYS', '*:locker:queue')") > 0;
}

void lk_require_subscriber(lk_server *server)
{
    lk_require(has_queue, server, "a waiter should subscribe");
}

void lk_follow(lk_server *replica, lk_server *master)
{
    lk_server_do(replica, "CONFIG SET masteruser admin");
    lk_server_do(replica, "CONFIG SET masterauth admin");
    lk_test_need(replica, lk_server_follow(replica, master));
}

struct confirming {
    lk_server *server;
    int count;
};

/* WAIT is about the writes of its own connection. */
static bool is_confirming(void *context)
{
    const struct confirming *c = context;
    lk_server_do(c->server, "SET probe 1");
    return lk_server_integer(c->server, "WAIT %d 100", c->count) >= c->count;
}

void lk_require_confirming(lk_server *server, int count)
{
    struct confirming c = {server, count};
    lk_require(is_confirming, &c, "the replicas should confirm writes");
}

struct replication {
    lk_server *replica;
    int64_t offset;
};

static int64_t offset_of(lk_server *server, const char *name)
{
    char text[4096];
    const char *const at =
        lk_server_ask(server, "INFO replication", text, sizeof text) ? strstr(text, name) : NULL;
    return at != NULL ? strtoll(at + strlen(name), NULL, 10) : -1;
}

static bool is_replicated(void *context)
{
    const struct replication *r = context;
    return offset_of(r->replica, "slave_repl_offset:") >= r->offset;
}

void lk_require_replicated(lk_server *master, lk_server *replica)
{
    struct replication r = {replica, offset_of(master, "master_repl_offset:")};
    assert_true(r.offset >= 0);
    lk_require(is_replicated, &r, "the replica should have all that its master has");
}

void lk_require_answer(lk_server *sentinel, const char *question)
{
    char answer[512];
    if (!lk_server_ask(sentinel, question, answer, sizeof answer))
        test_fails("%s is answered by '%s'", question, answer);
}

struct queue {
    lk_server *server;
    const char *key;
    int64_t count;
};

static bool is_queued(void *context)
{
    const struct queue *queue = context;
    return lk_server_integer(queue->server, "ZCARD {%s}:locker:queue", queue->key) == queue->count;
}

void lk_require_queue(lk_server *server, const char *key, int64_t count)
{
    struct queue queue = {server, key, count};
    lk_require(is_queued, &queue, "the queue should have so many entries");
}

int main(int argc, char **argv)
{
    static const lk_role roles[] = {LK_PUPPET_ROLE, {NULL, NULL}};
    return lk_run_group(argc, argv, groups, roles);
}
