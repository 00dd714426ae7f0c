/* value.h: the values that say whose a lock is: 127 bits of the instance (redis.c) plus a number, as hex digits, of which the
 * first half names the instance; and numbers, read back from texts of ours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lk_atomic.h"

enum { LK_REDIS_VALUE_LEN = 32 /* hex digits of a value, and of an instance's name */ };

typedef struct {
    /* The instance's: the half that all values begin with, twice. Constant, as the next. */
    char name[LK_REDIS_VALUE_LEN + 1];
    char hex[256][2];             /* the digits of a byte */
    uint64_t low;                 /* what numbers are added to */
    atomic_uint_fast64_t counter; /* relaxed: it orders nothing */
} lk_redis_values;

/* From so many random bits. */
void lk_redis_values_init(lk_redis_values *values, const uint64_t random[2]);

/* A number that no claim had before; never 0. */
static inline uint64_t lk_redis_value_next(lk_redis_values *values)
{
    return atomic_fetch_add_explicit(&values->counter, 1, memory_order_relaxed) + 1;
}

/* Ended by a NUL. */
void lk_redis_value_text(const lk_redis_values *values, uint64_t number, char text[LK_REDIS_VALUE_LEN + 1]);
/* Back from the text; false when it isn't one of this instance's values. */
bool lk_redis_value_number(const lk_redis_values *values, const char *text, uint64_t *number);

enum { LK_REDIS_DIGITS_MAX = 17 /* of a number that Lua's doubles hold, as all of ours are */ };

/* A number, and what ends it. Moves *text behind them. */
bool lk_redis_read_number(const char **text, char end, int64_t *number);
