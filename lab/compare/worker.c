/* worker.c: the worker's side of locker compare: a process that locks as it is told, line by line, and writes
 * down in the history what it did. worker.h has the protocol. The main thread obeys; a call that waits for a
 * lock while the main thread looks on has a thread of its own. */
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <locker/locker.h>

#include "cli.h"
#include "lease.h"
#include "servers/wait.h"
#include "store.h"
#include "words.h"
#include "writer.h"

/* One lock: what is asked for, and what came of it. Times in ns of CLOCK_BOOTTIME. */
typedef struct {
    struct lk_side *side;
    char key[LOCKER_KEY_MAX + 1];
    bool try;
    int64_t wait_ms;
    bool renew;
    int64_t handle;      /* its number in the history */
    locker_handle *held; /* NULL: it is not held, or was given back */
    locker_status status;
    locker_error err;
    int64_t sent_ns, received_ns; /* before and after the last call */
    int64_t until_ns;             /* the deadline that was known then; 0: none */
} lk_turn;

/* What a worker knows. */
typedef struct lk_side {
    locker *l;
    lk_history_writer *history;
    char name[48], backend[64], scenario[64]; /* of every line of the history */
    int64_t ttl_ms;
    locker_mode mode;   /* how it asks, ... */
    int32_t permits;    /* ... and for one of how many; 0: for a lock */
    int64_t handles;    /* how many locks were asked for */
    lk_turn turn;       /* the last one */
    int64_t told_until; /* the deadline that the history knows */
} lk_side;

/* ------------------------------------------------------------------ what it says ---- */

static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static void answer(locker_status status, const lk_turn *t)
{
    const locker_state state = t->held ? locker_handle_state(t->held) : LOCKER_STATE_UNLOCKED;
    say("%d %d %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %s", (int)status, (int)state,
        t->held ? locker_handle_token(t->held) : 0, t->sent_ns, t->received_ns, t->until_ns, t->err.text);
}

static bool has_input(int ms)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, ms) > 0;
}

/* ------------------------------------------------------------------ locking ---- */

/* The deadline that a handle knows, in ns of CLOCK_BOOTTIME; 0: none, or it is past. Rounded down by less
 * than 1 ms. */
static int64_t deadline_of(const locker_handle *held)
{
    const int64_t now = lk_now_ns(), left = locker_handle_remaining_ms(held);
    return left <= 0 ? 0 : now + left * 1000000;
}

static lk_event turn_event(lk_op op, lk_history_phase phase, const lk_turn *t, int64_t at)
{
    lk_event event = LK_EVENT_INIT;
    event.op = op;
    event.phase = phase;
    event.t = at;
    event.key = t->key;
    event.handle = t->handle;
    return event;
}

/* It asks, in the way that the worker does now. */
static void turn_note_asked(lk_side *w, const lk_turn *t, int64_t at)
{
    lk_event event = turn_event(t->try ? LK_OP_TRY : LK_OP_LOCK, LK_PHASE_INVOKE, t, at);
    event.mode = w->mode == LOCKER_SHARED ? "shared" : NULL;
    event.permits = w->permits;
    lk_history_write(w->history, &event);
}

/* The answer to lock or try; `handle` and the rest are of the turn. */
static void turn_note_grant(lk_side *w, const lk_turn *t, int64_t token, int64_t slot)
{
    lk_event event = turn_event(t->try ? LK_OP_TRY : LK_OP_LOCK, LK_PHASE_OK, t, t->received_ns);
    if (t->status == LOCKER_OK) {
        event.token = token;
        event.slot = slot;
        event.valid_until = t->until_ns;
        event.ttl = lk_lease_ns(t->sent_ns, t->until_ns, w->ttl_ms);
        event.owner = w->name;
    } else {
        event.phase = LK_PHASE_FAIL;
        event.outcome = locker_status_name(t->status);
    }
    lk_history_write(w->history, &event);
}

static void turn_note(lk_side *w, const lk_turn *t, lk_op op, lk_history_phase phase, int64_t at)
{
    lk_event event = turn_event(op, phase, t, at);
    event.valid_until = t->until_ns;
    lk_history_write(w->history, &event);
}

static void turn_note_unlocked(lk_side *w, const lk_turn *t)
{
    const lk_history_phase phase = t->status == LOCKER_OK     ? LK_PHASE_OK
                                   : t->status == LOCKER_LOST ? LK_PHASE_FAIL
                                                              : LK_PHASE_INFO;
    lk_event event = turn_event(LK_OP_UNLOCK, phase, t, t->received_ns);
    if (phase != LK_PHASE_OK)
        event.outcome = locker_status_name(t->status);
    lk_history_write(w->history, &event);
}

