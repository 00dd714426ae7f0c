/* script_internal.h: what script.c and script_text.c share. */
#pragma once

#include <locker/driver.h>

#include "script.h"

/* As locker_parse_duration() allows: 10 years. */
#define LK_FAULT_TIME_MAX_MS INT64_C(315360000000)

typedef struct lk_script_line lk_script_line;
struct lk_script_line {
    lk_script_line *next;
    locker_fault fault;  /* checked; times is never 0; key points to name */
    int64_t seen, acted; /* operations let go by, and acted on */
    char name[];
};

struct lk_script {
    lk_script_line *first, **end;
};
