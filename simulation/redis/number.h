/* number.h: numbers and patterns as Redis reads them. */
#pragma once

#include <stdint.h>

#include "bytes.h"

/** An integer of 64 bits without sign +, leading zeros or spaces. */
bool lk_sr_integer(lk_sr_text text, int64_t *number);

/** Anything that strtod() reads to its end, infinities among them, but no NaN. */
bool lk_sr_float(lk_sr_text text, double *number);

/** Whether the text is of the pattern, which may have `*`, `?`, `[a-c]`, `[^x]` and `\`. */
bool lk_sr_matches(lk_sr_text pattern, lk_sr_text text);
