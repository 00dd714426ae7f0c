/* internal.h: what the parts of the history library share: read.c reads lines, join.c joins what belongs
 * together, intervals.c says who held when, and the checks look at one key each, called by report.c. */
#pragma once

#include "history.h"

#define LK_NEVER INT64_MAX

/* ------------------------------------------------------------------ tables (table.c) ---- */

/** Strings, each once: equal strings have equal pointers. */
typedef struct {
    char **slots;
    size_t used, size;
} lk_strings;

const char *lk_strings_add(lk_strings *strings, const char *text); /* NULL: out of memory */
void lk_strings_clear(lk_strings *strings);

/** From a few numbers to an index. */
typedef struct {
    int64_t part[4];
} lk_history_table_key;

typedef struct lk_history_table_slot lk_history_table_slot;

typedef struct {
    lk_history_table_slot *slots;
    size_t used, size;
} lk_history_table;

/** Where the key's index is; *added: it is new, and the index for the caller to set. NULL: out of memory. */
size_t *lk_history_table_at(lk_history_table *table, const lk_history_table_key *key, bool *added);
void lk_history_table_clear(lk_history_table *table);

/** Make room for one more in an array that grows; false: out of memory, and the array is as it was. */
bool lk_grow(void *array, size_t element, size_t count, size_t *room);

/* ------------------------------------------------------------------ what was read ---- */

/** A process in one (run, backend, scenario). */
typedef struct {
    const lk_event *ended; /* NULL: it has not */
    size_t grants;         /* of the key that is being looked at */
} lk_process;

/** How a lock is held. */
typedef enum { LK_KIND_EXCLUSIVE, LK_KIND_SHARED, LK_KIND_PERMIT, LK_KINDS } lk_kind;

/** A handle: one call for the lock and what came of it. Members that did not happen are NULL. */
typedef struct {
    lk_process *process;
    lk_kind kind; /* as it was asked for */
    int64_t handle;
    const lk_event *asked, *answered, *queued, *lost, *unlock, *unlocked;
    int64_t deadline; /* D as it was told last; LK_NEVER: none */
    /* by intervals.c, of attempts that were granted */
    int64_t from, to; /* held for certain; from == to: never */
    int64_t grant_to; /* the same of the whole grant, with those handles that entered again */
    int64_t asked_at; /* for the whole grant: its first call may have returned after those that came to it */
    int64_t open_to; /* until when a call of its process may have come to share it: its unlock has returned */
    bool again;      /* entered again: its grant was another handle's */
} lk_attempt;

/** A key in one (run, backend, scenario). Arrays are in the order of time. */
typedef struct {
    const lk_event *first; /* the line that named it first */
    size_t scope;          /* the index of its (run, backend, scenario) */
    lk_attempt **attempts; /* by their calls */
    size_t attempt_count, attempt_room;
    lk_attempt **grants; /* those that were granted, by their return */
    size_t grant_count;
    const lk_event **looks; /* what the service said, by when it was asked */
    size_t look_count, look_room;
    const lk_event **writes;
    size_t write_count, write_room;
} lk_history_key;

typedef struct {
    const char *name;
    uint32_t cut_line;
} lk_history_file;

struct lk_history {
    lk_strings strings;
    lk_event *events;
    size_t event_count, event_room;
    lk_history_file *files;
    size_t file_count, file_room;
    lk_attempt *attempts;
    size_t attempt_count;
    lk_process *processes;
    size_t process_count, process_room;
    lk_history_key *keys;
    size_t key_count, key_room;
    unsigned *allowed; /* of each (run, backend, scenario): bit 1 << check, by its lines `allow` */
    size_t scope_count, scope_room;
};

/** The sum of two times that are not negative; a history may hold the greatest that there are. */
static inline int64_t lk_sum(int64_t a, int64_t b)
{
    return a > LK_NEVER - b ? LK_NEVER : a + b;
}

