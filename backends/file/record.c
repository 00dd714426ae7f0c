/* record.c: the text in a lock file. It keeps the key's fencing token over processes, and says who the last
 * holder is; whether the lock is held is the kernel's to say, never the record's.
 *
 * It has a fixed size and is written in place with one pwrite, so that it needs no new block on a full disk
 * and no rename. The token stands at both ends: in a text that a crash, or a reader, has torn they differ. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lk_time.h"
#include "put.h"
#include "record.h"

enum {
    NUMBER = 20, /* digits of a 64-bit number */
    PID = 10,
    TOKEN_AT = 12 + 6,
    SINCE_AT = TOKEN_AT + NUMBER + 1 + 6,
    PID_AT = SINCE_AT + NUMBER + 1 + 6,
    HOST_AT = PID_AT + PID + 1 + 6,
    OWNER_LEN_AT = HOST_AT + LK_FILE_HOST_MAX + 1 + 6,
    OWNER_AT = OWNER_LEN_AT + 3 + 1,
    END_AT = OWNER_AT + LOCKER_OWNER_MAX + 1 + 6
};
_Static_assert(END_AT + NUMBER + 1 == LK_FILE_RECORD_SIZE, "the record's columns and its size disagree");

enum { TRIES = 4 };

static const char magic[] = "liblocker 1\n";

static void put_number(char *at, size_t width, uint64_t value)
{
    for (size_t i = width; i-- > 0; value /= 10)
        at[i] = (char)('0' + value % 10);
}

static bool get_number(const char *at, size_t width, uint64_t *value)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < width; i++) {
        const uint64_t digit = (uint64_t)(unsigned char)at[i] - '0';
        if (digit > 9 || sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}

/* A line's name before its value, and the newline after it. */
static void put_frame(char *record, size_t value_at, size_t width, const char *name)
{
    memcpy(record + value_at - 6, name, 6);
    record[value_at + width] = '\n';
}

void lk_file_record_template(char out[LK_FILE_RECORD_SIZE])
{
    memset(out, ' ', LK_FILE_RECORD_SIZE);
    memcpy(out, magic, sizeof magic - 1);
    put_frame(out, TOKEN_AT, NUMBER, "token ");
    put_frame(out, SINCE_AT, NUMBER, "since ");
    put_frame(out, PID_AT, PID, "pid   ");
    put_frame(out, HOST_AT, LK_FILE_HOST_MAX, "host  ");
    put_frame(out, OWNER_LEN_AT, 3 + 1 + LOCKER_OWNER_MAX, "owner ");
    put_frame(out, END_AT, NUMBER, "end   ");
    put_number(out + PID_AT, PID, (uint64_t)getpid());
    char host[LK_FILE_HOST_MAX + 1] = "";
    if (gethostname(host, sizeof host) == 0)
        memcpy(out + HOST_AT, host, strnlen(host, LK_FILE_HOST_MAX));
}

static bool parse(const char *text, lk_file_record *record)
{
    uint64_t token, since, len;
    if (memcmp(text, magic, sizeof magic - 1) != 0 || text[LK_FILE_RECORD_SIZE - 1] != '\n' ||
        memcmp(text + TOKEN_AT, text + END_AT, NUMBER) != 0 || !get_number(text + TOKEN_AT, NUMBER, &token) ||
        token == UINT64_MAX || /* none can follow */
        !get_number(text + SINCE_AT, NUMBER, &since) || since > INT64_MAX ||
        !get_number(text + OWNER_LEN_AT, 3, &len) || len > LOCKER_OWNER_MAX)
        return false;
    record->token = token;
    record->since_ms = (int64_t)since;
    memcpy(record->owner, text + OWNER_AT, (size_t)len);
    record->owner[len] = '\0';
    return true;
}

/* True if the text begins as a record does, or a crash of the host has left zeros in its place. */
static bool may_be_ours(const char *text, size_t len)
{
    for (size_t i = 0; i < len && i < sizeof magic - 1; i++)
        if (text[i] != magic[i] && text[i] != '\0')
            return false;
    return true;
}

int lk_file_record_read(int fd, lk_file_record *record, lk_file_reading *reading)
{
    *record = (lk_file_record){.since_ms = -1};
    char text[LK_FILE_RECORD_SIZE + 1];
    const ssize_t got = pread(fd, text, sizeof text, 0);
    if (got < 0)
        return errno;
    if (got == 0)
        *reading = LK_FILE_RECORD_EMPTY;
    else if (got > LK_FILE_RECORD_SIZE || !may_be_ours(text, (size_t)got))
        *reading = LK_FILE_RECORD_FOREIGN;
    else if (got == LK_FILE_RECORD_SIZE && parse(text, record))
        *reading = LK_FILE_RECORD_GOOD;
    else
        *reading = LK_FILE_RECORD_DAMAGED;
    return 0;
}

int lk_file_record_read_steady(int fd, lk_file_record *record)
{
    lk_file_reading reading = LK_FILE_RECORD_DAMAGED;
    int code = 0;
    for (int i = 0; i < TRIES && code == 0 && reading == LK_FILE_RECORD_DAMAGED; i++)
        code = lk_file_record_read(fd, record, &reading);
    return code == 0 && reading == LK_FILE_RECORD_FOREIGN ? EBADMSG : code;
}

int lk_file_record_write(int fd, const char *template, const lk_file_record *record, bool sync)
{
    char text[LK_FILE_RECORD_SIZE];
    const size_t len = strnlen(record->owner, LOCKER_OWNER_MAX);
    memcpy(text, template, sizeof text);
    put_number(text + TOKEN_AT, NUMBER, record->token);
    memcpy(text + END_AT, text + TOKEN_AT, NUMBER);
    put_number(text + SINCE_AT, NUMBER, (uint64_t)record->since_ms);
    put_number(text + OWNER_LEN_AT, 3, len);
    memcpy(text + OWNER_AT, record->owner, len);
    const ssize_t put = lk_file_put(fd, text, sizeof text, 0);
    if (put < 0)
        return errno;
    if ((size_t)put < sizeof text) /* the device took a part: the next write would say why */
        return ENOSPC;
    if (sync && fdatasync(fd) != 0)
        return errno;
    return 0;
}

int lk_file_record_grant(int fd, const char *template, uint64_t *token, const char *owner, bool sync)
{
    /* The clock lets the token grow when the file was damaged; the counter, when the clock is set back. */
    const uint64_t last = *token;
    const uint64_t us = (uint64_t)(lk_time_of(CLOCK_REALTIME) / LK_US);
    lk_file_record record = {.token = us > last ? us : last + 1, .since_ms = (int64_t)(us / 1000u)};
    memcpy(record.owner, owner, strnlen(owner, LOCKER_OWNER_MAX));
    *token = record.token;
    return lk_file_record_write(fd, template, &record, sync);
}
