/*
 * worker.c: the worker's side of locker compare: a process that locks as it is told, line by line, and writes
 * down in the history what it did. worker.h has the protocol, worker_turn.c locking, worker_work.c the rest.
 * The main thread obeys; a call that waits for a lock while the main thread looks on has a thread of its own.
 */
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "servers/wait.h"
#include "worker_side.h"

/* ------------------------------------------------------------------ taking and giving ---- */

static void *take_in_thread(void *argument)
{
    lk_turn_take_and_note(argument);
    return NULL;
}

static bool is_waiting(void *context)
{
    lk_side *w = context;
    locker_statistics stats = LOCKER_STATISTICS_INIT;

    return locker_stats(w->l, &stats) == LOCKER_OK && stats.waiting > 0;
}

/* The service has us in its queue when a first attempt has found the lock busy; then the call sleeps. */
static void wait_in_thread(lk_side *w)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, take_in_thread, &w->turn);
    int64_t at = 0;

    if (error != 0) {
        lk_say("error no thread: %s", strerror(error));
        return;
    }
    if (lk_until(is_waiting, w, 10000)) {
        at = lk_now_ns();
        if (is_waiting(w)) { /* it waited before `at` and after */
            const lk_event event = lk_turn_event(LK_OP_QUEUE, LK_PHASE_INFO, &w->turn, at);

            lk_history_write(w->history, &event);
        }
        lk_say("waiting");
    } else {
        lk_say("never waited");
    }
    pthread_join(thread, NULL);
    lk_answer_turn((int)w->turn.status, &w->turn);
}

static void do_unlock(lk_side *w)
{
    lk_turn *t = &w->turn;

    if (!t->held) {
        lk_say("error there is nothing to unlock");
        return;
    }
    lk_turn_give(w);
    lk_answer_turn((int)t->status, t);
    lk_turn_drop(w);
}

static void do_state(lk_side *w)
{
    lk_turn *t = &w->turn;

    if (!t->held) {
        lk_say("error there is no lock to look at");
        return;
    }
    t->sent_ns = t->received_ns = lk_now_ns();
    t->until_ns = lk_deadline(t->held);
    lk_answer_turn((int)locker_handle_state(t->held), t);
}

/* The answer's deadline is the last that was known. */
static void do_lost(lk_side *w, int64_t ms)
{
    lk_turn *t = &w->turn;
    struct pollfd lost = {.fd = t->held ? locker_handle_fd(t->held) : -1, .events = POLLIN};

    if (lost.fd < 0) {
        lk_say("error there is no lock to look at");
        return;
    }
    t->sent_ns = lk_now_ns();
    while (poll(&lost, 1, 10) == 0 && lk_now_ns() - t->sent_ns < ms * 1000000)
        lk_turn_tell_lease(w);
    t->received_ns = lk_now_ns();
    t->until_ns = w->told_until;
    lk_answer_turn((int)locker_handle_state(t->held), t);
}

/* ------------------------------------------------------------------ listening ---- */

static void do_setup(lk_side *w, lk_words *words)
{
    lk_event common = LK_EVENT_INIT;
    char file[256];

    common.run = lk_word_number(words);
    w->ttl_ms = lk_word_number(words);
    lk_word(words, file, sizeof(file));
    common.backend = lk_word(words, w->backend, sizeof(w->backend));
    common.scenario = lk_word(words, w->scenario, sizeof(w->scenario));
    common.worker = lk_word(words, w->name, sizeof(w->name));
    w->history = words->good ? lk_history_writer_open(file, &common) : NULL;
    if (w->history)
        lk_say("ok");
    else
        lk_say("error can't write the history %s: %s", file, strerror(errno));
}

static void do_open(lk_side *w, const char *uri)
{
    locker_options options = LOCKER_OPTIONS_INIT;
    locker_error err;

    options.owner = w->name;
    options.ttl_ms = w->ttl_ms;
    if (locker_open(uri, &options, &w->l, &err) == LOCKER_OK)
        lk_say("ok");
    else
        lk_say("error %s", err.text);
}

