/* steps.c: see steps.h. */
#include "steps.h"

#include <stdarg.h>

#include "world/fibers.h"

static FILE *steps;

void lk_sim_steps_begin(FILE *trace)
{
    steps = trace;
}

bool lk_sim_steps_are_told(void)
{
    return steps != NULL;
}

void lk_sim_step(const char *format, ...)
{
    va_list arguments;
    if (steps == NULL)
        return;
    fprintf(steps, "%lld.%09lld step ", (long long)(lk_sim_now() / 1000000000),
            (long long)(lk_sim_now() % 1000000000));
    va_start(arguments, format);
    vfprintf(steps, format, arguments);
    va_end(arguments);
    fputc('\n', steps);
}
