/* start.c: starting a locker: its memory, its descriptors, the driver, the keeper. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config_finish.h"
#include "descriptors.h"
#include "driver_check.h"
#include "error.h"
#include "keeper.h"
#include "lifetime.h"
#include "log.h"
#include "start.h"

/* What to do about a limit of the system. */
static const char *limit_advice(int os_error)
{
    switch (os_error) {
    case EMFILE:
    case ENFILE:
        return "raise the limit on open files (ulimit -n)";
    case EAGAIN: /* of pthread_create() */
        return "raise the limit on processes and threads (ulimit -u, or TasksMax= of a service)";
    case ENOSPC:
        return "raise fs.epoll.max_user_watches";
    default:
        return "free memory";
    }
}

static locker_status open_driver(locker *l, const lk_config *config, locker_error *err)
{
    const locker_driver_config c = {
        .size = sizeof c,
        .scheme = config->scheme,
        .user = config->user,
        .password = config->password,
        .hosts = config->hosts,
        .host_count = config->host_count,
        .path = config->path,
        .name_space = config->name_space,
        .owner = config->owner,
        .values = config->values,
        .connect_timeout_ns = config->connect_timeout_ns,
        .command_timeout_ns = config->command_timeout_ns,
        .cleanup_ns = config->cleanup_ns,
        .ttl_ns = config->ttl_ns,
    };
    const locker_status status = l->driver->open(&c, &l->services, &l->self, err);
    if (status != LOCKER_OK)
        return status;
    int rc = lk_descriptors_add_driver(l);
    if (rc == 0)
        rc = lk_keeper_start(l);
    if (rc == 0)
        return LOCKER_OK;
    l->driver->close(l->self);
    return locker_error_set(err, LOCKER_UNAVAILABLE, rc,
                            "can't start the keeper thread or its descriptors: %s; %s", strerror(rc),
                            limit_advice(rc));
}

/* Which service it is; what is quoted of the configuration was checked not to be a password. */
static void tell_opened(locker *l, const lk_config *config)
{
    const bool path = config->host_count == 0 && strchr(config->path, ':') == NULL;
    char text[256];
    int n = snprintf(text, sizeof text, "%s:%s", config->scheme, path ? config->path : "");
    for (size_t i = 0; i < config->host_count && n < (int)sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, config->hosts[i].port != 0 ? "%s%s:%d" : "%s%s",
                      i == 0 ? "//" : ",", config->hosts[i].name, config->hosts[i].port);
    l->services.log(&l->services, LOCKER_LOG_INFO, "the locks are kept by %s", text);
}

static locker_status start(locker *l, const lk_config *config, locker_error *err)
{
    const locker_status status = lk_driver_take(&l->table, &l->semantics, l->given, err);
    const int rc = status == LOCKER_OK ? lk_descriptors_open(l) : 0;
    if (status != LOCKER_OK)
        return status;
    return rc == 0
               ? open_driver(l, config, err)
               : locker_error_set(err, LOCKER_UNAVAILABLE, rc, "can't make the keeper's descriptors: %s; %s",
                                  strerror(rc), limit_advice(rc));
}

locker_status lk_open(lk_config *config, const locker_options *options, const locker_clock *clock,
                      locker **out, locker_error *err)
{
    locker *l = NULL;
    locker_status status = lk_config_finish(config, options, err);
    if (status != LOCKER_OK)
        goto out;
    l = lk_locker_new(config, options, clock);
    status = l == NULL ? locker_error_set(err, LOCKER_NOMEM, 0, "out of memory while opening a locker")
                       : start(l, config, err);
out:
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
