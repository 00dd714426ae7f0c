/*
 * subcommands.h: the subcommands of the locker command, each in a file of its name. argv[0] is the
 * subcommand's name; they return the exit code.
 */
#pragma once

int lk_cli_run(int argc, char **argv);
int lk_cli_show(int argc, char **argv);
int lk_cli_break(int argc, char **argv);
int lk_cli_ping(int argc, char **argv);
int lk_cli_drivers(int argc, char **argv);

/** One that is a program of its own, `locker-NAME`: becomes it. Returns when that can't be. */
int lk_cli_lab(int argc, char **argv);
