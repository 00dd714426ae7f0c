/*
 * store.h: the locks in the database: one connection, its transactions, and what is read and written in them.
 *
 * A connection serves one thread at a time: store_begin() takes it, store_end() gives it back. No mutex is
 * held meanwhile, so who wants the connection, or the database, waits with a deadline and can be interrupted.
 *
 * Each key that was ever locked has a row, which stays, because its token has to grow. The lock is held while
 * `until` lies ahead. That is a time of CLOCK_BOOTTIME, which all processes of a host share; at the first
 * opening after a boot, what the earlier boot left is freed.
 */
#pragma once

#include <sqlite3.h>

#include <locker/driver.h>

/** Namespace, newline, key, NUL. */
enum { STORE_NAMESPACE_MAX = 255, STORE_NAME_MAX = STORE_NAMESPACE_MAX + 1 + LOCKER_KEY_MAX + 1 };

typedef enum { STORE_READ, STORE_GRANT, STORE_MOVE, STORE_STATEMENTS } store_statement;

typedef struct {
    sqlite3 *db;
    sqlite3_stmt *statements[STORE_STATEMENTS];
    const locker_clock *clock;
    pthread_mutex_t mutex; /* never held while SQLite works */
    pthread_cond_t changed;
    bool taken;              /* a thread uses the connection; guarded by mutex */
    int64_t until;           /* that thread's deadline; its own */
    const bool *interrupted; /* that thread's; guarded by mutex. NULL: it can't be interrupted */
} lock_store;

typedef struct {
    uint64_t token; /* of the present or last grant; 0: there was none */
    int64_t until;  /* held until then */
    int64_t since_unix_ms;
    char owner[LOCKER_OWNER_MAX + 1];
} store_row;

/** Opens the database and makes the table. On failure nothing is left. */
locker_status store_open(lock_store *s, const char *path, const locker_clock *clock, int64_t until,
                         locker_error *err);
void store_close(lock_store *s);

/** Takes the connection, and begins a transaction that no other process' can be beside. TIMEOUT: not before
 * `until`. CANCELED: *interrupted was set (store_interrupt()). On OK store_end() must follow. */
locker_status store_begin(lock_store *s, int64_t until, const bool *interrupted, locker_error *err);

/** Commits if status is OK, rolls back else; gives the connection back. Answers status, or why it could not
 * be committed: then nothing has changed. */
locker_status store_end(lock_store *s, locker_status status, locker_error *err);

/** Takes the connection, reads one row outside of any transaction, gives it back. It waits for no other
 * process. */
locker_status store_peek(lock_store *s, const char *name, int64_t until, const bool *interrupted,
                         store_row *row, locker_error *err);

/** Sets *flag, and lets who waits with it look. */
void store_interrupt(lock_store *s, bool *flag);

/** Inside a transaction: reads a row. */
locker_status store_read(lock_store *s, const char *name, store_row *row, locker_error *err);

/** Inside a transaction: writes a whole row. */
locker_status store_grant(lock_store *s, const char *name, const store_row *row, locker_error *err);

/** Inside a transaction: moves the end of the grant with this token to `until`, if it is held at the time
 * `now`. LOST: it is not held, or it is another grant's. err is filled for other failures only. */
locker_status store_move(lock_store *s, const char *name, uint64_t token, int64_t now, int64_t until,
                         locker_error *err);
