/* run.c: locker run: takes the lock, runs a command under it, releases it, and answers with the command's
 * exit code or with what went wrong. run_parts.h lists the parts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_parts.h"

/* Find the program that execvpe() will start. */
static bool find_program(const char *name, char *path, size_t size)
{
    const char *folders = secure_getenv("PATH");
    if (strchr(name, '/') || !folders)
        return snprintf(path, size, "%s", name) < (int)size;
    while (*folders) {
        const size_t length = strcspn(folders, ":");
        if (snprintf(path, size, "%.*s/%s", (int)length, folders, name) < (int)size &&
            access(path, X_OK) == 0)
            return true;
        folders += length + (folders[length] == ':');
    }
    return false;
}

/* Warn if the command is a set-user-ID program of another user, because locker may not be able to send signals to it. */
static void warn_of_rights(const lk_run *r)
{
    const char *const name = r->options.command[0];
    char path[4096];
    struct stat file;
    struct statvfs system;
    if (r->options.common.quiet || geteuid() == 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
        !find_program(name, path, sizeof path) || stat(path, &file) != 0)
        return;
    if (!S_ISREG(file.st_mode) || !(file.st_mode & S_ISUID) || file.st_uid == geteuid() ||
        (statvfs(path, &system) == 0 && (system.f_flag & ST_NOSUID)))
        return;
    lk_cli_message(
        "warning: '%s' runs with the rights of user %u, so locker may not be able to stop it when the lock is lost; "
        "run locker itself as that user, as in 'sudo locker run ...'",
        lk_cli_quotable(name), (unsigned)file.st_uid);
}

/* A descriptor of ours must never become 0, 1 or 2. Those that were closed stay closed for the command. */
static void fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Say why the command could not be started. Return the exit code. */
static int exec_failed(const lk_run *r, int error)
{
    lk_cli_message("cannot run '%s': %s", lk_cli_quotable(r->options.command[0]), strerror(error));
    return error == ENOENT ? LK_EXIT_NOT_FOUND : LK_EXIT_CANNOT_EXEC;
}

static int command_code(const lk_run *r, const lk_run_child *child)
{
    if (child->exec_error)
        return exec_failed(r, child->exec_error);
    return child->signal != 0 ? LK_EXIT_SIGNAL + child->signal : child->code;
}

/* The lock counts as lost when it was, or when the command was stopped because it could not be kept: it ended
 * by our signal, or nobody can say that it was ours to the end. */
static bool was_lost(const lk_run *r, const lk_run_child *child, locker_status released)
{
    if (r->lost || released == LOCKER_LOST)
        return true;
    return r->stopped && (child->signal != 0 || released != LOCKER_OK);
}

static int start(lk_run *r, lk_run_child *child)
{
    const int error = lk_run_watch(r);
    if (error)
        return error;
    char **const environment = lk_run_environment(r);
    if (!environment)
        return ENOMEM;
    warn_of_rights(r);
    r->lost = r->options.lost_signal != 0 && locker_handle_remaining_ms(r->held) == 0;
    const int failed = r->lost ? 0 : lk_run_child_start(child, r, environment);
    lk_run_environment_free(environment);
    return failed;
}

static int run_command(lk_run *r)
{
    lk_run_child child;
    const int error = start(r, &child);
    if (error) {
        lk_cli_message("cannot start the command: %s%s", strerror(error), lk_run_advice(error));
        lk_run_unwatch(r);
        return LK_EXIT_SYSTEM;
    }
    if (r->lost) { /* we were stopped since the grant, or the machine was */
        lk_run_event(r, "lost", "{s:I}", "remaining_ms", (json_int_t)0);
        if (!r->options.common.quiet)
            lk_cli_message("lost the lock '%s' before the command was started, so the command was not "
                           "started",
                           r->options.key);
        r->stopped = true; /* so the release takes no longer than the lease would have */
        lk_run_release(r);
        lk_run_unwatch(r);
        return r->options.lost_exit;
    }
    lk_run_supervise(r, &child);
    lk_run_child_finish(&child);
    if (!child.exec_error)
        lk_run_event(r, "exited", "{s:o, s:o}", "code", child.signal ? json_null() : json_integer(child.code),
                     "signal", child.signal ? json_integer(child.signal) : json_null());
    int code = command_code(r, &child);
    if (r->system_error) {
        lk_cli_message("cannot supervise the command, which was killed: %s%s", strerror(r->system_error),
                       lk_run_advice(r->system_error));
        code = LK_EXIT_SYSTEM;
    }
    const bool lost = was_lost(r, &child, lk_run_release(r));
    /* What the command left running was protected by the lock as well. */
    if (lost && r->options.lost_signal)
        lk_run_tree_kill(r);
    while (waitpid(-1, NULL, WNOHANG) > 0) /* after the last signal: another process may get the number now */
        continue;
    lk_run_unwatch(r);
    lk_cli_hurry(false);
    if (lost && !r->system_error)
        code = r->options.lost_exit;
    else if (!r->system_error)
        r->ended_by = child.signal;
    r->from_terminal = child.had_terminal;
    return code;
}

