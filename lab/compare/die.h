/* die.h: how the comparison ends when it can't go on. Nothing that it started outlives it
 * (servers/process.h, servers/scratch.h). */
#pragma once

/** End the program with one line on standard error and this exit code. */
_Noreturn void lk_die(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
