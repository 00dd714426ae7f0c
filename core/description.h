/* description.h: what is told of a driver without opening it: made of its table, or read from the text that
 * stands beside a module, written by the build, so that listing drivers loads no client library. */
#pragma once

#include <stdio.h>

#include <locker/driver.h>

enum { LK_SCHEMES_MAX = 1024 };

typedef struct {
    locker_driver_info info; /**< points to what follows; its module and problem are its own */
    locker_semantics semantics;
    char schemes[LK_SCHEMES_MAX]; /**< of a table */
    locker_parameter *parameters; /**< of a text */
    char *text;                   /**< where info's own words stand, of a text */
} lk_description;

/** A table's schemes as one text, separated by one space; cut where there are more than anybody has. */
void lk_schemes_join(char text[LK_SCHEMES_MAX], const char *const *schemes);

/** Make one of a driver's table, which lives as long. Nothing of it has to be freed. */
void lk_description_of(lk_description *d, const locker_driver *driver);

/** Take one from a text: OK, CONFIG or NOMEM. The text becomes the description's, also on failure. */
locker_status lk_description_read(lk_description *d, char *text, locker_error *err);

/** Make one of which nothing is known but a name, which becomes its own, or NULL. */
void lk_description_unknown(lk_description *d, char *name);

/** Write what lk_description_read() reads. False: it can't be written as such a text. */
bool lk_description_write(FILE *out, const lk_description *d);

/** Free what one of a text, or of which nothing is known, has. */
void lk_description_clear(lk_description *d);
