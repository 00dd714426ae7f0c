/*
 * description.h: what is told of a driver without opening it: made of its table, or read from the text that
 * stands beside a module, so that listing drivers loads no service's client library. The build writes that
 * text, from the table.
 */
#pragma once

#include <stdio.h>

#include <locker/driver.h>

typedef struct lk_description {
    locker_driver_info info; /**< points to what follows */
    locker_semantics semantics;
    locker_parameter *parameters; /**< of a text */
    char *text;                   /**< where info's own words stand */
} lk_description;

/** Make one of a driver's table, which lives as long. False: out of memory. */
bool lk_description_of(lk_description *d, const locker_driver *driver);

/** Take one from a text: OK, CONFIG or NOMEM. The text becomes the description's, also on failure. */
locker_status lk_description_read(lk_description *d, char *text, locker_error *err);

/** Make one of which nothing is known but a name, which becomes its own, or NULL. */
void lk_description_unknown(lk_description *d, char *name);

/** Write what lk_description_read() reads. False: it can't be written as such a text. */
bool lk_description_write(FILE *out, const lk_description *d);

void lk_description_clear(lk_description *d);
