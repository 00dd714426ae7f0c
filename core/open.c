/* open.c: the ways to say which service keeps the locks: a URI, a profile, the environment, a driver of one's
 * own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lk_sized.h>

#include "driver_check.h"
#include "lk_time.h"
#include "no_cancel.h"
#include "profile.h"
#include "registry.h"
#include "start.h"

/* *options becomes ours, in `own`. */
static locker_status check_options(const locker_options **options, locker_options *own, locker **out,
                                   locker_error *err)
{
    const locker_options *const o = own;
    if (out == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "opening needs a place for the locker");
    *out = NULL;
    if (*options == NULL)
        return LOCKER_OK;
    const locker_status status = LK_SIZED_TAKE(locker_options, own, *options, log_user, err);
    if (status != LOCKER_OK)
        return status;
    *options = own;
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
    locker_options own;
    locker_status status = check_options(&options, &own, out, err);

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
    locker_options own;
    locker_status status = check_options(&options, &own, out, err);

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

locker_status locker_open_driver(const locker_driver *driver, const locker_driver_options *options,
                                 locker **out, locker_error *err)
{
    LK_NO_CANCEL;
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    locker_options own;
    locker_clock clock = *locker_system_clock();
    lk_config config = {0};
    char bare[64];
    const char *uri;
    locker_status status = LOCKER_OK;

    if (options != NULL)
        status = LK_SIZED_TAKE(locker_driver_options, &o, options, clock, err);
    if (status == LOCKER_OK && o.clock != NULL)
        status = LK_SIZED_TAKE(locker_clock, &clock, o.clock, hooks, err);
    if (status == LOCKER_OK)
        status = check_options(&o.options, &own, out, err);
    if (status == LOCKER_OK)
        status = lk_driver_check(driver, err);
    if (status != LOCKER_OK)
        return status;
    uri = o.uri;
    if (uri == NULL) {
        (void)snprintf(bare, sizeof bare, "%.60s:", driver->schemes[0]);
        uri = bare;
    }
    status = lk_config_uri(&config, uri, driver, err);
    return open_parsed(status, &config, o.options, &clock, out, err);
}
