/* run_parts.h: locker run and its parts, each of which uses only those before it.
 *
 *   run_options.c   reads the command line
 *   run_events.c    JSON lines for --status-fd
 *   run_signals.c   which signals we take and what the command inherits; ends the wait on a signal
 *   run_env.c       the command's environment, and refusing to wait for oneself
 *   run_lock.c      takes the lock, or says who holds it, and releases it
 *   run_child.c     starts the command, sends signals to it, stops and continues with it, reaps it
 *   run_tree.c      finds, signals and ends everything that the command started
 *   run_supervise.c the loop while the command runs: signals, the child's end, the lease's deadline. A thread of its own,
 *                   the guard, kills the command just before the lease ends
 *   run.c           calls these parts in order, or with --no-fork becomes the command; returns the exit code
 *
 * Three threads: the main one; until the lock is held, one that turns a signal into the wait's end; and, for
 * a wait that somebody looks at, one that says whom it waits for. While the command runs there is one loop on
 * the main thread, and the guard, so nothing here needs a lock but these hand-overs. */
#pragma once

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cli.h"

typedef struct {
    lk_common common;
    const char *key;
    const char *keys[LOCKER_KEYS_MAX]; /**< it, and those of --also */
    size_t key_count;
    locker_mode mode;
    int32_t permits;
    char **command;        /**< what to execute, ended by NULL; with -c it points into `shell` */
    char *shell[4];        /**< the shell, -c, STRING, NULL */
    int64_t wait_ms;       /**< -1: for ever */
    int64_t ttl_ms;        /**< 0: the configuration's */
    int64_t kill_after_ms; /**< -1: not given */
    int conflict_exit;
    int lost_exit;
    int lost_signal;         /**< 0: ignore the loss */
    const char *owner;       /**< NULL: the library's default */
    bool nonblock;           /**< -n */
    bool wait_given;         /**< -w */
    const char *of_watching; /**< an option for the time while the command runs; NULL: none was given */
    bool no_fork;            /**< become the command by exec */
    bool foreground;
    bool wait_descendants; /**< hold the lock until everything that the command started has ended */
    int status_fd;         /**< -1: none; else our own close-on-exec copy */
} lk_run_options;

/** What we found at the start, and what we take. */
typedef struct {
    sigset_t inherited_mask;
    struct sigaction inherited_pipe, inherited_child; /**< dispositions that we change */
    sigset_t endings; /**< INT, TERM, HUP, QUIT, but for those we were started to ignore */
    sigset_t watched; /**< what the loop reads: endings and all that is forwarded, CHLD, CONT, TSTP */
} lk_run_signals;

/** A thread beside the main one. No signal is delivered to it. */
typedef struct {
    pthread_t thread;
    int wake_fd; /**< valid while started: readable when there is something new for the thread, or when it is to end */
    bool started;
    _Atomic bool over; /**< true if the thread is to end; relaxed: wake_fd orders it */
} lk_run_thread;

/** A process, as /proc shows it. */
typedef struct {
    pid_t pid, parent, group, session;
    long threads;
    unsigned long long start; /**< ticks since boot; with the pid it names one process for ever */
    char command[17];
    bool zombie;    /**< all its threads have ended */
    bool before;    /**< it was our child before the command started */
    bool ours;      /**< the command, or a process that the command started */
    bool own_group; /**< all of its process group are, and the group is to be signalled by way of this one */
} lk_run_process;

/** What is remembered of a process from one walk to the next. */
typedef struct {
    pid_t pid;
    unsigned long long start;
    bool before;    /**< as above */
    bool signalled; /**< it got its signal to end, other than by the command's process group */
    bool stopped;   /**< it got STOP, KILL follows */
    bool refused;   /**< we may not signal it (EPERM) */
} lk_run_mark;

/** Everything that the command started, as the last walk through /proc found it. */
typedef struct {
    DIR *proc;     /**< NULL: there is none, and only the process group is reached */
    int spares[2]; /**< descriptors kept for a walk and its pidfds; -1: in use */
    pid_t command;
    bool others; /**< processes that are not the command's are our descendants, too */
    lk_run_process *found;
    size_t found_count, found_room;
    lk_run_mark *marks;
    size_t marks_count, marks_room;
    int64_t walk_ms;  /**< how long the last walk took */
    int64_t until_ms; /**< when a walk is to break off, of CLOCK_BOOTTIME; 0: never */
} lk_run_tree;

