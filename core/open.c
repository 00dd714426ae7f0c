/* open.c: opening a locker, by a URI, a profile, the environment, or with a driver of one's own. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "choice.h"
#include "frame.h"
#include "lifetime.h"
#include "lk_sized.h"
#include "registry.h"

static const char *limit_advice(int os_error)
{
    if (os_error == EMFILE || os_error == ENFILE)
        return "raise the limit on open files (ulimit -n)";
    if (os_error == EAGAIN) /* of pthread_create() */
        return "raise the limit on processes and threads (ulimit -u, or TasksMax= of a service)";
    if (os_error == EINVAL) /* of pthread_create(): clone(2) refuses a thread in another PID namespace */
        return "a process cannot start threads after it has unshared its PID namespace; use unshare "
               "--pid --fork, or fork first";
    return os_error == ENOSPC ? "raise fs.epoll.max_user_watches" : "free memory";
}

/* Tell what was noticed about the configuration. The log has to have it before the caller learns of the service. */
static void tell_warnings(locker *l, const lk_config *config)
{
    for (size_t i = 0; i < LK_CONFIG_WARNINGS && config->warnings[i] != NULL; i++)
        l->services.log(&l->services, LOCKER_LOG_WARN, "%s", config->warnings[i]);
    lk_mutex_lock(&l->mutex);
    lk_log_tell_unlocking(l);
    lk_mutex_unlock(&l->mutex);
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
    return locker_error_set(err, LOCKER_UNAVAILABLE, rc,
                            "cannot start the keeper thread or open its descriptors: %s; %s", strerror(rc),
                            limit_advice(rc));
}

/* Open by what was parsed, and free it. */
static locker_status open_parsed(locker_status status, lk_config *config, const locker_options *options,
                                 const locker_clock *clock, locker **out, locker_error *err)
{
    if (status == LOCKER_OK)
        status = lk_config_finish(config, options, err);
    locker *const l = status == LOCKER_OK ? lk_locker_new(config, options, clock) : NULL;
    if (l != NULL) {
        tell_warnings(l, config);
        status = start(l, config, err);
    } else if (status == LOCKER_OK) {
        status = locker_error_set(err, LOCKER_NOMEM, 0, "out of memory while opening a locker");
    }
    if (l != NULL && status == LOCKER_OK) {
        *out = l;
        l->services.log(&l->services, LOCKER_LOG_INFO, "the locks are kept by %s (%s)", l->service,
                        l->origin);
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
        (void)lk_invalid(err, "opening needs a pointer for the locker");
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

/* Say what named the service that can't be opened, unless the text says it. A file's name that is a URI may have a password. */
static locker_status name_origin(locker_status status, const lk_choice *choice, locker_error *err)
{
    if (status == LOCKER_OK || err == NULL ||
        (choice->uri == NULL &&
         (strstr(err->text, choice->file) != NULL || strstr(choice->file, "://") != NULL)))
        return status;
    if (choice->uri == NULL && (status == LOCKER_CONFIG || status == LOCKER_UNSUPPORTED))
        return locker_error_set(err, status, err->os_error, "%s, profile [%.60s]: %s", choice->file,
                                choice->profile, err->text);
    return locker_error_set(err, status, err->os_error, "%s (%s)", err->text, choice->origin);
}

/* Open what was chosen. */
static locker_status open_choice(const lk_choice *choice, const locker_options *options, locker **out,
                                 locker_error *err)
{
    lk_config config = {.origin = choice->origin, .is_users = choice->is_users};
    const locker_status status = choice->uri != NULL
                                     ? lk_config_uri(&config, choice->uri, NULL, err)
                                     : lk_config_profile(&config, choice->file, choice->profile, err);
    return name_origin(open_parsed(status, &config, options, NULL, out, err), choice, err);
}

locker_status locker_open_profile(const char *file, const char *profile, const locker_options *options,
                                  locker **out, locker_error *err)
{
    LK_NO_CANCEL;
    lk_choice choice;
    locker_options own;
    const bool is_named = profile != NULL && *profile != '\0';
    locker_status status = check_options(&options, &own, out, err);
    if (status == LOCKER_OK && file != NULL && *file == '\0')
        return lk_invalid(err, "locker_open_profile needs a file, or NULL for the usual files");
    if (status == LOCKER_OK)
        status = lk_choose_file(&choice, file, is_named ? profile : NULL, err);
    return status == LOCKER_OK ? open_choice(&choice, options, out, err) : status;
}

locker_status locker_open_default(const locker_options *options, locker **out, locker_error *err)
{
    LK_NO_CANCEL;
    lk_choice choice;
    locker_options own;
    locker_status status = check_options(&options, &own, out, err);
    if (status == LOCKER_OK)
        status = lk_choose(&choice, err);
    return status == LOCKER_OK ? open_choice(&choice, options, out, err) : status;
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