static void do_lock(lk_side *w, const char *verb, lk_words *words)
{
    lk_turn *t = &w->turn;

    lk_turn_begin(w);
    lk_word(words, t->key, sizeof(t->key));
    t->wait_ms = lk_word_number(words);
    t->renew = lk_word_number(words) != 0;
    t->try = strcmp(verb, "try") == 0;
    if (!words->good) {
        lk_say("error can't understand which lock is meant");
    } else if (strcmp(verb, "wait") == 0) {
        wait_in_thread(w);
    } else {
        lk_turn_take_and_note(t);
        lk_answer_turn((int)t->status, t);
    }
}

static void do_break(lk_side *w, const char *key)
{
    lk_turn t = {.sent_ns = lk_now_ns()};

    t.status = locker_break(w->l, key, NULL, NULL, &t.err);
    t.received_ns = lk_now_ns();
    lk_answer_turn((int)t.status, &t);
}

/* Verbs on the lock that is held, or on its key. */
static bool obey_about(lk_side *w, const char *verb, lk_words *words)
{
    char text[256];

    if (strcmp(verb, "unlock") == 0) {
        do_unlock(w);
    } else if (strcmp(verb, "state") == 0) {
        do_state(w);
    } else if (strcmp(verb, "lost") == 0) {
        do_lost(w, lk_word_number(words));
    } else if (strcmp(verb, "write") == 0) {
        lk_work_write(w, lk_word(words, text, sizeof(text)));
    } else if (strcmp(verb, "break") == 0) {
        do_break(w, lk_word(words, text, sizeof(text)));
    } else if (strcmp(verb, "look") == 0) {
        lk_word(words, text, sizeof(text));
        lk_work_look(w, text, lk_word_number(words));
    } else {
        return false;
    }
    return true;
}

static void obey(lk_side *w, const char *line)
{
    lk_words words = lk_words_of(line);
    char verb[16];

    lk_word(&words, verb, sizeof(verb));
    if (strcmp(verb, "setup") == 0)
        do_setup(w, &words);
    else if (strcmp(verb, "open") == 0)
        do_open(w, lk_words_rest(&words));
    else if (!w->l)
        lk_say("error no service is open");
    else if (strcmp(verb, "lock") == 0 || strcmp(verb, "try") == 0 || strcmp(verb, "wait") == 0)
        do_lock(w, verb, &words);
    else if (strcmp(verb, "job") == 0)
        lk_work_job(w, &words);
    else if (strcmp(verb, "cycle") == 0)
        lk_work_cycle(w, &words);
    else if (!obey_about(w, verb, &words))
        lk_say("error can't understand: %.100s", line);
}

/* Whole lines only, and no stdio: poll() has to know what is there. */
static bool next_line(lk_side *w, char line[LK_WORKER_LINE])
{
    size_t length = 0;

    for (;;) {
        while (!lk_has_input(w->turn.held ? 20 : -1))
            lk_turn_tell_lease(w);
        if (read(STDIN_FILENO, line + length, 1) != 1)
            return false;
        if (line[length] == '\n')
            break;
        if (length + 1 < LK_WORKER_LINE)
            length++;
    }
    line[length] = '\0';
    return true;
}

int lk_worker_main(void)
{
    lk_side w = {0};
    char line[LK_WORKER_LINE];

    signal(SIGPIPE, SIG_IGN);
    while (next_line(&w, line))
        obey(&w, line);
    lk_turn_clear(&w);
    locker_close(w.l);
    if (w.history) {
        lk_event event = LK_EVENT_INIT;

        event.op = LK_OP_END;
        event.phase = LK_PHASE_INFO;
        lk_history_write(w.history, &event);
    }
    lk_history_writer_close(w.history);
    return LK_EXIT_OK;
}
