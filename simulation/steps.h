/*
 * steps.h: what happens in a run in the words of the models (models/README.md): lines "TIME step WORDS".
 * script/prove --traces asks the models whether they can take these steps.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/** Steps are written there from now on. NULL: they are not. */
void lk_sim_steps_begin(FILE *trace);
/** Whether they are written, so that what is dear to say is not said for nothing. */
bool lk_sim_steps_are_told(void);
/** A step, which is taken now. */
void lk_sim_step(const char *format, ...) __attribute__((format(printf, 1, 2)));
