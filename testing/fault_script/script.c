/* script.c: the faults of a script, which of them acts, and what may be written; see script.h. script_text.c
 * reads and writes their text. */
#include "script_internal.h"

#include <stdlib.h>
#include <string.h>

lk_script *lk_script_new(void)
{
    lk_script *script = calloc(1, sizeof *script);
    if (script != NULL)
        script->end = &script->first;
    return script;
}

void lk_script_clear(lk_script *script)
{
    while (script->first != NULL) {
        lk_script_line *line = script->first;

        script->first = line->next;
        free(line);
    }
    script->end = &script->first;
}

void lk_script_free(lk_script *script)
{
    if (script == NULL)
        return;
    lk_script_clear(script);
    free(script);
}

/* ------------------------------------------------------------------ checking ---- */

#define BIT(status) (UINT32_C(1) << (unsigned)(status))

enum { OPS = LOCKER_OP_PASS + 1 };

/* What each operation can answer, besides doing what it should. */
static const uint32_t answers[OPS] = {
    [LOCKER_OP_ANY] = BIT(LOCKER_UNAVAILABLE),
    [LOCKER_OP_ACQUIRE] = BIT(LOCKER_BUSY) | BIT(LOCKER_TIMEOUT) | BIT(LOCKER_UNAVAILABLE) |
                          BIT(LOCKER_DENIED) | BIT(LOCKER_INVALID) | BIT(LOCKER_CONFIG) |
                          BIT(LOCKER_UNSUPPORTED) | BIT(LOCKER_PROTOCOL) | BIT(LOCKER_NOMEM),
    [LOCKER_OP_RELEASE] = BIT(LOCKER_LOST) | BIT(LOCKER_UNKNOWN),
    [LOCKER_OP_RENEW] = BIT(LOCKER_LOST) | BIT(LOCKER_UNAVAILABLE),
    [LOCKER_OP_SHOW] = BIT(LOCKER_UNAVAILABLE) | BIT(LOCKER_DENIED) | BIT(LOCKER_INVALID) |
                       BIT(LOCKER_UNSUPPORTED) | BIT(LOCKER_PROTOCOL) | BIT(LOCKER_NOMEM),
    [LOCKER_OP_BREAK] = BIT(LOCKER_UNAVAILABLE) | BIT(LOCKER_DENIED) | BIT(LOCKER_INVALID) |
                        BIT(LOCKER_UNSUPPORTED) | BIT(LOCKER_PROTOCOL) | BIT(LOCKER_NOMEM),
    [LOCKER_OP_PING] = BIT(LOCKER_UNAVAILABLE) | BIT(LOCKER_DENIED) | BIT(LOCKER_INVALID) |
                       BIT(LOCKER_UNSUPPORTED) | BIT(LOCKER_PROTOCOL) | BIT(LOCKER_NOMEM),
    [LOCKER_OP_PASS] = BIT(LOCKER_BUSY),
};

static bool can_answer(locker_op op, locker_status status)
{
    return status >= LOCKER_OK && status <= LOCKER_FORKED && (answers[op] & BIT(status)) != 0;
}

static locker_status check_what(const locker_fault *f, locker_error *err)
{
    if (f->what < LOCKER_FAULT_ANSWER || f->what > LOCKER_FAULT_DISCONNECT)
        return locker_error_set(err, LOCKER_INVALID, 0, "the fault's what is %d, which is none",
                                (int)f->what);
    if (f->what != LOCKER_FAULT_ANSWER && f->status != LOCKER_OK)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "a fault that gives no answer of its own has no status: leave out '%s'",
                                locker_status_name(f->status));
    if (f->what == LOCKER_FAULT_LOSE_LOCK && f->op != LOCKER_OP_ACQUIRE && f->op != LOCKER_OP_RENEW)
        return locker_error_set(err, LOCKER_INVALID, 0, "%s can't lose a lock: acquire and renew can",
                                lk_fault_op_name(f->op));
    if (f->what != LOCKER_FAULT_ANSWER)
        return LOCKER_OK;
    if (f->status == LOCKER_OK && f->delay_ms == 0)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "a fault of %s without status or delay does nothing: give one",
                                lk_fault_op_name(f->op));
    if (f->status != LOCKER_OK && !can_answer(f->op, f->status))
        return locker_error_set(err, LOCKER_INVALID, 0, "%s can't answer '%s': see locker_fault in fault.h",
                                lk_fault_op_name(f->op), locker_status_name(f->status));
    return LOCKER_OK;
}