/* On the locker's own thread. */
static void on_lost(locker_handle *held, void *user)
{
    const lk_turn *t = user;
    lk_event event = turn_event(LK_OP_LOST, LK_PHASE_INFO, t, lk_now_ns());
    (void)held;
    lk_history_write(t->side->history, &event);
}

static void turn_drop(lk_side *w)
{
    locker_handle_free(w->turn.held);
    w->turn.held = NULL;
}

/* Unlock, and leave the handle to be looked at. */
static void turn_give(lk_side *w)
{
    lk_turn *t = &w->turn;
    t->until_ns = deadline_of(t->held);
    turn_note(w, t, LK_OP_UNLOCK, LK_PHASE_INVOKE, lk_now_ns());
    t->sent_ns = lk_now_ns();
    t->status = locker_unlock(t->held, &t->err);
    t->received_ns = lk_now_ns();
    turn_note_unlocked(w, t);
}

/* Be rid of what the last turn left. */
static void turn_clear(lk_side *w)
{
    if (w->turn.held)
        turn_give(w);
    turn_drop(w);
}

static void turn_begin(lk_side *w)
{
    turn_clear(w);
    w->turn.handle = ++w->handles;
    w->turn.side = w;
    w->turn.err.text[0] = '\0';
}

/* Ask for the lock as turn says. */
static void turn_take(lk_turn *t)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.wait_ms = t->wait_ms;
    options.no_renew = !t->renew;
    options.mode = t->side->mode;
    options.permits = t->side->permits;
    options.on_lost = on_lost;
    options.user = t;
    t->sent_ns = lk_now_ns();
    t->status = t->try ? locker_try_lock(t->side->l, t->key, &options, &t->held, &t->err)
                       : locker_lock(t->side->l, t->key, &options, &t->held, &t->err);
    t->received_ns = lk_now_ns();
    t->until_ns = t->held ? deadline_of(t->held) : 0;
}

static void turn_take_and_note(lk_turn *t)
{
    lk_side *w = t->side;
    t->until_ns = 0;
    turn_note_asked(w, t, lk_now_ns());
    turn_take(t);
    turn_note_grant(w, t, t->held ? (int64_t)locker_handle_token(t->held) : 0,
                    t->held ? locker_handle_slot(t->held) : -1);
    w->told_until = t->until_ns;
}

static void turn_tell_lease(lk_side *w)
{
    lk_turn *t = &w->turn;
    if (!t->held || locker_handle_state(t->held) > LOCKER_STATE_SUSPECT)
        return;
    t->until_ns = deadline_of(t->held);
    if (t->until_ns - w->told_until < 2000000)
        return; /* it has not moved, but for the rounding */
    w->told_until = t->until_ns;
    turn_note(w, t, LK_OP_LEASE, LK_PHASE_INFO, lk_now_ns());
}

/* ------------------------------------------------------------------ work under a lock ---- */

static void do_write(lk_side *w, const char *store)
{
    lk_turn *t = &w->turn;
    if (!t->held) {
        say("error there is no lock to write under");
        return;
    }
    t->sent_ns = lk_now_ns();
    bool accepted = false;
    if (!lk_store_write(store, locker_handle_token(t->held), &accepted)) {
        say("error cannot write %s: %s", store, strerror(errno));
        return;
    }
    t->received_ns = lk_now_ns();
    lk_event event = turn_event(LK_OP_WRITE, accepted ? LK_PHASE_OK : LK_PHASE_FAIL, t, t->received_ns);
    event.sent = t->sent_ns;
    event.token = (int64_t)locker_handle_token(t->held);
    lk_history_write(w->history, &event);
    answer(accepted ? LOCKER_OK : LOCKER_DENIED, t);
}

/* Two steps on purpose: without exclusion two read the same number, and an increment is lost. */
static bool raise_number(const char *path, int64_t work_ms)
{
    const long number = lk_store_number(path);
    lk_pause_ms(work_ms);
    FILE *file = fopen(path, "we");
    return file && fprintf(file, "%ld\n", number + 1) > 0 && fclose(file) == 0;
}

