/* redis_steps.c: the steps of models/lease.pml that a simulated Redis server takes. A command is one of the model's requests by the driver's script that it runs; what it
 * has done is read off the lock's key. So a script that does another thing than the model shows in the steps. */
#include "redis_service.h"

#include <stdlib.h>
#include <string.h>

#include "lock/scripts.h"
#include "redis/state.h"
#include "redis_locks.h"
#include "steps.h"

enum { VALUE = 32, NAME = LK_SR_SHA1_LEN + 1 };

static struct {
    char names[LK_REDIS_SCRIPT_COUNT][NAME]; /* of the driver's scripts */
    char holder[VALUE + 1];                  /* the lock's value after the last command; "": it was free */
    int64_t expires_ms;
} steps;

static const lk_sr_key *find(const lk_sim_redis *redis, lk_sr_text name)
{
    return lk_sr_keyspace_find(&redis->server->spaces[0], name);
}

static bool is_over(const lk_sim_redis *redis, int64_t expires_ms)
{
    return expires_ms >= 0 && expires_ms < lk_sr_clock_ms(redis->server);
}

static bool is_lock(lk_sr_text name)
{
    return lk_sr_same(name, lk_sr_word(lk_sim_redis_key_names[0]));
}

/* Read the lock's key. */
static void look(const lk_sim_redis *redis)
{
    const lk_sr_key *const key = find(redis, lk_sr_word(lk_sim_redis_key_names[0]));
    const bool is_held = key != NULL && key->kind == LK_SR_STRING && !is_over(redis, key->expires_ms);
    (void)snprintf(steps.holder, sizeof steps.holder, "%.*s", is_held ? (int)key->text.len : 0,
                   is_held ? key->text.data : "");
    steps.expires_ms = is_held ? key->expires_ms : -1;
}

/* A counter's number; 0: there is none. */
static unsigned long long counter(const lk_sim_redis *redis, lk_sr_text name)
{
    char text[32];
    const lk_sr_key *const key = find(redis, name);
    if (key == NULL || key->kind != LK_SR_STRING)
        return 0;
    (void)snprintf(text, sizeof text, "%.*s", LK_SR_SHOWN(lk_sr_view(&key->text)));
    return strtoull(text, NULL, 10);
}

/* ------------------------------------------------------------------ requests ---- */

/* A command that was carried out. Of a script `argv` begins with its keys. */
typedef struct {
    const lk_sim_redis *redis;
    int pid;
    long long sent_ns;
    const lk_sr_text *argv;
    size_t keys;
    lk_sr_text answer;
    char before[VALUE + 1]; /* whose the lock was */
} request;

static void acquired(const request *r)
{
    char value[VALUE + 1], ttl[24];
    (void)snprintf(value, sizeof value, "%.*s", LK_SR_SHOWN(r->argv[r->keys]));
    (void)snprintf(ttl, sizeof ttl, "%.*s", LK_SR_SHOWN(r->argv[r->keys + 1]));
    const char *const what = strcmp(value, steps.holder) == 0 ? "taken"
                             : r->answer.data[0] == '-'       ? "refused"
                                                              : "found";
    lk_sim_step("asked %d %lld %s %s %s %llu", r->pid, r->sent_ns, value, ttl, what,
                counter(r->redis, r->argv[2]));
}

static void renewed(const request *r)
{
    for (size_t i = 0; 2 * i < r->keys; i++) {
        if (!is_lock(r->argv[2 * i]) || r->answer.data[0] != '$')
            continue;
        const char *const marks = memchr(r->answer.data, '\n', r->answer.len);
        lk_sim_step("renewed %d %lld %.*s %c", r->pid, r->sent_ns, VALUE, r->argv[r->keys].data + VALUE * i,
                    marks[1 + i]);
    }
}

static void released(const request *r)
{
    char value[VALUE + 1];
    (void)snprintf(value, sizeof value, "%.*s", LK_SR_SHOWN(r->argv[r->keys]));
    const bool is_freed = strcmp(value, r->before) == 0 && strcmp(value, steps.holder) != 0;
    lk_sim_step("released %d %lld %s %d %s %llu", r->pid, r->sent_ns, value, is_freed,
                is_freed && steps.holder[0] != '\0' ? steps.holder : "-", counter(r->redis, r->argv[2]));
}

/* SET key value NX PX ttl: the number comes by an INCR behind it. */
static void set(const request *r)
{
    char value[VALUE + 1];
    (void)snprintf(value, sizeof value, "%.*s", LK_SR_SHOWN(r->argv[2]));
    lk_sim_step("asked %d %lld %s %.*s %s 0", r->pid, r->sent_ns, value, LK_SR_SHOWN(r->argv[5]),
                r->answer.data[0] == '+' ? "taken" : "found");
}

static size_t script_of(lk_sr_text name)
{
    size_t script = 0;
    while (script < LK_REDIS_SCRIPT_COUNT && !lk_sr_same(name, lk_sr_word(steps.names[script])) &&
           !lk_sr_same(name, lk_sr_word(lk_redis_one_text[script])))
        script++;
    return script;
}

static void ran_script(request *r)
{
    const size_t script = script_of(r->argv[1]);
    r->keys = (size_t)strtoul(r->argv[2].data, NULL, 10);
    r->argv += 3;
    if (r->keys == 0 || !(is_lock(r->argv[0]) || script == LK_REDIS_SCRIPT_RENEW))
        return;
    if (script == LK_REDIS_SCRIPT_ACQUIRE)
        acquired(r);
    else if (script == LK_REDIS_SCRIPT_RENEW)
        renewed(r);
    else if (script == LK_REDIS_SCRIPT_RELEASE)
        released(r);
    else if (strcmp(r->before, steps.holder) != 0)
        lk_sim_step("other by a script");
}

static void ran(const lk_sim_redis *redis, const lk_sim_connection *connection, const lk_sr_text *argv,
                size_t argc, lk_sr_text answer)
{
    request r = {.redis = redis,
                 .pid = lk_sim_connection_process(connection)->pid,
                 .sent_ns = lk_sim_connection_sent_at(connection),
                 .argv = argv,
                 .answer = answer};
    if (!lk_sim_steps_are_told())
        return;
    if (steps.holder[0] != '\0' && is_over(redis, steps.expires_ms)) {
        lk_sim_step("expired %s", steps.holder);
        steps.holder[0] = '\0';
    }
    memcpy(r.before, steps.holder, sizeof r.before);
    look(redis);
    if (argc > 3 && (lk_sr_is(argv[0], "evalsha") || lk_sr_is(argv[0], "eval")))
        ran_script(&r);
    else if (argc == 6 && lk_sr_is(argv[0], "set") && is_lock(argv[1]))
        set(&r);
    else if (argc == 2 && lk_sr_is(argv[0], "incr") && answer.data[0] == ':')
        lk_sim_step("numbered %d %.*s", r.pid, (int)answer.len - 3, answer.data + 1);
    else if (strcmp(r.before, steps.holder) != 0)
        lk_sim_step("other %.*s", LK_SR_SHOWN(argv[0]));
}

void lk_sim_redis_steps_begin(lk_sim_redis *redis)
{
    memset(&steps, 0, sizeof steps);
    for (size_t i = 0; i < LK_REDIS_SCRIPT_COUNT; i++)
        lk_sr_sha1(lk_sr_word(lk_redis_one_text[i]), steps.names[i]);
    redis->ran = ran;
    lk_sim_step("clock 0 %lld", (long long)redis->machine.rate_ppm);
}
