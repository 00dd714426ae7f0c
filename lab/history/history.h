/* history.h: read histories (docs/history.md) and judge them. `locker check-history` prints what comes of it;
 * others may link it. event.h is one line, writer.h writes them.
 *
 *     lk_history *history = lk_history_new();
 *     lk_check_options options = LK_CHECK_OPTIONS_INIT;
 *     if (lk_history_read(history, "a.jsonl", &error) && lk_history_join(history, &error) &&
 *         (report = lk_history_check(history, &options)) != NULL)
 *         printf("%lld ns\n", (long long)report->total.overlap_ns);
 *
 * Nothing here is thread-safe; a history belongs to one thread. n lines take O(n log n). */
#pragma once

#include "event.h"

/* ------------------------------------------------------------------ reading ---- */

/** Lines in the order of time, and what belongs together. Opaque. */
typedef struct lk_history lk_history;

typedef enum {
    LK_HISTORY_NO_INPUT = 1, /**< a file can't be read */
    LK_HISTORY_BAD_DATA = 2, /**< a line breaks the format */
    LK_HISTORY_NO_MEMORY = 3
} lk_history_failure;

/** Why it failed: one line, with file and line where there is one. */
typedef struct {
    lk_history_failure failure;
    char text[1024];
} lk_history_error;

/** An empty one; NULL: out of memory. */
lk_history *lk_history_new(void);

/** Free it, with the strings of its events. NULL is allowed. */
void lk_history_free(lk_history *history);

/** Read a file ("-": standard input) and add its lines. */
bool lk_history_read(lk_history *history, const char *path, lk_history_error *error);

/** After the last file: put all lines in order and join questions and answers. Call it once. */
bool lk_history_join(lk_history *history, lk_history_error *error);

/** The lines, in order of time after joining. Live as long as the history. */
const lk_event *lk_history_events(const lk_history *history, size_t *count);

/** The files, as they were named; NULL past the last. */
const char *lk_history_file_name(const lk_history *history, size_t index);

/** The file's last line, when it was cut in the middle and left out; else 0. */
uint32_t lk_history_cut_line(const lk_history *history, size_t index);

/** How many processes and keys there are, counted anew in each run, backend and scenario. */
size_t lk_history_processes(const lk_history *history);
size_t lk_history_keys(const lk_history *history);

/** A call for a lock, and what came of it; events are the history's, NULL: it did not happen. */
typedef struct {
    const lk_event *asked; /**< never NULL */
    const lk_event *answered, *lost, *unlock;
    const lk_event *ended; /**< the end of its process */
    bool granted;
    int64_t from, to; /**< ns: held for certain, as docs/data/history-fields.md says; from == to: never */
} lk_call;

/** The key's name. Keys are counted as lk_history_keys() does, from 0; a report has them in the same
 * order. */
const char *lk_history_key_name(const lk_history *history, size_t key);

/** The calls for a key of a joined history, in the order in which they were asked. */
size_t lk_history_calls(const lk_history *history, size_t key);
lk_call lk_history_call(const lk_history *history, size_t key, size_t index);

/* ------------------------------------------------------------------ judging ---- */

typedef enum {
    LK_CHECK_OVERLAP,
    LK_CHECK_TRUTH,
    LK_CHECK_TOKENS,
    LK_CHECK_RELEASE,
    LK_CHECK_WRITES,
    LK_CHECK_ORPHANS,
    LK_CHECK_WAITERS,
    LK_CHECK_FIFO,
    LK_CHECK_NOTICE,
    LK_CHECKS
} lk_check;

/** "overlap", ... Static text. */
const char *lk_check_name(lk_check check);

typedef struct {
    unsigned promised;        /**< bit 1 << check: a breach breaks a promise */
    int64_t overlap_limit_ns; /**< so much overlap of a key is within the promise */
    int64_t notice_limit_ns;  /**< so late may a notice be */
    int64_t fifo_limit_ns;    /**< who asked only so much earlier need not have been first in the queue */
} lk_check_options;

/** What every lock service has to keep; order and notices have to be asked for. */
#define LK_CHECK_OPTIONS_INIT                                                                                \
    {                                                                                                        \
        (1U << LK_CHECK_FIFO) - 1, 0, INT64_C(50000000), 0                                                   \
    }

/** Times, in ns; sorted in a report. */
typedef struct {
    int64_t *values;
    size_t count, room;
} lk_samples;

/** The value under or at which the part q (0 to 1] of sorted samples lies; 0 without samples. */
int64_t lk_samples_quantile(const lk_samples *samples, double q);

/** What was found, of one key or of all together. */
typedef struct {
    size_t seen[LK_CHECKS];     /**< how many things were looked at; 0: there was nothing to judge */
    size_t breaches[LK_CHECKS]; /**< how many of them are not as promised */
    size_t allowed[LK_CHECKS];  /**< how many of the breaches are within a limit that a line `allow` names */
    size_t attempts, grants;    /**< grants of the service: entering again is none */
    int64_t overlap_ns;         /**< during which two or more held */
    int64_t overlap_longest_ns; /**< of one pair */
    size_t overlap_pairs;
    size_t writes_accepted, writes_refused;
    size_t most_overtaken;     /**< waiters that one grant passed by */
    double jain;               /**< of the grants for each process; of all together: the least. 0: no grant */
    int64_t longest_wait_ns;   /**< of a call that got the lock */
    size_t never_told;         /**< losses without a notice */
    lk_samples after_deadline; /**< notices that came at D or later: how much later */
    lk_samples after_server;   /**< notices of a loss that the service had stated: how long after */
} lk_figures;

/** A breach, with the lines that show it. */
typedef struct {
    lk_check check;
    size_t key;             /**< index into the report's keys */
    const lk_event *first;  /**< of the history; never NULL */
    const lk_event *second; /**< what stands against it; NULL: a single line shows it */
    int64_t from, to;       /**< overlap: when two held; else 0 */
    const char *text;       /**< what is wrong with the first line, in words. Static. */
} lk_finding;

/** One key in one run, backend and scenario. */
typedef struct {
    int64_t run;
    const char *backend, *scenario, *key;
    lk_figures figures;
} lk_history_key_report;

typedef struct {
    lk_check_options options;
    lk_figures total;
    size_t faults; /**< that were begun */
    lk_history_key_report *keys;
    size_t key_count;
    lk_finding *findings; /**< of all checks, promised or not, in the order of keys and checks */
    size_t finding_count, finding_room;
    bool out_of_memory; /**< used while checking */
} lk_report;

/** Judge a history that was joined. The report's events and strings are the history's, which must outlive it.
 * NULL: out of memory. */
lk_report *lk_history_check(lk_history *history, const lk_check_options *options);

/** NULL is allowed. */
void lk_report_free(lk_report *report);

/** How a check came out: "kept", "broken", "allowed" (there are breaches, all within a limit that the history
 * names), "not promised" (there are breaches) or "nothing seen". `figures` is the report's total or those of
 * a key. Static text. */
const char *lk_check_result(const lk_report *report, const lk_figures *figures, lk_check check);

/** Whether any promise is broken. */
bool lk_report_broken(const lk_report *report);