/** Kills the command in time. */
typedef struct {
    lk_run_thread thread;
    int timer_fd;                             /**< of CLOCK_BOOTTIME, as deadlines are; -1: not open */
    const struct lk_run_child *_Atomic child; /**< release and acquire; NULL: not started yet */
    _Atomic bool fired;                       /**< it has killed the command: the lock counts as lost */
    _Atomic int64_t
        kill_at_ms; /**< -1: just before the lock's deadline; relaxed: the thread's wake_fd orders it */
} lk_run_guard;

/** One call of locker run. What belongs to the lock is set once that is held. */
typedef struct {
    lk_run_options options;
    lk_run_signals signals;
    lk_run_thread teller; /**< says once, after 2 s of waiting, which holder the wait is for */
    locker *l;
    char backend[64];
    locker_handle *held;
    int64_t began_ms; /**< when the wait began, of CLOCK_MONOTONIC */
    int64_t ttl_ms;   /**< 0: no lease */
    int64_t kill_after_ms;
    int64_t margin_ms;       /**< how long before the deadline KILL is sent */
    int64_t deadline_ms;     /**< the lease's, of CLOCK_BOOTTIME, before the command starts; -1: no lease */
    bool lost;               /**< the lock was lost while the command ran */
    bool stopped;            /**< the command was signalled because the lock was lost or about to be */
    int signal_fd, timer_fd; /**< what the loop reads; -1: not open */
    int system_error; /**< errno if the supervisor could not be started (the command has been killed); else 0 */
    lk_run_tree tree;
    lk_run_guard guard;
    int ended_by;       /**< the signal that ended the command or the wait; 0: none */
    bool from_terminal; /**< the command had the terminal then, so our process group got no signal */
    bool abandoned;     /**< the service does not answer to the release: exit without waiting for it */
} lk_run;

/* ------------------------------------------------------------------ options ---- */

/** Read the command line. Returns LK_GO_ON, or the exit code to end with. */
int lk_run_parse(int argc, char **argv, lk_run_options *options);

/** The library renews each third of the lease time. */
enum { LK_RUN_RENEWALS = 3 };

/** Refuse --kill-after. Returns the exit code. */
int lk_run_kill_after_too_long(int64_t most_ms);

/** "SIGTERM" for 15; "signal 40" for one that has no name. Returns `out`. */
const char *lk_run_signal_name(int number, char *out, size_t size);

/* ------------------------------------------------------------------ events ---- */

/** Tell an event by one JSON line, with what json_pack() makes of the rest; nothing when nobody asked for it,
 * or when the reader doesn't read: the lock's safety never waits for it. */
void lk_run_event(const lk_run *r, const char *name, const char *format, ...);

/* ------------------------------------------------------------------ signals ---- */

/** Block what we take, before any thread exists. `foreground`: leave the terminal's stop signal alone. */
void lk_run_signals_take(lk_run_signals *signals, bool foreground);

/** Block or unblock a signal (SIG_BLOCK, SIG_UNBLOCK) on this thread. Async-signal-safe. */
void lk_run_signal_mask(int how, int number);

/** Start a thread. Returns 0 or an errno. */
int lk_run_thread_start(lk_run_thread *thread, void *(*run)(void *r), lk_run *r);

/** Wake the thread up, if it was started. Does not block. */
void lk_run_thread_wake(const lk_run_thread *thread);

/** Tell the thread to end, if it was started. Does not block. */
void lk_run_thread_stop(lk_run_thread *thread);

/** Stop the thread, and wait for its end, if it was started. */
void lk_run_thread_end(lk_run_thread *thread);

/** Let Ctrl-Z stop us (true, while waiting) or have the loop read it (false). */
void lk_run_signals_stoppable(const lk_run_signals *signals, bool stoppable);

/** In the child before exec: as we found them. Async-signal-safe. */
void lk_run_signals_restore(const lk_run_signals *signals);

/** End as a process that INT or QUIT kills, so that a shell's loop or make(1) around us stops too. Returns for another signal, and
 * where the kernel lets no signal end us (process 1). Async-signal-safe. */
void lk_run_die_of(int number);

/** From here on a signal that ends things ends the process. Returns 0 or an errno. */
int lk_run_wait_begin(const lk_run_signals *signals);

/** From here on it fires this: a lock may be asked for, so leaving must be orderly. */
locker_cancel *lk_run_wait_enter(void);

/** From here on it is left to the loop. Returns the one that came, or 0. */
int lk_run_wait_end(const lk_run_signals *signals);

