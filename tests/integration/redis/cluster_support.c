/* cluster_support.c: see cluster_tests.h. */
#include "cluster_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 300 };

/* ------------------------------------------------------------------ the cluster ---- */

void lk_cluster_need(lk_cluster *cluster, bool good)
{
    if (!good)
        test_fails("%s", cluster->error);
}

/* A lock outlives the death of its server where that is started again; nobody waits for a disk. */
int lk_cluster_begin_with(void **state, const lk_cluster_setup *setup)
{
    static const char *const options[] = {"--appendonly", "yes", "--appendfsync", "no", NULL};
    static lk_cluster cluster;
    lk_cluster_setup whole = *setup;
    if (whole.options == NULL)
        whole.options = options;
    whole.few = FEW;
    *state = &cluster;
    lk_cluster_need(&cluster, lk_cluster_start(&cluster, &whole));
    return 0;
}

int lk_cluster_begin(void **state)
{
    return lk_cluster_begin_with(state, &(lk_cluster_setup){0});
}

int lk_cluster_end(void **state)
{
    lk_cluster_remove(*state);
    return 0;
}

int lk_cluster_whole(void **state)
{
    lk_cluster_need(*state, lk_cluster_heal(*state));
    return 0;
}

locker *lk_open_cluster(const lk_cluster *cluster, int first, const char *query)
{
    char hosts[300], uri[500];
    const locker_options options = lk_test_options();
    locker_error err;
    locker *l;
    snprintf(uri, sizeof uri, "redis+cluster://%s/?%s", lk_cluster_hosts(cluster, first, hosts, sizeof hosts),
             query);
    assert_ok(locker_open(uri, &options, &l, &err), err);
    return l;
}

int lk_share_of(const lk_cluster *cluster, unsigned slot)
{
    int share = 0;
    while (slot >= lk_cluster_first(cluster, share + 1))
        share++;
    return share;
}

const char *lk_key_of_share(const lk_cluster *cluster, int share, int n, char key[32])
{
    unsigned seen[64];
    int found = 0;
    for (unsigned i = 0; found <= n && found < 64; i++) {
        bool known = false;
        snprintf(key, 32, "s%d-%u", share, i);
        seen[found] = lk_cluster_slot(key);
        for (int k = 0; k < found; k++)
            known = known || seen[k] == seen[found];
        found += !known && lk_share_of(cluster, seen[found]) == share;
    }
    return key;
}

int lk_node_of(lk_cluster *cluster, const char *key)
{
    const int node = lk_cluster_owner(cluster, lk_cluster_slot(key));
    if (node < 0)
        test_fails("no node serves %s", key);
    return node;
}

void lk_keys_at(lk_cluster *cluster, int node, unsigned slot, char *text, size_t size)
{
    char question[160];
    snprintf(
        question, sizeof question,
        "EVAL \"return ' ' .. table.concat(redis.call('CLUSTER', 'GETKEYSINSLOT', %u, 100), ' ') .. ' '\" 0",
        slot);
    if (!lk_server_ask(&cluster->node[node], question, text, size))
        test_fails("node %d does not name its keys: %s", node, text);
}

long long lk_node_number(lk_cluster *cluster, int node, const char *format, ...)
{
    char question[400], answer[8192], *end;
    va_list args;
    va_start(args, format);
    vsnprintf(question, sizeof question, format, args);
    va_end(args);
    const bool answered = lk_server_ask(&cluster->node[node], question, answer, sizeof answer);
    const long long number = strtoll(answer, &end, 10);
    if (!answered || end == answer)
        test_fails("node %d answers %s by '%.100s'", node, question, answer);
    return number;
}

/* ------------------------------------------------------------------ a busy machine ---- */

struct lk_canary {
    const lk_cluster *cluster;
    pthread_t thread;
    atomic_bool stop;
    int64_t late_ms;
};

static void *sing(void *canary_)
{
    enum { PAUSE_MS = 20 };
    lk_canary *canary = canary_;
    for (int i = 0; !canary->stop; i = (i + 1) % LK_CLUSTER_MASTERS) {
        char answer[64];
        const int64_t from = lk_test_now_ms();
        lk_pause_ms(PAUSE_MS);
        (void)lk_server_ask(&canary->cluster->node[i], "PING", answer, sizeof answer);
        const int64_t late_ms = lk_test_now_ms() - from - PAUSE_MS;
        canary->late_ms = late_ms > canary->late_ms ? late_ms : canary->late_ms;
    }
    return NULL;
}

lk_canary *lk_canary_begin(const lk_cluster *cluster)
{
    lk_canary *canary = calloc(1, sizeof *canary);
    assert_non_null(canary);
    canary->cluster = cluster;
    assert_int_equal(pthread_create(&canary->thread, NULL, sing, canary), 0);
    return canary;
}

int64_t lk_canary_end(lk_canary *canary)
{
    canary->stop = true;
    lk_join(canary->thread, "the canary");
    const int64_t late_ms = canary->late_ms;
    free(canary);
    return late_ms;
}

/* ------------------------------------------------------------------ load ---- */

enum { LOCKERS = 2, LONG_MS = 150 }; /* now and then a lock is held for longer */

/* Who has a key, and the last token: what the lock is there to protect. */
struct guarded {
    lk_mutex mutex;
    char name[32];
    int share;
    locker_handle *held LK_GUARDED_BY(mutex);
    uint64_t token LK_GUARDED_BY(mutex);
};

