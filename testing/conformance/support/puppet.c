/* puppet.c: a process that locks as it is told; see puppet.h. */
#include "puppet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "locking.h"

/* ------------------------------------------------------------------ the puppet's side ---- */

struct puppet {
    locker *l;
    locker_handle *held;
};

static void answer(locker_status status, uint64_t token, const locker_error *err)
{
    if (status != LOCKER_OK && err->text[0] != '\0')
        fprintf(stderr, "puppet %s: %s\n", locker_status_name(status), err->text);
    lk_side_say("%s %" PRIu64, locker_status_name(status), token);
}

static bool read_lock(const char *line, const char *verb, char key[LOCKER_KEY_MAX + 1],
                      locker_lock_options *options)
{
    int renew = 1, mode = 0;
    char word[16];
    if (sscanf(line, "%15s %255s %" SCNd64 " %" SCNd64 " %d %d %" SCNd32, word, key, &options->wait_ms,
               &options->ttl_ms, &renew, &mode, &options->permits) != 7)
        return false;
    options->no_renew = renew == 0;
    options->mode = (locker_mode)mode;
    return strcmp(word, verb) == 0;
}

static void drop(struct puppet *puppet)
{
    locker_handle_free(puppet->held);
    puppet->held = NULL;
}

static void do_lock(struct puppet *puppet, const char *key, const locker_lock_options *options)
{
    drop(puppet);
    locker_error err;
    const locker_status status = locker_lock(puppet->l, key, options, &puppet->held, &err);
    answer(status, status == LOCKER_OK ? locker_handle_token(puppet->held) : 0, &err);
}

struct waiting {
    locker *l;
    const char *key;
    const locker_lock_options *options;
    locker_status status;
    locker_handle *held;
    locker_error err;
};

static void *do_wait_in_thread(void *argument)
{
    struct waiting *waiting = argument;
    waiting->status = locker_lock(waiting->l, waiting->key, waiting->options, &waiting->held, &waiting->err);
    return NULL;
}

static bool waits(void *context)
{
    locker_statistics stats = {.size = sizeof stats};
    return locker_stats(context, &stats) == LOCKER_OK && stats.waiting > 0;
}

static void do_wait(struct puppet *puppet, const char *key, const locker_lock_options *options)
{
    struct waiting waiting = {.l = puppet->l, .key = key, .options = options};
    drop(puppet);
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_wait_in_thread, &waiting) != 0) {
        lk_side_say("no thread");
        return;
    }
    lk_side_say(lk_until(waits, puppet->l, LK_TEST_PATIENCE_MS) ? "waiting" : "never waited");
    pthread_join(thread, NULL);
    puppet->held = waiting.held;
    answer(waiting.status, waiting.status == LOCKER_OK ? locker_handle_token(waiting.held) : 0, &waiting.err);
}

static locker_status raise_number(struct puppet *puppet, const char *key, const char *path, uint64_t *token,
                                  locker_error *err)
{
    LOCKER_AUTO locker_handle *held = NULL;
    const locker_status status = locker_lock(puppet->l, key, NULL, &held, err);
    long number = 0;

    if (status != LOCKER_OK)
        return status;
    if (locker_handle_token(held) <= *token && locker_handle_token(held) != 0)
        return LOCKER_PROTOCOL; /* fencing tokens must grow */
    *token = locker_handle_token(held);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%ld", &number) != 1)
            number = 0;
        fclose(file);
    }
    file = fopen(path, "we");
    if (file == NULL)
        return LOCKER_INVALID;
    fprintf(file, "%ld", number + 1);
    fclose(file);
    return locker_unlock(held, err);
}

static void do_count(struct puppet *puppet, const char *line)
{
    char key[LOCKER_KEY_MAX + 1], path[256];
    locker_status status = LOCKER_OK;
    locker_error err = {0};
    uint64_t token = 0;
    int times = 0;
    if (sscanf(line, "count %255s %255s %d", key, path, &times) != 3)
        status = LOCKER_INVALID;
    for (int i = 0; i < times && status == LOCKER_OK; i++)
        status = raise_number(puppet, key, path, &token, &err);
    answer(status, token, &err);
}

