/* store.h: the guarded store of the scenarios: a file with the greatest fencing token that has written,
 * checked and replaced under flock(). It is what a database row with `UPDATE ... WHERE fence <= :token` is in
 * life. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Write with this token. *accepted says whether the store took it; it refuses a token that is smaller than
 * the greatest it has seen. False with errno when the file can't be used. */
bool lk_store_write(const char *path, uint64_t token, bool *accepted);

/** The number in a file; 0 when it can't be read, or is none. */
long lk_store_number(const char *path);
