/* text.h: what keys and labels may be: UTF-8 without control characters (lk_printable.h). */
#pragma once

#include "lk_error.h"

/** INVALID says what is wrong with a text of at most `most` bytes, called `what`. *length (or NULL): a good one's. */
locker_status lk_text_check(const char *text, size_t most, const char *what, size_t *length,
                            locker_error *err);

/** True if one text becomes the other when one letter is added, removed, changed or swapped with its neighbour. */
bool lk_text_is_slip(const char *given, const char *meant);
