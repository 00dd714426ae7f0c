/* run_rights.c: whether the command will be out of reach of our signals, as far as that can be known before it starts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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

void lk_run_warn_of_rights(const lk_run *r)
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
