/* jute.h: what ZooKeeper's wire protocol is made of: numbers big-endian, texts and lists with their length before them, and
 * frames, each with its own. */
#pragma once

#include "arena.h"

typedef struct {
    unsigned char *bytes; /* to be freed */
    size_t len, room;
} lk_simzk_writer;

typedef struct {
    const unsigned char *bytes;
    size_t len, at;
    bool is_broken; /* it was read beyond its end (what was read there is zeros), or means nothing */
} lk_simzk_reader;

/* The protocol's number of a kind; and the kind of a number, LK_SIMZK_ERROR when it has none. */
int32_t lk_simzk_code_of(lk_simzk_kind kind);
lk_simzk_kind lk_simzk_kind_of(int32_t code);

/* Returns what the end takes: what is put in between is a frame. */
size_t lk_simzk_put_frame(lk_simzk_writer *w);
void lk_simzk_end_frame(lk_simzk_writer *w, size_t begun);
void lk_simzk_put_bytes(lk_simzk_writer *w, const void *bytes, size_t len);
void lk_simzk_put_int(lk_simzk_writer *w, int32_t value);
void lk_simzk_put_long(lk_simzk_writer *w, int64_t value);
void lk_simzk_put_bool(lk_simzk_writer *w, bool value);
void lk_simzk_put_data(lk_simzk_writer *w, lk_simzk_data data);
void lk_simzk_put_text(lk_simzk_writer *w, const char *text);
void lk_simzk_put_texts(lk_simzk_writer *w, lk_simzk_texts texts);
void lk_simzk_put_multi(lk_simzk_writer *w, int32_t code, bool done, int32_t error);

int32_t lk_simzk_take_int(lk_simzk_reader *r);
int64_t lk_simzk_take_long(lk_simzk_reader *r);
bool lk_simzk_take_bool(lk_simzk_reader *r);
lk_simzk_data lk_simzk_take_data(lk_simzk_reader *r, lk_simzk_arena *arena);
const char *lk_simzk_take_text(lk_simzk_reader *r, lk_simzk_arena *arena);
lk_simzk_texts lk_simzk_take_texts(lk_simzk_reader *r, lk_simzk_arena *arena);
/* How many of a list follow, which has that many bytes each at least. */
size_t lk_simzk_take_count(lk_simzk_reader *r, size_t least);
