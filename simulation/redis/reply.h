/* reply.h: answers in Redis' protocol, version 2. */
#pragma once

#include <stdint.h>

#include "bytes.h"

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
