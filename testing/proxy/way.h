/* way.h: one direction of a connection: what came from one socket, and is to leave by the other one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lk_piece lk_piece;
/** A message that came. */
struct lk_piece {
    lk_piece *next;
    int64_t due;   /* when it may leave, by lk_way_now() */
    size_t length; /* 0: the end, nothing comes after it */
    char bytes[];
};

typedef struct {
    int from, to;
    bool ended;             /* the end has come */
    lk_piece *first, *last; /* what has not left yet, in order */
    char *rest;             /* the beginning of a message that isn't all there yet */
    size_t rest_length, rest_size;
} lk_way;

/** The time in ns. */
int64_t lk_way_now(void);

/** Reads what is there, if anything. `length`: as a protocol's. */
void lk_way_take(lk_way *w, size_t (*length)(const char *bytes, size_t count), int64_t due);

/** Removes the first piece. */
void lk_way_drop(lk_way *w);

/** Forgets all that has not left; the sockets are the caller's. */
void lk_way_clear(lk_way *w);

/** Sends all of it; false when it can't be. */
bool lk_way_send(int fd, const char *bytes, size_t length);