static void do_job(lk_side *w, lk_words *words)
{
    lk_turn *t = &w->turn;
    turn_begin(w);
    char verb[16];
    lk_word(words, verb, sizeof verb);
    lk_word(words, t->key, sizeof t->key);
    char path[256];
    lk_word(words, path, sizeof path);
    const int64_t work_ms = lk_word_number(words);
    if (!words->good) {
        say("error cannot understand the job");
        return;
    }
    t->try = strcmp(verb, "try") == 0;
    t->wait_ms = 30000;
    t->renew = true;
    turn_take_and_note(t);
    lk_turn got = *t;
    if (t->held && !raise_number(path, work_ms)) {
        say("error cannot write %s: %s", path, strerror(errno));
        return;
    }
    turn_clear(w);
    got.held = NULL;
    answer(got.status, &got);
}

/* ------------------------------------------------------------------ cycles ---- */

static void pause_until(int64_t at)
{
    const struct timespec when = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

/* Looks each ms whether the call that is under way waits: then its attempt was answered, and it stands in the
 * queue. Sequentially consistent atomics: `turn` is read on both sides of the look. */
typedef struct {
    lk_side *side;
    bool on;
    pthread_t thread;
    _Atomic bool ends;
    _Atomic int64_t turn; /* the number of the call that is under way; 0: none */
    _Atomic int64_t seen; /* the number of the call that was seen to wait last, ... */
    _Atomic int64_t at;   /* ... and when that was; written before it */
} watcher;

static void look_for_waiting(watcher *look)
{
    const int64_t turn = atomic_load(&look->turn);
    locker_statistics stats = LOCKER_STATISTICS_INIT;
    if (turn != 0 && atomic_load(&look->seen) != turn && locker_stats(look->side->l, &stats) == LOCKER_OK &&
        stats.waiting > 0 && atomic_load(&look->turn) == turn) {
        atomic_store(&look->at, lk_now_ns());
        atomic_store(&look->seen, turn);
    }
}

static void *watch(void *context)
{
    watcher *look = context;
    while (!atomic_load(&look->ends)) {
        look_for_waiting(look);
        pause_until(lk_now_ns() + 1000000);
    }
    return NULL;
}

static bool watcher_begin(watcher *look)
{
    return !look->on || pthread_create(&look->thread, NULL, watch, look) == 0;
}

static void watcher_end(watcher *look)
{
    atomic_store(&look->ends, true);
    if (look->on)
        pthread_join(look->thread, NULL);
}

static void one_cycle(lk_side *w, watcher *look, lk_cycle *cycle, int64_t hold_us)
{
    lk_turn *t = &w->turn;
    turn_begin(w);
    atomic_store(&look->turn, t->handle);
    turn_take(t);
    atomic_store(&look->turn, 0);
    *cycle = (lk_cycle){.asked = t->sent_ns,
                        .got = t->received_ns,
                        .queued = atomic_load(&look->seen) == t->handle ? atomic_load(&look->at) : 0,
                        .until = t->until_ns,
                        .token = t->held ? locker_handle_token(t->held) : 0,
                        .locked = (int32_t)t->status,
                        .process = getpid(),
                        .handle = t->handle,
                        .slot = t->held ? locker_handle_slot(t->held) : -1,
                        .shared = w->mode == LOCKER_SHARED};
    if (!t->held)
        return;
    if (hold_us > 0)
        pause_until(t->received_ns + hold_us * 1000);
    cycle->gave = lk_now_ns();
    cycle->unlocked = (int32_t)locker_unlock(t->held, &t->err);
    cycle->given = lk_now_ns();
    turn_drop(w);
}

/* Written down afterwards, so that writing costs the cycles nothing. */
static void note_cycle(lk_side *w, const lk_cycle *c)
{
    lk_turn *t = &w->turn;
    t->handle = c->handle;
    t->sent_ns = c->asked;
    t->received_ns = c->got;
    t->until_ns = 0;
    turn_note_asked(w, t, c->asked);
    if (c->queued > 0 && c->queued < c->got)
        turn_note(w, t, LK_OP_QUEUE, LK_PHASE_INFO, c->queued);
    t->until_ns = c->until;
    t->status = (locker_status)c->locked;
    turn_note_grant(w, t, (int64_t)c->token, c->slot);
    if (t->status != LOCKER_OK)
        return;
    turn_note(w, t, LK_OP_UNLOCK, LK_PHASE_INVOKE, c->gave);
    t->status = (locker_status)c->unlocked;
    t->received_ns = c->given;
    turn_note_unlocked(w, t);
}

static bool save_cycles(const char *path, const lk_cycle *cycles, size_t count)
{
    FILE *file = fopen(path, "we");
    const bool good = file && fwrite(cycles, sizeof *cycles, count, file) == count;
    return (file && fclose(file) == 0) && good;
}

static void do_cycle(lk_side *w, lk_words *words)
{
    const char *key = lk_word(words, w->turn.key, sizeof w->turn.key);
    const int64_t at = lk_word_number(words), until = lk_word_number(words), count = lk_word_number(words),
                  hold_us = lk_word_number(words), rest_us = lk_word_number(words),
                  told = lk_word_number(words);
    watcher look = {.side = w, .on = lk_word_number(words) != 0};
    int64_t done = 0, failed = 0;
    char path[256];
    lk_word(words, path, sizeof path);
    lk_cycle *cycles;
    if (!words->good || !(cycles = calloc((size_t)count, sizeof *cycles))) {
        say("error cannot cycle on '%s'", key);
        return;
    }
    w->turn.try = false;
    w->turn.wait_ms = 20000;
    w->turn.renew = true;
    if (!watcher_begin(&look)) {
        say("error cannot start a thread");
        free(cycles);
        return;
    }
    pause_until(at);
    while (done < count && lk_now_ns() < until && failed < 3) {
        one_cycle(w, &look, &cycles[done], hold_us);
        failed = cycles[done].locked == LOCKER_OK ? 0 : failed + 1;
        done++;
        if (rest_us > 0)
            pause_until(lk_now_ns() + rest_us * 1000);
    }
    watcher_end(&look);
    for (int64_t i = 0; i < done && i < told; i++)
        note_cycle(w, &cycles[i]);
    if (!save_cycles(path, cycles, (size_t)done))
        say("error cannot write %s: %s", path, strerror(errno));
    else
        answer(failed > 0 ? w->turn.status : LOCKER_OK, &w->turn);
    free(cycles);
}

/* ------------------------------------------------------------------ looking on ---- */

static void look_once(lk_side *w, const char *key)
{
    locker_info info = LOCKER_INFO_INIT;
    lk_event event = LK_EVENT_INIT;
    event.op = LK_OP_SERVER;
    event.phase = LK_PHASE_INFO;
    event.key = key;
    event.sent = lk_now_ns();
    const locker_status status = locker_show(w->l, key, &info, NULL);
    event.t = lk_now_ns();
    if (status != LOCKER_OK)
        return; /* it said nothing: it is away */
    event.held = info.held;
    if (info.held) {
        event.token = (int64_t)info.token;
        event.owner = info.owner[0] ? info.owner : NULL;
    }
    event.waiters = info.waiters;
    lk_history_write(w->history, &event);
    locker_info_clear(&info);
}

static void do_look(lk_side *w, const char *key, int64_t every_ms)
{
    do
        look_once(w, key);
    while (!has_input((int)every_ms));
    look_once(w, key); /* the last word is what stays behind */
}

/* ------------------------------------------------------------------ taking and giving ---- */

static void *take_in_thread(void *argument)
{
    turn_take_and_note(argument);
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
    const int error = pthread_create(&thread, NULL, take_in_thread, &w->turn);
    int64_t at = 0;
    if (error != 0) {
        say("error cannot start a thread: %s", strerror(error));
        return;
    }
    if (lk_until(is_waiting, w, 10000)) {
        at = lk_now_ns();
        if (is_waiting(w)) { /* it waited before `at` and after */
            const lk_event event = turn_event(LK_OP_QUEUE, LK_PHASE_INFO, &w->turn, at);

            lk_history_write(w->history, &event);
        }
        say("waiting");
    } else {
        say("never waited");
    }
    pthread_join(thread, NULL);
    answer(w->turn.status, &w->turn);
}

static void do_unlock(lk_side *w)
{
    lk_turn *t = &w->turn;
    if (!t->held) {
        say("error there is no lock to unlock");
        return;
    }
    turn_give(w);
    answer(t->status, t);
    turn_drop(w);
}

static void do_state(lk_side *w)
{
    lk_turn *t = &w->turn;
    if (!t->held) {
        say("error there is no lock to look at");
        return;
    }
    t->sent_ns = t->received_ns = lk_now_ns();
    t->until_ns = deadline_of(t->held);
    answer(LOCKER_OK, t);
}

/* The answer's deadline is the last that was known. */
static void do_lost(lk_side *w, int64_t ms)
{
    lk_turn *t = &w->turn;
    struct pollfd lost = {.fd = t->held ? locker_handle_fd(t->held) : -1, .events = POLLIN};
    if (lost.fd < 0) {
        say("error there is no lock to look at");
        return;
    }
    t->sent_ns = lk_now_ns();
    while (poll(&lost, 1, 10) == 0 && lk_now_ns() - t->sent_ns < ms * 1000000)
        turn_tell_lease(w);
    t->received_ns = lk_now_ns();
    t->until_ns = w->told_until;
    answer(LOCKER_OK, t);
}

/* ------------------------------------------------------------------ listening ---- */

static void do_setup(lk_side *w, lk_words *words)
{
    lk_event common = LK_EVENT_INIT;
    common.run = lk_word_number(words);
    w->ttl_ms = lk_word_number(words);
    char file[256];
    lk_word(words, file, sizeof file);
    common.backend = lk_word(words, w->backend, sizeof w->backend);
    common.scenario = lk_word(words, w->scenario, sizeof w->scenario);
    common.worker = lk_word(words, w->name, sizeof w->name);
    w->history = words->good ? lk_history_writer_open(file, &common) : NULL;
    if (w->history)
        say("ok");
    else
        say("error cannot write the history %s: %s", file, strerror(errno));
}

static void do_open(lk_side *w, const char *uri)
{
    locker_options options = LOCKER_OPTIONS_INIT;
    options.owner = w->name;
    options.ttl_ms = w->ttl_ms;
    locker_error err;
    if (locker_open(uri, &options, &w->l, &err) == LOCKER_OK)
        say("ok");
    else
        say("error %s", err.text);
}

static void do_as(lk_side *w, lk_words *words)
{
    char kind[16];
    lk_word(words, kind, sizeof kind);
    const int64_t permits = lk_word_number(words);
    if (!words->good) {
        say("error cannot understand the kind of lock");
        return;
    }
    w->mode = strcmp(kind, "shared") == 0 ? LOCKER_SHARED : LOCKER_EXCLUSIVE;
    w->permits = (int32_t)permits;
    say("ok");
}

static void do_lock(lk_side *w, const char *verb, lk_words *words)
{
    lk_turn *t = &w->turn;
    turn_begin(w);
    lk_word(words, t->key, sizeof t->key);
    t->wait_ms = lk_word_number(words);
    t->renew = lk_word_number(words) != 0;
    t->try = strcmp(verb, "try") == 0;
    if (!words->good) {
        say("error cannot understand the call for a lock");
    } else if (strcmp(verb, "wait") == 0) {
        wait_in_thread(w);
    } else {
        turn_take_and_note(t);
        answer(t->status, t);
    }
}

static void do_break(lk_side *w, const char *key)
{
    lk_turn t = {.sent_ns = lk_now_ns()};
    t.status = locker_break(w->l, key, NULL, NULL, &t.err);
    t.received_ns = lk_now_ns();
    answer(t.status, &t);
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
        do_write(w, lk_word(words, text, sizeof text));
    } else if (strcmp(verb, "break") == 0) {
        do_break(w, lk_word(words, text, sizeof text));
    } else if (strcmp(verb, "look") == 0) {
        lk_word(words, text, sizeof text);
        do_look(w, text, lk_word_number(words));
    } else {
        return false;
    }
    return true;
}

