/* text.h: what keys and labels may be: UTF-8 without control characters. */
#pragma once

#include "error.h"

/** INVALID says what is wrong with a text of at most `most` bytes, which is called `what`. *length: of a good one; may be
 * NULL. */
locker_status lk_text_check(const char *text, size_t most, const char *what, size_t *length,
                            locker_error *err);
