/* scratch.h: the directory of a run, below $TMPDIR or /tmp, in which servers keep what they have. It is gone
 * when our process is, however that ends: a guardian process outlives us for a moment and removes it. With
 * LK_TEST_KEEP in the environment it stays. One thread calls all of this. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** Room for the path of a directory in it; a Unix socket's path of 108 bytes has room for a name there. */
enum { LK_SCRATCH_PATH = 80 };

/** Its path, made at the first call. NULL when it can't be made: `why` says it, in a line. */
const char *lk_scratch(char *why, size_t size);

/** Makes a directory in it, a word of at most nine letters and a number. False: `why` says it. */
bool lk_scratch_make(const char *word, char path[LK_SCRATCH_PATH], char *why, size_t size);

/** Empties a directory in it. False with errno: it is not there any more. */
bool lk_scratch_empty(const char *path);

/** Removes a directory in it. "" is allowed. */
void lk_scratch_remove(const char *path);

/** Removes all of it now, and waits until it is gone. For when all servers have ended. */
void lk_scratch_close(void);
