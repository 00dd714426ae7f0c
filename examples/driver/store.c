/* store.c: the database; see store.h. */
#include "store.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static const char *const texts[STORE_STATEMENTS] = {
    [STORE_READ] = "SELECT token, until, since, owner FROM locks WHERE name = ?1",
    [STORE_GRANT] =
        "INSERT OR REPLACE INTO locks(name, token, until, since, owner) VALUES(?1, ?2, ?3, ?4, ?5)",
    [STORE_MOVE] = "UPDATE locks SET until = ?4 WHERE name = ?1 AND token = ?2 AND until > ?3",
};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS locks(name TEXT PRIMARY KEY, token INTEGER NOT NULL, until INTEGER NOT NULL,"
    " since INTEGER NOT NULL, owner TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS boot(id TEXT NOT NULL)";

static int64_t now_of(const lock_store *s)
{
    return s->clock->now(s->clock->context);
}

static locker_status fail(const lock_store *s, int rc, locker_error *err)
{
    const char *text = s->db != NULL ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc);
    switch (rc & 0xFF) {
    case SQLITE_NOMEM:
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
        return locker_error_set(err, LOCKER_DENIED, 0, "the database can't be written: %s", text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return locker_error_set(err, LOCKER_PROTOCOL, 0, "the file is no database of locks: %s", text);
    default:
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "the database can't be used: %s", text);
    }
}

/* ------------------------------------------------------------------ taking turns ---- */

/* Waits for a change, at most until `at`. Answers whether there is still reason to wait. */
static bool wait_unlocking(lock_store *s, int64_t at, int64_t until, const bool *interrupted)
{
    if ((interrupted == NULL || !*interrupted) && now_of(s) < until)
        s->clock->wait(s->clock->context, &s->changed, &s->mutex, at < until ? at : until);
    return (interrupted == NULL || !*interrupted) && now_of(s) < until;
}

/* SQLite calls it when another process has the database: non-zero to try again. */
static int busy(void *context, int times)
{
    lock_store *s = context;
    int64_t pause = times < 10 ? MS : 5 * MS;
    bool again;
    pthread_mutex_lock(&s->mutex);
    again = wait_unlocking(s, now_of(s) + pause, s->until, s->interrupted);
    pthread_mutex_unlock(&s->mutex);
    return again;
}

static locker_status why_not(const bool *interrupted, locker_error *err)
{
    if (interrupted != NULL && *interrupted)
        return locker_error_set(err, LOCKER_CANCELED, 0, "interrupted");
    return locker_error_set(err, LOCKER_TIMEOUT, 0, "others kept the database for too long");
}

static locker_status take(lock_store *s, int64_t until, const bool *interrupted, locker_error *err)
{
    locker_status status = LOCKER_OK;
    pthread_mutex_lock(&s->mutex);
    while (s->taken && wait_unlocking(s, until, until, interrupted)) {
    }
    if (s->taken) {
        status = why_not(interrupted, err);
    } else {
        s->taken = true;
        s->until = until;
        s->interrupted = interrupted;
    }
    pthread_mutex_unlock(&s->mutex);
    return status;
}

