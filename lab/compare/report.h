/* report.h: what a run of locker compare found, in memory: a table of cells, a column for each backend and a
 * row for each scenario. compare.c has it filled, table.c prints it, json.c writes its summaries, page.c
 * makes the HTML page of it. Everything is text of ours or measured; no password is in it. */
#pragma once

#include <locker/locker.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "history.h"

/** What a cell says about its promise, from the best to the worst but for the last. */
typedef enum {
    LK_VERDICT_MEASURED = 0, /**< there is a figure and no promise: a time, a rate */
    LK_VERDICT_KEPT,         /**< the promise was kept in every run */
    LK_VERDICT_EXCEPTION,    /**< what happened is the documented limit of the promise; `why` says which */
    LK_VERDICT_BROKEN,       /**< the promise was broken in at least one run; `why` says how */
    LK_VERDICT_NOT_RUN       /**< it was not run, or not to its end; `why` says why */
} lk_verdict;

/** The word for a verdict: "measured", "kept", "exception", "BROKEN", "not run". Static text. */
const char *lk_verdict_name(lk_verdict verdict);

/** Measured values of one kind, of all runs of a cell, in the order of measuring. */
typedef struct {
    char name[32]; /**< "lock", "unlock", "hand-off", "wait", "gap", "notice" */
    char unit[8];  /**< "ms", "1/s" */
    double *values;
    size_t len, room;
} lk_measured;

/** One run of a cell: its part of the history, to draw lanes from. */
typedef struct {
    int run;                  /**< from 1 */
    int64_t begin_ns, end_ns; /**< CLOCK_BOOTTIME */
    lk_history *history;      /**< its events alone; NULL: none was kept */
    char title[96];           /**< what the lanes show, such as "crash on redis, run 1"*/
} lk_trace;

typedef struct lk_column lk_column;

/** One scenario on one backend. */
typedef struct {
    const lk_column *column; /**< where it was run */
    lk_verdict verdict;
    /* Set by lk_text_set(); NULL: not set. */
    char *promise; /**< what is promised here, in sentences */
    char *figure;  /**< the headline, in words: "next holder after 812 ms (5 times, TTL 1 s)" */
    char *why;     /**< for EXCEPTION, BROKEN and NOT_RUN */

    lk_measured *samples;
    size_t samples_len;
    lk_trace *traces; /**< one for each run */
    size_t traces_len;
} lk_result;

/** The longest URI of a backend, in bytes. */
enum { LK_COMPARE_URI_MAX = 511 };

/** A column. */
struct lk_column {
    char name[32]; /**< "redis", "redis+replica", ... or a given backend's driver, numbered if needed */
    char uri[LK_COMPARE_URI_MAX + sizeof "***"]; /**< without its password */
    char version[96];                            /**< of the server: "Redis 7.0.15"; empty: not known */
    char setup[160];                             /**< how it was set up, a sentence */
    bool spawned;
    const char *choose_when; /**< "processes of one host..."; static. NULL: it was given, and nobody knows */
    locker_semantics semantics; /**< its texts are the driver's: static */
};

/** A row. */
typedef struct {
    const char *name;     /**< "crash", as --scenario takes it. Static, as the others. */
    const char *title;    /**< "The holder is killed" */
    const char *question; /**< what is done and asked, a sentence or two */
    bool no_lanes;        /**< the page has no lanes of it */
    lk_result *results;   /**< one for each column, in their order */
} lk_row;

/** The whole. */
typedef struct {
    char *command; /**< as it was typed, passwords taken out. By lk_text_set(). */
    char locker_version[32];
    char machine[256]; /**< processor, cores, kernel */
    char date[32];     /**< "2026-11-21 07:16 UTC" */
    char load[160];    /**< how busy the machine was, and how late threads woke */
    int runs;          /**< how often each cell was run */
    bool quick;        /**< --quick: few samples */
    lk_column *columns;
    size_t columns_len;
    lk_row *rows;
    size_t rows_len;
} lk_comparison;

/** Replace a text, whatever its length: *text is freed, unless it is NULL. The arguments may refer to it. Ends the program if
 * memory runs out. */
void lk_text_set(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lk_text_vset(char **text, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/** Free what is inside; the struct itself is the caller's. */
void lk_comparison_clear(lk_comparison *comparison);

/** The samples of that name, made when there are none yet. They live until the next call or the clearing. */
lk_measured *lk_result_measured(lk_result *result, const char *name, const char *unit);

/** Add a value. */
void lk_measured_add(lk_measured *samples, double value);

/** The value under which the part q (0 to 1) of the samples lies; 0 when there are none. Sorts a copy. */
double lk_measured_quantile(const lk_measured *samples, double q);

/** Print the table for a terminal, `width` columns wide. */
void lk_comparison_print(const lk_comparison *comparison, FILE *out, int width);

/** Whether lk_comparison_write_html() finds here what it needs; else `why` says in one line what is missing.
 * Asked before the first scenario is run. */
bool lk_comparison_can_write_html(char *why, size_t why_size);

/** Write the page to `file`, whole or not at all: one self-contained HTML document. False with one line in
 * `why` when it can't be done. */
bool lk_comparison_write_html(const lk_comparison *comparison, const char *file, char *why, size_t why_size);
