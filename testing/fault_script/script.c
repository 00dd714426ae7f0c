/* script.c: the faults of a script, which of them acts, what may be written, and their text, read and
 * written, whose form is told at locker_mock_script() in mock.h; see script.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <locker/driver.h>

#include "script.h"

enum { WORD_MAX = LOCKER_KEY_MAX + 32 };

/* As locker_parse_duration() allows: 10 years. */
#define TIME_MAX_MS INT64_C(315360000000)

typedef struct lk_script_line {
    struct lk_script_line *next;
    locker_fault fault;  /* checked; times is never 0; key points to name */
    int64_t seen, acted; /* operations let go by, and acted on */
    char name[];
} lk_script_line;

struct lk_script {
    lk_script_line *first, **end;
};

static const char *const op_names[] = {"any",   "acquire", "release", "renew",   "show",
                                       "break", "ping",    "pass",    "withdraw"};
enum { OP_NAMES = sizeof op_names / sizeof *op_names };

/* By their value as locker_fault_kind; the first is told by its status. */
static const char *const kind_names[] = {"", "lose-request", "lose-reply", "lose-lock", "disconnect"};
enum { KIND_NAMES = sizeof kind_names / sizeof *kind_names };

const char *lk_fault_op_name(locker_op op)
{
    return (unsigned)op < OP_NAMES ? op_names[op] : "invalid operation";
}

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
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "the fault's `what` is %d, which is not a locker_fault_kind", (int)f->what);
    if (f->what != LOCKER_FAULT_ANSWER && f->status != LOCKER_OK)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "only a fault of kind LOCKER_FAULT_ANSWER has a status; remove '%s'",
                                locker_status_name(f->status));
    if (f->what == LOCKER_FAULT_LOSE_LOCK && f->op != LOCKER_OP_ACQUIRE && f->op != LOCKER_OP_RENEW)
        return locker_error_set(err, LOCKER_INVALID, 0, "%s can't lose a lock; use acquire or renew",
                                lk_fault_op_name(f->op));
    if (f->what != LOCKER_FAULT_ANSWER)
        return LOCKER_OK;
    if (f->status == LOCKER_OK && f->delay_ms == 0)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "a fault of %s without status or delay does nothing; add a status or a delay",
                                lk_fault_op_name(f->op));
    if (f->status != LOCKER_OK && !can_answer(f->op, f->status))
        return locker_error_set(err, LOCKER_INVALID, 0, "%s can't answer '%s'; see locker_fault in fault.h",
                                lk_fault_op_name(f->op), locker_status_name(f->status));
    return LOCKER_OK;
}

static locker_status check(const locker_fault *f, locker_error *err)
{
    if (f->op < LOCKER_OP_ANY || f->op > LOCKER_OP_PASS)
        return locker_error_set(err, LOCKER_INVALID, 0, "a fault cannot be for the operation '%s' (%d)",
                                lk_fault_op_name(f->op), (int)f->op);
    if (f->key != NULL && (f->key[0] == '\0' || strlen(f->key) > LOCKER_KEY_MAX))
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "a fault's key has 1 to %d bytes; omit it for all keys", LOCKER_KEY_MAX);
    if (f->skip < 0 || f->times < LOCKER_FAULT_ALWAYS)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "a fault has skip >= 0, and times >= 0 or LOCKER_FAULT_ALWAYS; skip is "
                                "%lld, times %lld",
                                (long long)f->skip, (long long)f->times);
    if (f->delay_ms < 0 || f->delay_ms > TIME_MAX_MS || f->retry_ms < 0 || f->retry_ms > TIME_MAX_MS)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "a fault's delay and retry go from 0 ms to 10 years; delay is %lld ms, "
                                "retry %lld ms",
                                (long long)f->delay_ms, (long long)f->retry_ms);
    if (f->retry_ms > 0 && (f->op != LOCKER_OP_ACQUIRE || f->what != LOCKER_FAULT_ANSWER ||
                            (f->status != LOCKER_BUSY && f->status != LOCKER_UNAVAILABLE)))
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "retry needs the operation acquire with the status busy or unavailable");
    return check_what(f, err);
}