/** Fill the error. Returns false. */
bool lk_history_fail(lk_history_error *error, lk_history_failure failure, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool lk_history_no_memory(lk_history_error *error);

static inline bool lk_granted(const lk_attempt *attempt)
{
    return attempt->answered && attempt->answered->phase == LK_PHASE_OK;
}

/** Whether there is an answer of that phase. */
static inline bool lk_answered(const lk_event *answer, lk_history_phase phase)
{
    return answer && answer->phase == phase;
}

/* ------------------------------------------------------------------ kinds (kinds.c) ---- */

/** How a lock is asked for by that call. */
lk_kind lk_kind_of(const lk_event *asked);

/** Whether one excludes the other, whoever else holds. Two permits don't. */
static inline bool lk_excludes(lk_kind a, lk_kind b)
{
    return a == LK_KIND_EXCLUSIVE || a != b;
}

/** The last grant of each kind, and of each slot, as they come. */
typedef struct {
    const lk_attempt *of_kind[LK_KINDS]; /* NULL: none came */
    lk_history_table slots;
    const lk_attempt **of_slot;
    size_t slot_count, slot_room;
} lk_latest;

/** The last that came with the slot of that one; NULL: none, or it has no slot. */
const lk_attempt *lk_latest_of_slot(lk_latest *latest, const lk_attempt *attempt);
/** It comes. False: out of memory. */
bool lk_latest_set(lk_latest *latest, const lk_attempt *attempt);
void lk_latest_clear(lk_latest *latest);

/* ------------------------------------------------------------------ judging ---- */

/** A key while it is being judged. */
typedef struct {
    lk_report *report;
    size_t index; /* of the key in the report */
    const lk_history_key *key;
    lk_figures *figures;
    unsigned allowed; /* bit 1 << check: by the lines `allow` */
    int64_t last;     /* time of the history's last line */
} lk_case;

/** Who held when; sorts what the service said. False: out of memory. */
bool lk_intervals(lk_history_key *key);

/** Note a breach and count it. The answer is for overlap, which has more to say; NULL: out of memory, which
 * the report remembers. */
lk_finding *lk_found(lk_case *c, lk_check check, const lk_event *first, const lk_event *second,
                     const char *text);

/** Add a sample; out of memory is remembered by the report. */
void lk_sample(lk_case *c, lk_samples *samples, int64_t value);

/** What a line of the service says about a grant. */
typedef enum { LK_AGAINST, LK_NEUTRAL, LK_FOR } lk_voice;

/** Grants of a key by their names, and calls by process: to know whom the service speaks of. */
typedef struct {
    const lk_attempt **by_token; /* those with one; by token, then by return */
    size_t token_count;
    const lk_attempt **by_id; /* those with one; by id, then by return */
    size_t id_count;
    const lk_attempt **by_process; /* all attempts; by process, then by their calls */
    int64_t *busy_to; /* up to when an attempt of the process, of those up to this one, was busy */
} lk_index;

bool lk_index_make(lk_index *index, const lk_history_key *key);
void lk_index_clear(lk_index *index);

/** What `look` says about a granted attempt. */
lk_voice lk_hears(const lk_index *index, const lk_event *look, const lk_attempt *attempt);

/** The granted attempt that `look` names by token or id; NULL: none, or not known. */
const lk_attempt *lk_named(const lk_index *index, const lk_event *look);

/** Whether a call of the process was under way, or held the lock, when the service was asked. */
bool lk_history_busy(const lk_index *index, const lk_history_key *key, const lk_process *process,
                     const lk_event *look);

/** Whether the service said anything wholly between two moments. */
bool lk_looked_at(const lk_history_key *key, int64_t from, int64_t to);

/** The first line wholly between two moments that says that the lock is not this grant's; NULL: none does. */
const lk_event *lk_contradiction(const lk_index *index, const lk_history_key *key, const lk_attempt *attempt,
                                 int64_t from, int64_t to);

/* The checks. */
void lk_check_overlap(lk_case *c);
void lk_check_tokens(lk_case *c);
void lk_check_writes(lk_case *c);
void lk_check_fifo(lk_case *c);
void lk_check_waiters(lk_case *c);
void lk_check_truth(lk_case *c, const lk_index *index); /* truth and release */
void lk_check_orphans(lk_case *c, const lk_index *index);
void lk_check_notice(lk_case *c, const lk_index *index);
