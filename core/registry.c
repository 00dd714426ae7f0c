/* registry.c: the drivers that are built in, found by scheme or name. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

/* Written by the build from backends/CMakeLists.txt; ended by NULL. */
extern const locker_driver *const lk_builtin_drivers[];

bool lk_driver_has_scheme(const locker_driver *driver, const char *scheme)
{
    const char *const *s = driver->schemes;

    while (*s != NULL && strcasecmp(*s, scheme) != 0)
        s++;
    return *s != NULL;
}

static const locker_driver *with_scheme(const char *scheme)
{
    const locker_driver *const *d = lk_builtin_drivers;

    while (*d != NULL && ((*d)->decorate != NULL || !lk_driver_has_scheme(*d, scheme)))
        d++;
    return *d;
}

const locker_driver *lk_driver_for_scheme(const char *scheme)
{
    const locker_driver *found = with_scheme(scheme), *inner;

    for (const locker_driver *const *d = lk_builtin_drivers; *d != NULL && found == NULL; d++) {
        size_t length = strlen((*d)->schemes[0]);

        if ((*d)->decorate == NULL || strncasecmp(scheme, (*d)->schemes[0], length) != 0 ||
            scheme[length] != '+')
            continue;
        inner = with_scheme(scheme + length + 1);
        if (inner != NULL)
            found = (*d)->decorate(inner);
    }
    return found;
}

const locker_driver *lk_driver_named(const char *name)
{
    for (const locker_driver *const *d = lk_builtin_drivers; *d != NULL; d++)
        if ((*d)->decorate == NULL && strcasecmp((*d)->name, name) == 0)
            return *d;
    return NULL;
}

void lk_list_schemes(char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (const locker_driver *const *d = lk_builtin_drivers; *d != NULL; d++) {
        for (const char *const *s = (*d)->schemes; *s != NULL; s++) {
            int n = snprintf(text + used, size - used, "%s%s%s", used > 0 ? ", " : "", *s,
                             (*d)->decorate != NULL ? "+SCHEME" : "");

            if (n < 0 || (size_t)n >= size - used)
                return;
            used += (size_t)n;
        }
    }
}

locker_status lk_driver_check(const locker_driver *d, locker_error *err)
{
    if (d == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "locker_open_driver needs a driver table");
    if (d->abi != LOCKER_DRIVER_ABI)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "the driver was built for ABI %u, this library has %d: build it again",
                                d->abi, LOCKER_DRIVER_ABI);
    if (d->name == NULL || d->schemes == NULL || d->schemes[0] == NULL || d->params == NULL ||
        d->semantics == NULL || d->open == NULL || d->close == NULL || d->acquire == NULL ||
        d->withdraw == NULL || d->release == NULL || d->show == NULL || d->ping == NULL)
        return locker_error_set(
            err, LOCKER_INVALID, 0,
            "the driver table '%s' lacks a name, schemes, params, semantics, or one of open, close, acquire, "
            "withdraw, release, show, ping",
            d->name != NULL ? d->name : "?");
    if ((d->caps & LOCKER_CAP_BREAK) != 0 && d->break_lock == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "the driver '%s' says that it can break locks, but has no break_lock",
                                d->name);
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ what a build has ---- */

enum { DRIVERS_AT_MOST = 16, PARAMETERS_AT_MOST = 24, SCHEMES_TEXT = 96 };

static void describe(const locker_param *params, locker_parameter *out)
{
    size_t n = 0;

    for (; params[n].name != NULL && n < PARAMETERS_AT_MOST; n++)
        out[n] = (locker_parameter){params[n].name, lk_param_kind_name(params[n].kind),
                                    params[n].initial != NULL ? params[n].initial : "", params[n].help};
    out[n] = (locker_parameter){NULL, NULL, NULL, NULL};
}

/* The descriptions are made once, from tables that never change. */
static struct {
    pthread_once_t once;
    size_t count;
    char schemes[DRIVERS_AT_MOST][SCHEMES_TEXT];
    locker_parameter parameters[DRIVERS_AT_MOST][PARAMETERS_AT_MOST + 1];
    locker_parameter common[PARAMETERS_AT_MOST + 1];
} described = {.once = PTHREAD_ONCE_INIT};

static void describe_all(void)
{
    describe(lk_common_params, described.common);
    for (size_t i = 0; lk_builtin_drivers[i] != NULL && i < DRIVERS_AT_MOST; i++) {
        const locker_driver *d = lk_builtin_drivers[i];
        size_t used = 0;

        for (const char *const *s = d->schemes; *s != NULL && used < SCHEMES_TEXT; s++)
            used += (size_t)snprintf(described.schemes[i] + used, SCHEMES_TEXT - used, "%s%s",
                                     used > 0 ? " " : "", *s);
        describe(d->params, described.parameters[i]);
        described.count = i + 1;
    }
}

bool locker_driver_at(size_t index, locker_driver_info *info)
{
    const locker_driver *d;

    (void)pthread_once(&described.once, describe_all);
    if (index >= described.count || info == NULL)
        return false;
    d = lk_builtin_drivers[index];
    *info = (locker_driver_info){
        .name = d->name,
        .schemes = described.schemes[index],
        .example = d->example,
        .features = d->features != NULL ? d->features : "",
        .semantics = d->semantics,
        .parameters = described.parameters[index],
    };
    return true;
}

const locker_driver *locker_driver_of(const locker *l, void **self)
{
    if (self != NULL)
        *self = l->self;
    return l->driver;
}

const locker_parameter *locker_common_parameters(void)
{
    (void)pthread_once(&described.once, describe_all);
    return described.common;
}

const char *locker_version(void)
{
    return LOCKER_VERSION_STRING;
}
