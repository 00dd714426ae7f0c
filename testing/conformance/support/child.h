/* child.h: child processes of a test, spoken to line by line over their standard input and output. A child is
 * either another program or the test's own program, run again with "--child ROLE": a plain fork would carry
 * copies of the parent's threads' locks along. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LK_LINE_MAX = 1024 };

typedef struct {
    pid_t pid;              /* 0 when it has been waited for */
    int input;              /* we write its standard input here; -1 when closed */
    int output;             /* we read its standard output here */
    char line[LK_LINE_MAX]; /* what was read and is not yet a whole line */
    size_t filled;          /* bytes in line */
} lk_child;

/** A role that the test's program plays when it is run as a child. Its return value is the exit code. */
typedef struct {
    const char *name;
    int (*play)(int argc, char **argv);
} lk_role;

/** First thing in main(): when the program was started as a child, plays the role and exits. `roles` ends
 * with a NULL name. */
void lk_child_main(int argc, char **argv, const lk_role *roles);

/** Runs this very program as a child in a role. The child dies with the test's thread. */
lk_child *lk_child_start(const char *role, const char *const *arguments);

/** Runs a program, found by PATH. Fails the test with "install PACKAGE" when it isn't there. */
lk_child *lk_child_run(const char *const *argv, const char *package);

/** Sends a line. */
void lk_child_say(lk_child *child, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Reads the next line without its newline; fails the test when none comes within LK_TEST_PATIENCE_MS. */
const char *lk_child_hear(lk_child *child, char line[LK_LINE_MAX]);

/** Reads the next line and fails the test unless it begins with `wanted`. */
void lk_child_expect(lk_child *child, const char *wanted);

/** Sends it a signal. */
void lk_child_signal(lk_child *child, int number);

/** SIGSTOP, and waits until it has stopped. SIGCONT by lk_child_signal() lets it go on. */
void lk_child_stop(lk_child *child);

/** Waits until it has stopped itself, as it was told to. */
void lk_child_await_stop(lk_child *child);

/** Says a line to a child that listens, and has it go on from one system call to the next, as far as its main thread
 * makes them. Asks `go_on` at the entry of each, with its number and first argument; the first that is told no is
 * never made: kill -9. */
typedef bool (*lk_step)(void *context, long number, uint64_t first);
void lk_child_step(lk_child *child, const char *line, lk_step go_on, void *context);

/** Closes its input, waits for its end, frees it. Answers the exit code, or 128 + the signal's number. */
int lk_child_end(lk_child *child);

/** kill -9, wait, free. NULL is allowed. */
void lk_child_kill(lk_child *child);

/** In a child: says a line to the parent. */
void lk_side_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** In a child: reads a line from the parent; false at the end. */
bool lk_side_hear(char line[LK_LINE_MAX]);

/** In a child: stops, with all its threads, wherever they are, until SIGCONT. */
void lk_side_stop(void);

/** In a child: until when it has stood still, in ns of CLOCK_BOOTTIME: who measures how long something took
 * counts from then. INT64_MAX: it is about to, or has just gone on; 0: it never has. */
int64_t lk_side_stopped_until(void);
