/* open.c: the ways to say which service keeps the locks: a URI, a profile, the environment, a driver of one's
 * own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_check.h"
#include "lk_time.h"
#include "no_cancel.h"
#include "profile.h"
#include "registry.h"
#include "start.h"

static locker_status check_options(const locker_options *o, locker **out, locker_error *err)
{
    if (out == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "opening needs a place for the locker");
    *out = NULL;
    if (o == NULL)
        return LOCKER_OK;
    if (o->size != sizeof *o)
        return locker_error_set(
            err, LOCKER_INVALID, 0,
            "locker_options.size is %zu, this library's is %zu: start from LOCKER_OPTIONS_INIT", o->size,
            sizeof *o);
    if (o->ttl_ms < 0 || o->ttl_ms > LOCKER_NEVER / 4 / LK_MS)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "ttl_ms is %lld: give a lease time in ms, or 0 for the default",
                                (long long)o->ttl_ms);
    return LOCKER_OK;
}

static locker_status open_parsed(locker_status parsed, lk_config *config, const locker_options *options,
                                 const locker_clock *clock, locker **out, locker_error *err)
{
    if (parsed != LOCKER_OK) {
        lk_config_clear(config);
        return parsed;
    }
    return lk_open(config, options, clock, out, err);
}

locker_status locker_open(const char *uri, const locker_options *options, locker **out, locker_error *err)
{
    LK_NO_CANCEL;
    lk_config config = {0};
    locker_status status = check_options(options, out, err);

    if (status != LOCKER_OK)
        return status;
    if (uri == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "locker_open needs a URI; locker_open_default() reads the environment");
    status = lk_config_uri(&config, uri, NULL, err);
    return open_parsed(status, &config, options, NULL, out, err);
}

locker_status locker_open_profile(const char *file, const char *profile, const locker_options *options,
                                  locker **out, locker_error *err)
{
    LK_NO_CANCEL;
    lk_config config = {0};
    locker_status status = check_options(options, out, err);

    if (status != LOCKER_OK)
        return status;
    if (file == NULL || *file == '\0')
        return locker_error_set(err, LOCKER_INVALID, 0, "locker_open_profile needs a file");
    if (profile == NULL || *profile == '\0')
        profile = getenv("LOCKER_PROFILE");
    if (profile == NULL || *profile == '\0')
        profile = "default";
    status = lk_config_profile(&config, file, profile, err);
    return open_parsed(status, &config, options, NULL, out, err);
}

/* The embedded default: one directory of this user, whatever the environment: a program that cron or a
 * service starts must meet the one that was started from a login, so neither XDG_RUNTIME_DIR nor TMPDIR is
 * asked. The file driver refuses it when it is another user's or a symbolic link. */
static locker_status open_embedded(const locker_options *options, locker **out, locker_error *err)
{
    char uri[64];

    (void)snprintf(uri, sizeof uri, "file:///tmp/locker-%lu", (unsigned long)geteuid());
    return locker_open(uri, options, out, err);
}

locker_status locker_open_default(const locker_options *options, locker **out, locker_error *err)
{
    const char *uri = getenv("LOCKER_URI"), *file = getenv("LOCKER_CONFIG");

    if (uri != NULL && *uri != '\0')
        return locker_open(uri, options, out, err);
    if (file != NULL && *file != '\0')
        return locker_open_profile(file, NULL, options, out, err);
    return open_embedded(options, out, err);
}

locker_status locker_open_driver(const locker_driver *driver, const locker_driver_options *o, locker **out,
                                 locker_error *err)
{
    LK_NO_CANCEL;
    static const locker_driver_options defaults = LOCKER_DRIVER_OPTIONS_INIT;
    lk_config config = {0};
    char bare[64];
    const char *uri;
    locker_status status;

    if (o == NULL)
        o = &defaults;
    if (o->size != sizeof *o)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "locker_driver_options.size is %zu, this library's is %zu: start from "
                                "LOCKER_DRIVER_OPTIONS_INIT",
                                o->size, sizeof *o);
    status = check_options(o->options, out, err);
    if (status == LOCKER_OK)
        status = lk_driver_check(driver, err);
    if (status != LOCKER_OK)
        return status;
    uri = o->uri;
    if (uri == NULL) {
        (void)snprintf(bare, sizeof bare, "%.60s:", driver->schemes[0]);
        uri = bare;
    }
    status = lk_config_uri(&config, uri, driver, err);
    return open_parsed(status, &config, o->options, o->clock, out, err);
}
