/* check_history_json.h: what the two ways of printing a report share: check_history.c has the options and the
 * text, check_history_json.c the JSON. */
#pragma once

#include <history.h>

#include "cli.h"

/** Milliseconds from nanoseconds. */
static inline double lk_ms(int64_t ns)
{
    return (double)ns / 1e6;
}

/** The report as JSON; NULL: out of memory. */
json_t *lk_history_json(const lk_history *history, const lk_report *report);
