/* main.c: the locker command's entry: finds the subcommand and hands over to it. The subcommands are in files
 * of their names, what they share in options.c, open.c and print.c, the help texts in help.c. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} subcommands[] = {
    {"run", lk_cli_run},     {"show", lk_cli_show},       {"break", lk_cli_break},
    {"ping", lk_cli_ping},   {"drivers", lk_cli_drivers}, {"check-history", lk_cli_lab},
    {"compare", lk_cli_lab},
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
