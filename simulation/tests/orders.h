/* orders.h: the command lines of the programs that compare a simulated service with a real one. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *usage; /* the options that the program takes: "[--sequences N] [--seed N]" and more */
    uint64_t first, count;
    bool verbose;
    const char *planted, *at; /* of --plant and --at; NULL: not given */
} orders;

/* False: the text is none from `least` on, or so great that two of them have no sum. */
static inline bool read_number(const char *text, uint64_t least, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *number >= least &&
           *number <= INT64_MAX;
}

static inline bool read_value(orders *o, const char *option, const char *value)
{
    if (strcmp(option, "--sequences") == 0 || strcmp(option, "--seeds") == 0)
        return read_number(value, 1, &o->count);
    if (strcmp(option, "--first") == 0)
        return read_number(value, 0, &o->first);
    if (strcmp(option, "--seed") == 0) {
        o->count = 1;
        return read_number(value, 0, &o->first);
    }
    *(strcmp(option, "--at") == 0 ? &o->at : &o->planted) = value;
    return true;
}

/* False: the line is wrong. `o` has what holds where an option is not given. */
static inline bool read_orders(orders *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const bool has_value = strcmp(argv[i], "--verbose") != 0;
        char option[24];
        (void)snprintf(option, sizeof option, "[%s%s", argv[i], has_value ? " " : "]");
        if (strstr(o->usage, option) == NULL)
            return false;
        if (!has_value)
            o->verbose = true;
        else if (++i == argc || !read_value(o, argv[i - 1], argv[i]))
            return false;
    }
    return true;
}

static inline int usage(const orders *o, const char *program)
{
    (void)fprintf(stderr, "usage: %s %s\n", program, o->usage);
    return 64;
}
