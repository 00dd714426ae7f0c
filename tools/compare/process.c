/* process.c: processes that die with ours, and the scratch directory; see process.h. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../cli.h"

static struct {
    char path[256];
    int alive; /* the guardian reads the other end until we are gone */
    pid_t guardian;
    int made; /* directories in it */
} scratch = {.alive = -1};

/* What the guardian tells when it has made the directory, or hasn't. */
struct made {
    char path[sizeof(scratch.path)];
    int error; /* an errno; 0: it is there */
};

/* ------------------------------------------------------------------ time ---- */

int64_t lk_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void lk_pause_ms(int64_t ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (ms > 0 && nanosleep(&rest, &rest) < 0 && errno == EINTR)
        ;
}

bool lk_until(bool (*is_so)(void *context), void *context, int64_t ms)
{
    const int64_t end = lk_now_ns() + ms * 1000000;

    for (;;) {
        if (is_so(context))
            return true;
        if (lk_now_ns() >= end)
            return false;
        lk_pause_ms(5);
    }
}

void lk_die(int code, const char *format, ...)
{
    char text[800];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lk_cli_message("%s", text);
    exit(code);
}

/* ------------------------------------------------------------------ the scratch directory ---- */

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    if (remove(path) < 0 && errno == EBUSY)
        return -1;
    return 0; /* what is not empty yet is met again */
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Servers die at the same moment as our process, and may still be writing. */
static void clear_away(void)
{
    for (int tries = 0; tries < 100 && access(scratch.path, F_OK) == 0; tries++) {
        remove_tree(scratch.path);
        if (access(scratch.path, F_OK) == 0)
            lk_pause_ms(20);
    }
}

/* It makes the directory too, so that there is no moment in which the directory is there and nobody who would
 * remove it. Tells the path, or an errno after an empty one. */
static _Noreturn void guard(int alive, int told)
{
    struct made made = {.error = 0};
    char byte;

    setsid();
    for (int number = 1; number < 32; number++)
        signal(number, SIG_IGN); /* a terminal's Ctrl-C is not for us; -9 is told below */
    if (mkdtemp(scratch.path) == NULL) {
        made.error = errno;
        scratch.path[0] = '\0';
    }
    memcpy(made.path, scratch.path, sizeof(made.path));
    if (write(told, &made, sizeof(made)) < 0 || made.error != 0) {
        clear_away();
        _exit(0);
    }
    dup2(alive, 0); /* nothing of the caller's stays open: somebody may wait for the end of our output */
    close_range(1, ~0U, 0);
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    clear_away();
    _exit(0);
}

const char *lk_scratch(void)
{
    const char *place = getenv("TMPDIR");
    int alive[2], told[2];
    struct made made;

    if (scratch.path[0] != '\0')
        return scratch.path;
    /* sockets' paths are short, and lines to workers are words */
    if (place == NULL || place[0] != '/' || strlen(place) > 60 || strchr(place, ' ') != NULL)
        place = "/tmp";
    snprintf(scratch.path, sizeof(scratch.path), "%s/locker-compare-XXXXXX", place);
    if (pipe2(alive, O_CLOEXEC) < 0 || pipe2(told, O_CLOEXEC) < 0 || (scratch.guardian = fork()) < 0)
        lk_die(LK_EXIT_SYSTEM, "can't start a process: %s", strerror(errno));
    if (scratch.guardian == 0) {
        close(alive[1]);
        close(told[0]);
        guard(alive[0], told[1]);
    }
    close(alive[0]);
    close(told[1]);
    if (read(told[0], &made, sizeof(made)) != (ssize_t)sizeof(made))
        made.error = ECHILD;
    close(told[0]);
    if (made.error != 0)
        lk_die(LK_EXIT_SYSTEM, "can't make a directory in %s: %s; set TMPDIR to one that is writable", place,
               strerror(made.error));
    memcpy(scratch.path, made.path, sizeof(scratch.path));
    scratch.alive = alive[1];
    return scratch.path;
}

void lk_scratch_make(const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/%s-%d", lk_scratch(), name, ++scratch.made);
    if (mkdir(out, 0700) < 0)
        lk_die(LK_EXIT_SYSTEM, "can't make %s: %s", out, strerror(errno));
}

void lk_scratch_empty(const char *directory)
{
    remove_tree(directory);
    if (mkdir(directory, 0700) < 0)
        lk_die(LK_EXIT_SYSTEM, "can't make %s: %s", directory, strerror(errno));
}

void lk_scratch_close(void)
{
    if (scratch.alive < 0)
        return;
    close(scratch.alive);
    waitpid(scratch.guardian, NULL, 0);
    scratch.alive = -1;
    scratch.path[0] = '\0';
}

/* ------------------------------------------------------------------ processes ---- */

/* Between fork and exec. */
static _Noreturn void become(const lk_start *start, const int fds[3], int report, pid_t parent)
{
    sigset_t none;
    int error;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if ((start->netns < 0 || setns(start->netns, CLONE_NEWNET) == 0) && dup2(fds[0], 0) >= 0 &&
        dup2(fds[1], 1) >= 0 && dup2(fds[2], 2) >= 0)
        execvp(start->argv[0], (char *const *)(uintptr_t)start->argv);
    error = errno;
    if (write(report, &error, sizeof(error)) < 0)
        _exit(126);
    _exit(127);
}

pid_t lk_process_start(const lk_start *start)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {start->in < 0 ? null : start->in, start->out < 0 ? null : start->out,
                        start->err < 0 ? null : start->err};
    int report[2], error = 0;
    pid_t parent = getpid(), pid;

    if (null < 0 || pipe2(report, O_CLOEXEC) < 0)
        lk_die(LK_EXIT_SYSTEM, "can't start a process: %s", strerror(errno));
    pid = fork();
    if (pid == 0)
        become(start, fds, report[1], parent);
    error = errno;
    close(report[1]);
    if (pid > 0 && read(report[0], &error, sizeof(error)) == (ssize_t)sizeof(error)) {
        waitpid(pid, NULL, 0);
        pid = -1;
    }
    close(report[0]);
    close(null);
    errno = error;
    return pid;
}

int lk_process_run(int netns, const char *const *argv)
{
    const lk_start start = {argv, -1, -1, -1, netns};
    pid_t pid = lk_process_start(&start);
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

void lk_process_stop(pid_t pid)
{
    siginfo_t info;

    kill(pid, SIGSTOP);
    waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT);
}

bool lk_program_exists(const char *name)
{
    const char *path = getenv("PATH");
    char copy[4096], file[4352], *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", path ? path : "/usr/bin:/bin");
    for (char *dir = strtok_r(copy, ":", &rest); dir; dir = strtok_r(NULL, ":", &rest)) {
        snprintf(file, sizeof(file), "%s/%s", dir, name);
        if (access(file, X_OK) == 0)
            return true;
    }
    return false;
}
