/* crew.c: our side of the workers; see cell.h and worker.h. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell.h"
#include "cli.h"
#include "die.h"
#include "servers/process.h"
#include "servers/wait.h"
#include "words.h"

enum { PATIENCE_MS = 40000 };

/* ------------------------------------------------------------------ lines ---- */

static void send_line(lk_worker *worker, const char *format, va_list args)
{
    char line[LK_WORKER_LINE];
    int length = vsnprintf(line, sizeof line - 1, format, args);
    if (lk_failed(worker->cell) || worker->pid == 0)
        return;
    line[length++] = '\n';
    if (send(worker->fd, line, (size_t)length, MSG_NOSIGNAL) != length)
        lk_fail(worker->cell, "the worker '%s' ended too early", worker->name);
}

void lk_tell(lk_worker *worker, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_line(worker, format, args);
    va_end(args);
}

/* Take the first line out of what has come. */
static bool split_line(lk_worker *worker, char line[LK_WORKER_LINE])
{
    char *end = memchr(worker->line, '\n', worker->filled);
    if (!end)
        return false;
    const size_t length = (size_t)(end - worker->line);
    memcpy(line, worker->line, length);
    line[length] = '\0';
    worker->filled -= length + 1;
    memmove(worker->line, end + 1, worker->filled);
    return true;
}

static bool hear_line(lk_worker *worker, char line[LK_WORKER_LINE])
{
    const int64_t end = lk_now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (!lk_failed(worker->cell) && worker->pid != 0 && !split_line(worker, line)) {
        struct pollfd in = {.fd = worker->fd, .events = POLLIN};
        const int64_t left = (end - lk_now_ns()) / 1000000;
        ssize_t got = 0;

        if (left > 0 && poll(&in, 1, (int)left) > 0)
            got = read(worker->fd, worker->line + worker->filled, sizeof worker->line - worker->filled);
        else
            lk_fail(worker->cell, "the worker '%s' did not answer within %d s", worker->name,
                    PATIENCE_MS / 1000);
        if (got > 0)
            worker->filled += (size_t)got;
        else
            lk_fail(worker->cell, "the worker '%s' ended too early", worker->name);
    }
    return !lk_failed(worker->cell) && worker->pid != 0;
}

lk_answer lk_hear(lk_worker *worker)
{
    char line[LK_WORKER_LINE];
    lk_answer answer = {.status = LOCKER_UNKNOWN, .state = LOCKER_STATE_UNLOCKED};
    if (!hear_line(worker, line))
        return answer;
    lk_words words = lk_words_of(line);
    answer.status = (locker_status)lk_word_number(&words);
    answer.state = (locker_state)lk_word_number(&words);
    answer.token = (uint64_t)lk_word_number(&words);
    answer.sent = lk_word_number(&words);
    answer.received = lk_word_number(&words);
    answer.until = lk_word_number(&words);
    snprintf(answer.text, sizeof answer.text, "%s", lk_words_rest(&words));
    if (!words.good) {
        answer.status = LOCKER_UNKNOWN;
        lk_fail(worker->cell, "%s: %s", worker->name, strncmp(line, "error ", 6) == 0 ? line + 6 : line);
    }
    return answer;
}

lk_answer lk_ask(lk_worker *worker, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_line(worker, format, args);
    va_end(args);
    return lk_hear(worker);
}

void lk_expect(lk_worker *worker, const char *word)
{
    char line[LK_WORKER_LINE];
    if (hear_line(worker, line) && strcmp(line, word) != 0)
        lk_fail(worker->cell, "%s: %s", worker->name, strncmp(line, "error ", 6) == 0 ? line + 6 : line);
}

/* ------------------------------------------------------------------ hiring and ending ---- */

static void start(lk_worker *worker, int netns)
{
    static const char *const argv[] = {"/proc/self/exe", LK_WORKER_OPTION, NULL};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        lk_die(LK_EXIT_SYSTEM, "cannot open a socket to a worker: %s", strerror(errno));
    worker->pid = lk_process_start(
        &(lk_start){.argv = argv, .in = ends[0], .out = ends[0], .err = STDERR_FILENO, .netns = netns});
    if (worker->pid < 0)
        lk_die(LK_EXIT_SYSTEM, "cannot start a worker (/proc/self/exe): %s", strerror(errno));
    close(ends[0]);
    worker->fd = ends[1];
}

lk_worker *lk_hire_at(lk_cell *cell, const char *name, const char *uri, int netns)
{
    lk_worker *worker = calloc(1, sizeof *worker);
    if (!worker || cell->crew_len == LK_CREW_MAX)
        lk_die(LK_EXIT_INTERNAL, "there are too many workers");
    worker->cell = cell;
    snprintf(worker->name, sizeof worker->name, "%s", name);
    cell->crew[cell->crew_len++] = worker;
    if (lk_failed(cell))
        return worker;
    start(worker, netns);
    lk_tell(worker, "setup %d %" PRId64 " %s %s %s %s", cell->run, cell->ttl_ms, cell->history,
            cell->result->column->name, cell->scenario, name);
    lk_expect(worker, "ok");
    lk_tell(worker, "open %s", uri);
    lk_expect(worker, "ok");
    return worker;
}