/** Forget what came while we waited and is not for us: USR1, USR2, WINCH. */
void lk_run_signals_forget(const lk_run_signals *signals);

/* ------------------------------------------------------------------ environment ---- */

/** Whether one of our ancestors holds this very lock, so that waiting for it would never end. Returns 0, or
 * the exit code after complaining. */
int lk_run_check_nested(const lk_run *r);

/** The fencing token of KEY. */
uint64_t lk_run_token(const lk_run *r);

/** The environment for the command, to be freed with lk_run_environment_free(); NULL when out of memory. */
char **lk_run_environment(const lk_run *r);
void lk_run_environment_free(char **environment);

/* ------------------------------------------------------------------ the lock ---- */

/** A time in ms for the system's calls. */
struct timespec lk_run_timespec(int64_t ms);

/** What to do about a limit of the system, for the end of a message; "" when it is none. */
const char *lk_run_advice(int error);

/** Open the service and take the lock. Returns LK_GO_ON with the lock held, or the exit code, which may be 0
 * (-E). */
int lk_run_acquire(lk_run *r);

/** Release it, and say what became of it. */
locker_status lk_run_release(lk_run *r);

/* ------------------------------------------------------------------ the child ---- */

typedef struct lk_run_child {
    pid_t pid;
    bool group;        /**< it leads a process group of its own */
    int terminal;      /**< the controlling terminal; -1: none, or --foreground */
    int exec_pipe;     /**< readable when exec worked (end of file) or failed (an errno); -1: settled */
    int exec_error;    /**< errno of a failed exec, or 0 */
    bool ended;        /**< a zombie, until run.c reaps it after the last signal */
    int code;          /**< valid when ended: its exit code; 0 when a signal ended it */
    int signal;        /**< valid when ended: the signal that ended it, or 0 */
    bool lent;         /**< it got the terminal */
    bool had_terminal; /**< valid when ended: the terminal was its own then */
    size_t unheard;    /**< how many times it was stopped for the terminal with no shell to continue it */
    int stopped_by;    /**< the signal that stopped it, until it is continued; 0: it runs */
} lk_run_child;

/** Start the command. Returns 0 or an errno. */
int lk_run_child_start(lk_run_child *child, const lk_run *r, char **environment);

/** Send a signal to the command's process group, or with --foreground to the command: to nobody, once it and
 * they have ended. */
void lk_run_child_signal(const lk_run_child *child, int number);

/** Take in what has become of it, and of orphans that came to us. */
void lk_run_child_reap(lk_run_child *child);

/** Wait for its end. */
void lk_run_child_await(lk_run_child *child);

/** Read the answer of exec from exec_pipe. */
void lk_run_child_read_exec(lk_run_child *child);

/** The command was stopped: stop with it, as one job of the shell, and return when we have been continued.
 * True: the command is to be continued; false: it was not stopped by the terminal, leave it alone. */
bool lk_run_child_stop_along(lk_run_child *child);

/** Continue it, with the terminal if we have it. */
void lk_run_child_continue(lk_run_child *child);

/** Take the terminal back, and close what is ours. */
void lk_run_child_finish(lk_run_child *child);

/* ------------------------------------------------------------------ the tree ---- */

/** Become the parent of orphans. Called before the command starts. Returns 0 or an errno. */
int lk_run_tree_begin(lk_run *r);

/** True if something that the command started lives, or the command itself. */
bool lk_run_tree_lives(lk_run *r);

/** Send a signal, and CONT, to each process outside the command's process group that got none by this function yet: to all of
 * them, or only to orphans, whose parent has ended and can pass no signal on. Reports processes that we may not signal. */
void lk_run_tree_signal(lk_run *r, const lk_run_child *child, int number, bool orphans_only);

/** Kill at once those that earlier walks found, without a walk. */
void lk_run_tree_kill_known(lk_run *r);

/** Stop and then kill all of them, with their process groups. True if none was found but such as we may not signal, or none can
 * be found without /proc. Else call again until nothing lives. */
bool lk_run_tree_kill(lk_run *r);

void lk_run_tree_end(lk_run *r);

/* ------------------------------------------------------------------ the loop ---- */

/** Make the descriptors that watching takes, before the command starts. Returns 0 or an errno. */
int lk_run_watch(lk_run *r);

void lk_run_unwatch(lk_run *r);

/** Watch over the command until it has ended, and with it what must end with it. */
void lk_run_supervise(lk_run *r, lk_run_child *child);
