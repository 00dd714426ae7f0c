/* open.c: opening a locker, by a URI, a profile, the environment, or with a driver of one's own. */
#include <errno.h>
#include <stdio.h>

#include "frame.h"
#include "keeper.h"
#include "lifetime.h"
#include "lk_sized.h"
#include "log.h"
#include "registry.h"

static const char *limit_advice(int os_error)
{
    if (os_error == EMFILE || os_error == ENFILE)
        return "raise the limit on open files (ulimit -n)";
    if (os_error == EAGAIN) /* of pthread_create() */
        return "raise the limit on processes and threads (ulimit -u, or TasksMax= of a service)";
    return os_error == ENOSPC ? "raise fs.epoll.max_user_watches" : "free memory";
}

/* Which service it is; what is quoted of the configuration was checked not to be a password. */
static void tell_opened(locker *l, const lk_config *config)
{
    const bool path = config->pub.host_count == 0 && strchr(config->pub.path, ':') == NULL;
    char text[256];
    int n = snprintf(text, sizeof text, "%s:%s", config->pub.scheme, path ? config->pub.path : "");
    for (size_t i = 0; i < config->pub.host_count && n < (int)sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, config->pub.hosts[i].port != 0 ? "%s%s:%d" : "%s%s",
                      i == 0 ? "//" : ",", config->pub.hosts[i].name, config->pub.hosts[i].port);
    l->services.log(&l->services, LOCKER_LOG_INFO, "the locks are kept by %s", text);
}

static locker_status start(locker *l, const lk_config *config, locker_error *err)
{
    locker_status status = lk_driver_take(&l->table, &l->semantics, l->given, err);
    if (status != LOCKER_OK)
        return status;
    int rc = lk_descriptors_open(l);
    if (rc == 0) {
        status = l->driver->open(&config->pub, &l->services, &l->self, err);
        if (status != LOCKER_OK)
            return status;
        rc = lk_descriptors_add_driver(l);
        if (rc == 0)
            rc = lk_keeper_start(l);
        if (rc == 0)
            return LOCKER_OK;
        l->driver->close(l->self);
    }
    return locker_error_set(err, LOCKER_UNAVAILABLE, rc, "can't start the keeper or its descriptors: %s; %s",
                            strerror(rc), limit_advice(rc));
}

/* Open by what was parsed, and free it. */
static locker_status open_parsed(locker_status status, lk_config *config, const locker_options *options,
                                 const locker_clock *clock, locker **out, locker_error *err)
{
    if (status == LOCKER_OK)
        status = lk_config_finish(config, options, err);
    locker *const l = status == LOCKER_OK ? lk_locker_new(config, options, clock) : NULL;
    if (l != NULL)
        status = start(l, config, err);
    else if (status == LOCKER_OK)
        status = locker_error_set(err, LOCKER_NOMEM, 0, "out of memory while opening a locker");
    if (l != NULL && status == LOCKER_OK) {
        *out = l;
        tell_opened(l, config);
        (void)lk_ok(err);
    } else if (l != NULL) {
        lk_mutex_lock(&l->mutex);
        lk_log_tell_unlocking(l);
        lk_mutex_unlock(&l->mutex);
        lk_locker_free(l);
    }
    lk_config_clear(config);
    return status;
}

/* *options becomes ours, in `own`; NULL: the defaults. */
static locker_status check_options(const locker_options **options, locker_options *own, locker **out,
                                   locker_error *err)
{
    static const locker_options defaults = LOCKER_OPTIONS_INIT;
    if (out == NULL) {
        (void)lk_invalid(err, "opening needs a place for the locker");
        return LOCKER_INVALID; /* said here, so that static analysis knows */
    }
    *out = NULL;
    if (*options == NULL)
        *options = &defaults;
    const locker_status status = LK_SIZED_TAKE(locker_options, own, *options, log_user, err);
    if (status != LOCKER_OK)
        return status;
    *options = own;
    return lk_ttl_check(own->ttl_ms, err);
}

locker_status locker_open(const char *uri, const locker_options *options, locker **out, locker_error *err)
{
    LK_NO_CANCEL;
    lk_config config = {.driver = NULL};
    locker_options own;
    locker_status status = check_options(&options, &own, out, err);
    if (status != LOCKER_OK)
        return status;
    if (uri == NULL)
        return lk_invalid(err, "locker_open needs a URI; locker_open_default() reads the environment");
    status = lk_config_uri(&config, uri, NULL, err);
    return open_parsed(status, &config, options, NULL, out, err);
}

locker_status locker_open_profile(const char *file, const char *profile, const locker_options *options,
                                  locker **out, locker_error *err)
{
    LK_NO_CANCEL;
    lk_config config = {.driver = NULL};
    locker_options own;
    locker_status status = check_options(&options, &own, out, err);
    if (status != LOCKER_OK)
        return status;
    if (file == NULL || *file == '\0')
        return lk_invalid(err, "locker_open_profile needs a file");
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
locker_status locker_open_default(const locker_options *options, locker **out, locker_error *err)
{
    const char *uri = getenv("LOCKER_URI"), *file = getenv("LOCKER_CONFIG");
    if (uri != NULL && *uri != '\0')
        return locker_open(uri, options, out, err);
    if (file != NULL && *file != '\0')
        return locker_open_profile(file, NULL, options, out, err);
    char own[64];
    (void)snprintf(own, sizeof own, "file:///tmp/locker-%lu", (unsigned long)geteuid());
    return locker_open(own, options, out, err);
}

locker_status locker_open_driver(const locker_driver *driver, const locker_driver_options *options,
                                 locker **out, locker_error *err)
{
    LK_NO_CANCEL;
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    locker_options own;
    locker_clock clock = *locker_system_clock();
    lk_config config = {.driver = NULL};
    char bare[64];
    locker_status status = LOCKER_OK;
    if (out != NULL) /* whatever is wrong with the options */
        *out = NULL;
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
    (void)snprintf(bare, sizeof bare, "%.60s:", driver->schemes[0]);
    status = lk_config_uri(&config, o.uri != NULL ? o.uri : bare, driver, err);
    return open_parsed(status, &config, o.options, &clock, out, err);
}
