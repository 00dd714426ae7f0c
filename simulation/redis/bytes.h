/* bytes.h: texts and bytes, what is read in them (numbers, patterns, hash slots) and what is written into them (answers). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* ------------------------------------------------------------------ number.c ---- */

/** An integer of 64 bits without sign +, leading zeros or spaces. */
bool lk_sr_integer(lk_sr_text text, int64_t *number);

/** Anything that strtod() reads to its end, infinities among them, but no NaN. */
bool lk_sr_float(lk_sr_text text, double *number);

/** Whether the text is of the pattern, which may have `*`, `?`, `[a-c]`, `[^x]` and `\`. */
bool lk_sr_matches(lk_sr_text pattern, lk_sr_text text);

/* ------------------------------------------------------------------ reply.c ---- */

#define LK_SR_WRONGTYPE "-WRONGTYPE Operation against a key holding the wrong kind of value"
#define LK_SR_SYNTAX    "syntax error"
#define LK_SR_NO_NUMBER "value is not an integer or out of range"
#define LK_SR_READONLY  "-READONLY You can't write against a read only replica."
#define LK_SR_OOM       "-OOM command not allowed when used memory > 'maxmemory'."
#define LK_SR_FEW       "-NOREPLICAS Not enough good replicas to write."
#define LK_SR_STALE     "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
#define LK_SR_MISCONF                                                                                        \
    "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. "     \
    "Commands that may modify the data set are disabled, because this instance is configured to report "     \
    "errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the " \
    "Redis logs for details about the RDB error."

void lk_sr_reply_status(lk_sr_bytes *out, const char *status);

/** "-CODE text", or "text", whose code is ERR. Lines' ends in it become spaces. */
void lk_sr_reply_error(lk_sr_bytes *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lk_sr_reply_error_text(lk_sr_bytes *out, lk_sr_text text);

void lk_sr_reply_integer(lk_sr_bytes *out, int64_t number);
/** The number as a string. */
void lk_sr_reply_number(lk_sr_bytes *out, int64_t number);

void lk_sr_reply_bulk(lk_sr_bytes *out, lk_sr_text text);
void lk_sr_reply_float(lk_sr_bytes *out, double number);
void lk_sr_reply_nil(lk_sr_bytes *out);

/** The head of a list; its elements follow. */
void lk_sr_reply_array(lk_sr_bytes *out, size_t count);

/* ------------------------------------------------------------------ sha1.c ---- */

enum { LK_SR_SHA1_LEN = 40 };

/** In hexadecimal digits. */
void lk_sr_sha1(lk_sr_text text, char hex[LK_SR_SHA1_LEN + 1]);

/* ------------------------------------------------------------------ slot.c ---- */

enum { LK_SR_NODES_MAX = 8 /* of a cluster */ };

enum { LK_SR_SLOTS = 16384 };

/** Of the part in the first braces, where there is one that is not empty. */
unsigned lk_sr_slot_of(lk_sr_text key);
