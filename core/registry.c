/* registry.c: the drivers that there are, found by scheme or name. Where modules come from is modules.c's. */
#include <strings.h>

#include "description.h"
#include "frame.h"
#include "lk_sized.h"
#include "registry.h"
#include "text.h"

/* Written by the build from backends/CMakeLists.txt; ended by NULL. */
extern const locker_driver *const lk_builtin_drivers[];

bool lk_driver_has_scheme(const locker_driver *driver, const char *scheme)
{
    const char *const *s = driver->schemes;
    while (*s != NULL && strcasecmp(*s, scheme) != 0)
        s++;
    return *s != NULL;
}

/* By its scheme, else by its name; of those that stand behind no other. */
static const locker_driver *built_in(const char *word)
{
    const locker_driver *named = NULL;
    for (const locker_driver *const *d = lk_builtin_drivers; *d != NULL; d++) {
        if ((*d)->decorator == NULL && lk_driver_has_scheme(*d, word))
            return *d;
        if ((*d)->decorator == NULL && named == NULL && strcasecmp((*d)->name, word) == 0)
            named = *d;
    }
    return named;
}

/* *driver NULL: there is none. */
static locker_status find_plain(const char *word, const locker_driver **driver, locker_error *err)
{
    *driver = built_in(word);
    return *driver == NULL && lk_modules != NULL ? lk_modules->find(word, driver, err) : LOCKER_OK;
}

static locker_status find_decorated(const locker_driver *outer, const char *word,
                                    const locker_driver **driver, locker_error *err)
{
    const size_t length = strlen(outer->schemes[0]);
    const locker_driver *inner = NULL;
    if (outer->decorator == NULL || strncasecmp(word, outer->schemes[0], length) != 0 || word[length] != '+')
        return LOCKER_OK;
    const locker_status status = find_plain(word + length + 1, &inner, err);
    if (status == LOCKER_OK && inner != NULL)
        *driver = outer->decorator->decorate(inner);
    return status;
}

/* What there is no room for is told by dots, in place of whole words. */
static void list_schemes(char *text, size_t size)
{
    static const char dots[] = ", ...";
    locker_driver_info info = LOCKER_DRIVER_INFO_INIT;
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; length < size && locker_driver_at(i, &info); i++) {
        const bool decorator = info.module == NULL && lk_builtin_drivers[i]->decorator != NULL;
        for (const char *s = info.schemes; length < size && s[0] != '\0'; s += strspn(s, " ")) {
            const size_t word = strcspn(s, " ");
            length += (size_t)snprintf(text + length, size - length, "%s%.*s%s", length > 0 ? ", " : "",
                                       (int)word, s, decorator ? "+SCHEME" : "");
            s += word;
        }
    }
    if (length < size)
        return;
    text[size - sizeof dots] = '\0';
    char *const last = strrchr(text, ',');
    (void)strcpy(last != NULL ? last : text, dots);
}

bool lk_driver_scheme_like(const char *word, bool exact, char scheme[32])
{
    locker_driver_info info = LOCKER_DRIVER_INFO_INIT;
    for (size_t i = 0; locker_driver_at(i, &info); i++)
        for (const char *s = info.schemes; s[0] != '\0'; s += strspn(s, " ")) {
            const size_t length = strcspn(s, " ");
            (void)snprintf(scheme, 32, "%.*s", (int)length, s);
            if (exact ? strcasecmp(word, scheme) == 0 : lk_text_is_slip(word, scheme))
                return true;
            s += length;
        }
    return false;
}

static locker_status none_found(const char *word, const char *shown, locker_error *err)
{
    char schemes[256], meant[32];
    if (shown[0] != '(' && lk_driver_scheme_like(word, false, meant))
        return lk_unsupported(
            err, "there is no driver for '%s'; did you mean %s:? ('locker drivers' lists all)", shown, meant);
    list_schemes(schemes, sizeof schemes);
    if (lk_modules == NULL)
        return lk_unsupported(err, "there is no driver for '%s' in this build; its drivers serve %s", shown,
                              schemes);
    return lk_unsupported(err,
                          "there is no driver for '%s'; the drivers serve %s (directory of modules: %.180s)",
                          shown, schemes, lk_modules->where());
}