static void give(lock_store *s)
{
    pthread_mutex_lock(&s->mutex);
    s->taken = false;
    s->interrupted = NULL;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

void store_interrupt(lock_store *s, bool *flag)
{
    pthread_mutex_lock(&s->mutex);
    *flag = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

/* ------------------------------------------------------------------ transactions ---- */

locker_status store_begin(lock_store *s, int64_t until, const bool *interrupted, locker_error *err)
{
    locker_status status = take(s, until, interrupted, err);
    int rc;
    if (status != LOCKER_OK)
        return status;
    rc = sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        return LOCKER_OK;
    pthread_mutex_lock(&s->mutex);
    status = rc == SQLITE_BUSY ? why_not(interrupted, err) : fail(s, rc, err);
    pthread_mutex_unlock(&s->mutex);
    give(s);
    return status;
}

locker_status store_end(lock_store *s, locker_status status, locker_error *err)
{
    int rc = status == LOCKER_OK ? sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) : SQLITE_OK;
    if (rc != SQLITE_OK)
        status = fail(s, rc, err);
    if (status != LOCKER_OK && sqlite3_get_autocommit(s->db) == 0)
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    give(s);
    return status;
}

/* Ends the use of a statement whose last step answered rc. */
static locker_status finish(lock_store *s, store_statement which, int rc, locker_error *err)
{
    locker_status status = rc == SQLITE_ROW || rc == SQLITE_DONE ? LOCKER_OK : fail(s, rc, err);
    (void)sqlite3_reset(s->statements[which]);
    return status;
}

static sqlite3_stmt *bind_name(lock_store *s, store_statement which, const char *name)
{
    (void)sqlite3_bind_text(s->statements[which], 1, name, -1, SQLITE_STATIC);
    return s->statements[which];
}

locker_status store_read(lock_store *s, const char *name, store_row *row, locker_error *err)
{
    sqlite3_stmt *statement = bind_name(s, STORE_READ, name);
    int rc = sqlite3_step(statement);
    *row = (store_row){0};
    if (rc == SQLITE_ROW) {
        const char *owner = (const char *)sqlite3_column_text(statement, 3);

        row->token = (uint64_t)sqlite3_column_int64(statement, 0);
        row->until = sqlite3_column_int64(statement, 1);
        row->since_unix_ms = sqlite3_column_int64(statement, 2);
        (void)snprintf(row->owner, sizeof row->owner, "%s", owner != NULL ? owner : "");
    }
    return finish(s, STORE_READ, rc, err);
}

locker_status store_peek(lock_store *s, const char *name, int64_t until, const bool *interrupted,
                         store_row *row, locker_error *err)
{
    locker_status status = take(s, until, interrupted, err);
    if (status != LOCKER_OK)
        return status;
    status = store_read(s, name, row, err);
    give(s);
    return status;
}

locker_status store_grant(lock_store *s, const char *name, const store_row *row, locker_error *err)
{
    sqlite3_stmt *statement = bind_name(s, STORE_GRANT, name);
    (void)sqlite3_bind_int64(statement, 2, (int64_t)row->token);
    (void)sqlite3_bind_int64(statement, 3, row->until);
    (void)sqlite3_bind_int64(statement, 4, row->since_unix_ms);
    (void)sqlite3_bind_text(statement, 5, row->owner, -1, SQLITE_STATIC);
    return finish(s, STORE_GRANT, sqlite3_step(statement), err);
}

locker_status store_move(lock_store *s, const char *name, uint64_t token, int64_t now, int64_t until,
                         locker_error *err)
{
    sqlite3_stmt *statement = bind_name(s, STORE_MOVE, name);
    locker_status status;
    (void)sqlite3_bind_int64(statement, 2, (int64_t)token);
    (void)sqlite3_bind_int64(statement, 3, now);
    (void)sqlite3_bind_int64(statement, 4, until);
    status = finish(s, STORE_MOVE, sqlite3_step(statement), err);
    return status == LOCKER_OK && sqlite3_changes(s->db) == 0 ? LOCKER_LOST : status;
}

/* ------------------------------------------------------------------ opening ---- */

/* Times of another boot mean nothing in this one: nobody holds what was held then. */
static int free_after_boot(lock_store *s)
{
    char id[64] = "", *sql;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    int rc;
    if (file == NULL || fgets(id, sizeof id, file) == NULL)
        id[0] = '\0';
    if (file != NULL)
        (void)fclose(file);
    sql = sqlite3_mprintf("UPDATE locks SET until = 0 WHERE NOT EXISTS (SELECT 1 FROM boot WHERE id = %Q);"
                          "DELETE FROM boot WHERE id <> %Q;"
                          "INSERT INTO boot SELECT %Q WHERE NOT EXISTS (SELECT 1 FROM boot)",
                          id, id, id);
    if (sql == NULL)
        return SQLITE_NOMEM;
    rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
    return rc;
}

/* A write-ahead log: who reads waits for nobody, and a commit waits for no disk. Two that make the log at
 * once get in each other's way, which SQLite doesn't ask busy() about. */
static int use_log(lock_store *s)
{
    int rc;
    do
        rc = sqlite3_exec(s->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    while (rc == SQLITE_BUSY && busy(s, 0) != 0);
    return rc;
}

static locker_status make_table(lock_store *s, locker_error *err)
{
    locker_status status = store_begin(s, s->until, NULL, err);
    int rc;
    if (status != LOCKER_OK)
        return status;
    rc = sqlite3_exec(s->db, schema, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = free_after_boot(s);
    return store_end(s, rc == SQLITE_OK ? LOCKER_OK : fail(s, rc, err), err);
}

locker_status store_open(lock_store *s, const char *path, const locker_clock *clock, int64_t until,
                         locker_error *err)
{
    locker_status status = LOCKER_OK;
    int rc;
    *s = (lock_store){.clock = clock, .until = until};
    pthread_mutex_init(&s->mutex, NULL);
    (void)locker_cond_init(&s->changed);
    rc =
        sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_handler(s->db, busy, s);
    if (rc == SQLITE_OK)
        rc = use_log(s);
    if (rc != SQLITE_OK)
        status = fail(s, rc, err);
    if (status == LOCKER_OK)
        status = make_table(s, err);
    for (int i = 0; i < STORE_STATEMENTS && status == LOCKER_OK; i++) {
        rc = sqlite3_prepare_v2(s->db, texts[i], -1, &s->statements[i], NULL);
        if (rc != SQLITE_OK)
            status = fail(s, rc, err);
    }
    if (status == LOCKER_TIMEOUT)
        status =
            locker_error_set(err, LOCKER_UNAVAILABLE, 0, "%s: others kept the database for too long", path);
    if (status != LOCKER_OK)
        store_close(s);
    return status;
}

void store_close(lock_store *s)
{
    for (int i = 0; i < STORE_STATEMENTS; i++)
        (void)sqlite3_finalize(s->statements[i]);
    (void)sqlite3_close(s->db);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
}