static locker_status check(const locker_fault *f, locker_error *err)
{
    if (f->op < LOCKER_OP_ANY || f->op > LOCKER_OP_PASS)
        return locker_error_set(err, LOCKER_INVALID, 0, "a fault can't be about the operation '%s' (%d)",
                                lk_fault_op_name(f->op), (int)f->op);
    if (f->key != NULL && (f->key[0] == '\0' || strlen(f->key) > LOCKER_KEY_MAX))
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "a fault's key has 1 to %d bytes: leave it out for any key", LOCKER_KEY_MAX);
    if (f->skip < 0 || f->times < LOCKER_FAULT_ALWAYS)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "a fault skips 0 or more and acts 1 or more times, or always: skip is %lld, "
                                "times %lld",
                                (long long)f->skip, (long long)f->times);
    if (f->delay_ms < 0 || f->delay_ms > LK_FAULT_TIME_MAX_MS || f->retry_ms < 0 ||
        f->retry_ms > LK_FAULT_TIME_MAX_MS)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "a fault's times go from 0 ms to 10 years: delay is %lld ms, retry %lld ms",
                                (long long)f->delay_ms, (long long)f->retry_ms);
    if (f->retry_ms > 0 && (f->op != LOCKER_OP_ACQUIRE || f->what != LOCKER_FAULT_ANSWER ||
                            (f->status != LOCKER_BUSY && f->status != LOCKER_UNAVAILABLE)))
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "retry goes with acquire answering busy or unavailable alone");
    return check_what(f, err);
}

/* ------------------------------------------------------------------ adding and matching ---- */

locker_status lk_script_add(lk_script *script, const locker_fault *fault, locker_error *err)
{
    if (script == NULL || fault == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "a fault is missing");
    const locker_status status = check(fault, err);
    if (status != LOCKER_OK)
        return status;
    const size_t room = fault->key != NULL ? strlen(fault->key) + 1 : 0;
    lk_script_line *line;
    line = malloc(sizeof *line + room);
    if (line == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory for a fault");
    line->next = NULL;
    line->fault = *fault;
    line->fault.times = fault->times == 0 ? 1 : fault->times;
    line->fault.key = fault->key != NULL ? memcpy(line->name, fault->key, room) : NULL;
    line->seen = line->acted = 0;
    *script->end = line;
    script->end = &line->next;
    return locker_error_set(err, LOCKER_OK, 0, "%s", "");
}

static bool fits(const locker_fault *f, locker_op op, const char *key)
{
    return (f->op == LOCKER_OP_ANY || f->op == op) &&
           (f->key == NULL || (key != NULL && strcmp(f->key, key) == 0));
}

/* What "unavailable" is to an operation that has another word for it. */
static locker_status as_answer_of(locker_op op, locker_status status)
{
    if (status != LOCKER_UNAVAILABLE)
        return status;
    return op == LOCKER_OP_RELEASE ? LOCKER_UNKNOWN : op == LOCKER_OP_PASS ? LOCKER_BUSY : status;
}

bool lk_script_match(lk_script *script, locker_op op, const char *key, locker_fault *hit)
{
    for (lk_script_line *line = script->first; line != NULL; line = line->next) {
        const locker_fault *f = &line->fault;

        if (!fits(f, op, key) || (f->times != LOCKER_FAULT_ALWAYS && line->acted >= f->times))
            continue;
        if (line->seen < f->skip) {
            line->seen++;
            continue;
        }
        line->acted++;
        *hit = *f;
        hit->op = op;
        hit->key = NULL;
        hit->status = as_answer_of(op, f->status);
        return true;
    }
    return false;
}
