/* die.c: how the comparison ends when it can't go on; see die.h. */
#include "die.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

void lk_die(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char text[800];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lk_cli_message("%s", text);
    exit(code);
}
