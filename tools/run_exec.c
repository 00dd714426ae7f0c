/* run_exec.c: --no-fork: locker becomes the command. The process stays the same, so its number, its parent and what a
 * supervisor has told it (NOTIFY_SOCKET, LISTEN_PID) are right for the command. The lock lives in a descriptor that the
 * command inherits. Nobody is left to watch the lock, or to release it: it ends with the descriptor. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "run_parts.h"

int lk_run_exec_failed(const lk_run *r, int error)
{
    lk_cli_message("cannot run '%s': %s", lk_cli_quotable(r->options.command[0]), strerror(error));
    return error == ENOENT ? LK_EXIT_NOT_FOUND : LK_EXIT_CANNOT_EXEC;
}

int lk_run_become(lk_run *r)
{
    locker_error err;
    int code;
    char **const environment = lk_run_environment(r);
    const locker_status status = locker_handle_keep_over_exec(r->held, &err);
    lk_run_teller_end(&r->teller); /* it may be about to print a line */
    if (!environment) {
        lk_cli_message("cannot start the command: %s", strerror(ENOMEM));
        code = LK_EXIT_SYSTEM;
    } else if (status != LOCKER_OK) {
        code = status == LOCKER_LOST ? r->options.lost_exit : LK_EXIT_SYSTEM;
        lk_cli_message("cannot start the command: %s", err.text);
    } else {
        lk_run_signals_restore(&r->signals); /* one that came meanwhile ends us, and the lock with us */
        execvpe(r->options.command[0], r->options.command, environment);
        code = lk_run_exec_failed(r, errno);
    }
    lk_run_environment_free(environment);
    r->lost = status == LOCKER_LOST;
    (void)lk_run_release(r);
    return code;
}
