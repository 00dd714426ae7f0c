/* record.h: the text in a lock file: fencing token and last holder. */
#pragma once

#include <locker/locker.h>

enum { LK_FILE_RECORD_SIZE = 319, LK_FILE_HOST_MAX = 64 };

/* What a record says of the last grant. */
typedef struct {
    uint64_t token;
    int64_t since_ms;                 /* ms of the Unix epoch */
    char owner[LOCKER_OWNER_MAX + 1]; /* empty: none */
} lk_file_record;

typedef enum {
    LK_FILE_RECORD_GOOD,
    LK_FILE_RECORD_EMPTY,   /* a fresh file */
    LK_FILE_RECORD_DAMAGED, /* cut or overwritten; the token counts on from the clock */
    LK_FILE_RECORD_FOREIGN  /* another program's data: it is too long for a record, or begins otherwise */
} lk_file_reading;

/* The parts of a record that stay the same for an instance, with room for the rest. */
void lk_file_record_template(char out[LK_FILE_RECORD_SIZE]);
/* Read the record of an open lock file. 0, or an errno. */
int lk_file_record_read(int fd, lk_file_record *record, lk_file_reading *reading);
/* Read a record that its holder may be writing at this moment: a torn one is whole a moment later. 0, or an errno; EBADMSG: the
 * file is another program's. */
int lk_file_record_read_steady(int fd, lk_file_record *record);
/* Write it. 0, or an errno. */
int lk_file_record_write(int fd, const char *template, const lk_file_record *record, bool sync);
/* Write that of a grant to `owner`, which follows one with the token *token; that is the grant's then. 0, or an errno. */
int lk_file_record_grant(int fd, const char *template, uint64_t *token, const char *owner, bool sync);
