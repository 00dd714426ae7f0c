/* run_child.c: the command as a process: its start, its process group, the terminal, its end.
 * It leads a process group of its own, so that a signal reaches what it started too, in one step. What left that group is in
 * run_tree.c.
 * The command itself, when it has ended, is left unreaped until the last signal was sent. As long as its zombie is there, the
 * kernel gives its number to no other process or group, so no signal of ours can reach another job. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_parts.h"

static bool is_in_foreground(int terminal, pid_t group)
{
    return terminal >= 0 && tcgetpgrp(terminal) == group;
}

static void lend_terminal(lk_run_child *child)
{
    if (is_in_foreground(child->terminal, getpgrp()))
        tcsetpgrp(child->terminal, child->pid);
    child->lent = is_in_foreground(child->terminal, child->pid);
}

/* A shell that was the command may have given the terminal to a job of its own. */
static void take_terminal_back(lk_run_child *child)
{
    if (child->lent && child->terminal >= 0 && tcgetpgrp(child->terminal) != getpgrp())
        tcsetpgrp(child->terminal, getpgrp());
    child->lent = false;
}

/* What the child needs to become the command. */
typedef struct {
    const lk_run *r;
    char **environment;
    pid_t parent;
    int terminal; /* to be taken; -1: none */
    int answer;   /* where to say why it can't */
} becoming;

/* In the child, which has our memory (CLONE_VM), while this thread sleeps. Only async-signal-safe calls are allowed. */
static int become(void *context)
{
    const becoming *const b = context;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != b->parent) /* it died before that was set */
        _exit(LK_EXIT_CANNOT_EXEC);
    if (!b->r->options.foreground)
        setpgid(0, 0);
    if (b->terminal >= 0)
        tcsetpgrp(b->terminal, getpid());
    lk_run_signals_restore(&b->r->signals);
    execvpe(b->r->options.command[0], b->r->options.command, b->environment);
    const int error = errno;
    if (write(b->answer, &error, sizeof error) < 0)
        _exit(LK_EXIT_INTERNAL);
    _exit(LK_EXIT_CANNOT_EXEC);
}

/* As vfork: a copy of all that is mapped costs some hundred µs, and that while the lock is held (docs/data/performance-growth.md, row
 * line). -1: errno says why. */
static pid_t spawn(becoming *b)
{
    size_t size = 65536; /* and what execvpe copies for a script without an interpreter's name */
    for (char *const *argument = b->r->options.command; *argument != NULL; argument++)
        size += sizeof *argument;
    size -= size % 16;
    char *const stack = malloc(size);
    if (stack == NULL)
        return -1;
    const pid_t pid = clone(become, stack + size, CLONE_VM | CLONE_VFORK | SIGCHLD, b);
    const int error = errno;
    free(stack);
    errno = error;
    return pid;
}

int lk_run_child_start(lk_run_child *child, const lk_run *r, char **environment)
{
    *child = (lk_run_child){.terminal = -1, .exec_pipe = -1};
    child->group = !r->options.foreground;
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return errno;
    if (child->group)
        child->terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    /* In a pipeline the others of our group may need the terminal (a pager, say): it is lent when the command
     * asks for it. */
    const bool lend =
        is_in_foreground(child->terminal, getpgrp()) && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    becoming b = {.r = r,
                  .environment = environment,
                  .parent = getpid(),
                  .terminal = lend ? child->terminal : -1,
                  .answer = fds[1]};
    child->exec_pipe = fds[0];
    child->pid = spawn(&b);
    const int error = errno;
    close(fds[1]);
    if (child->pid < 0) {
        lk_run_child_finish(child);
        return error;
    }
    if (child->group)
        setpgid(child->pid, child->pid);
    /* The child took the terminal before exec. A shell may have given it to a job of its own by now. */
    child->lent = lend;
    return 0;
}

void lk_run_child_signal(const lk_run_child *child, int number)
{
    kill(child->group ? -child->pid : child->pid, number);
}