lk_worker *lk_hire(lk_cell *cell, const char *name)
{
    return lk_hire_at(cell, name, cell->backend->uri, -1);
}

static void note_end(lk_worker *worker, int64_t last_seen)
{
    lk_event event = LK_EVENT_INIT;
    event.op = LK_OP_END;
    event.phase = LK_PHASE_INFO;
    event.process = worker->pid;
    event.worker = worker->name;
    event.sent = last_seen;
    lk_history_write(worker->cell->writer, &event);
}

int64_t lk_kill(lk_worker *worker)
{
    const int64_t before = lk_now_ns();
    if (lk_failed(worker->cell) || worker->pid == 0)
        return before;
    lk_process_kill(worker->pid);
    worker->cell->ending_ms = (lk_now_ns() - before) / 1000000;
    note_end(worker, before);
    worker->pid = 0;
    close(worker->fd);
    return before;
}

static bool has_ended(void *context)
{
    lk_worker *worker = context;
    return waitpid(worker->pid, NULL, WNOHANG) == worker->pid;
}

static void await_end(lk_worker *worker)
{
    const int64_t before = lk_now_ns();
    if (worker->pid <= 0)
        return;
    if (!lk_until(has_ended, worker, lk_failed(worker->cell) ? 500 : 5000)) {
        lk_process_kill(worker->pid);
        note_end(worker, before);
    }
    worker->pid = 0;
}

/* Their input ends, so they give back what they hold and end; who does not is killed. */
static void dismiss(lk_cell *cell, bool observers)
{
    for (size_t i = 0; i < cell->crew_len; i++)
        if (cell->crew[i]->pid > 0 && cell->crew[i]->observes == observers) {
            kill(cell->crew[i]->pid, SIGCONT);
            close(cell->crew[i]->fd);
        }
    for (size_t i = 0; i < cell->crew_len; i++)
        if (cell->crew[i]->observes == observers)
            await_end(cell->crew[i]);
}

void lk_dismiss_all(lk_cell *cell)
{
    dismiss(cell, false);
    dismiss(cell, true); /* the last to look: what has stayed behind? */
    for (size_t i = 0; i < cell->crew_len; i++)
        free(cell->crew[i]);
    cell->crew_len = 0;
}

/* ------------------------------------------------------------------ what scenarios do with them ---- */

static void ask_as(lk_worker *worker, const char *kind, int permits)
{
    lk_tell(worker, "as %s %d", kind, permits);
    lk_expect(worker, "ok");
}

void lk_ask_alone(lk_worker *worker)
{
    ask_as(worker, "alone", 0);
}

void lk_ask_shared(lk_worker *worker)
{
    ask_as(worker, "shared", 0);
}

void lk_ask_permit(lk_worker *worker, int permits)
{
    ask_as(worker, "permit", permits);
}

lk_answer lk_compare_take(lk_worker *worker)
{
    lk_answer answer = lk_ask(worker, "lock %s 20000 1", worker->cell->key);
    if (answer.status > LOCKER_OK)
        lk_fail(worker->cell, "%s could not get the lock: %s", worker->name, answer.text);
    return answer;
}

void lk_stand_in_line(lk_worker *worker)
{
    lk_tell(worker, "wait %s 30000 1", worker->cell->key);
    lk_expect(worker, "waiting");
}

lk_answer lk_await_news(lk_worker *holder, const lk_answer *grant, int64_t since)
{
    const int64_t span = grant->until - grant->sent, end = lk_now_ns() + span * 2;
    lk_answer state;
    do {
        lk_rest(holder->cell, 50);
        state = lk_ask(holder, "state");
    } while (!lk_failed(holder->cell) && state.state <= LOCKER_STATE_SUSPECT && state.until - span <= since &&
             lk_now_ns() < end);
    return state;
}

lk_worker *lk_observe(lk_cell *cell, const char *uri, int netns)
{
    lk_worker *observer = lk_hire_at(cell, "observer", uri, netns);
    observer->observes = true;
    lk_tell(observer, "look %s 20", cell->key);
    return observer;
}

void lk_compare_freeze(lk_worker *worker)
{
    if (!lk_failed(worker->cell) && worker->pid > 0)
        lk_process_freeze(worker->pid);
}

void lk_compare_thaw(lk_worker *worker)
{
    if (worker->pid > 0)
        kill(worker->pid, SIGCONT);
}