static void obey(lk_side *w, const char *line)
{
    lk_words words = lk_words_of(line);
    char verb[16];
    lk_word(&words, verb, sizeof verb);
    if (strcmp(verb, "setup") == 0)
        do_setup(w, &words);
    else if (strcmp(verb, "open") == 0)
        do_open(w, lk_words_rest(&words));
    else if (strcmp(verb, "as") == 0)
        do_as(w, &words);
    else if (!w->l)
        say("error no service is open");
    else if (strcmp(verb, "lock") == 0 || strcmp(verb, "try") == 0 || strcmp(verb, "wait") == 0)
        do_lock(w, verb, &words);
    else if (strcmp(verb, "job") == 0)
        do_job(w, &words);
    else if (strcmp(verb, "cycle") == 0)
        do_cycle(w, &words);
    else if (!obey_about(w, verb, &words))
        say("error cannot understand: %.100s", line);
}

/* Whole lines only, and no stdio: poll() has to know what is there. */
static bool next_line(lk_side *w, char line[LK_WORKER_LINE])
{
    size_t length = 0;
    for (;;) {
        while (!has_input(w->turn.held ? 20 : -1))
            turn_tell_lease(w);
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
    signal(SIGPIPE, SIG_IGN);
    char line[LK_WORKER_LINE];
    while (next_line(&w, line))
        obey(&w, line);
    turn_clear(&w);
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
