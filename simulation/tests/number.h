/* number.h: a number of the command line. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* False: the text is none from `least` on, or so great that two of them have no sum. */
static inline bool read_number(const char *text, uint64_t least, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *number >= least &&
           *number <= INT64_MAX;
}
