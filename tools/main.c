/* main.c: the locker command's entry: finds the subcommand and hands over to it. The subcommands are in files
 * of their names, what they share in options.c, open.c and print.c, the help texts in help.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* Execute the program in a directory, which is absolute or relative to the directory of this command. On return errno says why that
 * failed. */
static void execute_in(const char *directory, char **argv)
{
    char own[4096] = "", path[2 * sizeof own];
    if (directory[0] != '/' && readlink("/proc/self/exe", own, sizeof own - 1) < 0)
        return;
    char *const slash = strrchr(own, '/');
    if (slash)
        slash[1] = '\0';
    snprintf(path, sizeof path, "%s%s/%s", own, directory, argv[0]);
    execv(path, argv);
}

/* Become the program `locker-NAME` of a subcommand that is a program of its own (lab/), so that this command stays small. The program
 * stands beside this command, as in the folder where both are built, or in the directory of such programs (libexec), as both are
 * installed. Nothing else says where: not PATH, nor anything in the environment. Return the exit code if that fails. */
static int run_program(int argc, char **argv)
{
    static const char *const directories[] = {".", LOCKER_LIBEXEC};
    const char *name = argv[0];
    (void)argc;
    char program[64];
    snprintf(program, sizeof program, "locker-%s", name);
    argv[0] = program;
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        execute_in(directories[i], argv);
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

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} subcommands[] = {
    {"run", lk_cli_run},      {"show", lk_cli_show},       {"break", lk_cli_break},
    {"ping", lk_cli_ping},    {"drivers", lk_cli_drivers}, {"check-history", run_program},
    {"compare", run_program},
};

static int help(int argc, char **argv)
{
    if (argc > 2)
        return lk_cli_usage(NULL, "unexpected argument '%s'; give help a single subcommand",
                            lk_cli_quotable(argv[2]));
    return lk_cli_help(argc == 2 ? argv[1] : NULL);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    if (argc <= 1 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return lk_cli_help(NULL);
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("locker %s\n", locker_version());
        return lk_cli_finish_output(LK_EXIT_OK);
    }
    if (strcmp(name, "help") == 0)
        return help(argc - 1, argv + 1);
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (strcmp(name, subcommands[i].name) == 0)
            return subcommands[i].run(argc - 1, argv + 1);
    if (name[0] == '-')
        return lk_cli_usage(NULL, "unknown option '%s': options come after the subcommand",
                            lk_cli_quotable(name));
    return lk_cli_usage(NULL, "there is no subcommand '%s'", lk_cli_quotable(name));
}