/* Become the command (--no-fork), which inherits the lock in a descriptor. The process stays the same, so its number, its parent
 * and what a supervisor passed to it (NOTIFY_SOCKET, LISTEN_PID) are right for the command. No process watches or releases the
 * lock: it ends with the descriptor. Return the exit code if that fails, with the lock released. */
static int become_command(lk_run *r)
{
    locker_error err;
    int code;
    char **const environment = lk_run_environment(r);
    const locker_status status = locker_handle_keep_over_exec(r->held, &err);
    lk_run_thread_end(&r->teller); /* it may be about to print a line */
    if (!environment) {
        lk_cli_message("cannot start the command: %s", strerror(ENOMEM));
        code = LK_EXIT_SYSTEM;
    } else if (status != LOCKER_OK) {
        code = status == LOCKER_LOST ? r->options.lost_exit : LK_EXIT_SYSTEM;
        lk_cli_message("cannot start the command: %s", err.text);
    } else {
        lk_run_signals_restore(&r->signals); /* one that came meanwhile ends us, and the lock with us */
        execvpe(r->options.command[0], r->options.command, environment);
        code = exec_failed(r, errno);
    }
    lk_run_environment_free(environment);
    r->lost = status == LOCKER_LOST;
    (void)lk_run_release(r);
    return code;
}

static json_t *tokens_json(const lk_run *r)
{
    json_t *tokens = json_object();
    for (size_t i = 0; i < locker_handle_count(r->held); i++)
        json_object_set_new(tokens, locker_handle_key_at(r->held, i),
                            json_integer((json_int_t)locker_handle_token_at(r->held, i)));
    return tokens;
}

static void tell_acquired(const lk_run *r)
{
    const uint64_t token = lk_run_token(r);
    const bool permits = r->options.permits > 0;
    if (r->options.common.verbose)
        lk_cli_message("holding '%s', token %llu", r->options.key, (unsigned long long)token);
    lk_run_event(r, "acquired", "{s:o, s:o, s:o, s:o, s:o*, s:o*}", "token",
                 token ? json_integer((json_int_t)token) : json_null(), "backend",
                 lk_cli_json_text(r->backend), "owner", lk_cli_json_text(locker_handle_owner(r->held)),
                 "ttl_ms", r->ttl_ms > 0 ? json_integer(r->ttl_ms) : json_null(), "slot",
                 permits ? json_integer(locker_handle_slot(r->held)) : NULL, "tokens",
                 r->options.key_count > 1 ? tokens_json(r) : NULL);
}

int lk_cli_run(int argc, char **argv)
{
    lk_run r;
    memset(&r, 0, sizeof r);
    int code = lk_run_parse(argc, argv, &r.options);
    if (code != LK_GO_ON)
        return code;
    fill_standard_descriptors();
    lk_run_signals_take(&r.signals, r.options.foreground);
    code = lk_run_acquire(&r);
    if (code == LK_GO_ON) {
        tell_acquired(&r);
        lk_run_signals_forget(&r.signals);
        code = r.options.no_fork ? become_command(&r) : run_command(&r);
    }
    lk_run_thread_end(&r.teller);
    if (!r.abandoned) {
        locker_handle_free(r.held);
        locker_close(r.l);
    }
    fflush(NULL);
    if (r.from_terminal && (r.ended_by == SIGINT || r.ended_by == SIGQUIT))
        kill(0, r.ended_by);
    lk_run_die_of(r.ended_by);
    if (r.abandoned)
        _exit(code);
    return code;
}
