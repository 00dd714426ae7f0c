/* run_options.c: the command line of locker run. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "run_parts.h"

static const char me[] = "run";

const char *lk_run_signal_name(int number, char *out, size_t size)
{
    const char *name = sigabbrev_np(number);
    if (name)
        snprintf(out, size, "SIG%s", name);
    else
        snprintf(out, size, "signal %d", number);
    return out;
}

static int take_on_lost(const char *text, int *number)
{
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    if (strcasecmp(text, "ignore") == 0) {
        *number = 0;
        return LK_GO_ON;
    }
    for (int i = 1; i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        /* Signals that stop or continue would leave it running, or hanging, without the lock. */
        const bool ends = i != SIGSTOP && i != SIGTSTP && i != SIGTTIN && i != SIGTTOU && i != SIGCONT;
        if (ends && known && strcasecmp(name, known) == 0) {
            *number = i;
            return LK_GO_ON;
        }
    }
    return lk_cli_usage(
        me, "--on-lost must be term, ignore or the name of a signal that can end a process, not '%s'",
        lk_cli_quotable(text));
}

static int take_owner(const char *text, const char **owner)
{
    size_t length = strlen(text);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            length = 0;
    if (length == 0 || length > LOCKER_OWNER_MAX)
        return lk_cli_usage(me, "--owner must be 1 to %d bytes without control characters",
                            (int)LOCKER_OWNER_MAX);
    *owner = text;
    return LK_GO_ON;
}

