/* process.h: processes that die with the thread that started them (PR_SET_PDEATHSIG), however that ends: an
 * error's exit(), Ctrl-C and kill -9 are all cleaned up after in the same way, and nothing needs a handler. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/** What a new process gets. */
typedef struct {
    const char *const *argv; /**< argv[0] is looked for in PATH */
    int in, out, err;        /**< its descriptors 0, 1, 2; 0: /dev/null */
    int netns;               /**< its network namespace, a descriptor; 0: ours */
    bool apart;              /**< in a process group of its own: a terminal's Ctrl-C is for us alone */
} lk_start;

/** Starts a process that dies with the calling thread. Its id, or -1 with errno when it can't be started. */
pid_t lk_process_start(const lk_start *start);

/** Runs a program to its end, its output thrown away. Its exit code, 128 when a signal ended it, -1 with
 * errno when it can't be started. */
int lk_process_run(int netns, const char *const *argv);

/** kill -9, and wait. 0 is allowed: nothing. */
void lk_process_kill(pid_t pid);

/** Waits until a child has stopped itself. False: it had ended, or is 0. */
bool lk_process_stopped(pid_t pid);

/** SIGSTOP, and wait until it has stopped. False: it had ended, or is 0. */
bool lk_process_freeze(pid_t pid);

/** Whether a program is in PATH. */
bool lk_program_exists(const char *name);
