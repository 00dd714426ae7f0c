/* driver_check.c: whether core can work with a driver's table. */
#include <lk_sized.h>

#include "driver_check.h"

locker_status lk_driver_check(const locker_driver *d, locker_error *err)
{
    if (d == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "locker_open_driver needs a driver table");
    if (d->abi != LOCKER_DRIVER_ABI)
        return locker_error_set(
            err, LOCKER_INVALID, 0, "the driver was built for ABI %u, this library (%s) has %d: %s", d->abi,
            LOCKER_VERSION_STRING, LOCKER_DRIVER_ABI,
            d->abi < (uint32_t)LOCKER_DRIVER_ABI ? "build it again with this one's driver.h"
                                                 : "it needs a later library");
    if (d->name == NULL || d->schemes == NULL || d->schemes[0] == NULL || d->params == NULL ||
        d->semantics == NULL || d->open == NULL || d->close == NULL || d->acquire == NULL ||
        d->withdraw == NULL || d->release == NULL || d->show == NULL || d->ping == NULL)
        return locker_error_set(
            err, LOCKER_INVALID, 0,
            "the driver table '%s' lacks a name, schemes, params, semantics, or one of open, close, acquire, "
            "withdraw, release, show, ping",
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
