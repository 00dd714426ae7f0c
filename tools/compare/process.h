/*
 * process.h: what locker compare starts: its workers, the servers that --spawn asks for, the programs that
 * set up networks. Every process dies with ours, however that ends (PR_SET_PDEATHSIG), and the scratch
 * directory goes by a guardian process that outlives us for a moment; so Ctrl-C, an error's exit() and kill
 * -9 are all cleaned up after in the same way, and nothing needs a handler. One thread calls all of this,
 * because a parent's death is that of the thread that forked.
 */
#ifndef LOCKER_TOOLS_COMPARE_PROCESS_H
#define LOCKER_TOOLS_COMPARE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** CLOCK_BOOTTIME in ns, the clock of histories. */
int64_t lk_now_ns(void);

/** Sleep for so many ms. For faults and work that are to last; to wait for something there is lk_until(). */
void lk_pause_ms(int64_t ms);

/** Call `is_so` every few ms until it says true (answers true) or `ms` have passed (false). */
bool lk_until(bool (*is_so)(void *context), void *context, int64_t ms);

/** End the program with one line on standard error and this exit code. All that was started ends too. */
_Noreturn void lk_die(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The scratch directory of this run, made at the first call. Gone when our process is. */
const char *lk_scratch(void);

/** Make a directory in the scratch directory, `name` and a number; its path goes to `out`. */
void lk_scratch_make(const char *name, char *out, size_t size);

/** Empty a directory of ours, and make it anew. */
void lk_scratch_empty(const char *directory);

/** Remove the scratch directory now and wait until it is gone. To be called when all servers have ended. */
void lk_scratch_close(void);

/** What a new process gets. */
typedef struct lk_start {
    const char *const *argv; /**< argv[0] is looked for in PATH */
    int in, out, err;        /**< its descriptors 0, 1, 2; -1: /dev/null */
    int netns;               /**< its network namespace, a descriptor; -1: ours */
} lk_start;

/** Start a process that dies with ours. Answers its id, or -1 with errno when it can't be started. */
pid_t lk_process_start(const lk_start *start);

/** Run a program to its end, its output thrown away; answers its exit code, -1 when it can't be started. */
int lk_process_run(int netns, const char *const *argv);

/** kill -9 and wait. 0 is allowed: nothing. */
void lk_process_kill(pid_t pid);

/** SIGSTOP, and wait until it has stopped. */
void lk_process_stop(pid_t pid);

/** Whether a program is in PATH. */
bool lk_program_exists(const char *name);

#endif