/* The caller's descriptor is copied, because closing 1 or 2 for the command would take its output away. */
static int take_status_fd(const char *text, int *fd)
{
    int number;
    const int code = lk_cli_number(me, "--status-fd", text, 0, 1000000, &number);
    if (code != LK_GO_ON)
        return code;
    const int flags = fcntl(number, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return lk_cli_usage(me, "--status-fd: descriptor %d is not open for writing", number);
    if (*fd >= 0)
        close(*fd);
    *fd = fcntl(number, F_DUPFD_CLOEXEC, 3);
    if (*fd < 0) {
        lk_cli_message("--status-fd: cannot copy descriptor %d: %s", number, strerror(errno));
        return LK_EXIT_USAGE;
    }
    if (number > STDERR_FILENO)
        fcntl(number, F_SETFD, FD_CLOEXEC);
    return LK_GO_ON;
}

static int take_ttl(const char *text, int64_t *ms)
{
    const int code = lk_cli_duration(me, "--ttl", text, ms);
    if (code == LK_GO_ON && *ms <= 0)
        return lk_cli_usage(me, "--ttl must be at least 1ms, not '%s'", text);
    return code;
}

/* keys[0] is the KEY, which comes last. */
static int take_key(lk_run_options *o, const char *key)
{
    if (o->key_count == LOCKER_KEYS_MAX)
        return lk_cli_usage(me, "at most %d keys can be taken at once", (int)LOCKER_KEYS_MAX);
    o->keys[o->key_count++] = key;
    return LK_GO_ON;
}

static int take(int option, const lk_common *common, void *into)
{
    (void)common;
    lk_run_options *o = into;
    switch (option) {
    case 'n':
        o->nonblock = true;
        return LK_GO_ON;
    case 'w':
        o->wait_given = true;
        return lk_cli_duration(me, "--wait", optarg, &o->wait_ms);
    case 'E':
        return lk_cli_number(me, "--conflict-exit-code", optarg, 0, 255, &o->conflict_exit);
    case 't':
        return take_ttl(optarg, &o->ttl_ms);
    case 'k':
        o->of_watching = "--kill-after";
        return lk_cli_duration(me, "--kill-after", optarg, &o->kill_after_ms);
    case 'c':
        o->shell[2] = optarg;
        return LK_GO_ON;
    case LK_OPT_ON_LOST:
        o->of_watching = "--on-lost";
        return take_on_lost(optarg, &o->lost_signal);
    case LK_OPT_LOST_EXIT_CODE:
        o->of_watching = "--lost-exit-code";
        return lk_cli_number(me, "--lost-exit-code", optarg, 0, 255, &o->lost_exit);
    case LK_OPT_OWNER:
        return take_owner(optarg, &o->owner);
    case 's':
        o->mode = LOCKER_SHARED;
        return LK_GO_ON;
    case 'p':
        return lk_cli_number(me, "--permits", optarg, 1, LOCKER_PERMITS_MAX, &o->permits);
    case LK_OPT_ALSO:
        return take_key(o, optarg);
    case 'F':
        o->no_fork = true;
        return LK_GO_ON;
    case LK_OPT_FOREGROUND:
        o->foreground = true;
        return LK_GO_ON;
    case LK_OPT_WAIT_DESCENDANTS:
        o->of_watching = "--wait-descendants";
        o->wait_descendants = true;
        return LK_GO_ON;
    case LK_OPT_STATUS_FD:
        return take_status_fd(optarg, &o->status_fd);
    default:
        return LK_NOT_MINE;
    }
}

/* KEY [--] COMMAND [ARG...], or KEY alone with -c; KEY -c STRING, as flock(1) has it, is taken too. */
static int take_arguments(int argc, char **argv, lk_run_options *o)
{
    static char fallback[] = "/bin/sh", dash_c[] = "-c";
    char *shell = secure_getenv("SHELL");
    int next = optind;
    if (next == argc)
        return lk_cli_usage(me, "a KEY is missing");
    o->key = o->keys[0] = argv[next++];
    if (!o->shell[2] && argc - next == 2 && strcmp(argv[next], "-c") == 0) {
        o->shell[2] = argv[next + 1];
        next = argc;
    }
    if (next < argc && strcmp(argv[next], "--") == 0)
        next++;
    if (o->shell[2]) {
        if (next < argc)
            return lk_cli_usage(me, "unexpected argument '%s' with -c; put the whole command into STRING",
                                lk_cli_quotable(argv[next]));
        o->shell[0] = shell && shell[0] ? shell : fallback;
        o->shell[1] = dash_c;
        o->command = o->shell;
    } else {
        if (next == argc)
            return lk_cli_usage(me, "a COMMAND to run under the lock is missing");
        if (argv[next][0] == '\0')
            return lk_cli_usage(me, "the name of the COMMAND is empty");
        o->command = &argv[next];
    }
    return LK_GO_ON;
}

int lk_run_kill_after_too_long(int64_t most_ms)
{
    return lk_cli_usage(
        me,
        "--kill-after is too long for this lease: a single failed renewal would end the command; give "
        "at most %lldms, or a longer --ttl",
        (long long)most_ms);
}

static int check(lk_run_options *o)
{
    if (o->nonblock && o->wait_given && o->wait_ms != 0)
        return lk_cli_usage(me, "--nonblock and --wait exclude each other; remove either");
    if (o->mode == LOCKER_SHARED && o->permits > 0)
        return lk_cli_usage(me, "--shared and --permits exclude each other; remove either");
    if (o->no_fork && o->of_watching)
        return lk_cli_usage(me,
                            "--no-fork and %s exclude each other, because after exec nothing "
                            "supervises the command; remove either",
                            o->of_watching);
    if (o->nonblock)
        o->wait_ms = 0;
    /* What the service leaves of it is looked at after the grant. */
    if (o->ttl_ms > 0 && o->kill_after_ms > o->ttl_ms - o->ttl_ms / LK_RUN_RENEWALS)
        return lk_run_kill_after_too_long(o->ttl_ms - o->ttl_ms / LK_RUN_RENEWALS);
    return LK_GO_ON;
}

int lk_run_parse(int argc, char **argv, lk_run_options *o)
{
    static const struct option table[] = {LK_COMMON_LONG_OPTIONS,
                                          {"nonblock", no_argument, NULL, 'n'},
                                          {"wait", required_argument, NULL, 'w'},
                                          {"conflict-exit-code", required_argument, NULL, 'E'},
                                          {"ttl", required_argument, NULL, 't'},
                                          {"kill-after", required_argument, NULL, 'k'},
                                          {"on-lost", required_argument, NULL, LK_OPT_ON_LOST},
                                          {"lost-exit-code", required_argument, NULL, LK_OPT_LOST_EXIT_CODE},
                                          {"owner", required_argument, NULL, LK_OPT_OWNER},
                                          {"command", required_argument, NULL, 'c'},
                                          {"shared", no_argument, NULL, 's'},
                                          {"permits", required_argument, NULL, 'p'},
                                          {"also", required_argument, NULL, LK_OPT_ALSO},
                                          {"no-fork", no_argument, NULL, 'F'},
                                          {"foreground", no_argument, NULL, LK_OPT_FOREGROUND},
                                          {"wait-descendants", no_argument, NULL, LK_OPT_WAIT_DESCENDANTS},
                                          {"status-fd", required_argument, NULL, LK_OPT_STATUS_FD},
                                          {NULL, 0, NULL, 0}};
    *o = (lk_run_options){.common = {.subcommand = me},
                          .key_count = 1,
                          .wait_ms = -1,
                          .kill_after_ms = -1,
                          .conflict_exit = LK_EXIT_CONFLICT,
                          .lost_exit = LK_EXIT_LOST,
                          .lost_signal = SIGTERM,
                          .status_fd = -1};
    /* The plus sign ends the options at KEY, so that those of COMMAND are left alone. */
    int code = lk_cli_parse(argc, argv, &o->common, "+" LK_COMMON_LETTERS "nw:E:t:k:c:sp:F", table, take, o);
    if (code == LK_GO_ON)
        code = take_arguments(argc, argv, o);
    return code == LK_GO_ON ? check(o) : code;
}