/* Whether there is something to tell of those, in *info. */
static bool hear(idtype_t whom, pid_t pid, int of, siginfo_t *info)
{
    info->si_pid = 0;
    return waitid(whom, (id_t)pid, info, of) == 0 && info->si_pid != 0;
}

static void end(lk_run_child *child, const siginfo_t *info)
{
    child->ended = true;
    child->had_terminal = is_in_foreground(child->terminal, child->pid);
    child->stopped_by = 0;
    child->code = info->si_code == CLD_EXITED ? info->si_status : 0;
    child->signal = info->si_code == CLD_EXITED ? 0 : info->si_status;
}

void lk_run_child_reap(lk_run_child *child)
{
    siginfo_t info;
    while (hear(P_PID, child->pid, WSTOPPED | WCONTINUED | WNOHANG, &info))
        child->stopped_by = info.si_code == CLD_STOPPED ? info.si_status : 0;
    while (!child->ended && hear(P_ALL, 0, WEXITED | WNOHANG | WNOWAIT, &info)) {
        if (info.si_pid == child->pid)
            end(child, &info);
        else
            waitid(P_PID, (id_t)info.si_pid, &info, WEXITED);
    }
}

void lk_run_child_await(lk_run_child *child)
{
    siginfo_t info;
    while (!child->ended)
        if (hear(P_PID, child->pid, WEXITED | WNOWAIT, &info))
            end(child, &info);
}

void lk_run_child_read_exec(lk_run_child *child)
{
    int error = 0;
    const ssize_t got = read(child->exec_pipe, &error, sizeof error);
    if (got < 0 && errno == EINTR)
        return;
    if (got == (ssize_t)sizeof error)
        child->exec_error = error;
    close(child->exec_pipe);
    child->exec_pipe = -1;
}

/* Stop our whole group, as Ctrl-Z would have: a shell sees a pipeline or a script as one job. False: we are
 * not part of a job that a shell could continue. */
static bool stop_ourselves(void)
{
    kill(0, SIGTSTP);
    lk_run_signal_mask(SIG_UNBLOCK, SIGTSTP);
    lk_run_signal_mask(SIG_BLOCK, SIGTSTP);
    sigset_t pending;
    /* CONT is blocked, so it is pending if it was what let us go on. */
    return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}

/* The command waits for the terminal, and no shell can give it to us. The kernel sends HUP and CONT to a stopped group that
 * nobody can continue; the command's group is none in its eyes because we could. */
static void end_unheard(lk_run_child *child)
{
    static const int steps[] = {SIGHUP, SIGTERM, SIGKILL};
    const int number = steps[child->unheard];
    char name[32];
    if (child->unheard + 1 < sizeof steps / sizeof steps[0])
        child->unheard++;
    lk_cli_message(
        "the command needs the terminal, and no shell can bring it to the foreground; sending %s; give it another "
        "standard input, such as </dev/null",
        lk_run_signal_name(number, name, sizeof name));
    lk_run_child_signal(child, number);
}

bool lk_run_child_stop_along(lk_run_child *child)
{
    const int by = child->stopped_by;
    const bool wants_terminal = by == SIGTTIN || by == SIGTTOU;
    if (child->terminal < 0 || (by != SIGTSTP && !wants_terminal))
        return false; /* somebody stopped it who will continue it too */
    if (wants_terminal && is_in_foreground(child->terminal, getpgrp()))
        return true;
    take_terminal_back(child);
    if (!stop_ourselves() && wants_terminal)
        end_unheard(child);
    return true;
}

void lk_run_child_continue(lk_run_child *child)
{
    lend_terminal(child);
    child->stopped_by = 0;
    lk_run_child_signal(child, SIGCONT);
}

void lk_run_child_finish(lk_run_child *child)
{
    take_terminal_back(child);
    if (child->terminal >= 0)
        close(child->terminal);
    if (child->exec_pipe >= 0)
        close(child->exec_pipe);
    child->terminal = child->exec_pipe = -1;
}
