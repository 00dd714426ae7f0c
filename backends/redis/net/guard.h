/* guard.h: bounds on what a server may send us. Our replies are small and flat; a parser believes whatever
 * length it is told, so each byte is looked at before the parser gets it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LK_REDIS_GUARD_LINE = 16 * 1024,    /* bytes of a line, whose end a parser may look for again each time */
    LK_REDIS_GUARD_REPLY = 1024 * 1024, /* bytes of a reply: the longest tells of a thousand waiters */
    LK_REDIS_GUARD_ELEMENTS = 65536,    /* elements of a reply, those of arrays inside included */
    LK_REDIS_GUARD_DEPTH = 4,           /* arrays inside of arrays */
    LK_REDIS_GUARD_PASSING = 128 * 1024 * 1024, /* bytes of a reply of which little is kept; its elements are
                                                   bounded for each array */
};

/* How far a stream of replies was read. Zero at its start, but for `passing`. */
typedef struct {
    size_t number;                     /* so many replies came before this one */
    size_t passing;                    /* from 1: of which reply little is kept; 0: of none */
    size_t bytes;                      /* of this reply */
    size_t elements;                   /* announced in this reply */
    size_t line;                       /* of this line's text; 0: the next byte says what comes */
    size_t skip;                       /* bytes of a string, and its end, that are still to come */
    size_t left[LK_REDIS_GUARD_DEPTH]; /* elements still to come of each array that is open */
    unsigned depth;                    /* how many are open */
    char head[16];                     /* the line's begin: all of one with a length */
    bool ended;                        /* its carriage return came */
} lk_redis_guard;

/* Whether these bytes may go on to the parser. False: the stream is to be given up. */
bool lk_redis_guard_allows(lk_redis_guard *guard, const char *data, size_t len);
