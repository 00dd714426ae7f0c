/* records.c: what the service was asked, and what a test leaves behind. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void lk_mock_record_locked(locker_mock *m, const locker_mock_call *call)
{
    if (m->call_count == m->call_room) {
        const size_t room = m->call_room == 0 ? 64 : m->call_room * 2;
        locker_mock_call *calls = realloc(m->calls, room * sizeof *calls);
        if (calls == NULL)
            return;
        m->calls = calls;
        m->call_room = room;
    }
    m->calls[m->call_count++] = *call;
    pthread_cond_broadcast(&m->recorded);
}

bool locker_mock_call_at(const locker_mock *mock, size_t index, locker_mock_call *call)
{
    locker_mock *m = lk_mock_asked(mock);
    lk_mutex_lock(&m->mutex);
    const bool there = index < m->call_count;
    if (there)
        *call = m->calls[index];
    lk_mutex_unlock(&m->mutex);
    return there;
}

static size_t count_locked(const locker_mock *m, locker_op op, const char *key) LK_REQUIRES(m->mutex)
{
    size_t n = 0;
    for (size_t i = 0; i < m->call_count; i++) {
        const locker_mock_call *call = &m->calls[i];
        n += (op == LOCKER_OP_ANY || call->op == op) &&
             (key == NULL || (call->key != NULL && strcmp(call->key, key) == 0));
    }
    return n;
}

size_t locker_mock_count(const locker_mock *mock, locker_op op, const char *key)
{
    locker_mock *m = lk_mock_asked(mock);
    lk_mutex_lock(&m->mutex);
    const size_t n = count_locked(m, op, key);
    lk_mutex_unlock(&m->mutex);
    return n;
}

locker_status locker_mock_await_calls(locker_mock *mock, locker_op op, const char *key, size_t count)
{
    if (mock == NULL || lk_mock_in_callback(mock))
        return LOCKER_INVALID;
    const struct timespec until = lk_mock_patience(mock);
    lk_mutex_lock(&mock->mutex);
    int rc = 0;
    bool there;
    while (!(there = count_locked(mock, op, key) >= count) && rc == 0)
        rc = pthread_cond_timedwait(&mock->recorded, &mock->mutex.plain, &until);
    lk_mutex_unlock(&mock->mutex);
    return there ? LOCKER_OK : LOCKER_TIMEOUT;
}

bool locker_mock_holder_at(const locker_mock *mock, const char *key, size_t index,
                           char owner[LOCKER_OWNER_MAX + 1], uint64_t *token, int32_t *slot)
{
    locker_mock *m = lk_mock_asked(mock);
    lk_mutex_lock(&m->mutex);
    const lk_mock_entry *const entry = lk_mock_find_locked(m, key);
    const lk_mock_grant *const g = entry != NULL ? lk_mock_holder_locked(m, entry, index) : NULL;
    if (owner != NULL)
        (void)snprintf(owner, LOCKER_OWNER_MAX + 1, "%s", g != NULL ? g->owner : "");
    if (token != NULL)
        *token = g != NULL ? g->token : 0;
    if (slot != NULL)
        *slot = g != NULL && g->permits > 0 ? g->slot : -1;
    lk_mutex_unlock(&m->mutex);
    return g != NULL;
}

bool locker_mock_held(const locker_mock *mock, const char *key, char owner[LOCKER_OWNER_MAX + 1],
                      uint64_t *token)
{
    return locker_mock_holder_at(mock, key, 0, owner, token, NULL);
}

const char *locker_mock_op_name(locker_op op)
{
    return lk_fault_op_name(op);
}

/* ------------------------------------------------------------------ what is left behind ---- */

/* Lines, counted, of which as many are written as there is room for. */
typedef struct {
    char *text;
    size_t size, used, lines;
} report;

__attribute__((format(printf, 2, 3))) static void say(report *r, const char *format, ...)
{
    size_t room = r->size - r->used;
    if (r->lines++ > 0 && room > 1) {
        r->text[r->used++] = '\n';
        room--;
    }
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(room > 0 ? r->text + r->used : NULL, room, format, args);
    va_end(args);
    if (n > 0 && room > 0)
        r->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void say_grant_locked(const locker_mock *m, const lk_mock_grant *g, report *r) LK_REQUIRES(m->mutex)
{
    char slot[32] = "";
    (void)m;
    if (g->permits > 0)
        (void)snprintf(slot, sizeof slot, " in slot %d", (int)g->slot);
    say(r, "'%s' is still %s by '%s'%s, since %lld ms, with token %llu", g->entry->key,
        g->mode == LOCKER_SHARED ? "shared" : "held", g->owner, slot, (long long)(g->since / LK_MS),
        (unsigned long long)g->token);
}

static void say_held_locked(const locker_mock *m, report *r) LK_REQUIRES(m->mutex)
{
    for (const lk_mock_entry *entry = m->entries; entry != NULL; entry = entry->next)
        LK_EACH(const lk_mock_grant, g, link, &entry->grants)
            if (g->claim != NULL && lk_mock_place_of(g->claim)->answered)
                say_grant_locked(m, g, r);
}

static void say_waiting(locker_mock *m, report *r) LK_EXCLUDES(m->clock.mutex)
{
    lk_mutex_lock(&m->clock.mutex);
    LK_EACH(const lk_mock_sleeper, s, link, &m->clock.sleepers)
        if (s->claim != NULL)
            say(r, "a call of '%s' still waits for '%s'", s->claim->owner, s->claim->key);
    if (m->clock.trouble[0] != '\0')
        say(r, "%s", m->clock.trouble);
    lk_mutex_unlock(&m->clock.mutex);
}

size_t locker_mock_verify(const locker_mock *mock, char *text, size_t size)
{
    locker_mock *m = lk_mock_asked(mock);
    report r = {.text = text, .size = size};
    if (size > 0)
        text[0] = '\0';
    lk_mutex_lock(&m->mutex);
    say_held_locked(m, &r);
    say_waiting(m, &r);
    char fault[LOCKER_KEY_MAX + 160];
    for (size_t i = 0; lk_script_unused(m->script, i, fault, sizeof fault); i++)
        say(&r, "a fault was not used up: %s", fault);
    if (m->claims_left > 0)
        say(&r, "core did not end %zu claims before close", m->claims_left);
    lk_mutex_unlock(&m->mutex);
    return r.lines;
}