locker_status lk_script_add(lk_script *script, const locker_fault *fault, locker_error *err)
{
    if (script == NULL || fault == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "the fault is NULL");
    const locker_status status = check(fault, err);
    if (status != LOCKER_OK)
        return status;
    const size_t room = fault->key != NULL ? strlen(fault->key) + 1 : 0;
    lk_script_line *line = malloc(sizeof *line + room);
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

/* A fault under construction, with the words that it was given. */
typedef struct {
    locker_fault fault;
    char key[LOCKER_KEY_MAX + 1];
    bool skip, times, delay, retry, what; /* given already */
} reader;

static locker_status bad(locker_error *err, const char *word, const char *why)
{
    return locker_error_set(err, LOCKER_INVALID, 0, "fault script, at '%s': %s", word, why);
}

static locker_status once(bool *given, const char *word, locker_error *err)
{
    if (*given)
        return bad(err, word, "a fault can have this only once");
    *given = true;
    return LOCKER_OK;
}

static locker_status read_op(reader *r, const char *word, locker_error *err)
{
    const size_t length = strcspn(word, ":");
    int op = LOCKER_OP_ANY;
    while (op <= LOCKER_OP_PASS &&
           (strlen(op_names[op]) != length || memcmp(op_names[op], word, length) != 0))
        op++;
    if (op > LOCKER_OP_PASS)
        return bad(err, word,
                   "unknown operation; use any, acquire, release, renew, show, break, ping or pass");
    r->fault.op = (locker_op)op;
    if (word[length] == '\0')
        return LOCKER_OK;
    if (word[length + 1] == '\0' || strlen(word + length + 1) > LOCKER_KEY_MAX)
        return bad(err, word, "write a key of 1 to 255 bytes after the colon");
    (void)strcpy(r->key, word + length + 1);
    r->fault.key = r->key;
    return LOCKER_OK;
}

static locker_status read_number(const char *word, int64_t least, int64_t *number, locker_error *err)
{
    const char *digits = strchr(word, '=') + 1;
    errno = 0;
    char *end;
    *number = strtoll(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end != '\0' || errno != 0 || *number < least)
        return bad(err, word,
                   least > 0 ? "give a whole number, 1 or more" : "give a whole number, 0 or more");
    return LOCKER_OK;
}

static locker_status read_time(const char *word, int64_t *ms, locker_error *err)
{
    return locker_parse_duration(strchr(word, '=') + 1, ms, NULL) == LOCKER_OK
               ? LOCKER_OK
               : bad(err, word, "give a duration such as 50ms or 2s");
}

static locker_status read_what(reader *r, const char *word, locker_error *err)
{
    for (int kind = LOCKER_FAULT_ANSWER + 1; kind < KIND_NAMES; kind++) {
        if (strcmp(word, kind_names[kind]) == 0) {
            r->fault.what = (locker_fault_kind)kind;
            return once(&r->what, word, err);
        }
    }
    for (int status = LOCKER_OK + 1; status <= LOCKER_FORKED; status++) {
        if (strcmp(word, locker_status_name((locker_status)status)) == 0) {
            r->fault.status = (locker_status)status;
            return once(&r->what, word, err);
        }
    }
    return bad(err, word,
               "unknown word; use skip=N, times=N, always, delay=TIME, retry=TIME, a status, lose-request, "
               "lose-reply, lose-lock or disconnect");
}

static bool begins(const char *word, const char *with)
{
    return strncmp(word, with, strlen(with)) == 0;
}

static locker_status read_word(reader *r, const char *word, locker_error *err)
{
    locker_status status;
    if (begins(word, "skip=")) {
        status = once(&r->skip, word, err);
        return status != LOCKER_OK ? status : read_number(word, 0, &r->fault.skip, err);
    }
    if (begins(word, "times=")) {
        status = once(&r->times, word, err);
        return status != LOCKER_OK ? status : read_number(word, 1, &r->fault.times, err);
    }
    if (strcmp(word, "always") == 0) {
        r->fault.times = LOCKER_FAULT_ALWAYS;
        return once(&r->times, word, err);
    }
    if (begins(word, "delay=")) {
        status = once(&r->delay, word, err);
        return status != LOCKER_OK ? status : read_time(word, &r->fault.delay_ms, err);
    }
    if (begins(word, "retry=")) {
        status = once(&r->retry, word, err);
        return status != LOCKER_OK ? status : read_time(word, &r->fault.retry_ms, err);
    }
    return read_what(r, word, err);
}

/* The next word of one fault; *text stands behind it then. False: there is none, or it is too long (word is
 * "" and *text not at the fault's end). */
static bool next_word(const char **text, char word[WORD_MAX])
{
    *text += strspn(*text, " \t\r\n,");
    const size_t length = strcspn(*text, " \t\r\n,;");
    word[0] = '\0';
    if (length == 0 || length >= WORD_MAX)
        return false;
    memcpy(word, *text, length);
    word[length] = '\0';
    *text += length;
    return true;
}

/* One fault, up to its semicolon or the text's end; one without a word is none. */
static locker_status read_fault(lk_script *into, const char **text, locker_error *err)
{
    char word[WORD_MAX];
    reader r = {.fault = {.op = LOCKER_OP_ANY}};
    locker_status status = LOCKER_OK;
    bool first = true;
    while (status == LOCKER_OK && next_word(text, word)) {
        status = first ? read_op(&r, word, err) : read_word(&r, word, err);
        first = false;
    }
    if (status != LOCKER_OK)
        return status;
    if (**text != '\0' && **text != ';')
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "fault script: a word of more than %d bytes: %.40s...", WORD_MAX - 1, *text);
    *text += **text == ';' ? 1 : 0;
    return first ? LOCKER_OK : lk_script_add(into, &r.fault, err);
}