static void obey(struct puppet *puppet, const char *line)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    char key[LOCKER_KEY_MAX + 1];
    if (read_lock(line, "lock", key, &options)) {
        do_lock(puppet, key, &options);
    } else if (read_lock(line, "wait", key, &options)) {
        do_wait(puppet, key, &options);
    } else if (strcmp(line, "unlock") == 0) {
        locker_error err;
        lk_side_say("%s", locker_status_name(locker_unlock(puppet->held, &err)));
    } else if (strcmp(line, "state") == 0) {
        lk_side_say("%s", locker_state_name(locker_handle_state(puppet->held)));
    } else if (strcmp(line, "forget") == 0) {
        drop(puppet);
        lk_side_say("ok");
    } else if (strcmp(line, "stop") == 0) {
        lk_side_stop();
    } else if (strncmp(line, "count ", 6) == 0) {
        do_count(puppet, line);
    } else {
        lk_side_say("unknown command '%s'", line);
    }
}

int lk_puppet_serve(locker *l)
{
    struct puppet puppet = {l, NULL};
    lk_side_say("open");
    char line[LK_LINE_MAX];
    while (lk_side_hear(line))
        obey(&puppet, line);
    drop(&puppet);
    locker_close(l);
    return 0;
}

int lk_puppet_play(int argc, char **argv)
{
    locker *l = NULL;
    if (argc != 1)
        return 64;
    locker_error err;
    if (locker_open(argv[0], NULL, &l, &err) != LOCKER_OK) {
        lk_side_say("can't open: %s", err.text);
        return 1;
    }
    return lk_puppet_serve(l);
}

/* ------------------------------------------------------------------ the test's side ---- */

lk_child *lk_puppet_start(const char *uri)
{
    const char *arguments[] = {uri, NULL};
    lk_child *puppet = lk_child_start("puppet", arguments);
    lk_child_expect(puppet, "open");
    return puppet;
}

static locker_status status_of(const char *name)
{
    for (int i = LOCKER_OK; i <= LOCKER_FORKED; i++)
        if (strcmp(name, locker_status_name((locker_status)i)) == 0)
            return (locker_status)i;
    test_fails("the puppet said '%s', which is not a status", name);
}

locker_status lk_puppet_granted(lk_child *puppet, uint64_t *token)
{
    char line[LK_LINE_MAX];
    uint64_t number = 0;
    lk_child_hear(puppet, line);
    char name[32];
    if (sscanf(line, "%31s %" SCNu64, name, &number) != 2)
        test_fails("the puppet said '%s'", line);
    if (token != NULL)
        *token = number;
    return status_of(name);
}

static void ask(lk_child *puppet, const char *verb, const char *key, const locker_lock_options *options)
{
    lk_child_say(puppet, "%s %s %" PRId64 " %" PRId64 " %d %d %" PRId32, verb, key, options->wait_ms,
                 options->ttl_ms, options->no_renew ? 0 : 1, (int)options->mode, options->permits);
}

locker_status lk_puppet_lock(lk_child *puppet, const char *key, int64_t wait_ms, int64_t ttl_ms, bool renew,
                             uint64_t *token)
{
    ask(puppet, "lock", key,
        &(locker_lock_options){.wait_ms = wait_ms, .ttl_ms = ttl_ms, .no_renew = !renew});
    return lk_puppet_granted(puppet, token);
}

locker_status lk_puppet_take(lk_child *puppet, const char *key, const locker_lock_options *options)
{
    ask(puppet, "lock", key, options);
    return lk_puppet_granted(puppet, NULL);
}

void lk_puppet_wait(lk_child *puppet, const char *key, int64_t wait_ms, int64_t ttl_ms, bool renew)
{
    lk_puppet_await(puppet, key,
                    &(locker_lock_options){.wait_ms = wait_ms, .ttl_ms = ttl_ms, .no_renew = !renew});
}

void lk_puppet_await(lk_child *puppet, const char *key, const locker_lock_options *options)
{
    ask(puppet, "wait", key, options);
    lk_child_expect(puppet, "waiting");
}

locker_status lk_puppet_unlock(lk_child *puppet)
{
    lk_child_say(puppet, "unlock");
    char line[LK_LINE_MAX];
    return status_of(lk_child_hear(puppet, line));
}

void lk_puppet_stop(lk_child *puppet)
{
    lk_child_say(puppet, "stop");
    lk_child_await_stop(puppet);
}

void lk_puppet_expect_state(lk_child *puppet, locker_state state)
{
    lk_child_say(puppet, "state");
    lk_child_expect(puppet, locker_state_name(state));
}
