/* open.c: opens the lock service that a subcommand is to use: the one that its options name, else the one that the library
 * finds, as for any program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

enum { AGAIN_MS = 500 }; /* between two attempts to open a service that is full */

/* What the library says as it opens the service, on this thread: a secret that others can read, for one. */
static _Thread_local bool is_opening;

static void log_line(locker_log_level level, const char *text, void *verbose)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    if (verbose || (is_opening && level <= LOCKER_LOG_WARN))
        lk_cli_message("%s: %s", names[level], text);
}

static int check_flags(const lk_common *common)
{
    if (common->uri && common->config)
        return lk_cli_usage(common->subcommand, "--uri and --config exclude each other; remove either");
    if (common->uri && common->profile)
        return lk_cli_usage(common->subcommand,
                            "--uri and --profile exclude each other, because a profile has its own "
                            "URI; remove either");
    return LK_EXIT_OK;
}

static locker_status open_by(const lk_common *common, const locker_options *options, locker **out,
                             locker_error *err)
{
    if (common->uri)
        return locker_open(common->uri, options, out, err);
    if (common->config || common->profile)
        return locker_open_profile(common->config, common->profile, options, out, err);
    return locker_open_default(options, out, err);
}

/* Whether the service has as many connections as it takes: that passes, as a lock's holder does. */
static bool is_full(locker_status status, const locker_error *err)
{
    return status == LOCKER_UNAVAILABLE && err->os_error == EUSERS;
}

/* Open the service, trying again until then while it is full. */
static locker_status open_until(const lk_common *common, const locker_options *options, int64_t until_ms,
                                lk_cli_full_fn full, locker **out, locker_error *err)
{
    for (;; full = NULL) {
        const locker_status status = open_by(common, options, out, err);
        if (!is_full(status, err) || lk_cli_now_ms(CLOCK_MONOTONIC) >= until_ms)
            return status;
        if (full != NULL)
            full(common, err);
        (void)nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000L}, NULL);
    }
}

int lk_cli_open(const lk_common *common, const char *owner, int64_t ttl_ms, locker **out)
{
    return lk_cli_open_until(common, owner, ttl_ms, 0, NULL, out);
}

int lk_cli_open_until(const lk_common *common, const char *owner, int64_t ttl_ms, int64_t until_ms,
                      lk_cli_full_fn full, locker **out)
{
    locker_options options = LOCKER_OPTIONS_INIT;
    static char verbose; /* its address means yes */
    int code = check_flags(common);
    if (code)
        return code;
    options.owner = owner;
    options.log = log_line;
    options.log_user = common->verbose > 0 ? &verbose : NULL;
    options.log_level = common->verbose > 1   ? LOCKER_LOG_DEBUG
                        : common->verbose > 0 ? LOCKER_LOG_INFO
                                              : LOCKER_LOG_WARN;
    options.ttl_ms = ttl_ms; /* where leases are sessions, a lock can't have a lease time of its own */
    locker_error err;
    is_opening = !common->quiet;
    const locker_status status = open_until(common, &options, until_ms, full, out, &err);
    is_opening = false;
    if (status == LOCKER_OK)
        return LK_EXIT_OK;
    code = lk_cli_fail(status, &err);
    if (status == LOCKER_DENIED && secure_getenv("LOCKER_HELD"))
        lk_cli_message(
            "an outer locker run passes no password on; give a password_file in the URI or in a profile");
    return code;
}

void lk_cli_backend(const locker *l, char *out, size_t size)
{
    const char *service = locker_get_service(l);
    snprintf(out, size, "%.*s", (int)strcspn(service, ":"), service);
}

const char *lk_cli_place(const lk_common *common, const locker *l, char out[LK_CLI_PLACE])
{
    snprintf(out, LK_CLI_PLACE, "%s (%s)", locker_get_service(l),
             common->uri ? "from --uri" : locker_get_origin(l));
    return out;
}
