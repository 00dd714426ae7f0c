/* text.h: what keys and labels may be: UTF-8 without control characters. */
#pragma once

#include "error.h"

/** INVALID says what is wrong with the key. *length: of a good one. */
locker_status lk_text_check_key(const char *key, size_t *length, locker_error *err);
/** The same of a label; `what` begins the error's text. */
locker_status lk_text_check_label(const char *label, const char *what, locker_error *err);
