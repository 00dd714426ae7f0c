/* event.c: the format of a line, as a table that both reading and writing go by. */
#include "event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const op_names[LK_OPS] = {
    [LK_OP_LOCK] = "lock",   [LK_OP_TRY] = "try",       [LK_OP_QUEUE] = "queue", [LK_OP_LEASE] = "lease",
    [LK_OP_LOST] = "lost",   [LK_OP_UNLOCK] = "unlock", [LK_OP_WRITE] = "write", [LK_OP_SERVER] = "server",
    [LK_OP_FAULT] = "fault", [LK_OP_END] = "end",       [LK_OP_NOTE] = "note",   [LK_OP_ALLOW] = "allow",
};
static const char *const phase_names[LK_PHASES] = {
    [LK_PHASE_INVOKE] = "invoke", [LK_PHASE_OK] = "ok",       [LK_PHASE_FAIL] = "fail",
    [LK_PHASE_INFO] = "info",     [LK_PHASE_BEGIN] = "begin", [LK_PHASE_END] = "end",
};

#define BIT(n) (1U << (n))
#define CALL   (BIT(LK_PHASE_INVOKE) | BIT(LK_PHASE_OK) | BIT(LK_PHASE_FAIL) | BIT(LK_PHASE_INFO))

/* The phases of each operation. */
static const unsigned phases_of[LK_OPS] = {
    [LK_OP_LOCK] = CALL,
    [LK_OP_TRY] = CALL,
    [LK_OP_QUEUE] = BIT(LK_PHASE_INFO),
    [LK_OP_LEASE] = BIT(LK_PHASE_INFO),
    [LK_OP_LOST] = BIT(LK_PHASE_INFO),
    [LK_OP_UNLOCK] = CALL,
    [LK_OP_WRITE] = BIT(LK_PHASE_OK) | BIT(LK_PHASE_FAIL) | BIT(LK_PHASE_INFO),
    [LK_OP_SERVER] = BIT(LK_PHASE_INFO),
    [LK_OP_FAULT] = BIT(LK_PHASE_BEGIN) | BIT(LK_PHASE_END),
    [LK_OP_END] = BIT(LK_PHASE_INFO),
    [LK_OP_NOTE] = BIT(LK_PHASE_INFO),
    [LK_OP_ALLOW] = BIT(LK_PHASE_INFO),
};

enum kind { INTEGER, BOOLEAN, TEXT };

enum {
    ALL = (1 << LK_OPS) - 1,
    KEYED = ALL & ~(1 << LK_OP_FAULT | 1 << LK_OP_END | 1 << LK_OP_NOTE | 1 << LK_OP_ALLOW),
    HANDLED = 1 << LK_OP_LOCK | 1 << LK_OP_TRY | 1 << LK_OP_QUEUE | 1 << LK_OP_LEASE | 1 << LK_OP_LOST |
              1 << LK_OP_UNLOCK
};

