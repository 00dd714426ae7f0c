/* tokens.h: the tokens of lock files that were removed. */
#pragma once

#include "instance.h"

enum { LK_FILE_TOKEN_SLOTS = 1024 };

/* The tokens' file, open for a sweep. */
typedef struct {
    int fd;
    uint64_t known[LK_FILE_TOKEN_SLOTS]; /* what a slot has at least, as far as this sweep has seen */
} lk_file_tokens;

/* The greatest token that a removed file of this name can have had, 0 for none. 0, or an errno: it can't be told now.
 * What has been damaged or removed counts as 0: tokens go on from the clock. */
int lk_file_tokens_floor(lk_file *self, uint32_t hash, uint64_t *token);
/* Open it for a sweep, and make it when it is missing. False: it can't be had, and no lock file may be removed. */
bool lk_file_tokens_open(lk_file *self, lk_file_tokens *tokens);
/* Raise the name's slot to the token, at least. False: it can't be done now. */
bool lk_file_tokens_raise(lk_file_tokens *tokens, uint32_t hash, uint64_t token);
/* Whether the name's slot was raised to that much. */
bool lk_file_tokens_cover(const lk_file_tokens *tokens, uint32_t hash, uint64_t token);
/* Have what was raised on the disk. */
bool lk_file_tokens_flush(const lk_file_tokens *tokens);
void lk_file_tokens_close(lk_file_tokens *tokens);