locker_status lk_driver_for(const char *word, const char *shown, const locker_driver **driver,
                            locker_error *err)
{
    locker_status status = find_plain(word, driver, err);
    for (const locker_driver *const *d = lk_builtin_drivers; *d != NULL && *driver == NULL; d++)
        if (status == LOCKER_OK)
            status = find_decorated(*d, word, driver, err);
    return status == LOCKER_OK && *driver == NULL ? none_found(word, shown, err) : status;
}

locker_status lk_driver_check(const locker_driver *d, locker_error *err)
{
    if (d == NULL)
        return lk_invalid(err, "locker_open_driver needs a driver table");
    if (d->abi != LOCKER_DRIVER_ABI)
        return lk_invalid(err, "the driver was built for ABI %u, this library (%s) has %d: %s", d->abi,
                          LOCKER_VERSION_STRING, LOCKER_DRIVER_ABI,
                          d->abi < (uint32_t)LOCKER_DRIVER_ABI
                              ? "build the driver again with this library's driver.h"
                              : "install a later library");
    if (d->name == NULL || d->schemes == NULL || d->schemes[0] == NULL || d->params == NULL ||
        d->semantics == NULL || d->open == NULL || d->close == NULL || d->acquire == NULL ||
        d->withdraw == NULL || d->release == NULL || d->show == NULL || d->ping == NULL)
        return lk_invalid(err,
                          "the driver table '%s' lacks a name, schemes, params, semantics, or one of open, "
                          "close, acquire, withdraw, release, show, ping",
                          d->name != NULL ? d->name : "?");
    return LOCKER_OK;
}

locker_status lk_driver_take(locker_driver *own, locker_semantics *promises, const locker_driver *given,
                             locker_error *err)
{
    locker_status status = lk_sized_take(own, sizeof *own, given, given->size,
                                         offsetof(locker_driver, decorator), "locker_driver", err);
    if (status == LOCKER_OK)
        status = LK_SIZED_TAKE(locker_semantics, promises, given->semantics, cost, err);
    own->semantics = promises;
    return status;
}

static lk_description *_Atomic described; /* of the drivers built in; made once, for good */

/* NULL: out of memory. No lock is taken, so that a fork's child finds none held. */
static const lk_description *describe_built_in(size_t count)
{
    lk_description *seen = atomic_load(&described);
    lk_description *const made = seen == NULL ? calloc(count + 1, sizeof *made) : NULL;
    if (made == NULL)
        return seen;
    for (size_t i = 0; i < count; i++)
        lk_description_of(&made[i], lk_builtin_drivers[i]);
    if (atomic_compare_exchange_strong(&described, &seen, made))
        return made;
    free(made);
    return seen;
}

bool locker_driver_at(size_t index, locker_driver_info *info)
{
    LK_NO_CANCEL;
    size_t count = 0;
    while (lk_builtin_drivers[count] != NULL)
        count++;
    const lk_description *const all = describe_built_in(count);
    const locker_driver_info *found = NULL;
    if (index < count)
        found = all != NULL ? &all[index].info : NULL;
    else if (lk_modules != NULL)
        found = lk_modules->at(index - count);
    if (found == NULL || info == NULL || !lk_sized_is(info->size, offsetof(locker_driver_info, module)))
        return false;
    lk_sized_give(info, info->size, found, sizeof *found);
    return true;
}

locker_status locker_driver_find(const char *scheme, const locker_driver **driver, locker_error *err)
{
    LK_NO_CANCEL;
    const locker_driver *found = NULL;
    const locker_status status = scheme != NULL ? lk_driver_for(scheme, scheme, &found, err)
                                                : lk_invalid(err, "locker_driver_find needs a scheme");
    if (driver != NULL)
        *driver = found;
    return status == LOCKER_OK ? lk_ok(err) : status;
}

const locker_driver *locker_driver_of(const locker *l, void **self)
{
    if (self != NULL)
        *self = l->self;
    return l->given;
}

const char *locker_version(void)
{
    return LOCKER_VERSION_STRING;
}
