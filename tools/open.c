/* open.c: opens the lock service that a subcommand is to use. A flag beats the environment, which beats a
 * configuration file in one of the usual places, which beats the library's embedded default. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { PATH_SIZE = 4096 };

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static bool usual_place(char *path, const char *before, const char *after)
{
    if (!before || before[0] != '/')
        return false;
    const int length = snprintf(path, PATH_SIZE, "%s%s", before, after);
    /* Existence alone: a file that can't be read must be complained about, not passed over. */
    return length > 0 && length < PATH_SIZE && access(path, F_OK) == 0;
}

static bool usual_config(char *path)
{
    const char *xdg = environment("XDG_CONFIG_HOME");
    return usual_place(path, xdg, "/locker/locker.conf") ||
           (!xdg && usual_place(path, environment("HOME"), "/.config/locker/locker.conf")) ||
           usual_place(path, "/etc", "/locker.conf");
}

static void log_line(locker_log_level level, const char *text, void *user)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    (void)user;
    lk_cli_message("%s: %s", names[level], text);
}

static int check_flags(const lk_common *common)
{
    if (common->uri && common->config)
        return lk_cli_usage(common->subcommand, "--uri and --config exclude each other: give one");
    if (common->uri && common->profile)
        return lk_cli_usage(common->subcommand,
                            "--uri and --profile exclude each other: a profile names its own URI");
    return LK_EXIT_OK;
}

int lk_cli_open(const lk_common *common, const char *owner, int64_t ttl_ms, locker **out)
{
    locker_options options = LOCKER_OPTIONS_INIT;
    const char *uri = common->uri, *config = common->config;
    int code = check_flags(common);
    if (code)
        return code;
    options.owner = owner;
    if (common->verbose > 0)
        options.log = log_line;
    options.log_level = common->verbose > 1 ? LOCKER_LOG_DEBUG : LOCKER_LOG_INFO;
    options.ttl_ms = ttl_ms; /* where leases are sessions, a lock can't have a lease time of its own */
    if (!uri && !config && !common->profile)
        uri = environment("LOCKER_URI");
    if (!uri && !config)
        config = environment("LOCKER_CONFIG");
    char path[PATH_SIZE];
    if (!uri && !config && usual_config(path))
        config = path;
    locker_status status;
    locker_error err;
    if (uri) {
        status = locker_open(uri, &options, out, &err);
    } else if (config) {
        status = locker_open_profile(config, common->profile, &options, out, &err);
    } else if (common->profile || environment("LOCKER_PROFILE")) {
        lk_cli_message("profile '%s' is asked for, but there is no configuration file: name one with -f or "
                       "LOCKER_CONFIG",
                       common->profile ? common->profile : environment("LOCKER_PROFILE"));
        return LK_EXIT_CONFIG;
    } else {
        status = locker_open_default(&options, out, &err);
    }
    if (status == LOCKER_OK)
        return LK_EXIT_OK;
    code = lk_cli_fail(status, &err);
    if (status == LOCKER_DENIED && environment("LOCKER_HELD"))
        lk_cli_message(
            "this runs under locker run, which passes no password on: name a password_file in the URI or "
            "in a profile");
    return code;
}

void lk_cli_backend(const lk_common *common, const locker *l, char *out, size_t size)
{
    const char *uri = common->uri;
    if (!uri && !common->config && !common->profile)
        uri = environment("LOCKER_URI");
    const size_t length = uri ? strcspn(uri, ":") : 0;
    if (length > 0 && length < size)
        snprintf(out, size, "%.*s", (int)length, uri);
    else
        snprintf(out, size, "%s", locker_get_semantics(l)->driver);
    for (char *c = out; *c != '\0'; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
}
