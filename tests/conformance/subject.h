/* subject.h: the driver under test: one of the tree, as it is or with an empty script of faults before it. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <locker/driver.h>

#ifdef LK_FAULTS_BEFORE
#define LK_SCHEME(scheme) "fault+" scheme
#else
#define LK_SCHEME(scheme) scheme
#endif

/** The driver's table: of its module, or built in, as the library has it. */
static inline const locker_driver *lk_driver_of(const char *scheme)
{
    const locker_driver *driver;
    locker_error err;
    if (locker_driver_find(scheme, &driver, &err) == LOCKER_OK)
        return driver;
    fprintf(stderr, "%s\n", err.text);
    exit(EXIT_FAILURE);
}
