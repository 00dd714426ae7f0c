/*
 * plant.h: faults planted in the mock's own service, to see that the random scripts find them. The linker
 * puts plant.c's functions before the mock's (--wrap); without plant() they change nothing.
 */
#pragma once

#include <stdbool.h>

/** Break the service so from now on; false: there is no such fault. Their names are in plant.c. */
bool plant(const char *name);
