/* redis_words.h: random commands: such as the driver and its rivals send, and wrong ones. */
#pragma once

#include "simulation/redis/bytes.h"

#include <stdint.h>

enum { WORDS_MAX = 24 };

/** A command; its words are its own. */
typedef struct {
    lk_sr_bytes at[WORDS_MAX];
    size_t count;
} words;

/** What a sequence is about beyond locks. */
typedef enum {
    THEME_LOCKS,
    THEME_SHARES,
    THEME_KEYS,
    THEME_SCRIPTS,
    THEME_FAULTS,
    THEME_RIGHTS,
    THEMES
} theme;

/** What commands are drawn from. */
typedef struct {
    uint64_t random;
    theme theme;
    bool locks_only;         /* nothing of which Redis 7.0 and later releases say another thing */
    int64_t clock_us;        /* for times in arguments */
    int64_t first_client;    /* for CLIENT KILL */
    const char *counter;     /* of the locks' slot; NULL: any */
    const char *key, *value; /* of the line at work */
} drawing;

uint64_t draw(drawing *d, uint64_t below);

/** The command of a line, as redis_words.c explains them. */
void words_make(drawing *d, const char *line, words *w);

/** A random one. */
void words_draw(drawing *d, words *w);

/** Bytes that are no request, or one that the driver would not send. */
const char *words_raw(drawing *d);

/** As a request: a list of strings. */
void words_put(const words *w, lk_sr_bytes *out);

/** To be read. */
void words_print(const words *w, lk_sr_bytes *out);
void words_clear(words *w);
