/*
 * worker_side.h: what the files of a worker share: what it knows, and its turn at a lock.
 */
#ifndef LOCKER_LAB_COMPARE_WORKER_SIDE_H
#define LOCKER_LAB_COMPARE_WORKER_SIDE_H

#include <locker/locker.h>

#include "words.h"
#include "writer.h"

/** One lock: what is asked for, and what came of it. Times in ns of CLOCK_BOOTTIME. */
typedef struct lk_turn {
    struct lk_side *side;
    char key[LOCKER_KEY_MAX + 1];
    bool try;
    int64_t wait_ms;
    bool renew;
    int64_t handle;      /**< its number in the history */
    locker_handle *held; /**< NULL: it is not held, or was given back */
    locker_status status;
    locker_error err;
    int64_t sent_ns, received_ns; /**< before and after the last call */
    int64_t until_ns;             /**< the deadline that was known then; 0: none */
} lk_turn;

/** What a worker knows. */
typedef struct lk_side {
    locker *l;
    lk_history_writer *history;
    char name[48], backend[64], scenario[64]; /**< of every line of the history */
    int64_t ttl_ms;
    int64_t handles;    /**< how many locks were asked for */
    lk_turn turn;       /**< the last one */
    int64_t told_until; /**< the deadline that the history knows */
} lk_side;

/** Say a line to who runs us. */
void lk_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Say an ANSWER, as in worker.h. */
void lk_answer_turn(int status, const lk_turn *t);

/** Whether a line comes, or the end, within so many ms (-1: for ever). */
bool lk_has_input(int ms);

/** The deadline that a handle knows; 0: none, or it is past. Rounded down by less than 1 ms. */
int64_t lk_deadline(const locker_handle *held);

/** Be rid of what the last turn left, and begin another. */
void lk_turn_begin(lk_side *w);

/** Ask for the lock as the turn says; the second tells the history. */
void lk_turn_take(lk_turn *t);
void lk_turn_take_and_note(lk_turn *t);

/** Unlock, and leave the handle to be looked at. */
void lk_turn_give(lk_side *w);

/** Free the handle; the second unlocks before, if it is held. */
void lk_turn_drop(lk_side *w);
void lk_turn_clear(lk_side *w);

/** The history is to know the deadline of a lock that is renewed: a holder that is killed is judged by it. */
void lk_turn_tell_lease(lk_side *w);

/** Lines of the history: in general, the answer to lock or try, the answer to unlock. */
lk_event lk_turn_event(lk_op op, lk_phase phase, const lk_turn *t, int64_t at);
void lk_turn_note(lk_side *w, const lk_turn *t, lk_op op, lk_phase phase, int64_t at);
void lk_turn_note_grant(lk_side *w, const lk_turn *t, int64_t token);
void lk_turn_note_unlocked(lk_side *w, const lk_turn *t);

/* The verbs of worker_work.c. `words` are those behind the verb. */
void lk_work_write(lk_side *w, const char *store);
void lk_work_job(lk_side *w, lk_words *words);
void lk_work_cycle(lk_side *w, lk_words *words);
void lk_work_look(lk_side *w, const char *key, int64_t every_ms);

#endif
