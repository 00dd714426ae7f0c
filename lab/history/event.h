/* event.h: one line of a history (docs/history.md) as a struct, and its way to JSON and back. writer.h
 * appends such lines to a file, history.h reads and judges them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    LK_OP_LOCK,
    LK_OP_TRY,
    LK_OP_QUEUE,
    LK_OP_LEASE,
    LK_OP_LOST,
    LK_OP_UNLOCK,
    LK_OP_WRITE,
    LK_OP_SERVER,
    LK_OP_FAULT,
    LK_OP_END,
    LK_OP_NOTE,
    LK_OP_ALLOW,
    LK_OPS
} lk_op;

typedef enum {
    LK_PHASE_INVOKE,
    LK_PHASE_OK,
    LK_PHASE_FAIL,
    LK_PHASE_INFO,
    LK_PHASE_BEGIN, /**< this and the next: of LK_OP_FAULT alone */
    LK_PHASE_END,
    LK_PHASES
} lk_history_phase;

/** One line. Start from LK_EVENT_INIT: a member that keeps that value is missing in the line. docs/data/history-fields.md explains
 * the members, and which operation takes which. Times are ns of
 * CLOCK_BOOTTIME. */
typedef struct {
    lk_op op;
    lk_history_phase phase;
    bool held;
    uint32_t file; /**< where it was read: the index of its file ... */
    uint32_t line; /**< ... and its line, from 1; 0 when it was not read from a file */
    int64_t t;
    int64_t process;
    int64_t thread;
    int64_t run;
    int64_t handle;
    int64_t token;
    int64_t valid_until; /**< 0: none */
    int64_t ttl;
    int64_t sent; /**< 0: none */
    int64_t order;
    int64_t waiters;
    int64_t permits; /**< 0: none */
    int64_t slot;
    const char *worker, *backend, *scenario, *key, *id, *owner, *outcome, *resource, *kind, *what, *mode;
} lk_event;

#define LK_EVENT_INIT                                                                                        \
    {                                                                                                        \
        .order = -1, .waiters = -1, .slot = -1                                                               \
    }

/** The words of the format. Static text. */
const char *lk_op_name(lk_op op);
const char *lk_history_phase_name(lk_history_phase phase);

/** The line as a JSON object of what it has to have and what is there. The caller's; NULL: out of memory, or
 * a string that is not UTF-8. */
json_t *lk_event_encode(const lk_event *event);

/** Read a line's JSON object into *event, whose strings are the object's then; `file` and `line` are left
 * alone. False: it breaks the format, and `why` says how in one line. */
bool lk_event_decode(const json_t *object, lk_event *event, char *why, size_t size);

/** Now, in ns of CLOCK_BOOTTIME: the clock of every `t`. */
int64_t lk_event_now(void);
