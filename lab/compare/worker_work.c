/* worker_work.c: what a worker does under locks: writes to the guarded store, counting, many turns in a row;
 * and looking on. See worker.h for the verbs, worker_side.h for the rest. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "servers/wait.h"
#include "store.h"
#include "worker.h"
#include "worker_side.h"

/* ------------------------------------------------------------------ work under a lock ---- */

void lk_work_write(lk_side *w, const char *store)
{
    lk_turn *t = &w->turn;
    lk_event event;
    bool accepted = false;

    if (!t->held) {
        lk_say("error there is no lock to write under");
        return;
    }
    t->sent_ns = lk_now_ns();
    if (!lk_store_write(store, locker_handle_token(t->held), &accepted)) {
        lk_say("error can't write %s: %s", store, strerror(errno));
        return;
    }
    t->received_ns = lk_now_ns();
    event = lk_turn_event(LK_OP_WRITE, accepted ? LK_PHASE_OK : LK_PHASE_FAIL, t, t->received_ns);
    event.sent = t->sent_ns;
    event.token = (int64_t)locker_handle_token(t->held);
    lk_history_write(w->history, &event);
    lk_answer_turn(accepted ? LOCKER_OK : LOCKER_DENIED, t);
}

/* Two steps on purpose: without exclusion two read the same number, and an increment is lost. */
static bool raise_number(const char *path, int64_t work_ms)
{
    const long number = lk_store_number(path);
    FILE *file;

    lk_pause_ms(work_ms);
    file = fopen(path, "we");
    return file && fprintf(file, "%ld\n", number + 1) > 0 && fclose(file) == 0;
}

void lk_work_job(lk_side *w, lk_words *words)
{
    lk_turn *t = &w->turn;
    char verb[16], path[256];
    int64_t work_ms;
    lk_turn got;

    lk_turn_begin(w);
    lk_word(words, verb, sizeof(verb));
    lk_word(words, t->key, sizeof(t->key));
    lk_word(words, path, sizeof(path));
    work_ms = lk_word_number(words);
    if (!words->good) {
        lk_say("error can't understand what job is meant");
        return;
    }
    t->try = strcmp(verb, "try") == 0;
    t->wait_ms = 30000;
    t->renew = true;
    lk_turn_take_and_note(t);
    got = *t;
    if (t->held && !raise_number(path, work_ms)) {
        lk_say("error can't write %s: %s", path, strerror(errno));
        return;
    }
    lk_turn_clear(w);
    got.held = NULL;
    lk_answer_turn((int)got.status, &got);
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
typedef struct watcher {
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

    lk_turn_begin(w);
    atomic_store(&look->turn, t->handle);
    lk_turn_take(t);
    atomic_store(&look->turn, 0);
    *cycle = (lk_cycle){.asked = t->sent_ns,
                        .got = t->received_ns,
                        .queued = atomic_load(&look->seen) == t->handle ? atomic_load(&look->at) : 0,
                        .until = t->until_ns,
                        .token = t->held ? locker_handle_token(t->held) : 0,
                        .locked = (int32_t)t->status,
                        .process = getpid(),
                        .handle = t->handle};
    if (!t->held)
        return;
    if (hold_us > 0)
        pause_until(t->received_ns + hold_us * 1000);
    cycle->gave = lk_now_ns();
    cycle->unlocked = (int32_t)locker_unlock(t->held, &t->err);
    cycle->given = lk_now_ns();
    lk_turn_drop(w);
}

/* Written down afterwards, so that writing costs the cycles nothing. */
static void note_cycle(lk_side *w, const lk_cycle *c)
{
    lk_turn *t = &w->turn;

    t->handle = c->handle;
    t->sent_ns = c->asked;
    t->received_ns = c->got;
    t->until_ns = 0;
    lk_turn_note(w, t, LK_OP_LOCK, LK_PHASE_INVOKE, c->asked);
    if (c->queued > 0 && c->queued < c->got)
        lk_turn_note(w, t, LK_OP_QUEUE, LK_PHASE_INFO, c->queued);
    t->until_ns = c->until;
    t->status = (locker_status)c->locked;
    lk_turn_note_grant(w, t, (int64_t)c->token);
    if (t->status != LOCKER_OK)
        return;
    lk_turn_note(w, t, LK_OP_UNLOCK, LK_PHASE_INVOKE, c->gave);
    t->status = (locker_status)c->unlocked;
    t->received_ns = c->given;
    lk_turn_note_unlocked(w, t);
}

static bool save_cycles(const char *path, const lk_cycle *cycles, size_t count)
{
    FILE *file = fopen(path, "we");
    bool good = file && fwrite(cycles, sizeof(*cycles), count, file) == count;

    return (file && fclose(file) == 0) && good;
}

void lk_work_cycle(lk_side *w, lk_words *words)
{
    const char *key = lk_word(words, w->turn.key, sizeof(w->turn.key));
    const int64_t at = lk_word_number(words), until = lk_word_number(words), count = lk_word_number(words),
                  hold_us = lk_word_number(words), rest_us = lk_word_number(words),
                  told = lk_word_number(words);
    watcher look = {.side = w, .on = lk_word_number(words) != 0};
    int64_t done = 0, failed = 0;
    char path[256];
    lk_cycle *cycles;

    lk_word(words, path, sizeof(path));
    if (!words->good || !(cycles = calloc((size_t)count, sizeof(*cycles)))) {
        lk_say("error can't cycle on '%s'", key);
        return;
    }
    w->turn.try = false;
    w->turn.wait_ms = 20000;
    w->turn.renew = true;
    if (!watcher_begin(&look)) {
        lk_say("error can't start a thread");
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
        lk_say("error can't write %s: %s", path, strerror(errno));
    else
        lk_answer_turn(failed > 0 ? (int)w->turn.status : LOCKER_OK, &w->turn);
    free(cycles);
}

/* ------------------------------------------------------------------ looking on ---- */

static void look_once(lk_side *w, const char *key)
{
    locker_info info = LOCKER_INFO_INIT;
    lk_event event = LK_EVENT_INIT;
    locker_status status;

    event.op = LK_OP_SERVER;
    event.phase = LK_PHASE_INFO;
    event.key = key;
    event.sent = lk_now_ns();
    status = locker_show(w->l, key, &info, NULL);
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

void lk_work_look(lk_side *w, const char *key, int64_t every_ms)
{
    do
        look_once(w, key);
    while (!lk_has_input((int)every_ms));
    look_once(w, key); /* the last word is what stays behind */
}
