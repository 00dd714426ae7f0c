/* process.c: processes that die with ours; see process.h. */
#include "servers/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool take_descriptors(const lk_start *start, int null)
{
    return dup2(start->in > 0 ? start->in : null, 0) >= 0 &&
           dup2(start->out > 0 ? start->out : null, 1) >= 0 &&
           dup2(start->err > 0 ? start->err : null, 2) >= 0;
}

/* Between fork and exec only async-signal-safe calls: another thread may hold malloc's lock. */
static _Noreturn void become(const lk_start *start, int null, int report, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    if (start->apart)
        setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if ((start->netns <= 0 || setns(start->netns, CLONE_NEWNET) == 0) && take_descriptors(start, null))
        execvp(start->argv[0], (char *const *)(uintptr_t)start->argv);
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

/* The other end is closed by exec, or tells why there was none. */
static pid_t await_exec(pid_t pid, int report)
{
    int error = 0;
    if (read(report, &error, sizeof error) != (ssize_t)sizeof error)
        return pid;
    waitpid(pid, NULL, 0);
    errno = error;
    return -1;
}

pid_t lk_process_start(const lk_start *start)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const pid_t parent = getpid();
    pid_t pid = -1;
    if (null < 0)
        return -1;
    int report[2];
    if (pipe2(report, O_CLOEXEC) == 0) {
        pid = fork();
        if (pid == 0)
            become(start, null, report[1], parent);
        close(report[1]);
        if (pid > 0)
            pid = await_exec(pid, report[0]);
        close(report[0]);
    }
    close(null); /* leaves errno alone, as all that succeeds */
    return pid;
}

int lk_process_run(int netns, const char *const *argv)
{
    const pid_t pid = lk_process_start(&(lk_start){.argv = argv, .netns = netns});
    int status = 0;
    if (pid < 0)
        return -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void lk_process_kill(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

bool lk_process_stopped(pid_t pid)
{
    siginfo_t info;
    return pid > 0 && waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT) == 0 &&
           info.si_code == CLD_STOPPED;
}

bool lk_process_freeze(pid_t pid)
{
    return pid > 0 && kill(pid, SIGSTOP) == 0 && lk_process_stopped(pid);
}

bool lk_program_exists(const char *name)
{
    const char *path = getenv("PATH");
    char copy[4096], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", path != NULL ? path : "/usr/bin:/bin");
    for (char *dir = strtok_r(copy, ":", &rest); dir != NULL; dir = strtok_r(NULL, ":", &rest)) {
        char file[4352];
        snprintf(file, sizeof file, "%s/%s", dir, name);
        if (access(file, X_OK) == 0)
            return true;
    }
    return false;
}
