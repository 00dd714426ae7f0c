/* worker_turn.c: a worker's turn at a lock, and what the history is told of it; see worker_side.h. */
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "lease.h"
#include "servers/wait.h"
#include "worker_side.h"

/* ------------------------------------------------------------------ what it says ---- */

void lk_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void lk_answer_turn(int status, const lk_turn *t)
{
    lk_say("%d %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %s", status,
           t->held ? locker_handle_token(t->held) : 0, t->sent_ns, t->received_ns, t->until_ns, t->err.text);
}

bool lk_has_input(int ms)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&in, 1, ms) > 0;
}

/* ------------------------------------------------------------------ locking ---- */

/* The deadline that a handle knows, in ns of CLOCK_BOOTTIME; 0: none, or it is past. Rounded down by less
 * than 1 ms. */
int64_t lk_deadline(const locker_handle *held)
{
    const int64_t now = lk_now_ns(), left = locker_handle_remaining_ms(held);

    return left <= 0 ? 0 : now + left * 1000000;
}

lk_event lk_turn_event(lk_op op, lk_phase phase, const lk_turn *t, int64_t at)
{
    lk_event event = LK_EVENT_INIT;

    event.op = op;
    event.phase = phase;
    event.t = at;
    event.key = t->key;
    event.handle = t->handle;
    return event;
}

/* The answer to lock or try; `handle` and the rest are of the turn. */
void lk_turn_note_grant(lk_side *w, const lk_turn *t, int64_t token)
{
    lk_event event = lk_turn_event(t->try ? LK_OP_TRY : LK_OP_LOCK, LK_PHASE_OK, t, t->received_ns);

    if (t->status == LOCKER_OK) {
        event.token = token;
        event.valid_until = t->until_ns;
        event.ttl = lk_lease_ns(t->sent_ns, t->until_ns, w->ttl_ms);
        event.owner = w->name;
    } else {
        event.phase = LK_PHASE_FAIL;
        event.outcome = locker_status_name(t->status);
    }
    lk_history_write(w->history, &event);
}

void lk_turn_note(lk_side *w, const lk_turn *t, lk_op op, lk_phase phase, int64_t at)
{
    lk_event event = lk_turn_event(op, phase, t, at);

    event.valid_until = t->until_ns;
    lk_history_write(w->history, &event);
}

void lk_turn_note_unlocked(lk_side *w, const lk_turn *t)
{
    const lk_phase phase = t->status == LOCKER_OK     ? LK_PHASE_OK
                           : t->status == LOCKER_LOST ? LK_PHASE_FAIL
                                                      : LK_PHASE_INFO;
    lk_event event = lk_turn_event(LK_OP_UNLOCK, phase, t, t->received_ns);

    if (phase != LK_PHASE_OK)
        event.outcome = locker_status_name(t->status);
    lk_history_write(w->history, &event);
}

/* On the locker's own thread. */
static void on_lost(locker_handle *held, void *user)
{
    const lk_turn *t = user;
    lk_event event = lk_turn_event(LK_OP_LOST, LK_PHASE_INFO, t, lk_now_ns());

    (void)held;
    lk_history_write(t->side->history, &event);
}

void lk_turn_drop(lk_side *w)
{
    locker_handle_free(w->turn.held);
    w->turn.held = NULL;
}

/* Unlock, and leave the handle to be looked at. */
void lk_turn_give(lk_side *w)
{
    lk_turn *t = &w->turn;

    t->until_ns = lk_deadline(t->held);
    lk_turn_note(w, t, LK_OP_UNLOCK, LK_PHASE_INVOKE, lk_now_ns());
    t->sent_ns = lk_now_ns();
    t->status = locker_unlock(t->held, &t->err);
    t->received_ns = lk_now_ns();
    lk_turn_note_unlocked(w, t);
}

/* Be rid of what the last turn left. */
void lk_turn_clear(lk_side *w)
{
    if (w->turn.held)
        lk_turn_give(w);
    lk_turn_drop(w);
}

void lk_turn_begin(lk_side *w)
{
    lk_turn_clear(w);
    w->turn.handle = ++w->handles;
    w->turn.side = w;
    w->turn.err.text[0] = '\0';
}

/* Ask for the lock as turn says. */
void lk_turn_take(lk_turn *t)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;

    options.wait_ms = t->wait_ms;
    options.no_renew = !t->renew;
    options.on_lost = on_lost;
    options.user = t;
    t->sent_ns = lk_now_ns();
    t->status = t->try ? locker_try_lock(t->side->l, t->key, &options, &t->held, &t->err)
                       : locker_lock(t->side->l, t->key, &options, &t->held, &t->err);
    t->received_ns = lk_now_ns();
    t->until_ns = t->held ? lk_deadline(t->held) : 0;
}

void lk_turn_take_and_note(lk_turn *t)
{
    lk_side *w = t->side;

    t->until_ns = 0;
    lk_turn_note(w, t, t->try ? LK_OP_TRY : LK_OP_LOCK, LK_PHASE_INVOKE, lk_now_ns());
    lk_turn_take(t);
    lk_turn_note_grant(w, t, t->held ? (int64_t)locker_handle_token(t->held) : 0);
    w->told_until = t->until_ns;
}

void lk_turn_tell_lease(lk_side *w)
{
    lk_turn *t = &w->turn;

    if (!t->held || locker_handle_state(t->held) > LOCKER_STATE_SUSPECT)
        return;
    t->until_ns = lk_deadline(t->held);
    if (t->until_ns - w->told_until < 2000000)
        return; /* it has not moved, but for the rounding */
    w->told_until = t->until_ns;
    lk_turn_note(w, t, LK_OP_LEASE, LK_PHASE_INFO, lk_now_ns());
}
