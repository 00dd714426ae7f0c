/* command.h: commands, built argument by argument (no format is parsed), the ways in which callers get
 * answers, and the meaning of a reply. */
#pragma once

#include <assert.h>
#include <hiredis/hiredis.h>
#include <lk_error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lk_buffer.h"

enum {
    LK_REDIS_COMMAND_MAX = 18, /* arguments */
    LK_REDIS_NUMBER_MAX = 21,  /* bytes of a number as text: 20 digits and a NUL */
    LK_REDIS_FLIGHT_MAX = 2    /* commands in one flight */
};

/* A command under construction. It points to its caller's strings. */
typedef struct {
    int argc;
    const char *argv[LK_REDIS_COMMAND_MAX];
    size_t len[LK_REDIS_COMMAND_MAX];
} lk_redis_command;

/* Takes the answer to a command that no thread waits for. Called with the mutex. reply NULL: the
 * connection was lost. */
typedef void (*lk_redis_done)(void *context, redisReply *reply);

/* A thread that waits for its answer and can be interrupted. All zero at first. Guarded by the mutex. */
typedef struct {
    struct lk_redis_op *op;       /* the op for which it waits; NULL: none */
    struct lk_redis_pipeline *on; /* the connection of that op */
    bool interrupted;
} lk_redis_caller;

typedef enum {
    LK_REDIS_CALL_ANSWERED,
    LK_REDIS_CALL_CUT,     /* sent, or perhaps sent, and then the connection was lost */
    LK_REDIS_CALL_LATE,    /* sent, but not answered by `until` */
    LK_REDIS_CALL_AWAY,    /* not sent: no connection by `until`, or at once with `prompt`; err says why */
    LK_REDIS_CALL_REFUSED, /* not sent: connecting fails permanently; err says why */
    LK_REDIS_CALL_INTERRUPTED, /* `sent` says if it was sent */
    LK_REDIS_CALL_STALE,       /* not sent: the connection for which it was meant is gone */
    LK_REDIS_CALL_REMAPPED, /* not sent: there is no connection, and another server may have the slot now */
    LK_REDIS_CALL_NOMEM
} lk_redis_outcome;

static inline void lk_redis_command_add(lk_redis_command *a, const char *text, size_t len)
{
    assert(a->argc < LK_REDIS_COMMAND_MAX);
    a->argv[a->argc] = text;
    a->len[a->argc++] = len;
}

static inline void lk_redis_command_text(lk_redis_command *a, const char *text)
{
    lk_redis_command_add(a, text, strlen(text));
}

/* Replace the argument `at`. */
static inline void lk_redis_command_set(lk_redis_command *a, int at, const char *text)
{
    a->argv[at] = text;
    a->len[at] = strlen(text);
}

/* Append texts as arguments. NULL ends the list. */
static inline void lk_redis_command_texts(lk_redis_command *a, const char *const *texts)
{
    while (*texts != NULL)
        lk_redis_command_text(a, *texts++);
}
#define LK_REDIS_ARGUMENTS(a, ...) lk_redis_command_texts(a, (const char *const[]){__VA_ARGS__, NULL})

/* Make a command of texts. */
static inline lk_redis_command lk_redis_command_of(const char *const *texts)
{
    lk_redis_command a;
    a.argc = 0;
    lk_redis_command_texts(&a, texts);
    return a;
}
#define LK_REDIS_COMMAND(...) lk_redis_command_of((const char *const[]){__VA_ARGS__, NULL})

/* Return the room that the command needs as bytes. Then write it there, and return its end. */
size_t lk_redis_command_room(const lk_redis_command *a);
char *lk_redis_command_put(const lk_redis_command *a, char *out);

/* Write a number as text with a NUL, and return `out`. */
const char *lk_redis_number_text(char *out, uint64_t n);
/* Write a piece of a command, and return its end: a line with a kind and a number ('*': number of
 * arguments, '$': length of an argument), the end of an argument, or a whole argument. */
static inline char *lk_redis_put_end(char *out)
{
    out[0] = '\r';
    out[1] = '\n';
    return out + 2;
}
char *lk_redis_put_digits(char *out, uint64_t n);
static inline char *lk_redis_put_line(char *out, char kind, size_t n)
{
    *out++ = kind;
    if (n < 10 || n >= 100) /* most lengths have two digits */
        return lk_redis_put_end(lk_redis_put_digits(out, n));
    out[0] = (char)('0' + n / 10);
    out[1] = (char)('0' + n % 10);
    return lk_redis_put_end(out + 2);
}
char *lk_redis_put_text(char *out, const char *text);
char *lk_redis_put_number(char *out, size_t n);

/* ---------------------------------------------------------------- the meaning of a reply ---- */

typedef enum {
    LK_REDIS_FAULT_NONE,
    LK_REDIS_FAULT_NOSCRIPT,  /* send EVAL with the script's text */
    LK_REDIS_FAULT_TRANSIENT, /* such as LOADING: try again in a moment */
    LK_REDIS_FAULT_MOVED,     /* READONLY, MOVED: another server is the master */
    LK_REDIS_FAULT_MIGRATING, /* ASK, TRYAGAIN: the slot is moving to another server */
    LK_REDIS_FAULT_DENIED,    /* NOAUTH, WRONGPASS, NOPERM */
    LK_REDIS_FAULT_REFUSED,   /* OOM, MISCONF, NOREPLICAS: the server cannot write now */
    LK_REDIS_FAULT_DATA,      /* NOLOCK of our scripts: the lock's key holds an application's data */
    LK_REDIS_FAULT_OTHER      /* anything else */
} lk_redis_fault;

lk_redis_fault lk_redis_reply_fault(const redisReply *reply);
/* Return true if the error says that a command does not exist, in a script or outside: it was renamed. */
bool lk_redis_reply_is_unknown_command(const redisReply *reply);
/* Fill err with what an unexpected reply means for the user. `doing` completes "while ...". */
locker_status lk_redis_reply_error(const redisReply *reply, const char *doing, locker_error *err);

/* Read the answer to TIME in us. Return false for another answer. */
bool lk_redis_reply_time(const redisReply *reply, int64_t *us);
