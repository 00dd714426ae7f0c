/* options.h: what the command line of locker compare says. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "backend.h"
#include "scenario.h"

enum { LK_SCENARIOS_MAX = 32 };

typedef struct {
    const char *uris[LK_BACKENDS_MAX]; /**< --backend */
    size_t uris_len;
    const lk_kind *kinds[LK_BACKENDS_MAX]; /**< --spawn */
    size_t kinds_len;
    const lk_scenario *scenarios[LK_SCENARIOS_MAX]; /**< --scenario, else all */
    size_t scenarios_len;
    const char *html, *json; /**< files; NULL: none */
    int runs;
    bool quick, quiet, list;
} lk_choices;

/** Read the command line. LK_GO_ON, or the exit code to end with; it has complained then. */
int lk_choices_parse(int argc, char **argv, lk_choices *choices);
