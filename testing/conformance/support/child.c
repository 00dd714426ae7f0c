/* child.c: child processes with a line protocol; see child.h. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "servers/process.h"

/* ------------------------------------------------------------------ starting ---- */

lk_child *lk_child_run(const char *const *argv, const char *package)
{
    lk_child *child = calloc(1, sizeof *child);
    int to[2], from[2];
    if (child == NULL || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        test_fails("can't prepare a child: %s", strerror(errno));
    child->pid = lk_process_start(&(lk_start){.argv = argv, .in = to[0], .out = from[1], .err = 2});
    if (child->pid < 0)
        test_fails("can't run %s: %s; install %s", argv[0], strerror(errno), package);
    close(to[0]);
    close(from[1]);
    child->input = to[1];
    child->output = from[0];
    return child;
}

lk_child *lk_child_start(const char *role, const char *const *arguments)
{
    const char *argv[16] = {"/proc/self/exe", "--child", role};
    size_t count = 3;
    while (arguments != NULL && *arguments != NULL && count < 15)
        argv[count++] = *arguments++;
    return lk_child_run(argv, "the test program again");
}

void lk_child_main(int argc, char **argv, const lk_role *roles)
{
    if (argc < 3 || strcmp(argv[1], "--child") != 0)
        return;
    signal(SIGPIPE, SIG_IGN);
    for (; roles->name != NULL; roles++)
        if (strcmp(roles->name, argv[2]) == 0)
            exit(roles->play(argc - 3, argv + 3));
    fprintf(stderr, "there is no role %s of a child process\n", argv[2]);
    exit(64);
}

/* ------------------------------------------------------------------ the parent's side ---- */

void lk_child_say(lk_child *child, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char line[LK_LINE_MAX];
    const int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (length < 0 || length >= (int)sizeof line - 1)
        test_fails("a line for a child is too long: %s", line);
    line[length] = '\n';
    if (write(child->input, line, (size_t)length + 1) != length + 1)
        test_fails("can't write to the child %d: %s", (int)child->pid, strerror(errno));
}

const char *lk_child_hear(lk_child *child, char line[LK_LINE_MAX])
{
    const int64_t until = lk_test_now_ms() + LK_TEST_PATIENCE_MS;
    char *end;
    while ((end = memchr(child->line, '\n', child->filled)) == NULL) {
        const int64_t left = until - lk_test_now_ms();

        if (left <= 0 || child->filled == sizeof child->line || !lk_readable(child->output, left))
            test_fails("the child %d said nothing for %d s", (int)child->pid, LK_TEST_PATIENCE_MS / 1000);
        const ssize_t got =
            read(child->output, child->line + child->filled, sizeof child->line - child->filled);
        if (got <= 0)
            test_fails("the child %d ended without an answer", (int)child->pid);
        child->filled += (size_t)got;
    }
    *end++ = '\0';
    strcpy(line, child->line);
    child->filled -= (size_t)(end - child->line);
    memmove(child->line, end, child->filled);
    return line;
}

void lk_child_expect(lk_child *child, const char *wanted)
{
    char line[LK_LINE_MAX];
    lk_child_hear(child, line);
    if (strncmp(line, wanted, strlen(wanted)) != 0)
        test_fails("the child said '%s', not '%s'", line, wanted);
}

void lk_child_signal(lk_child *child, int number)
{
    if (kill(child->pid, number) < 0)
        test_fails("can't signal the child %d: %s", (int)child->pid, strerror(errno));
}

void lk_child_stop(lk_child *child)
{
    if (!lk_process_freeze(child->pid))
        test_fails("the child %d did not stop", (int)child->pid);
}

void lk_child_await_stop(lk_child *child)
{
    if (!lk_process_stopped(child->pid))
        test_fails("the child %d did not stop itself", (int)child->pid);
}

int lk_child_end(lk_child *child)
{
    int status = 0;
    close(child->input);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(child->output);
    free(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void lk_child_kill(lk_child *child)
{
    if (child == NULL)
        return;
    kill(child->pid, SIGKILL);
    lk_child_end(child);
}

/* Wait until it stops. False: it is no more. */
static bool await_trap(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, __WALL) < 0)
        if (errno != EINTR)
            return false;
    return WIFSTOPPED(status);
}

void lk_child_step(lk_child *child, const char *line, lk_step go_on, void *context)
{
    struct __ptrace_syscall_info info = {.op = PTRACE_SYSCALL_INFO_NONE};
    const pid_t pid = child->pid;
    if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD) != 0 ||
        ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 || !await_trap(pid))
        test_fails("can't trace the child: %s", strerror(errno));
    lk_child_say(child, "%s", line);
    do {
        if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) != 0 || !await_trap(pid))
            test_fails("the child ended while it was traced");
        (void)ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info);
    } while (info.op != PTRACE_SYSCALL_INFO_ENTRY || go_on(context, (long)info.entry.nr, info.entry.args[0]));
    kill(pid, SIGKILL);
}

/* ------------------------------------------------------------------ the child's side ---- */

void lk_side_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

bool lk_side_hear(char line[LK_LINE_MAX])
{
    if (fgets(line, LK_LINE_MAX, stdin) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

static _Atomic int64_t stopped_until;

/* Whoever sees the time that is set afterwards has been let go on before. */
void lk_side_stop(void)
{
    stopped_until = INT64_MAX;
    raise(SIGSTOP);
    stopped_until = lk_test_now_ms() * 1000000;
}

int64_t lk_side_stopped_until(void)
{
    return stopped_until;
}
