/* lab.c: subcommands that are programs of their own (lab/), so that the command stays small. Each is called
 * `locker-NAME`, takes the options itself, and stands beside the command, as in the folder where both are
 * built, or in the directory of such programs (libexec), as both are installed. Nothing else says where: not
 * PATH, nor anything in the environment. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { PATH_SIZE = 4096 };

/* The directory of this program, with its slash. False: /proc does not tell. */
static bool own_directory(char out[PATH_SIZE])
{
    const ssize_t length = readlink("/proc/self/exe", out, PATH_SIZE - 1);
    if (length < 0)
        return false;
    out[length] = '\0';
    char *slash = strrchr(out, '/');
    if (!slash)
        return false;
    slash[1] = '\0';
    return true;
}

/* Become the program; on return errno says why not. `directory` is as seen from the command, or absolute. */
static void become(const char *directory, char **argv)
{
    char own[PATH_SIZE] = "";
    if (directory[0] != '/' && !own_directory(own))
        return;
    char path[2 * PATH_SIZE];
    snprintf(path, sizeof path, "%s%s/%s", own, directory, argv[0]);
    execv(path, argv);
}

int lk_cli_lab(int argc, char **argv)
{
    static const char *const directories[] = {".", LOCKER_LIBEXEC};
    const char *name = argv[0];
    (void)argc;
    char program[64];
    snprintf(program, sizeof program, "locker-%s", name);
    argv[0] = program;
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        become(directories[i], argv);
        if (errno != ENOENT) {
            lk_cli_message("cannot start %s, the program of '%s': %s", program, name, strerror(errno));
            return LK_EXIT_SYSTEM;
        }
    }
    lk_cli_message(
        "'%s' is a separate program, which is not installed; install %s beside this command, or in %s%s",
        name, program, LOCKER_LIBEXEC, LOCKER_LIBEXEC[0] == '/' ? "" : " relative to it");
    return LK_EXIT_UNAVAILABLE;
}
