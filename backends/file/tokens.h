/* tokens.h: the tokens of lock files that were removed. */
#pragma once

#include "instance.h"

enum { LK_FILE_TOKEN_SLOTS = 1024 };

/* The greatest token that a removed file of this name can have had, 0 for none. 0, or an errno: it can't be told now.
 * What has been damaged or removed counts as 0: tokens go on from the clock. */
int lk_file_tokens_floor(lk_file *self, uint32_t hash, uint64_t *token);
/* Open `.tokens` for a sweep, and make it if it is missing. -1: it cannot be used, so no lock file may be removed. */
int lk_file_tokens_open(lk_file *self);
/* Raise the name's slot to the token, at least. False: it can't be done now. */
bool lk_file_tokens_raise(int fd, uint32_t hash, uint64_t token);
