/* redis_locks.c: see redis_locks.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "redis_locks.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

const char *const lk_sim_redis_key_names[LK_SIM_REDIS_KEYS] = {"a", "b18009", "c"};

static const lk_sr_key *(*find_key)(const char *name);
static unsigned strangers;              /* that there have been */
static bool is_lost[LK_SIM_REDIS_KEYS]; /* something of its lock, by a failover */

void lk_sim_redis_locks_begin(const lk_sr_key *(*find)(const char *name))
{
    find_key = find;
    strangers = 0;
    memset(is_lost, 0, sizeof is_lost);
}

/* ------------------------------------------------------------------ hand-overs ---- */

/* A lock that was handed to somebody. */
typedef struct {
    int64_t at;
    unsigned key;
    char value[33];
} gift;

static bool has_value(const gift *g)
{
    const lk_sr_key *const key = find_key(lk_sim_redis_key_names[g->key]);
    return key != NULL && key->kind == LK_SR_STRING &&
           lk_sr_same(lk_sr_view(&key->text), lk_sr_word(g->value));
}

/* He has taken it by now, or given it back, if he could. */
static void looks_after(void *context)
{
    gift *const g = context;
    if (lk_sim_judge_was_well(g->at) && !lk_sim_judge_was_withheld(g->key, g->at) && has_value(g) &&
        !lk_sim_judge_is_used(g->key))
        lk_sim_fail("key %u: the lock was handed to a waiter that neither takes nor releases it", g->key);
    free(g);
}

static bool is_key(char name)
{
    return name >= 'a' && name < 'a' + LK_SIM_REDIS_KEYS;
}

/* "value number/count us key" */
static void look_after(const char *text)
{
    gift *const g = malloc(sizeof *g);
    char name;
    unsigned long long number;
    if (g == NULL)
        abort();
    *g = (gift){.at = lk_sim_now()};
    const bool is_gift =
        sscanf(text, "%32s %llu/%*u %*u %c", g->value, &number, &name) == 3 && number > 0 && is_key(name);
    if (!is_gift) {
        free(g);
        return;
    }
    g->key = (unsigned)(name - 'a');
    lk_sim_at(lk_sim_now() + 300 * MS, looks_after, g);
}

/* Also one without a number. */
bool lk_sim_redis_locks_told(const lk_sim_connection *connection, const char *text, unsigned *key)
{
    char name;
    look_after(text);
    if (sscanf(text, "%*32s %*u/%*u %*u %c", &name) != 1 || !is_key(name))
        return false;
    *key = (unsigned)(name - 'a');
    lk_sim_judge_handed(*key, lk_sim_connection_process(connection));
    return true;
}

/* ------------------------------------------------------------------ breaks, strangers, the end ---- */

static bool has_word(lk_sr_text commands, const char *word)
{
    char text[64];
    const int len = snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(word), word);
    return memmem(commands.data, commands.len, text, (size_t)len) != NULL;
}

void lk_sim_redis_locks_lose(lk_sr_text commands)
{
    for (unsigned key = 0; key < LK_SIM_REDIS_KEYS; key++)
        is_lost[key] = is_lost[key] || has_word(commands, lk_sim_redis_key_names[key]);
}

bool lk_sim_redis_locks_were_lost(unsigned key)
{
    const bool were_lost = is_lost[key];
    is_lost[key] = false;
    return were_lost;
}

/* The mark that a break leaves of what it has broken. */
void lk_sim_redis_locks_put(const char *name)
{
    if (strstr(name, ":locker:") != NULL && strstr(name, "broken:") != NULL)
        lk_sim_judge_carried_out((unsigned)(name[name[0] == '{'] - 'a'));
}

void lk_sim_redis_locks_expire(const char *name)
{
    if (strstr(name, ":locker:queue") != NULL)
        lk_sim_judge_loses_queue((unsigned)(name[1] - 'a'));
}

static const lk_sr_key *queue_of(unsigned key)
{
    char name[64];
    (void)snprintf(name, sizeof name, "{%s}:locker:queue", lk_sim_redis_key_names[key]);
    return find_key(name);
}

size_t lk_sim_redis_locks_waiters(unsigned key)
{
    const lk_sr_key *const queue = queue_of(key);
    return queue != NULL ? queue->items.count : 0;
}

/* A member ends in the owner: "host:pid:program", or "number of pid" (application.c). */
static bool is_of(lk_sr_text member, int pid)
{
    char text[256], usual[32], own[32];
    (void)snprintf(text, sizeof text, "%.*s", LK_SR_SHOWN(member));
    (void)snprintf(usual, sizeof usual, ":%d:", pid);
    (void)snprintf(own, sizeof own, " of %d", pid);
    const char *const end = strstr(text, own);
    return strstr(text, usual) != NULL || (end != NULL && end[strlen(own)] == '\0');
}

bool lk_sim_redis_locks_is_first(unsigned key, int pid)
{
    const lk_sr_key *const queue = queue_of(key);
    bool is_first = false;
    for (size_t i = 0; queue != NULL && i < queue->items.count; i++) {
        if (!is_of(lk_sr_view(&queue->items.at[i].name), pid))
            continue;
        if (i >= LK_SIM_FIRST)
            return false;
        is_first = true;
    }
    return is_first;
}

void lk_sim_redis_stranger(lk_sim_redis *at, bool is_asking, unsigned key, int64_t span_ms)
{
    char name[32], span[32], answer[64];
    (void)snprintf(name, sizeof name, "stranger %u", ++strangers);
    (void)snprintf(span, sizeof span, "%lld", (long long)span_ms);
    const char *const argv[] = {"SET", lk_sim_redis_key_names[key], name, "NX", "PX", span};
    lk_sim_redis_ask(at, is_asking, 6, argv, answer, sizeof answer);
    lk_sim_tell("%s on key %u for %lld ms: %.4s", name, key, (long long)span_ms, answer);
    if (strcmp(answer, "+OK\r\n") == 0) /* whose clock may run faster */
        lk_sim_judge_stranger(key, span_ms * MS - span_ms * MS / 100);
}

const char *lk_sim_redis_left(lk_sim_redis *redis, bool has_strangers)
{
    static char text[256];
    const lk_sr_server *const server = redis->server;
    lk_sim_redis_advance(redis);
    LK_LIST_EACH(link, &server->spaces[0].keys) {
        const lk_sr_key *const key = LK_CONTAINER(link, lk_sr_key, link);
        (void)snprintf(text, sizeof text, "%.*s was left behind", LK_SR_SHOWN(lk_sr_view(&key->name)));
        const bool ends = key->expires_ms >= 0, is_over = ends && key->expires_ms < lk_sr_clock_ms(server);
        const bool is_counter = strncmp(text, "locker:fence:{", 14) == 0;
        const bool is_mark = strncmp(text, "locker:recovery ", 16) == 0;
        const bool is_strangers = strstr(text, "locker:") == NULL && has_strangers;
        if (!is_over && !is_counter && !is_mark && !is_strangers)
            return text;
    }
    return NULL;
}