locker_status lk_script_parse(lk_script *script, const char *text, locker_error *err)
{
    locker_status status = LOCKER_OK;
    if (text == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "the fault script is NULL");
    lk_script *read = lk_script_new();
    if (read == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory for a fault script");
    while (status == LOCKER_OK && *text != '\0')
        status = read_fault(read, &text, err);
    if (status == LOCKER_OK && read->first != NULL) {
        *script->end = read->first;
        script->end = read->end;
        read->first = NULL;
    }
    lk_script_free(read);
    return status != LOCKER_OK ? status : locker_error_set(err, LOCKER_OK, 0, "%s", "");
}

static bool unused(const lk_script_line *line)
{
    return line->fault.times == LOCKER_FAULT_ALWAYS ? line->acted == 0 : line->acted < line->fault.times;
}

/* Append in printf's form, cut at the size. */
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

static void write_fault(const locker_fault *f, char *text, size_t size)
{
    text[0] = '\0';
    append(text, size, "%s", lk_fault_op_name(f->op));
    if (f->key != NULL)
        append(text, size, ":%s", f->key);
    if (f->skip > 0)
        append(text, size, " skip=%" PRId64, f->skip);
    if (f->times == LOCKER_FAULT_ALWAYS)
        append(text, size, " always");
    else if (f->times > 1)
        append(text, size, " times=%" PRId64, f->times);
    if (f->delay_ms > 0)
        append(text, size, " delay=%" PRId64 "ms", f->delay_ms);
    if (f->retry_ms > 0)
        append(text, size, " retry=%" PRId64 "ms", f->retry_ms);
    if (f->what != LOCKER_FAULT_ANSWER)
        append(text, size, " %s", kind_names[f->what]);
    else if (f->status != LOCKER_OK)
        append(text, size, " %s", locker_status_name(f->status));
}

bool lk_script_unused(const lk_script *script, size_t index, char *text, size_t size)
{
    const lk_script_line *line = script->first;
    while (line != NULL && (!unused(line) || index-- > 0))
        line = line->next;
    if (line == NULL)
        return false;
    write_fault(&line->fault, text, size);
    append(text, size, " (acted %" PRId64 " times)", line->acted);
    return true;
}
