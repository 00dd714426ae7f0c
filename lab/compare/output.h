/* output.h: what locker compare says while it runs, and the JSON file. The table is in report.h. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "report.h"

/** How far it is. On a terminal one line is written over; else each step is a line. On stderr. */
typedef struct {
    bool quiet, terminal;
    size_t done, all;
} lk_progress;

lk_progress lk_progress_begin(bool quiet, size_t steps);

/** Say what is done now. */
void lk_progress_say(const lk_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Take the line away. */
void lk_progress_end(const lk_progress *progress);

/** Append a run's history to the JSON file. False with errno. */
bool lk_json_add_history(FILE *json, const char *history);

/** Append what was found, one line for each cell, and one for the run of locker compare. False with errno. */
bool lk_json_add_summaries(FILE *json, const lk_comparison *comparison);
