/* plant.h: differences planted in the simulated ZooKeeper, and a real one that is silent, to see that the
 * comparison finds them. The linker puts plant.c's functions before its own (--wrap); without plant() they change nothing. */
#pragma once

#include <stdbool.h>

/* False: there is no such difference. Their names are in plant.c. */
bool plant(const char *name);
