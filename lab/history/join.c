/* join.c: puts the lines of all files in the order of time, and joins what belongs together: a handle's
 * question and answers, a process and its end, a key and all that was done to it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct joining {
    lk_history *history;
    lk_history_error *error;
    lk_history_table scopes, processes, keys, attempts;
};

/* Files one after the other, and lines as they stand: a stable order. */
static int by_time(const void *left, const void *right)
{
    const lk_event *a = left, *b = right;
    if (a->t != b->t)
        return a->t < b->t ? -1 : 1;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

static bool wrong(const struct joining *j, const lk_event *event, const char *text, const lk_event *other)
{
    const char *name = j->history->files[event->file].name;
    char where[300] = "";
    if (other)
        snprintf(where, sizeof where, " (%.250s:%u)", j->history->files[other->file].name, other->line);
    return lk_history_fail(j->error, LK_HISTORY_BAD_DATA,
                           "%s:%u: %s of handle %" PRId64 " in process %" PRId64 " %s%s", name, event->line,
                           lk_op_name(event->op), event->handle, event->process, text, where);
}

/* ------------------------------------------------------------------ finding by name ---- */

static bool scope_of(struct joining *j, const lk_event *event, int64_t *scope)
{
    const lk_history_table_key name = {{event->run, (intptr_t)event->backend, (intptr_t)event->scenario, 0}};
    bool added;
    size_t *index = lk_history_table_at(&j->scopes, &name, &added);
    if (!index)
        return false;
    if (added) {
        lk_history *h = j->history;

        if (!lk_grow(&h->allowed, sizeof *h->allowed, h->scope_count, &h->scope_room))
            return false;
        h->allowed[h->scope_count] = 0;
        *index = h->scope_count++;
    }
    *scope = (int64_t)*index;
    return true;
}

/* The index of the event's process, made when it is new; -1: out of memory. */
static int64_t process_of(struct joining *j, const lk_event *event, int64_t scope)
{
    lk_history *h = j->history;
    const lk_history_table_key name = {{scope, event->process, 0, 0}};
    bool added;
    size_t *index = lk_history_table_at(&j->processes, &name, &added);
    if (!index)
        return -1;
    if (added) {
        if (!lk_grow(&h->processes, sizeof *h->processes, h->process_count, &h->process_room))
            return -1;
        h->processes[h->process_count] = (lk_process){0};
        *index = h->process_count++;
    }
    return (int64_t)*index;
}

static lk_history_key *key_of(struct joining *j, const lk_event *event, int64_t scope)
{
    lk_history *h = j->history;
    const lk_history_table_key name = {{scope, (intptr_t)event->key, 0, 0}};
    bool added;
    size_t *index = lk_history_table_at(&j->keys, &name, &added);
    if (!index)
        return NULL;
    if (added) {
        if (!lk_grow(&h->keys, sizeof *h->keys, h->key_count, &h->key_room))
            return NULL;
        h->keys[h->key_count] = (lk_history_key){.first = event, .scope = (size_t)scope};
        *index = h->key_count++;
    }
    return &h->keys[*index];
}

/* ------------------------------------------------------------------ a handle's lines ---- */

/* Takes the invocation of lock or try. `process` is an index while the array grows. */
static bool begin(struct joining *j, lk_history_key *key, const lk_event *event, int64_t process,
                  size_t *index)
{
    lk_history *h = j->history;
    lk_attempt *attempt = &h->attempts[h->attempt_count];
    if (!lk_grow(&key->attempts, sizeof *key->attempts, key->attempt_count, &key->attempt_room))
        return lk_history_no_memory(j->error);
    *attempt = (lk_attempt){
        .kind = lk_kind_of(event), .handle = event->handle, .asked = event, .deadline = LK_NEVER};
    attempt->from = process; /* until link_processes() */
    key->attempts[key->attempt_count++] = attempt;
    *index = h->attempt_count++;
    return true;
}

static bool answer(const struct joining *j, const lk_event *event, const lk_event *question,
                   const lk_event **where)
{
    if (!question)
        return wrong(j, event, "has an answer, but no invoke line", NULL);
    if (*where)
        return wrong(j, event, "already has an answer", *where);
    if (question->op != event->op)
        return wrong(j, event, "answers a call of another operation", question);
    *where = event;
    return true;
}

static bool unlock(const struct joining *j, const lk_event *event, lk_attempt *attempt)
{
    if (event->phase != LK_PHASE_INVOKE)
        return answer(j, event, attempt->unlock, &attempt->unlocked);
    if (attempt->unlock)
        return wrong(j, event, "was already invoked", attempt->unlock);
    if (!attempt->answered || attempt->answered->phase == LK_PHASE_FAIL)
        return wrong(j, event, "comes without a granted lock", attempt->answered);
    attempt->unlock = event;
    return true;
}

static bool advance(const struct joining *j, const lk_event *event, lk_attempt *attempt)
{
    if (event->key != attempt->asked->key)
        return wrong(j, event, "has another key than its first line", attempt->asked);
    if (event->valid_until)
        attempt->deadline = event->valid_until;
    if (event->op == LK_OP_LOCK || event->op == LK_OP_TRY)
        return answer(j, event, attempt->asked, &attempt->answered);
    if (event->op == LK_OP_UNLOCK)
        return unlock(j, event, attempt);
    if (event->op == LK_OP_LOST && !attempt->lost)
        attempt->lost = event;
    if (event->op == LK_OP_QUEUE && !attempt->queued)
        attempt->queued = event;
    return true;
}

static bool handle_line(struct joining *j, lk_history_key *key, const lk_event *event, int64_t process)
{
    const lk_history_table_key name = {{process, event->handle, 0, 0}};
    bool begins = (event->op == LK_OP_LOCK || event->op == LK_OP_TRY) && event->phase == LK_PHASE_INVOKE,
         added;
    size_t *index = lk_history_table_at(&j->attempts, &name, &added);
    if (!index)
        return lk_history_no_memory(j->error);
    if (added && !begins)
        return wrong(j, event, "comes before the call for the lock", NULL);
    if (!added && begins)
        return wrong(j, event, "reuses a handle", j->history->attempts[*index].asked);
    if (begins)
        return begin(j, key, event, process, index);
    return advance(j, event, &j->history->attempts[*index]);
}

/* ------------------------------------------------------------------ all lines ---- */

static bool append(const lk_event ***list, size_t *count, size_t *room, const lk_event *event)
{
    if (!lk_grow(list, sizeof **list, *count, room))
        return false;
    (*list)[(*count)++] = event;
    return true;
}

static bool keyed_line(struct joining *j, const lk_event *event, int64_t scope, int64_t process)
{
    lk_history_key *key = key_of(j, event, scope);
    bool good = key != NULL;
    if (good && event->op == LK_OP_SERVER)
        good = append(&key->looks, &key->look_count, &key->look_room, event);
    else if (good && event->op == LK_OP_WRITE)
        good = append(&key->writes, &key->write_count, &key->write_room, event);
    else if (good)
        return handle_line(j, key, event, process);
    return good || lk_history_no_memory(j->error);
}

/* From here on and before: what this check finds in the line's (run, backend, scenario) is within a limit. */
static bool allow(const struct joining *j, const lk_event *event, int64_t scope)
{
    for (int check = 0; check < LK_CHECKS; check++)
        if (strcmp(lk_check_name((lk_check)check), event->kind) == 0) {
            j->history->allowed[scope] |= 1U << check;
            return true;
        }
    return lk_history_fail(j->error, LK_HISTORY_BAD_DATA, "%s:%u: there is no check '%.40s' to allow",
                           j->history->files[event->file].name, event->line, event->kind);
}

static bool line(struct joining *j, const lk_event *event)
{
    if (event->op == LK_OP_FAULT || event->op == LK_OP_NOTE)
        return true;
    int64_t scope;
    if (!scope_of(j, event, &scope))
        return lk_history_no_memory(j->error);
    if (event->op == LK_OP_ALLOW)
        return allow(j, event, scope);
    int64_t process;
    if ((process = process_of(j, event, scope)) < 0)
        return lk_history_no_memory(j->error);
    lk_process *p = &j->history->processes[process];
    if (p->ended)
        return lk_history_fail(j->error, LK_HISTORY_BAD_DATA,
                               "%s:%u: process %" PRId64 " had ended before (%s:%u); if the number was given "
                               "out again, that is another run",
                               j->history->files[event->file].name, event->line, event->process,
                               j->history->files[p->ended->file].name, p->ended->line);
    if (event->op != LK_OP_END)
        return keyed_line(j, event, scope, process);
    p->ended = event;
    return true;
}

static bool make_room(lk_history *h)
{
    size_t count = 0;
    for (size_t i = 0; i < h->event_count; i++)
        count += (h->events[i].op == LK_OP_LOCK || h->events[i].op == LK_OP_TRY) &&
                 h->events[i].phase == LK_PHASE_INVOKE;
    h->attempts = calloc(count + 1, sizeof *h->attempts);
    return h->attempts != NULL;
}

static void link_processes(lk_history *h)
{
    for (size_t i = 0; i < h->attempt_count; i++)
        h->attempts[i].process = &h->processes[h->attempts[i].from];
}

bool lk_history_join(lk_history *history, lk_history_error *error)
{
    struct joining j = {.history = history, .error = error};
    bool good = make_room(history) || lk_history_no_memory(error);
    if (history->event_count)
        qsort(history->events, history->event_count, sizeof *history->events, by_time);
    for (size_t i = 0; good && i < history->event_count; i++)
        good = line(&j, &history->events[i]);
    link_processes(history);
    for (size_t i = 0; good && i < history->key_count; i++)
        good = lk_intervals(&history->keys[i]) || lk_history_no_memory(error);
    lk_history_table_clear(&j.scopes);
    lk_history_table_clear(&j.processes);
    lk_history_table_clear(&j.keys);
    lk_history_table_clear(&j.attempts);
    return good;
}
