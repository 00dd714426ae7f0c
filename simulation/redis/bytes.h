/* bytes.h: texts of any bytes, as Redis has them: borrowed ones, and ones that grow. Out of memory ends the program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** The text's arguments for "%.*s" in an error, which is shortened. */
#define LK_SR_SHOWN(text) (int)((text).len < 256 ? (text).len : 256), (text).data

/** Somebody else's. */
typedef struct {
    const char *data;
    size_t len;
} lk_sr_text;

/** One's own; all zero is empty. */
typedef struct {
    char *data;
    size_t len, room;
} lk_sr_bytes;

/** Memory, all zero. */
void *lk_sr_make(size_t size);

/** As realloc(). */
void *lk_sr_resize(void *memory, size_t size);

void lk_sr_put(lk_sr_bytes *bytes, lk_sr_text text);
void lk_sr_print(lk_sr_bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Takes the first `count` away. */
void lk_sr_drop(lk_sr_bytes *bytes, size_t count);

void lk_sr_bytes_set(lk_sr_bytes *bytes, lk_sr_text text);
void lk_sr_bytes_free(lk_sr_bytes *bytes);

lk_sr_text lk_sr_view(const lk_sr_bytes *bytes);
lk_sr_text lk_sr_word(const char *word);

bool lk_sr_same(lk_sr_text a, lk_sr_text b);

/** Whether it is that word, in letters of either case. */
bool lk_sr_is(lk_sr_text text, const char *word);

/** Less than 0, 0, more: in the order of bytes. */
int lk_sr_compare(lk_sr_text a, lk_sr_text b);