struct worker {
    lk_load *load;
    pthread_t thread;
    unsigned number;
};

struct lk_load {
    locker *l[LOCKERS];
    struct guarded key[LK_LOAD_KEYS];
    struct worker worker[LK_LOAD_THREADS];
    atomic_bool stop;
    atomic_uint cycles[LK_CLUSTER_MASTERS], overlaps, tokens, answers, lost;
    lk_mutex mutex;
    char text[160] LK_GUARDED_BY(mutex);
};

static void note(lk_load *load, atomic_uint *what, const char *format, const char *key, const char *more)
{
    (*what)++;
    lk_mutex_lock(&load->mutex);
    snprintf(load->text, sizeof load->text, format, key, more);
    lk_mutex_unlock(&load->mutex);
}

/* Whoever is sure to have the lock until later than now has it with us. */
static void enter(lk_load *load, struct guarded *key, locker_handle *held)
{
    lk_mutex_lock(&key->mutex);
    const bool two = key->held != NULL && locker_handle_remaining_ms(key->held) > 0 &&
                     locker_handle_remaining_ms(held) > 0;
    const bool old = locker_handle_token(held) <= key->token;
    key->held = held;
    key->token = locker_handle_token(held);
    lk_mutex_unlock(&key->mutex);
    if (two)
        note(load, &load->overlaps, "%s has two holders%s", key->name, "");
    if (old)
        note(load, &load->tokens, "the token of %s does not grow%s", key->name, "");
}

/* Before the unlock, and for good: the handle is freed. */
static void leave(struct guarded *key, const locker_handle *held)
{
    lk_mutex_lock(&key->mutex);
    if (key->held == held)
        key->held = NULL;
    lk_mutex_unlock(&key->mutex);
}

static void cycle(lk_load *load, unsigned number, unsigned turn)
{
    struct guarded *key = &load->key[(number * 5 + turn) % LK_LOAD_KEYS];
    const locker_lock_options options = lk_wait_options(2000);
    locker_handle *held = NULL;
    locker_error err;
    if (locker_lock(load->l[number % LOCKERS], key->name, &options, &held, &err) != LOCKER_OK)
        return;
    enter(load, key, held);
    if (turn % 16 == number)
        lk_pause_ms(LONG_MS);
    leave(key, held);
    const locker_status status = locker_unlock(held, &err);
    if (status == LOCKER_LOST)
        load->lost++;
    else if (status != LOCKER_OK && status != LOCKER_UNKNOWN)
        note(load, &load->answers, "unlocking %s answers %.90s", key->name, err.text);
    locker_handle_free(held);
    load->cycles[key->share]++;
}

static void *work(void *worker_)
{
    struct worker *worker = worker_;
    for (unsigned turn = 0; !worker->load->stop; turn++)
        cycle(worker->load, worker->number, turn);
    return NULL;
}

lk_load *lk_load_begin(lk_cluster *cluster, const char *query)
{
    lk_load *load = calloc(1, sizeof *load);
    assert_non_null(load);
    lk_mutex_init(&load->mutex);
    for (int i = 0; i < LOCKERS; i++)
        load->l[i] = lk_open_cluster(cluster, i, query);
    for (int i = 0; i < LK_LOAD_KEYS; i++) {
        char name[32];
        struct guarded *key = &load->key[i];
        lk_mutex_init(&key->mutex);
        key->share = i % LK_CLUSTER_MASTERS;
        snprintf(key->name, sizeof key->name, "%s",
                 lk_key_of_share(cluster, key->share, 20 + i / LK_CLUSTER_MASTERS, name));
    }
    for (unsigned i = 0; i < LK_LOAD_THREADS; i++) {
        load->worker[i] = (struct worker){.load = load, .number = i};
        assert_int_equal(pthread_create(&load->worker[i].thread, NULL, work, &load->worker[i]), 0);
    }
    return load;
}

struct wanted {
    lk_load *load;
    unsigned cycles[LK_CLUSTER_MASTERS];
};

static bool is_done(void *context)
{
    const struct wanted *wanted = context;
    for (int i = 0; i < LK_CLUSTER_MASTERS; i++)
        if ((int)(wanted->load->cycles[i] - wanted->cycles[i]) < 0)
            return false;
    return true;
}

void lk_load_require(lk_load *load, unsigned cycles, const char *what)
{
    struct wanted wanted = {.load = load};
    for (int i = 0; i < LK_CLUSTER_MASTERS; i++)
        wanted.cycles[i] = load->cycles[i] + cycles;
    lk_require(is_done, &wanted, what);
}

lk_load_result lk_load_end(lk_load *load)
{
    lk_load_result result = {0};
    load->stop = true;
    for (int i = 0; i < LK_LOAD_THREADS; i++)
        lk_join(load->worker[i].thread, "load");
    for (int i = 0; i < LOCKERS; i++)
        lk_close_locker(load->l[i]);
    result = (lk_load_result){.overlaps = load->overlaps,
                              .tokens = load->tokens,
                              .answers = load->answers,
                              .lost = load->lost,
                              .cycles = load->cycles[0] + load->cycles[1] + load->cycles[2]};
    snprintf(result.text, sizeof result.text, "%s", load->text);
    for (int i = 0; i < LK_LOAD_KEYS; i++)
        lk_mutex_destroy(&load->key[i].mutex);
    lk_mutex_destroy(&load->mutex);
    free(load);
    return result;
}
