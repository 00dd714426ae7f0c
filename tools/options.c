/*
 * options.c: messages, the options that all subcommands share, and reading their values. What the options say
 * about the lock service is put to use in open.c.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* One write for a line, so that lines of several processes on one terminal stay whole. */
static void print_line(const char *before, const char *format, va_list args, const char *after)
{
    char text[1024];
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    fprintf(stderr, "%s%s%s\n", before, text, after);
}

void lk_cli_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("locker: ", format, args, "");
    va_end(args);
}

int lk_cli_usage(const char *subcommand, const char *format, ...)
{
    char after[64];
    snprintf(after, sizeof after, "; try 'locker %s%s'", subcommand ? subcommand : "help",
             subcommand ? " --help" : "");
    va_list args;
    va_start(args, format);
    print_line("locker: ", format, args, after);
    va_end(args);
    return LK_EXIT_USAGE;
}

const char *lk_cli_quotable(const char *word)
{
    return strchr(word, '@') || strstr(word, "://") ? "(not shown: it may hold a password)" : word;
}

static int wrong_option(const lk_common *common, int option, char **argv)
{
    const char *word = argv[optind - 1];
    char letter[3] = {'-', '\0', '\0'};
    /* getopt_long() leaves in optopt the letter, or the long option's value, or 0 for an unknown long one. */
    if (optopt > 0 && optopt < 0x100 && strncmp(word, "--", 2) != 0) {
        letter[1] = (char)optopt;
        word = letter;
    }
    const int length = (int)strcspn(word, "="); /* the value may hold a password */
    if (option == ':')
        return lk_cli_usage(common->subcommand, "option '%.*s' needs a value", length, word);
    if (optopt != 0 && strncmp(word, "--", 2) == 0)
        return lk_cli_usage(common->subcommand, "option '%.*s' takes no value", length, word);
    return lk_cli_usage(common->subcommand, "unknown option '%.*s'", length, word);
}

static int take_text(const lk_common *common, const char *option, const char **where)
{
    if (optarg[0] == '\0')
        return lk_cli_usage(common->subcommand, "the value of %s is empty", option);
    if (where != &common->uri && strstr(optarg, "://"))
        return lk_cli_usage(common->subcommand, "the value of %s is a URI: give it to --uri", option);
    *where = optarg;
    return LK_GO_ON;
}

int lk_cli_common_option(lk_common *common, int option, char **argv)
{
    switch (option) {
    case 'u':
        return take_text(common, "--uri", &common->uri);
    case 'f':
        return take_text(common, "--config", &common->config);
    case LK_OPT_PROFILE:
        return take_text(common, "--profile", &common->profile);
    case LK_OPT_JSON:
        common->json = true;
        return LK_GO_ON;
    case 'q':
        common->quiet = true;
        return LK_GO_ON;
    case 'v':
        common->verbose++;
        return LK_GO_ON;
    case 'h':
        return lk_cli_help(common->subcommand);
    case 'V':
        printf("locker %s\n", locker_version());
        return lk_cli_finish_output(LK_EXIT_OK);
    default:
        return wrong_option(common, option, argv);
    }
}

bool lk_cli_number(const char *subcommand, const char *option, const char *text, long min, long max,
                   long *out)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    /* strtol() takes leading blanks and a plus sign, which here are mistakes. */
    if (strspn(text, "-0123456789") != strlen(text) || end == text || *end || errno || value < min ||
        value > max) {
        lk_cli_usage(subcommand, "%s must be a whole number from %ld to %ld, not '%s'", option, min, max,
                     lk_cli_quotable(text));
        return false;
    }
    *out = value;
    return true;
}

bool lk_cli_duration(const char *subcommand, const char *option, const char *text, int64_t *ms)
{
    locker_error err;
    if (locker_parse_duration(text, ms, &err) == LOCKER_OK)
        return true;
    if (lk_cli_quotable(text) != text)
        lk_cli_usage(subcommand, "%s takes a duration, not '%s'", option, lk_cli_quotable(text));
    else
        lk_cli_usage(subcommand, "%s: %s", option, err.text);
    return false;
}

int lk_cli_exit_for(locker_status status)
{
    switch (status) {
    case LOCKER_OK:
        return LK_EXIT_OK;
    case LOCKER_BUSY:
    case LOCKER_TIMEOUT:
        return LK_EXIT_CONFLICT;
    case LOCKER_LOST:
        return LK_EXIT_LOST;
    case LOCKER_INVALID:
        return LK_EXIT_USAGE;
    case LOCKER_UNKNOWN:
    case LOCKER_UNAVAILABLE:
        return LK_EXIT_UNAVAILABLE;
    case LOCKER_DENIED:
        return LK_EXIT_DENIED;
    case LOCKER_CONFIG:
    case LOCKER_UNSUPPORTED:
        return LK_EXIT_CONFIG;
    case LOCKER_NOMEM:
        return LK_EXIT_SYSTEM;
    case LOCKER_CANCELED:
    case LOCKER_PROTOCOL:
    case LOCKER_CLOSED:
    case LOCKER_FORKED:
        break;
    }
    return LK_EXIT_INTERNAL;
}

int lk_cli_fail(const char *what, locker_status status, const locker_error *err)
{
    const char *text = err->text[0] ? err->text : locker_status_name(status);
    const int os_error = err->os_error;
    if (what)
        lk_cli_message("%s: %s", what, text);
    else
        lk_cli_message("%s", text);
    /* Out of descriptors or memory: it is this host that refuses, not the service that is away. */
    if (status == LOCKER_UNAVAILABLE &&
        (os_error == EMFILE || os_error == ENFILE || os_error == ENOMEM || os_error == EAGAIN))
        return LK_EXIT_SYSTEM;
    return lk_cli_exit_for(status);
}