/* The fields, in the order in which they are written. */
static const struct field {
    const char *name;
    enum kind kind;
    size_t offset;
    unsigned required; /* by which operations, as bits */
    bool positive;     /* not negative */
    int64_t missing;
} fields[] = {
    {"t", INTEGER, offsetof(lk_event, t), ALL, true, 0},
    {"process", INTEGER, offsetof(lk_event, process), ALL, true, 0},
    {"thread", INTEGER, offsetof(lk_event, thread), 0, true, 0},
    {"worker", TEXT, offsetof(lk_event, worker), 0, false, 0},
    {"run", INTEGER, offsetof(lk_event, run), 0, true, 0},
    {"backend", TEXT, offsetof(lk_event, backend), 0, false, 0},
    {"scenario", TEXT, offsetof(lk_event, scenario), 0, false, 0},
    {"key", TEXT, offsetof(lk_event, key), KEYED, false, 0},
    {"handle", INTEGER, offsetof(lk_event, handle), HANDLED, false, 0},
    {"token", INTEGER, offsetof(lk_event, token), 1 << LK_OP_WRITE, true, 0},
    {"valid_until", INTEGER, offsetof(lk_event, valid_until), 1 << LK_OP_LEASE, true, 0},
    {"ttl", INTEGER, offsetof(lk_event, ttl), 0, true, 0},
    {"mode", TEXT, offsetof(lk_event, mode), 0, false, 0},
    {"permits", INTEGER, offsetof(lk_event, permits), 0, true, 0},
    {"slot", INTEGER, offsetof(lk_event, slot), 0, true, -1},
    {"id", TEXT, offsetof(lk_event, id), 0, false, 0},
    {"owner", TEXT, offsetof(lk_event, owner), 0, false, 0},
    {"order", INTEGER, offsetof(lk_event, order), 0, true, -1},
    {"outcome", TEXT, offsetof(lk_event, outcome), 0, false, 0},
    {"resource", TEXT, offsetof(lk_event, resource), 0, false, 0},
    {"sent", INTEGER, offsetof(lk_event, sent), 1 << LK_OP_SERVER, true, 0},
    {"held", BOOLEAN, offsetof(lk_event, held), 1 << LK_OP_SERVER, false, 0},
    {"waiters", INTEGER, offsetof(lk_event, waiters), 0, true, -1},
    {"kind", TEXT, offsetof(lk_event, kind), 1 << LK_OP_FAULT | 1 << LK_OP_ALLOW, false, 0},
    {"what", TEXT, offsetof(lk_event, what), 0, false, 0},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

const char *lk_op_name(lk_op op)
{
    return op_names[op];
}

const char *lk_history_phase_name(lk_history_phase phase)
{
    return phase_names[phase];
}

int64_t lk_event_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ------------------------------------------------------------------ writing ---- */

/* The field's value; NULL when it is missing and may be. *failed: it can't be made. */
static json_t *value_of(const lk_event *event, const struct field *field, bool *failed)
{
    const void *member = (const char *)event + field->offset;
    const bool required = (field->required & BIT(event->op)) != 0;
    json_t *value = NULL;
    if (field->kind == TEXT) {
        const char *text = *(const char *const *)member;
        if (!text && !required)
            return NULL;
        value = json_string(text);
    } else if (field->kind == BOOLEAN) {
        if (!required)
            return NULL;
        value = json_boolean(*(const bool *)member);
    } else {
        const int64_t number = *(const int64_t *)member;
        if (number == field->missing && !required)
            return NULL;
        value = json_integer(number);
    }
    *failed = *failed || !value;
    return value;
}

json_t *lk_event_encode(const lk_event *event)
{
    json_t *object = json_object();
    bool failed = !object;
    for (size_t i = 0; i < FIELDS && !failed; i++) {
        json_t *value = value_of(event, &fields[i], &failed);
        if (value && json_object_set_new_nocheck(object, fields[i].name, value) != 0)
            failed = true;
        if (i == 1 && !failed) /* after t and process, for those who read it */
            failed =
                json_object_set_new_nocheck(object, "op", json_string(op_names[event->op])) != 0 ||
                json_object_set_new_nocheck(object, "phase", json_string(phase_names[event->phase])) != 0;
    }
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

/* ------------------------------------------------------------------ reading ---- */

static bool word_of(const json_t *object, const char *name, const char *const *words, unsigned count,
                    unsigned *out, char *why, size_t size)
{
    const json_t *value = json_object_get(object, name);
    if (!value)
        return snprintf(why, size, "the field '%s' is missing", name), false;
    if (!json_is_string(value))
        return snprintf(why, size, "the field '%s' must be a string", name), false;
    for (*out = 0; *out < count; (*out)++)
        if (strcmp(words[*out], json_string_value(value)) == 0)
            return true;
    return snprintf(why, size, "there is no %s '%.40s'", name, json_string_value(value)), false;
}

static bool set(lk_event *event, const struct field *field, const json_t *value)
{
    void *member = (char *)event + field->offset;
    if (field->kind == TEXT && json_is_string(value)) {
        *(const char **)member = json_string_value(value);
        return true;
    }
    if (field->kind == BOOLEAN && json_is_boolean(value)) {
        *(bool *)member = json_is_true(value);
        return true;
    }
    if (field->kind == INTEGER && json_is_integer(value)) {
        *(int64_t *)member = json_integer_value(value);
        return !field->positive || json_integer_value(value) >= 0;
    }
    return false;
}

static const char *type_of(const struct field *field)
{
    if (field->kind == TEXT)
        return "a string";
    if (field->kind == BOOLEAN)
        return "true or false";
    return field->positive ? "a non-negative integer" : "an integer";
}

/* The words of `mode`, and what it doesn't go with. */
static bool has_kind(const lk_event *event, char *why, size_t size)
{
    const bool is_shared = event->mode && strcmp(event->mode, "shared") == 0;
    if (event->mode && !is_shared && strcmp(event->mode, "exclusive") != 0)
        return snprintf(why, size, "there is no mode '%.40s'", event->mode), false;
    if (is_shared && event->permits > 0)
        return snprintf(why, size, "mode 'shared' and permits exclude each other"), false;
    return true;
}

bool lk_event_decode(const json_t *object, lk_event *event, char *why, size_t size)
{
    if (!json_is_object(object))
        return snprintf(why, size, "this is not a JSON object"), false;
    unsigned op, phase;
    if (!word_of(object, "op", op_names, LK_OPS, &op, why, size) ||
        !word_of(object, "phase", phase_names, LK_PHASES, &phase, why, size))
        return false;
    if (!(phases_of[op] & BIT(phase)))
        return snprintf(why, size, "'%s' has no phase '%s'", op_names[op], phase_names[phase]), false;
    event->op = (lk_op)op;
    event->phase = (lk_history_phase)phase;
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(object, fields[i].name);
        if (!value && (fields[i].required & BIT(op)))
            return snprintf(why, size, "the field '%s' is missing, which '%s' needs", fields[i].name,
                            op_names[op]),
                   false;
        if (value && !set(event, &fields[i], value))
            return snprintf(why, size, "the field '%s' must be %s", fields[i].name, type_of(&fields[i])),
                   false;
    }
    if (event->sent > event->t)
        return snprintf(why, size, "'sent' (%" PRId64 ") is later than 't' (%" PRId64 ")", event->sent,
                        event->t),
               false;
    return has_kind(event, why, size);
}
